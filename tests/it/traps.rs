//! Bundled histories from end to end: every commit ends in the state, with the reason, that the table beside it gives.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock},
    thread,
};

use curate::{
    build,
    cache::Cache,
    config,
    git::Repo,
    grade::{self, Context},
    history, issue,
    lab::Lab,
    mine::{self, Selection},
    record::{
        bytes::ByteText,
        candidate::{Candidate, RejectReason},
        environment::Runner,
        episode::Label,
        task::{EvidenceLabel, QuarantineReason, Task, Transition, Validation},
    },
    sources::Source,
    uv, validate,
};
use serde::{Deserialize, de::DeserializeOwned};
use tempfile::TempDir;

use crate::support::{backends, require};

/// Histories or commits looked at side by side.
const WORKERS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Rejected,
    NoEnvironment,
    NoTask,
    Task,
}

/// What must become of a commit; see the comments in the tables.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    state: State,
    reason: Option<String>,
    label: Option<EvidenceLabel>,
    #[serde(default)]
    fail_to_pass: Vec<String>,
    #[serde(default)]
    pass_to_pass: Vec<String>,
    transition: Option<Transition>,
    #[serde(default)]
    quarantined: BTreeMap<String, QuarantineReason>,
    /// By the beginning of ids, of which at least one is there.
    #[serde(default)]
    some_quarantined: BTreeMap<String, QuarantineReason>,
    #[serde(default)]
    hash_seed_dependent: bool,
    #[serde(default)]
    issue_lacks: Vec<String>,
    #[serde(default)]
    issue_tells: Vec<String>,
    runner: Option<Runner>,
}

/// By commit of the demo, or by history.
type Table = BTreeMap<String, Expected>;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read<T: DeserializeOwned>(path: &str) -> T {
    let text = fs::read_to_string(root().join(path)).unwrap();
    toml::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A rebuilt history and what mining says of it.
pub struct Mined {
    pub repository: PathBuf,
    /// Commit by the history's name for it.
    commits: HashMap<String, String>,
    selection: Selection,
    _place: TempDir,
}

pub fn mine(history: &Path) -> Mined {
    let place = TempDir::new().unwrap();
    let repository = place.path().join("repo.git");
    fs::create_dir(&repository).unwrap();
    let commits = history::rebuild(history, &repository).unwrap();
    let given = repository.display().to_string();
    let source = Source { name: "traps/repo".to_owned(), given, path: repository.clone(), manifest: None };
    let selection = mine::select(&source, &config::Mine::default(), &|_, _| ()).unwrap();
    Mined { repository, commits, selection, _place: place }
}

impl Mined {
    fn reason(&self, commit: &str) -> Option<RejectReason> {
        let verdict = self.selection.verdicts.iter().find(|verdict| verdict.commit == self.commits[commit]);
        verdict.unwrap_or_else(|| panic!("no verdict on `{commit}`")).reason
    }

    pub fn candidate(&self, commit: &str) -> &Candidate {
        let found = self.selection.candidates.iter().find(|candidate| candidate.fix_commit == self.commits[commit]);
        found.unwrap_or_else(|| panic!("`{commit}` is no candidate"))
    }

    fn validate(&self, lab: &Lab, commit: &str) -> Result<Validation, String> {
        let candidate = self.candidate(commit);
        let settings = config::Build::default();
        let build = build::build(lab, &self.repository, candidate, None, &settings).unwrap();
        let build = build.map_err(|failure| failure.kind)?;
        // Fixed states take milliseconds here; a hanging test waits for the whole limit.
        let settings = config::Validate { test_s: 4, strength_runs: 0, ..config::Validate::default() };
        let context =
            validate::Context { lab, repository: &self.repository, candidate, build: &build, settings: &settings };
        Ok(validate::validate(context).unwrap())
    }
}

/// A machine that can sandbox and reach the package index; `None`, with the reason printed, elsewhere.
pub fn lab() -> Option<&'static Lab> {
    static LAB: OnceLock<Option<Lab>> = OnceLock::new();
    let make = || {
        let backend = backends().first().copied()?;
        let cache = Cache::at(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("traps-cache")).unwrap();
        let found = uv::find(&cache).map_err(|error| eprintln!("{error:#}"));
        require("pypi", found.is_ok()).then_some(Lab::new(cache, backend, WORKERS))
    };
    LAB.get_or_init(make).as_ref()
}

