//! Episodes in a real sandbox: what the tools do, what the patch holds whatever the agent did, and that the scripted
//! agent's attempts end as their scripts say.

use std::{cell::RefCell, collections::VecDeque};

use curate::{
    config,
    record::{
        episode::{Episode, Label, Message, PolicyName, Speaker, StopReason},
        task::Task,
    },
    rollout::{self, Call, Identity, Policy, Reply, Turn},
};
use serde_json::{Value, json};

use crate::{
    bench::{Bench, bench, issue},
    grade::grade_episode,
};

/// Replays calls, one a reply, and then finishes.
struct Calls(VecDeque<Call>);

impl Policy for Calls {
    fn next(&mut self, _history: &[Message]) -> Turn {
        let call = self.0.pop_front().unwrap_or_else(|| Call::new("finish", &json!({})));
        Turn::Reply(Reply { content: "Next.".to_owned(), calls: vec![call], ..Reply::default() })
    }
}

const HEADING: &str = "Splitting an amount loses a cent";

fn identity(policy: PolicyName, seed: u64, sample: u32) -> Identity {
    Identity { policy, seed, sample }
}

fn attempt(bench: &Bench, task: &Task, policy: &mut dyn Policy, identity: Identity) -> Episode {
    let issue = issue(task, HEADING);
    let settings = config::Rollout { command_s: 60, ..config::Rollout::default() };
    rollout::run(&bench.lab, &bench.repository, &task.public, &issue, policy, &settings, identity, &|_| ()).unwrap()
}

/// Carries out calls and returns the episode with the observations.
fn carry_out(bench: &Bench, task: &Task, calls: &[(&str, Value)]) -> (Episode, Vec<String>) {
    let calls = calls.iter().map(|(name, arguments)| Call::new(name, arguments)).collect();
    let episode = attempt(bench, task, &mut Calls(calls), identity(PolicyName::Noop, 0, 0));
    let seen = observations(&episode);
    (episode, seen)
}

fn observations(episode: &Episode) -> Vec<String> {
    episode.messages.iter().filter(|it| it.role == Speaker::Tool).map(|it| it.content.clone()).collect()
}

fn bash(command: &str) -> (&'static str, Value) {
    ("bash", json!({"command": command}))
}

/// Returns the paths that a patch names, sorted.
fn paths(episode: &Episode) -> Vec<String> {
    let patch = episode.patch.lossy();
    let mut paths: Vec<String> = patch
        .lines()
        .filter_map(|line| line.strip_prefix("diff --git a/")?.split(" b/").next())
        .map(str::to_owned)
        .collect();
    paths.sort();
    paths
}

fn split_task() -> Option<(&'static Bench, Task)> {
    let bench = bench()?;
    Some((bench, bench.task("base", "fix-split")))
}

#[test]
fn tools_read_and_change_the_tree_and_refuse_what_does_not_fit() {
    let Some((bench, task)) = split_task() else { return };
    let stale = "--- a/src/ledgerlib/ids.py\n+++ b/src/ledgerlib/ids.py\n@@ -1,1 +1,1 @@\n-no such line\n+x\n";
    let both = "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,1 @@\n+hello\n".to_owned() + stale;
    let (episode, seen) = carry_out(
        bench,
        &task,
        &[
            ("list_dir", json!({"path": "."})),
            ("view", json!({"path": "src/ledgerlib/money.py", "start": 1, "end": 3})),
            ("search", json!({"pattern": "def split", "path": "src"})),
            ("search", json!({"pattern": "def (split|no_such_thing)\\(", "regex": true})),
            ("search", json!({"pattern": "(", "regex": true})),
            ("edit", json!({"path": "notes/a.txt", "old": "", "new": "one\ntwo 'quoted' $HOME\n"})),
            ("edit", json!({"path": "notes/a.txt", "old": "two", "new": "2"})),
            ("edit", json!({"path": "notes/a.txt", "old": "three", "new": "3"})),
            ("edit", json!({"path": "notes/a.txt", "old": "", "new": "again"})),
            ("apply_patch", json!({"patch": stale})),
            ("apply_patch", json!({"patch": both})),
            ("view", json!({"path": "new.txt"})),
            bash("cat notes/a.txt; pwd; exit 3"),
            ("run_tests", json!({"paths": ["tests/test_ids.py"]})),
            ("run_tests", json!({"paths": ["tests/no_such_file.py"]})),
        ],
    );
    let listed: Vec<&str> = seen[0].lines().collect();
    assert!(
        listed.contains(&"src/") && listed.contains(&"pyproject.toml") && !seen[0].contains(".git/"),
        "{}",
        seen[0]
    );
    assert!(seen[1].starts_with("     1\t") && seen[1].contains("[lines 1-3 of "), "{}", seen[1]);
    assert!(seen[2].starts_with("src/ledgerlib/money.py:"), "{}", seen[2]);
    assert!(seen[3].contains("def split"), "{}", seen[3]);
    assert!(seen[4].starts_with("error: ") && seen[4].contains("grep"), "{}", seen[4]);
    assert_eq!(seen[5], "Created notes/a.txt with 2 lines.\n");
    assert!(seen[6].contains("     2\t2 'quoted' $HOME"), "{}", seen[6]);
    assert!(seen[7].starts_with("error: `old` does not occur"), "{}", seen[7]);
    assert!(seen[8].contains("exists already"), "{}", seen[8]);
    assert!(seen[9].contains("nothing was changed") && seen[9].contains("expects `no such line`"), "{}", seen[9]);
    assert!(seen[10].contains("nothing was changed"), "{}", seen[10]);
    assert_eq!(seen[11], "error: no such file", "a patch is applied as a whole or not at all");
    assert_eq!(seen[12], "one\n2 'quoted' $HOME\n/testbed\n[exit code 3]\n");
    assert!(seen[13].contains(" passed"), "{}", seen[13]);
    assert!(seen[14].contains("does not exist"), "{}", seen[14]);
    assert_eq!(paths(&episode), ["notes/a.txt"]);
    assert_eq!(episode.stop, StopReason::Finished);
}

