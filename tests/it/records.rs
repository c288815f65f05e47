//! Records made by hand.

use std::{collections::BTreeMap, path::PathBuf};

use curate::record::{
    bytes::ByteText,
    environment::{Build, Environment, LayerFile, Recipe, Runner, Toolchain},
    episode::{Budget, Episode, Grade, Label, Message, PolicyName, Speaker, StopReason, Timing, ToolCall},
    id::Digest,
    strength::Strength,
    task::{
        ChangeKind, Difficulty, EvidenceLabel, FailingTest, HiddenTask, Issue, PublicTask, Task, Transition, Writer,
    },
};
use serde_json::{Value, json};

pub const REPO: &str = "example/shelf";

/// Returns the build of a task; two tasks share an environment when `lock` is the same.
pub fn build(instance_id: &str, lock: &str) -> Build {
    Build {
        instance_id: instance_id.to_owned(),
        runner: Runner::Pytest,
        environment: Environment {
            key: Digest::of(&[lock.as_bytes()]),
            toolchain: Toolchain {
                language: curate::record::environment::Language::Python,
                path: PathBuf::from("/host/only/python3.11"),
                prefix: PathBuf::from("/host/only"),
                version: "3.11.7".to_owned(),
            },
            lock: lock.to_owned(),
        },
        recipe: Recipe { rung: "dated".to_owned(), cutoff: "2021-03-04".to_owned(), ..Recipe::default() },
        metadata: vec![LayerFile {
            path: "shelf-1.4.dist-info/METADATA".into(),
            content: "Name: shelf\n".into(),
            executable: false,
        }],
        generated: Vec::new(),
        import_roots: vec!["src".to_owned()],
    }
}

/// Returns the id of task `number`.
pub fn instance_id(number: u32) -> String {
    format!("example__shelf-{number:012}")
}

pub fn task(number: u32) -> Task {
    let instance_id = instance_id(number);
    let test_id = format!("tests/test_shelf.py::test_price_{number}");
    Task {
        public: PublicTask {
            instance_id: instance_id.clone(),
            repo: REPO.to_owned(),
            repo_source: "/host/only/shelf.git".to_owned(),
            base_commit: format!("{:040x}", number * 2),
            base_time: 1_614_816_000 + i64::from(number) * 86_400,
            language: "python".to_owned(),
            license: (!number.is_multiple_of(3)).then(|| "MIT".to_owned()),
            build: build(&instance_id, if number.is_multiple_of(2) { "a==1\n" } else { "b==1\n" }),
        },
        hidden: HiddenTask {
            fix_commit: format!("{:040x}", number * 2 + 1),
            message: "Round prices half up\n".into(),
            changes: Vec::new(),
            source_patch: ByteText::new(
                *b"diff --git a/src/shelf.py b/src/shelf.py\n--- a/src/shelf.py\n+++ b/src/shelf.py\n\
                   @@ -1,3 +1,3 @@\n def price(x):\n-    return round(x)\n+    return int(x + 0.5)  # caf\xe9\n",
            ),
            test_patch: format!(
                "diff --git a/tests/test_shelf.py b/tests/test_shelf.py\n--- a/tests/test_shelf.py\n\
                 +++ b/tests/test_shelf.py\n@@ -1 +1,3 @@\n import shelf\n+def test_price_{number}():\n\
                 +    assert shelf.price(2.5) == 3\n"
            )
            .as_str()
            .into(),
            fail_to_pass: vec![test_id.clone()],
            pass_to_pass: vec!["tests/test_shelf.py::test_add[\"naïve\"]".to_owned()],
            label: EvidenceLabel::Strong,
            test_files: vec!["tests/test_shelf.py".to_owned()],
            whole_suite: true,
            hash_seed: 0,
            after_wall_ms: 900,
            quarantined: BTreeMap::new(),
            change_kind: ChangeKind::Fix,
            fairness: Vec::new(),
            n_fairness_left_out: 0,
            difficulty: Difficulty::default(),
            failing: vec![FailingTest {
                test_id,
                transition: Transition::FailToPass,
                exception: Some("AssertionError".to_owned()),
                message: "assert 2 == 3".to_owned(),
                frames: Vec::new(),
            }],
            strength: Strength::default(),
        },
    }
}

pub fn issue(number: u32) -> Issue {
    Issue {
        instance_id: instance_id(number),
        writer: Writer::Template,
        text: format!("Prices are rounded to even ({number})\n\n`price(2.5)` gives 2, 3 is expected."),
        findings: vec!["left out: a test's name".to_owned()],
    }
}

pub fn say(role: Speaker, content: &str) -> Message {
    let content = content.to_owned();
    Message { role, content, tool_calls: Vec::new(), tool_call_id: None, name: None, train: None }
}

/// Returns an assistant's turn with one call for each pair of tool and arguments.
pub fn act(content: &str, calls: &[(&str, Value)], train: Option<bool>) -> Message {
    let tool_calls = calls
        .iter()
        .enumerate()
        .map(|(index, (name, arguments))| ToolCall {
            id: format!("call_{index}"),
            name: (*name).to_owned(),
            arguments: arguments.as_object().expect("arguments are an object").clone(),
        })
        .collect();
    Message { tool_calls, train, ..say(Speaker::Assistant, content) }
}

pub fn observe(name: &str, content: &str) -> Message {
    let (tool_call_id, name) = (Some("call_0".to_owned()), Some(name.to_owned()));
    Message { tool_call_id, name, ..say(Speaker::Tool, content) }
}

pub fn prompt(number: u32) -> Vec<Message> {
    vec![say(Speaker::System, "You mend a repository."), say(Speaker::User, &issue(number).text)]
}

/// Returns an attempt at task `number` that ends with `finish`.
pub fn episode(number: u32, policy: PolicyName, sample: u32, work: Vec<Message>) -> Episode {
    let mut messages = prompt(number);
    messages.extend(work);
    messages.push(act("Done.", &[("finish", json!({}))], Some(true)));
    Episode {
        episode_id: format!("{}.{}.0.{sample}", instance_id(number), policy.name()),
        instance_id: instance_id(number),
        policy,
        seed: 0,
        sample,
        script: (policy == PolicyName::Mock).then(|| "fix".to_owned()),
        budget: Budget { max_steps: 40, max_tokens: 100_000, max_wall_s: 600, command_s: 60 },
        n_steps: messages.iter().filter(|message| message.role == Speaker::Assistant).count().try_into().unwrap(),
        n_tokens: 1_000 + u64::from(sample),
        messages,
        patch: "diff --git a/src/shelf.py b/src/shelf.py\n--- a/src/shelf.py\n+++ b/src/shelf.py\n".into(),
        stop: StopReason::Finished,
        stop_detail: String::new(),
        timing: Timing { wall_ms: 3_000 + u64::from(sample), policy_ms: 20, tool_ms: 2_500 },
    }
}

pub fn grade(episode: &Episode, label: Label) -> Grade {
    let passed = u32::from(label == Label::Resolved);
    Grade {
        episode_id: episode.episode_id.clone(),
        instance_id: episode.instance_id.clone(),
        label,
        reward: (label != Label::Infrastructure).then_some(f64::from(passed)),
        failed_tests: BTreeMap::new(),
        n_fail_to_pass: 1,
        n_fail_to_pass_passed: passed,
        n_pass_to_pass: 1,
        n_pass_to_pass_passed: 1,
        dropped_paths: Vec::new(),
        flags: Vec::new(),
        detail: String::new(),
        wall_ms: 700,
    }
}
