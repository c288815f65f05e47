//! Exports read back by the libraries that training code reads them with.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use curate::{
    config,
    export::{Consumer, Exported, Format, Input, TaskInput, export},
    record::{
        episode::{Label, Message, PolicyName, Speaker},
        task::EvidenceLabel,
    },
};
use serde_json::{Value, json};

use crate::{
    records::{act, episode, grade, instance_id, issue, observe, prompt, say, task},
    support::{output, readers_python, require},
};

/// Arguments that other writers merge, fill with nulls or turn into text.
fn awkward_arguments() -> Vec<Value> {
    vec![
        json!({}),
        json!({"command": "ls -la"}),
        json!({"path": "src/shelf.py", "line": 12, "ratio": 0.5, "all": true}),
        json!({"path": null}),
        json!({"path": "", "text": "null", "list": [], "object": {}}),
        json!({"nested": {"a": null, "b": [null, {"c": null}], "d": {"e": {"f": [1, "2", null]}}}}),
        json!({"naïve": "日本 \u{1F980} \u{10FFFF}", "nul": "a\u{0}b", "quote": "\"\\\n\t\u{2028}"}),
        json!({"command": ["list", "not", "text"], "n": 9_007_199_254_740_993_i64}),
        json!({"json": "{\"a\": 1}", "number": "123"}),
    ]
}

fn tools() -> Value {
    json!([
        {"type": "function", "function": {"name": "bash", "description": "Runs a command",
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}},
        {"type": "function", "function": {"name": "finish", "description": "Ends",
            "parameters": {"type": "object", "properties": {}}}},
    ])
}

fn task_input(number: u32) -> TaskInput {
    TaskInput { task: task(number), issue: issue(number), prompt: prompt(number), is_refuted: false }
}

/// Two tasks and one resolved episode for each list of arguments, with a masked mistake in the middle.
fn input() -> Input {
    let mut input = Input {
        dataset: "shelf".to_owned(),
        tasks: vec![task_input(2), task_input(1)],
        tools: tools(),
        ..Input::default()
    };
    for (sample, arguments) in (0..).zip(awkward_arguments()) {
        let work = vec![
            act("Looking.", &[("bash", arguments.clone()), ("view", json!({"path": "a", "lines": null}))], Some(true)),
            observe("bash", "caf\u{e9} \u{0} output"),
            observe("view", ""),
            act("A mistake.", &[("edit", json!({"old": "x"}))], Some(false)),
            observe("edit", "refused"),
        ];
        let episode = episode(1, PolicyName::Mock, sample, work);
        let grade = grade(&episode, Label::Resolved);
        input.episodes.push((episode, grade));
    }
    input
}

fn write(input: &Input, consumer: Consumer, out: &Path) -> Exported {
    export(input, consumer, Format::Parquet, &config::Export::default(), out).unwrap()
}

/// What `readers.py` prints of an export.
fn read(python: &Path, out: &Path, consumer: Consumer, template: Option<&Path>) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/readers.py");
    let cache = tempfile::tempdir().unwrap();
    let mut argv = vec![python.to_str().unwrap(), script.to_str().unwrap(), out.to_str().unwrap(), consumer.name()];
    argv.extend(template.map(|path| path.to_str().unwrap()));
    let env = [("HF_HOME", cache.path()), ("HF_HUB_OFFLINE", Path::new("1"))];
    let text = output(&argv, &env, 300);
    serde_json::from_str(text.split_once("\n@@").unwrap().1).unwrap()
}

/// A message as a reader must get it: `tool_calls` null where there are none, arguments as they were.
fn expected_message(message: &Message) -> Value {
    let calls: Vec<Value> = message
        .tool_calls
        .iter()
        .map(|call| {
            json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
        })
        .collect();
    json!({
        "role": message.role.name(),
        "content": message.content,
        "tool_calls": if calls.is_empty() { Value::Null } else { calls.into() },
        "tool_call_id": message.tool_call_id,
        "name": message.name,
        "train": (message.role == Speaker::Assistant).then(|| message.train != Some(false)),
    })
}

fn expected_messages(input: &Input) -> Vec<Value> {
    input.episodes.iter().map(|(episode, _)| episode.messages.iter().map(expected_message).collect()).collect()
}

fn messages_of(rows: &Value) -> Vec<Value> {
    rows.as_array().unwrap().iter().map(|row| row["messages"].clone()).collect()
}