#[test]
fn paths_and_links_lead_nowhere_outside_the_tree() {
    let Some((bench, task)) = split_task() else { return };
    let patch = "--- /dev/null\n+++ b/d/x\n@@ -0,0 +1,1 @@\n+evil\n";
    let (episode, seen) = carry_out(
        bench,
        &task,
        &[
            bash("ln -s /tmp d && ln -s /etc/hostname h && echo inside > /tmp/secret"),
            ("view", json!({"path": "/etc/passwd"})),
            ("view", json!({"path": "../etc/passwd"})),
            ("view", json!({"path": "h"})),
            ("view", json!({"path": "d/secret"})),
            ("edit", json!({"path": "d/y", "old": "", "new": "evil"})),
            ("apply_patch", json!({"patch": patch})),
            ("edit", json!({"path": ".git/config", "old": "", "new": "evil"})),
            ("apply_patch", json!({"patch": patch.replace("d/x", ".GIT/hooks/x")})),
            ("apply_patch", json!({"patch": patch.replace("d/x", "../x")})),
            bash("ls /tmp"),
        ],
    );
    for (index, observation) in seen[1..10].iter().enumerate() {
        assert!(observation.starts_with("error: "), "{index}: {observation}");
    }
    assert_eq!(seen[10], "secret\n");
    assert_eq!(paths(&episode), ["d", "h"]);
}

#[test]
fn long_output_is_cut_and_can_be_read_again() {
    let Some((bench, task)) = split_task() else { return };
    let (_, seen) = carry_out(
        bench,
        &task,
        &[
            bash("seq 1 20000"),
            bash("sed -n 10000p /tmp/out-1.txt"),
            ("view", json!({"path": "/tmp/out-1.txt", "start": 9999, "end": 9999})),
            bash("head -c 300000 /dev/urandom | tr -d '\\n'; echo; printf 'a\\000b\\n'"),
            bash("sleep 300 & echo started"),
            bash("read x; echo \"read: [$x]\""),
        ],
    );
    assert!(seen[0].contains("bytes left out; the whole output is in /tmp/out-1.txt"), "{}", &seen[0][..100]);
    assert!(seen[0].starts_with("1\n2\n") && seen[0].ends_with("20000\n") && seen[0].len() < 13_000);
    assert_eq!(seen[1], "10000\n");
    assert!(seen[2].starts_with("  9999\t9999\n"), "{}", seen[2]);
    assert!(seen[3].contains("/tmp/out-2.txt") && seen[3].ends_with("a\u{FFFD}b\n"), "{}", seen[3].len());
    assert_eq!(seen[4], "started\n");
    assert_eq!(seen[5], "read: []\n");
}