/// Returns what is not as the table says, a line each.
fn complaints(lab: &Lab, mined: &Mined, commit: &str, expected: &Expected) -> Vec<String> {
    let (mined_as, candidate) = (mined.reason(commit), expected.state != State::Rejected);
    if !candidate || mined_as.is_some() {
        let reason = mined_as.map(RejectReason::name);
        return differs("mining", &reason, &expected.reason.clone().filter(|_| !candidate));
    }
    let validation = match mined.validate(lab, commit) {
        Ok(validation) => validation,
        Err(kind) if expected.state == State::NoEnvironment => {
            return differs("environment", &Some(kind), &expected.reason);
        }
        Err(kind) => return vec![format!("no environment: {kind}")],
    };
    let mut found = quarantine_complaints(&validation, expected);
    match (&validation.verdict, expected.state) {
        (Ok(task), State::Task) => found.extend(task_complaints(mined, &validation, task, expected)),
        (Ok(task), _) => found.push(format!("a task, with {:?}", task.hidden.fail_to_pass)),
        (Err(failure), State::NoTask) => found.extend(differs("reason", &Some(failure.kind.clone()), &expected.reason)),
        (Err(failure), _) => found.push(format!("no task: {failure}")),
    }
    found
}

fn differs<T: PartialEq + std::fmt::Debug>(what: &str, seen: &T, expected: &T) -> Vec<String> {
    if seen == expected { Vec::new() } else { vec![format!("{what}: {seen:?}, not {expected:?}")] }
}

fn quarantine_complaints(validation: &Validation, expected: &Expected) -> Vec<String> {
    let mut found = Vec::new();
    for (id, reason) in &expected.quarantined {
        found.extend(differs(id, &validation.quarantined.get(id), &Some(reason)));
    }
    for (beginning, reason) in &expected.some_quarantined {
        let mut reasons = validation.quarantined.iter().filter(|(id, _)| id.starts_with(beginning.as_str()));
        if !reasons.any(|(_, seen)| seen == reason) {
            found.push(format!("no id that begins with {beginning} is quarantined as {reason:?}"));
        }
    }
    found
}

fn task_complaints(mined: &Mined, validation: &Validation, task: &Task, expected: &Expected) -> Vec<String> {
    let hidden = &task.hidden;
    let mut found = differs("label", &Some(hidden.label), &expected.label);
    found.extend(differs("fail-to-pass", &hidden.fail_to_pass, &expected.fail_to_pass));
    found.extend(differs("whole suite", &hidden.whole_suite, &true));
    if !expected.pass_to_pass.is_empty() {
        found.extend(differs("pass-to-pass", &hidden.pass_to_pass, &expected.pass_to_pass));
    }
    if let Some(transition) = expected.transition {
        let seen: BTreeSet<_> = hidden.fail_to_pass.iter().map(|id| validation.transitions.get(id).copied()).collect();
        found.extend(differs("transition", &seen, &BTreeSet::from([Some(transition)])));
    }
    if let Some(runner) = expected.runner {
        found.extend(differs("runner", &task.public.build.runner, &runner));
    }
    if expected.hash_seed_dependent {
        let alone = hidden.quarantined.values().all(|reason| *reason != QuarantineReason::HashSeedDependent);
        found.extend(differs("pinned to a seed", &alone, &true));
    }
    let repo = Repo::open(&mined.repository).unwrap();
    match issue::write(&repo, task).unwrap() {
        Ok(issue) => {
            let test_names = hidden.fail_to_pass.iter().filter_map(|id| id.split("::").last()).map(base_name);
            let secrets = test_names.chain(expected.issue_lacks.iter().map(String::as_str));
            let leaks: BTreeSet<&str> = secrets.filter(|secret| issue.text.contains(secret)).collect();
            found.extend(leaks.iter().map(|secret| format!("the issue text holds `{secret}`")));
            let untold = expected.issue_tells.iter().filter(|needed| !issue.text.contains(needed.as_str()));
            found.extend(untold.map(|needed| format!("the issue text lacks `{needed}`: {}", issue.text)));
        }
        Err(failure) => found.push(format!("no issue text: {failure}")),
    }
    found
}