/// Replaces the text of arguments, as pyarrow gives it, by what it says.
fn parse_arguments(messages: &mut Value) {
    for message in messages.as_array_mut().unwrap() {
        for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
            let text = call["function"]["arguments"].as_str().expect("pyarrow gives JSON as text").to_owned();
            call["function"]["arguments"] = serde_json::from_str(&text).unwrap();
        }
    }
}

#[test]
fn readers_get_exact_tool_arguments_and_no_injected_nulls() {
    let Some(python) = readers_python() else {
        require("pypi", false);
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let input = input();
    let exported = write(&input, Consumer::Trl, &out);
    assert_eq!((exported.rows, &exported.dropped), (awkward_arguments().len(), &BTreeMap::new()));

    let template = out.join("chat_template_qwen3.jinja");
    let read = read(python, &out, Consumer::Trl, Some(&template));
    let expected = expected_messages(&input);
    for way in ["files", "card", "default"] {
        assert_eq!(messages_of(&read[way]["rows"]), expected, "{way}");
        assert_eq!(read[way]["rows"][0]["tools"], tools(), "{way}");
        assert!(read[way]["features"]["tools"].as_str().unwrap().starts_with("Json"), "{}", read[way]["features"]);
    }
    let mut by_pyarrow = messages_of(&read["pyarrow"]["rows"]);
    by_pyarrow.iter_mut().for_each(parse_arguments);
    assert_eq!(by_pyarrow, expected);

    let row = &read["card"]["rows"][0];
    let seen: Vec<&Value> =
        ["license", "reward", "reward_valid", "seed", "script", "flags", "n_steps"].map(|c| &row[c]).into();
    assert_eq!(json!(seen), json!(["MIT", 1.0, true, 0, "fix", [], 3]));
    assert_eq!(read["pyarrow"]["created_by"], json!(["curate"]));
    assert_eq!(read["pyarrow"]["has_index"], json!(true));
    assert_eq!(read["configs"], json!(["trl"]));
    check_template(&read["template"]);
}

/// The shipped template, rendered by transformers: the loss is on the good turns alone, arguments are plain JSON.
fn check_template(template: &Value) {
    for (index, arguments) in awkward_arguments().iter().enumerate() {
        let trained: Vec<&str> =
            template["trained"][index].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
        let [first, last] = trained[..] else { panic!("{trained:?}") };
        let calls: Vec<Value> = first
            .split("<tool_call>\n")
            .skip(1)
            .map(|part| serde_json::from_str(part.split_once("\n</tool_call>").unwrap().0).unwrap())
            .collect();
        assert_eq!(calls[0], json!({"name": "bash", "arguments": arguments}));
        assert_eq!(calls[1], json!({"name": "view", "arguments": {"path": "a", "lines": null}}));
        assert!(first.starts_with("Looking.\n<tool_call>") && first.ends_with("</tool_call><|im_end|>"), "{first}");
        assert_eq!(last, "Done.\n<tool_call>\n{\"name\": \"finish\", \"arguments\": {}}\n</tool_call><|im_end|>");
        let text = template["texts"][index].as_str().unwrap();
        assert!(text.contains("<|im_start|>assistant\nA mistake.\n<tool_call>"), "masked turns are still context");
        assert!(text.contains("<|im_start|>user\n<tool_response>\ncaf\u{e9} \u{0} output\n</tool_response>\n<tool_response>\n\n</tool_response><|im_end|>\n"));
        assert!(text.contains("\n<tools>\n{\"type\": \"function\", \"function\": {\"name\": \"bash\""), "{text}");
    }
}

#[test]
fn an_export_without_rows_loads_with_every_column() {
    let Some(python) = readers_python() else {
        require("pypi", false);
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let empty = Input { dataset: "empty".to_owned(), tools: tools(), ..Input::default() };
    for consumer in Consumer::ALL {
        assert_eq!(write(&empty, consumer, dir.path()).rows, 0);
    }
    let read = read(python, dir.path(), Consumer::Trl, None);
    assert_eq!(read["card"]["rows"], json!([]));
    assert_eq!(read["configs"], json!(["trl", "verl-rl", "swebench"]));
    for column in ["messages", "tools", "reward", "license"] {
        assert!(read["card"]["features"][column].is_string(), "{column}");
    }
}

#[test]
fn shards_agree_on_the_schema_though_one_has_only_nulls() {
    let Some(python) = readers_python() else {
        require("pypi", false);
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let mut input = input();
    input.tasks[1].task.public.license = None;
    input.episodes.truncate(2);
    let (mut other, mut other_grade) = (episode(2, PolicyName::Mock, 0, Vec::new()), input.episodes[0].1.clone());
    other.script = None;
    other_grade.episode_id.clone_from(&other.episode_id);
    input.episodes.push((other, other_grade));
    let settings = config::Export { shard_bytes: 1_000, row_group_bytes: 1_000, ..config::Export::default() };
    let exported = export(&input, Consumer::Trl, Format::Parquet, &settings, dir.path()).unwrap();
    let shards: Vec<_> = exported.files.iter().filter(|path| path.extension().unwrap() == "parquet").collect();
    assert_eq!(shards.len(), 3);
    let read = read(python, dir.path(), Consumer::Trl, None);
    assert_eq!(read["pyarrow"]["n_schemas"], json!(1));
    let licenses: Vec<&Value> = read["card"]["rows"].as_array().unwrap().iter().map(|row| &row["license"]).collect();
    assert_eq!(json!(licenses), json!([null, null, "MIT"]));
}

#[test]
fn tasks_reach_verl_and_swebench_readers() {
    let Some(python) = readers_python() else {
        require("pypi", false);
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let mut input = input();
    input.tasks[0].task.hidden.label = EvidenceLabel::Weak;
    write(&input, Consumer::VerlRl, dir.path());
    write(&input, Consumer::SweBench, dir.path());

    let verl = &read(python, dir.path(), Consumer::VerlRl, None)["default"]["rows"];
    let row = &verl[1];
    assert_eq!(row["prompt"][1], json!({"role": "user", "content": issue(2).text}));
    let text = |value: &Value| -> Value { serde_json::from_str(value.as_str().unwrap()).unwrap() };
    assert_eq!(
        text(&row["reward_model"]["ground_truth"]),
        json!({"dataset": "shelf", "instance_id": instance_id(2), "base_commit": task(2).public.base_commit,
               "n_fail_to_pass": 1, "n_pass_to_pass": 1, "evidence_label": "weak",
               "mutants_killed": 0, "mutants_total": 0, "change_kind": "fix",
               "difficulty": task(2).hidden.difficulty})
    );
    assert_eq!(text(&row["extra_info"]["task"])["repo"], json!("example/shelf"));
    assert_eq!((&row["extra_info"]["index"], &row["agent_name"]), (&json!(1), &json!("single_turn_agent")));
    for hidden in ["int(x + 0.5)", "test_price", "/host/only"] {
        assert!(!verl.to_string().contains(hidden), "{hidden} is in the rows that an agent trains on");
    }

    let swebench = &read(python, dir.path(), Consumer::SweBench, None)["card"]["rows"];
    let row = &swebench[0];
    assert_eq!(text(&row["FAIL_TO_PASS"]), json!(["tests/test_shelf.py::test_price_1"]));
    assert_eq!(text(&row["PASS_TO_PASS"]), json!(["tests/test_shelf.py::test_add[\"naïve\"]"]));
    assert_eq!((&row["change_kind"], &row["fairness"]), (&json!("fix"), &json!([])));
    assert_eq!(row["difficulty"]["frame_distance"], Value::Null);
    assert_eq!(row["created_at"], json!("2021-03-05T00:00:00Z"));
    assert_eq!((&row["version"], &row["image"], &row["hints_text"]), (&json!("1.4"), &Value::Null, &json!("")));
    assert!(row["patch"].as_str().unwrap().ends_with("# caf\u{10FFE9}\n"), "damaged bytes are escaped, not lost");
    assert!(!swebench.to_string().contains("/host/only"));
}

/// Every file below a directory with its bytes.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(tree(&path));
        } else {
            files.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    files
        .into_iter()
        .map(|(path, bytes)| (path.strip_prefix(dir).map_or(path.clone(), |p| dir.join(p)), bytes))
        .collect()
}

fn relative(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    tree(dir).into_iter().map(|(path, bytes)| (path.strip_prefix(dir).unwrap().to_owned(), bytes)).collect()
}

#[test]
fn two_exports_are_byte_identical_whatever_the_order_and_the_times() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut input = input();
    for &consumer in &Consumer::ALL {
        drop(write(&input, consumer, first.path()));
    }
    input.tasks.reverse();
    input.episodes.reverse();
    for (episode, grade) in &mut input.episodes {
        episode.timing.wall_ms += 77;
        grade.wall_ms += 77;
    }
    Consumer::ALL.iter().rev().for_each(|&consumer| drop(write(&input, consumer, second.path())));
    let (first, second) = (relative(first.path()), relative(second.path()));
    assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    assert_eq!(first.len(), 6, "three shards, two companions, one card: {:?}", first.keys());
    for (path, bytes) in &first {
        assert!(bytes == &second[path], "{} differs", path.display());
    }
}

#[test]
fn a_killed_export_leaves_nothing_behind_after_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let wide = config::Export { shard_bytes: 1_000, ..config::Export::default() };
    export(&input(), Consumer::Trl, Format::Parquet, &wide, dir.path()).unwrap();
    fs::create_dir(data.join(".trl.partial")).unwrap();
    fs::write(data.join(".trl.partial/00000.partial"), "half a file").unwrap();
    write(&input(), Consumer::Trl, dir.path());
    let names: Vec<_> = relative(dir.path()).into_keys().collect();
    assert_eq!(
        names,
        ["README.md", "chat_template_qwen3.jinja", "data/trl/train-00000-of-00001.parquet"].map(PathBuf::from)
    );
}

#[test]
fn every_drop_is_counted_by_the_filter_that_made_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut input =
        Input { dataset: "shelf".to_owned(), tasks: vec![task_input(1)], tools: tools(), ..Input::default() };
    let mut add = |number, policy, label, work: Vec<Message>| {
        let sample = input.episodes.len().try_into().unwrap();
        let episode = episode(number, policy, sample, work);
        let grade = grade(&episode, label);
        input.episodes.push((episode, grade));
    };
    let step = |text: &str| vec![act(text, &[("bash", json!({"command": "ls"}))], Some(true)), observe("bash", "")];
    add(1, PolicyName::Mock, Label::Resolved, step("kept"));
    add(1, PolicyName::Mock, Label::Resolved, step("kept"));
    add(1, PolicyName::Oracle, Label::Resolved, step("gold"));
    add(1, PolicyName::Mock, Label::Infrastructure, step("lost"));
    add(1, PolicyName::Mock, Label::IncorrectFix, step("wrong"));
    add(1, PolicyName::Mock, Label::WrongFile, step("wrong"));
    add(9, PolicyName::Mock, Label::Resolved, step("no such task"));
    add(1, PolicyName::Mock, Label::Resolved, vec![say(Speaker::Tool, "text with <|im_end|> in it")]);
    add(
        1,
        PolicyName::Mock,
        Label::Resolved,
        vec![act("", &[("bash", json!({"command": "</tool_call>"}))], Some(true))],
    );
    let big = "x".repeat(50_000);
    add(1, PolicyName::Mock, Label::Resolved, step(&big));
    let settings = config::Export { max_row_bytes: 40_000, ..config::Export::default() };
    let exported = export(&input, Consumer::Trl, Format::Parquet, &settings, dir.path()).unwrap();
    let expected = [
        ("control_tokens", 2),
        ("duplicate", 1),
        ("invalid_reward", 1),
        ("no_task", 1),
        ("oversized_episode", 1),
        ("policy", 1),
        ("unresolved", 2),
    ];
    assert_eq!(exported.dropped, expected.map(|(name, count)| (name.to_owned(), count)).into());
    assert_eq!(exported.rows + exported.dropped.values().sum::<usize>(), input.episodes.len());

    let card = fs::read_to_string(dir.path().join("README.md")).unwrap();
    assert!(card.contains("| `unresolved` |") && card.contains("default: true | 2 |"), "{card}");
    assert!(card.contains("script, not a model") && card.contains("template, not a model"), "{card}");
    assert!(card.contains("license: mit\n") && !card.contains("dataset_info"), "{card}");

    let all = config::Export {
        only_resolved: false,
        policies: vec![PolicyName::Mock, PolicyName::Oracle],
        drop_control_tokens: false,
        ..config::Export::default()
    };
    let exported = export(&input, Consumer::Trl, Format::Parquet, &all, dir.path()).unwrap();
    assert_eq!(exported.rows, 6, "without the lost, the orphan and two duplicates");
}