#[test]
fn the_patch_holds_the_work_whatever_was_done_to_the_repository() {
    let Some((bench, task)) = split_task() else { return };
    let change = "echo '# work' >> src/ledgerlib/ids.py";
    let identity = "-c user.name=a -c user.email=a@example.org";
    let cases = [
        (change.to_owned(), vec!["src/ledgerlib/ids.py"]),
        (format!("{change}; git add -A"), vec!["src/ledgerlib/ids.py"]),
        (format!("{change}; git {identity} commit -qam work"), vec!["src/ledgerlib/ids.py"]),
        (format!("git checkout -qb other; {change}; git {identity} commit -qam work"), vec!["src/ledgerlib/ids.py"]),
        (format!("{change}; git {identity} stash -q"), vec![]),
        (format!("{change}; rm -rf .git"), vec!["src/ledgerlib/ids.py"]),
        (format!("{change}; rm -rf .git; git init -q; git add -A"), vec!["src/ledgerlib/ids.py"]),
        ("rm src/ledgerlib/ids.py; touch .git/index.lock".to_owned(), vec!["src/ledgerlib/ids.py"]),
        ("mkdir n && cd n && git init -q && echo x > f && git add f".to_owned(), vec!["n/f"]),
        ("echo new > new.bin; head -c 2000 /dev/zero >> new.bin".to_owned(), vec!["new.bin"]),
        ("python -c 'import ledgerlib'; python -m pytest -q tests/test_ids.py; mkdir -p x.egg-info build/lib; touch \
          x.egg-info/a build/lib/b"
            .to_owned(), vec![]),
    ];
    for (command, expected) in cases {
        let (episode, seen) = carry_out(bench, &task, &[bash(&command)]);
        assert_eq!(paths(&episode), expected, "{command}: {}", seen[0]);
    }
}

#[test]
fn what_is_too_large_is_said_and_not_kept() {
    let Some((bench, task)) = split_task() else { return };
    for command in ["head -c 200000000 /dev/zero | tr '\\0' x > big.txt", "seq 1 1000000 > lines.txt"] {
        let (episode, _) = carry_out(bench, &task, &[bash(command)]);
        assert!(
            episode.patch.is_empty() && episode.stop_detail.starts_with("patch_too_large: "),
            "{}",
            episode.stop_detail
        );
        assert_eq!(grade_episode(bench, &task, &episode).label, Label::BrokenPatch);
    }
}

#[test]
fn b078_a_process_left_behind_writes_no_more_once_the_episode_is_over() {
    let Some((bench, task)) = split_task() else { return };
    let command = "(setsid bash -c 'trap \"\" TERM; while :; do date +%N > src/ledgerlib/now.txt; done' &) ; sleep 0.3";
    let (episode, _) = carry_out(bench, &task, &[bash(command)]);
    assert_eq!(paths(&episode), ["src/ledgerlib/now.txt"]);
    let grades = [grade_episode(bench, &task, &episode), grade_episode(bench, &task, &episode)];
    assert_eq!(grades[0].label, grades[1].label);
}

#[test]
fn nothing_of_the_fix_or_the_hidden_tests_is_on_the_agents_machine() {
    let Some((bench, task)) = split_task() else { return };
    let (_, seen) = carry_out(
        bench,
        &task,
        &[
            bash("git log --all --oneline | wc -l; git reflog | wc -l; git branch -a | wc -l; git tag | wc -l"),
            bash("grep -rIl test_split_gives_the_first_parts_the_remainder / --include='*.py' 2>/dev/null; echo done"),
            bash(
                "git cat-file --batch-all-objects --batch | grep -c test_split_gives_the_first_parts_the_remainder; \
                 echo done",
            ),
        ],
    );
    assert_eq!(seen[0].split_whitespace().next(), Some("1"), "{}", seen[0]);
    assert_eq!(seen[1], "done\n");
    assert_eq!(seen[2], "0\ndone\n");
}

/// Returns the first sample whose script has a name.
fn sample_of(task: &Task, script: &str) -> u32 {
    (0..500)
        .find(|sample| {
            let policy = rollout::policy_for(PolicyName::Mock, Some(&task.hidden), &task.public, 0, *sample);
            policy.script().as_deref() == Some(script)
        })
        .unwrap()
}

fn mock(bench: &Bench, task: &Task, seed: u64, sample: u32) -> Episode {
    let mut policy = rollout::policy_for(PolicyName::Mock, Some(&task.hidden), &task.public, seed, sample);
    attempt(bench, task, policy.as_mut(), identity(PolicyName::Mock, seed, sample))
}

#[test]
fn every_script_ends_with_its_label() {
    let Some((bench, task)) = split_task() else { return };
    for (script, stop, label) in [
        ("fix", StopReason::Finished, Label::Resolved),
        ("fix_after_stale_patch", StopReason::Finished, Label::Resolved),
        ("fix_after_wrong_edit", StopReason::Finished, Label::Resolved),
        ("wrong_file", StopReason::Finished, Label::WrongFile),
        ("overfit", StopReason::Finished, Label::TestOverfit),
        ("regression", StopReason::Finished, Label::Regression),
        ("incorrect_fix", StopReason::Finished, Label::IncorrectFix),
        ("gives_up", StopReason::GaveUp, Label::GaveUp),
        ("broken_patch", StopReason::Finished, Label::BrokenPatch),
        ("exhaust_budget", StopReason::MaxSteps, Label::BudgetExceeded),
        ("edit_tests", StopReason::Finished, Label::TestTamper),
        ("no_change", StopReason::Finished, Label::NoChange),
        ("provider_error", StopReason::ProviderError, Label::ProviderError),
        ("lose_sandbox", StopReason::Infrastructure, Label::Infrastructure),
    ] {
        let episode = mock(bench, &task, 0, sample_of(&task, script));
        let grade = grade_episode(bench, &task, &episode);
        let transcript = || serde_json::to_string_pretty(&episode.messages).unwrap();
        assert_eq!((episode.stop, grade.label), (stop, label), "{script}: {grade:?}\n{}", transcript());
        assert_eq!(episode.script.as_deref(), Some(script));
        assert_eq!(grade.reward.is_none(), matches!(label, Label::ProviderError | Label::Infrastructure));
        is_valid(&episode);
    }
}