/// Returns a test's name without its parameters.
fn base_name(test: &str) -> &str {
    test.split('[').next().unwrap_or(test)
}

/// Looks at every subject, some at a time, and fails with all complaints together.
fn judge_all<T: Sync>(subjects: &[T], judge: impl Fn(&T) -> Vec<String> + Sync) {
    let next = Mutex::new(subjects.iter());
    let found: Mutex<Vec<String>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let Some(subject) = next.lock().unwrap().next() else { return };
                    let complaints = judge(subject);
                    found.lock().unwrap().extend(complaints);
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn mining_gives_every_commit_of_the_demo_its_verdict() {
    let table: Table = read("tests/fixtures/demo/expected.toml");
    let mined = mine(&root().join("repos/demo"));
    assert_eq!(mined.commits.keys().collect::<BTreeSet<_>>(), table.keys().collect());
    assert_eq!(mined.selection.verdicts.len(), table.len());
    for (id, expected) in &table {
        let reason = expected.reason.clone().filter(|_| expected.state == State::Rejected);
        assert_eq!(mined.reason(id).map(RejectReason::name), reason, "{id}");
    }
}

#[test]
fn every_commit_of_the_demo_ends_as_its_table_says() {
    let Some(lab) = lab() else { return };
    let table: Table = read("tests/fixtures/demo/expected.toml");
    let mined = mine(&root().join("repos/demo"));
    let commits: Vec<(&String, &Expected)> = table.iter().collect();
    judge_all(&commits, |(id, expected)| {
        complaints(lab, &mined, id, expected).into_iter().map(|line| format!("{id}: {line}")).collect()
    });
}

#[test]
fn b041_b043_b052_b054_b055_every_trap_ends_as_its_table_says() {
    let Some(lab) = lab() else { return };
    let table: Table = read("tests/fixtures/repos/expected.toml");
    let directory = root().join("tests/fixtures/repos");
    let histories = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    let names = histories.filter(|path| path.is_dir()).map(|path| path.file_name().unwrap().to_string_lossy().into());
    assert_eq!(names.collect::<BTreeSet<String>>(), table.keys().cloned().collect());
    let traps: Vec<(&String, &Expected)> = table.iter().collect();
    judge_all(&traps, |(name, expected)| {
        let mined = mine(&directory.join(name));
        complaints(lab, &mined, "fix", expected).into_iter().map(|line| format!("{name}: {line}")).collect()
    });
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Verdict {
    label: Label,
    dropped: Vec<String>,
}

#[test]
fn every_patch_gets_its_label() {
    let Some(lab) = lab() else { return };
    let mined = mine(&root().join("repos/demo"));
    let validation = mined.validate(lab, "fix-split").unwrap();
    let task = validation.verdict.unwrap();
    let table: BTreeMap<String, Verdict> = read("tests/fixtures/patches/expected.toml");
    let patches: Vec<(&String, &Verdict)> = table.iter().collect();
    judge_all(&patches, |(name, expected)| {
        let path = root().join("tests/fixtures/patches").join(name).with_added_extension("patch");
        let patch = ByteText::new(fs::read(path).unwrap());
        let settings = config::Grade::default();
        let grade = grade::grade(lab, &mined.repository, &task, name, &patch, Context::default(), &settings).unwrap();
        let reward = if expected.label == Label::Resolved { 1.0 } else { 0.0 };
        let mut found = differs("label", &grade.label, &expected.label);
        found.extend(differs("reward", &grade.reward, &Some(reward)));
        let dropped: BTreeSet<&String> = grade.dropped_paths.iter().collect();
        found.extend(differs("dropped", &dropped, &expected.dropped.iter().collect()));
        found.into_iter().map(|line| format!("{name}: {line} ({})", grade.detail)).collect()
    });
}