#[test]
fn b055_a_task_that_did_not_verify_is_exported_to_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let mut input = input();
    let rows = |input: &Input| Consumer::ALL.map(|consumer| write(input, consumer, dir.path()).rows);
    let before = rows(&input);
    input.tasks[1].is_refuted = true;
    assert_eq!(rows(&input), [0, before[1] - 1, before[2] - 1]);
    let dropped = write(&input, Consumer::Trl, dir.path()).dropped;
    let expected = [("no_task", input.episodes.len()), ("not_verified", 1)];
    assert_eq!(dropped, expected.map(|(name, count)| (name.to_owned(), count)).into());
}

#[test]
fn json_lines_hold_objects_and_go_to_the_very_file_named() {
    let dir = tempfile::tempdir().unwrap();
    let jsonl = |consumer, out: &Path| {
        export(&input(), consumer, Format::Jsonl, &config::Export::default(), out).unwrap().files
    };
    let file = dir.path().join("deep/tasks.jsonl");
    assert_eq!(jsonl(Consumer::SweBench, &file), std::slice::from_ref(&file));
    let text = fs::read_to_string(&file).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        rows.iter().map(|row| &row["fix_commit"]).collect::<Vec<_>>(),
        [&task(1), &task(2)].map(|t| &t.hidden.fix_commit)
    );
    assert_eq!(jsonl(Consumer::Trl, dir.path()), [dir.path().join("trl.jsonl")]);
    let text = fs::read_to_string(dir.path().join("trl.jsonl")).unwrap();
    let first: Value = serde_json::from_str(text.lines().nth(3).unwrap()).unwrap();
    assert_eq!(first["messages"][2]["tool_calls"][0]["function"]["arguments"], json!({"path": null}));
    assert!(first["messages"][0].get("tool_calls").is_none());
    let refused = export(&input(), Consumer::Trl, Format::Parquet, &config::Export::default(), &file);
    assert!(refused.is_err(), "a Parquet export is a directory");
}

