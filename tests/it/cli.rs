//! What the commands say and refuse, on a dataset whose records are made by hand.

use std::{collections::BTreeMap, fs, path::Path};

use curate::{
    mine::Selection,
    process::Exit,
    record::{
        candidate::Candidate,
        environment::{Build, Language},
        episode::{Label, PolicyName},
        failure::Failure,
        id::Digest,
        task::{Issue, Validation},
    },
    store::{Put, State, Store},
};
use serde_json::{Value, json};

use crate::{
    records::{build, episode, grade, instance_id, issue, task},
    support::{candidate, spawn},
};

fn put<T: serde::Serialize>(store: &Store, stage: &str, subject: &str, body: &T) {
    let key = Digest::of(&[stage.as_bytes(), subject.as_bytes()]);
    store.put(Put { stage, key: &key, subject, state: State::Done, reason: "", wall_ms: 0, body }).unwrap();
}

/// Makes a repository of one empty commit and returns the commit.
fn repository(dir: &Path) -> String {
    let repository = git2::Repository::init(dir).unwrap();
    let tree = repository.find_tree(repository.index().unwrap().write_tree().unwrap()).unwrap();
    let who = git2::Signature::new("a", "a@example.org", &git2::Time::new(1_700_000_000, 0)).unwrap();
    repository.commit(Some("HEAD"), &who, &who, "c", &tree, &[]).unwrap().to_string()
}

/// Writes a dataset with three candidates, of which two are tasks, and one graded episode of three that were asked for.
fn dataset(dir: &Path) {
    let store = Store::create(dir).unwrap();
    let demo = tempfile::tempdir().unwrap();
    let commit = repository(demo.path());
    let of = |number| Candidate {
        instance_id: instance_id(number),
        ..candidate(demo.path(), Language::Python, &commit, &commit)
    };
    let selection = Selection { verdicts: Vec::new(), candidates: (1..4).map(of).collect() };
    put(&store, "selection", "demo", &selection);
    for number in 1..3 {
        let (id, task) = (instance_id(number), task(number));
        let validation = Validation {
            instance_id: id.clone(),
            verdict: Ok(task),
            transitions: BTreeMap::new(),
            runs: Vec::new(),
            quarantined: BTreeMap::new(),
        };
        put(&store, "build", &id, &Ok::<Build, Failure>(build(&id, "a")));
        put(&store, "validate", &id, &validation);
        put(&store, "issue", &id, &Ok::<Issue, Failure>(issue(number)));
    }
    let episode = episode(1, PolicyName::Noop, 0, Vec::new());
    put(&store, "rollout", &episode.episode_id, &episode);
    put(&store, "grade", &episode.episode_id, &grade(&episode, Label::NoChange));
    let asked =
        json!({ "episodes": [{ "policy": "noop", "samples": 3, "seed": episode.seed }], "tasks": [instance_id(1)] });
    fs::write(dir.join("manifest.json"), json!({ "settings": { "rollout": asked } }).to_string()).unwrap();
}

/// Runs `curate` on a dataset and returns its exit code, standard output and standard error.
fn curate(dataset: &Path, arguments: &[&str]) -> (Exit, String, String) {
    let argv = [&[env!("CARGO_BIN_EXE_curate")], arguments, &["--dataset", dataset.to_str().unwrap()]].concat();
    let done = spawn(&argv, &[("CURATE_CACHE_DIR", &dataset.with_extension("cache"))], 60).unwrap();
    (done.exit, done.stdout.text(), done.stderr.text())
}

#[test]
fn status_says_what_is_left_and_why_lists_the_tasks() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("x");
    dataset(&dir);
    let (exit, out, said) = curate(&dir, &["status", "--json"]);
    assert_eq!(exit, Exit::Code(0), "{said}");
    let left = &serde_json::from_str::<Value>(&out).unwrap()["left"];
    let expected = json!([
        { "stage": "build", "policy": null, "n_left": 1, "n_all": 3 },
        { "stage": "rollout", "policy": "noop", "n_left": 2, "n_all": 3 },
    ]);
    assert_eq!(*left, expected);
    let (_, out, _) = curate(&dir, &["why"]);
    assert_eq!(out.lines().count(), 2, "{out}");
    assert!(out.lines().all(|line| line.contains("strong")) && out.contains(&instance_id(2)), "{out}");
    let (exit, _, said) = curate(&dir, &["why", "nothing"]);
    assert!(exit == Exit::Code(1) && said.contains("`curate why` lists the tasks"), "{said}");
}

#[test]
fn an_export_without_rows_says_why_and_nothing_owned_is_overwritten() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("x");
    dataset(&dir);
    let (exit, out, _) = curate(&dir, &["export", "--for", "trl"]);
    assert!(exit == Exit::Code(3) && out.contains("no episode is left: they must be resolved"), "{out}");
    let before = fs::read(dir.join("curate.db")).unwrap();
    for arguments in [
        ["report", "--out", "curate.db"].as_slice(),
        &["report", "--out", "manifest.json"],
        &["export", "--for", "trl", "--out", "."],
        &["export", "--for", "trl", "--format", "parquet", "--out", "x.jsonl"],
    ] {
        let mut arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let out = arguments.last_mut().unwrap();
        *out = dir.join(&*out).display().to_string();
        let (exit, _, said) = curate(&dir, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(exit == Exit::Code(1) && said.contains("hint: "), "{arguments:?}: {said}");
    }
    assert_eq!(fs::read(dir.join("curate.db")).unwrap(), before);
}

#[test]
fn a_repository_that_cannot_be_mined_is_met_with_the_next_step() {
    let place = tempfile::tempdir().unwrap();
    let (dir, demo, file) = (place.path().join("x"), place.path().join("demo"), place.path().join("file"));
    fs::write(&file, "").unwrap();
    let (exit, _, said) = curate(&dir, &["mine", "--repo", file.to_str().unwrap()]);
    assert!(exit == Exit::Code(1) && said.contains("it is a file") && said.contains("hint: "), "{said}");
    fs::write(demo.join(".git/shallow"), repository(&demo)).unwrap();
    let (exit, _, said) = curate(&dir, &["mine", "--repo", demo.to_str().unwrap(), "--stop-after", "select"]);
    assert!(exit == Exit::Code(3) && said.contains("git fetch --unshallow"), "{said}");
}