/// Checks that every call is answered once, in order, right after it.
fn is_valid(episode: &Episode) {
    let mut waiting: VecDeque<String> = VecDeque::new();
    for message in &episode.messages {
        if message.role == Speaker::Tool {
            assert_eq!(message.tool_call_id, waiting.pop_front());
        } else {
            assert!(waiting.is_empty());
            waiting = message.tool_calls.iter().map(|call| call.id.clone()).collect();
        }
    }
    assert!(waiting.is_empty());
}

#[test]
fn recoveries_mark_the_mistaken_turns() {
    let Some((bench, task)) = split_task() else { return };
    for script in ["fix_after_stale_patch", "fix_after_wrong_edit"] {
        let episode = mock(bench, &task, 0, sample_of(&task, script));
        let mistakes: Vec<&Message> = episode.messages.iter().filter(|message| message.train == Some(false)).collect();
        assert_eq!(mistakes.len(), 1, "{script}");
        let text = serde_json::to_string(&episode.messages).unwrap();
        for word in ["hidden test", "gold", "reference", task.hidden.fix_commit.as_str()] {
            assert!(!text.contains(word), "{script}: {word}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_episode() {
    let Some((bench, task)) = split_task() else { return };
    for script in ["fix", "fix_after_wrong_edit", "regression", "edit_tests"] {
        let sample = sample_of(&task, script);
        let [first, second] = [(); 2].map(|()| mock(bench, &task, 0, sample));
        assert_eq!(first.messages, second.messages);
        assert_eq!(Episode { timing: second.timing, ..first }, second);
    }
}

#[test]
fn oracle_scores_one_and_noop_zero_and_the_trace_shows_every_message() {
    let Some((bench, task)) = split_task() else { return };
    for (name, label) in [(PolicyName::Oracle, Label::Resolved), (PolicyName::Noop, Label::NoChange)] {
        let mut policy = rollout::policy_for(name, Some(&task.hidden), &task.public, 0, 0);
        let traced = RefCell::new(Vec::new());
        let episode = rollout::run(
            &bench.lab,
            &bench.repository,
            &task.public,
            &issue(&task, HEADING),
            policy.as_mut(),
            &config::Rollout::default(),
            identity(name, 0, 0),
            &|message| traced.borrow_mut().push(message.clone()),
        )
        .unwrap();
        assert_eq!(grade_episode(bench, &task, &episode).label, label);
        assert_eq!(traced.into_inner(), episode.messages);
    }
}

#[test]
fn a_machine_that_cannot_be_had_ends_the_episode_by_name() {
    let Some((bench, mut task)) = split_task() else { return };
    task.public.base_commit = "0".repeat(40);
    let episode = attempt(bench, &task, &mut Calls(VecDeque::new()), identity(PolicyName::Noop, 0, 0));
    assert_eq!(episode.stop, StopReason::Infrastructure);
    assert!(episode.stop_detail.starts_with("make the workspace: "), "{}", episode.stop_detail);
    assert_eq!(episode.messages.len(), 2);
}

#[test]
fn several_tasks_with_four_samples_show_most_labels() {
    let Some(bench) = bench() else { return };
    let mut labels: Vec<Label> = Vec::new();
    for (base, fix) in
        [("docs-journal", "fix-december"), ("fix-december", "fix-parse-error"), ("fix-sign", "fix-thousands")]
    {
        let task = bench.task(base, fix);
        for sample in 0..4 {
            let episode = mock(bench, &task, 0, sample);
            let grade = grade_episode(bench, &task, &episode);
            eprintln!(
                "{fix} {} -> {} ({})",
                episode.script.as_deref().unwrap_or_default(),
                grade.label.name(),
                grade.detail
            );
            labels.push(grade.label);
        }
    }
    let n_resolved = labels.iter().filter(|label| **label == Label::Resolved).count();
    assert!((3..=8).contains(&n_resolved), "{labels:?}");
    labels.sort_by_key(|label| label.name());
    labels.dedup();
    assert!(labels.len() >= 6, "{labels:?}");
}