/// A stand-in for `curate` that answers by the patch it is given and writes down how it was called.
const STUB: &str = r#"#!/bin/sh
echo "$@" >> "$STUB_LOG"
case "$(cat "$7")" in
  *good*) echo '{"label": "resolved", "reward": 1.0}' ;;
  *lost*) echo '{"label": "infrastructure", "reward": null}' ;;
  *crash*) echo 'error: no such task' >&2; exit 3 ;;
  *) echo '{"label": "incorrect_fix", "reward": 0.0}' ;;
esac
"#;

const CALLS: &str = r#"
import json, sys
sys.path.insert(0, sys.argv[1])
from reward_fn import compute_score, extract_patch
truth = json.dumps({"instance_id": "i-1", "dataset": "shelf"})
score = lambda reply, **extra: compute_score("curate/shelf", reply, truth, extra, reward_router_address=None)
assert extract_patch("no patch here") == ""
assert extract_patch("a\n```diff\none\n```\nb\n```diff\ntwo\n```\n") == "two\n"
assert extract_patch("So:\ndiff --git a/x b/x\n--- a/x\n") == "diff --git a/x b/x\n--- a/x\n"
print(json.dumps([score("```diff\ngood\n```\n"), score("x", patch="good"), score("bad"), score("```diff\nlost\n```"),
                  score("```diff\ncrash\n```"), score("```diff\nhalf \ud835 pair\n```"), score(None)]))
