//! `--limit "N tasks"`: as many tasks as asked for, from the likeliest candidates, whoever works on them.

use std::{collections::BTreeSet, path::Path};

use curate::{mine::Selection, process::Exit, record::failure::Failure, record::task::Issue, store::Store, uv};

use crate::support::{backends, require, spawn};

/// Mines the demo repository; returns what was said, the candidates kept, in their order, and which became tasks.
fn mine(dataset: &Path, cache: &Path, jobs: &str) -> (String, Vec<String>, BTreeSet<String>) {
    let dataset_name = dataset.to_str().unwrap();
    let argv = [
        env!("CARGO_BIN_EXE_curate"),
        "mine",
        "--repo",
        "demo",
        "--dataset",
        dataset_name,
        "--limit",
        "2 tasks",
        "--repeats",
        "1",
        "--jobs",
        jobs,
    ];
    let done = spawn(&argv, &[("CURATE_CACHE_DIR", cache)], 600).unwrap();
    let said = done.stderr.text();
    assert_eq!(done.exit, Exit::Code(0), "{said}");
    let store = Store::open(dataset).unwrap();
    let selection: Selection = store.get("selection", "curate-demo/ledgerlib").unwrap().unwrap();
    let kept: Vec<String> = selection.candidates.into_iter().map(|candidate| candidate.instance_id).collect();
    let issues = store.all_with_subject::<Result<Issue, Failure>>("issue").unwrap();
    let tasks = issues.into_iter().filter(|(id, issue)| issue.is_ok() && kept.contains(id)).map(|(id, _)| id).collect();
    (said, kept, tasks)
}

#[test]
fn the_same_tasks_come_out_whatever_the_number_of_workers_and_a_second_run_does_nothing() {
    if backends().is_empty() {
        return;
    }
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("traps-cache");
    if !require("pypi", uv::find(&curate::cache::Cache::at(&cache).unwrap()).is_ok()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (_, kept, tasks) = mine(&place.path().join("one"), &cache, "1");
    assert_eq!(tasks.len(), 2);
    assert!(tasks.contains(kept.last().unwrap()), "the last candidate kept is the last task");
    let (_, kept_by_three, tasks_of_three) = mine(&place.path().join("three"), &cache, "3");
    assert_eq!((&kept_by_three, &tasks_of_three), (&kept, &tasks));
    let (said, kept_again, tasks_again) = mine(&place.path().join("one"), &cache, "3");
    assert!(said.contains("Nothing to do"), "{said}");
    assert_eq!((kept_again, tasks_again), (kept, tasks));
}