"#;

#[test]
fn b056_the_reward_function_asks_curate_and_says_when_there_is_no_reward() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    write(&input(), Consumer::VerlRl, dir.path());
    let bin = dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("curate"), STUB).unwrap();
    fs::set_permissions(bin.join("curate"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = PathBuf::from(format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    let log = dir.path().join("log");
    let printed =
        output(&["python3", "-c", CALLS, dir.path().to_str().unwrap()], &[("PATH", &path), ("STUB_LOG", &log)], 60);
    let scores: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    let score = |score: f64, valid: f64, label: &str| json!({"score": score, "reward_valid": valid, "resolved": score, "label": label});
    assert_eq!(
        scores,
        json!([
            score(1.0, 1.0, "resolved"),
            score(1.0, 1.0, "resolved"),
            score(0.0, 1.0, "incorrect_fix"),
            score(0.0, 0.0, "infrastructure"),
            score(0.0, 0.0, "infrastructure"),
            score(0.0, 1.0, "incorrect_fix"),
            score(0.0, 1.0, "incorrect_fix"),
        ])
    );
    let calls = fs::read_to_string(log).unwrap();
    assert!(calls.starts_with("grade --dataset shelf --task i-1 --patch /"), "{calls}");
    assert!(calls.lines().all(|call| call.ends_with("agent.patch --json")), "{calls}");
}
