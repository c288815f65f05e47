//! Tasks to roll out and grade: the demo repository's fixes, with the tests that really pass and fail there.
//!
//! pytest comes from the package index once, into the directory for test data.

use std::{
    collections::{BTreeMap, HashMap},
    env,
    ffi::OsString,
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use crate::support::{backends, require};
use curate::{
    cache::Cache,
    git::Repo,
    harness::{self, Request, Subject},
    history,
    lab::Lab,
    process::{self, Exit},
    record::{
        bytes::ByteText,
        candidate::{FileChange, Role, Side},
        environment::{Build, Environment, Recipe, Runner, Toolchain},
        id::Digest,
        patch::{Edit, FileContent},
        strength::Strength,
        suite::{Report, Selection, Status, TreeState, Variation},
        task::{
            ChangeKind, Difficulty, EvidenceLabel, FailingTest, HiddenTask, Issue, PublicTask, Task, Transition, Writer,
        },
    },
};

const PYTEST: &str = "pytest==8.3.4";

/// The demo repository and a lab. Shared by all tests that need it.
pub struct Bench {
    pub lab: Lab,
    pub repository: PathBuf,
    commits: HashMap<String, String>,
    environment: Environment,
}

/// Returns the bench, or `None` where the machine cannot have one (the reason is on standard error).
pub fn bench() -> Option<&'static Bench> {
    static BENCH: OnceLock<Option<Bench>> = OnceLock::new();
    BENCH.get_or_init(set_up).as_ref()
}

fn set_up() -> Option<Bench> {
    let backend = *backends().first()?;
    let made = pytest_environment();
    if !require("pypi", made.is_some()) {
        return None;
    }
    let (directory, interpreter) = made?;
    // Kept from run to run: everything in it is named by its content.
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench");
    let cache = Cache::at(&place.join("cache")).unwrap();
    let environment =
        Environment { key: Digest::of(&[PYTEST.as_bytes()]), toolchain: interpreter, lock: String::new() };
    // The store of environments takes what is there under its key.
    let stored = cache.dir("environments").unwrap().join(environment.key.as_str());
    let _ = fs::remove_file(&stored);
    symlink(directory, stored).unwrap();
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("repos/demo");
    let repository = place.join(format!("{}-{}", history::digest(&demo).unwrap().short(), std::process::id()));
    let _ = fs::remove_dir_all(&repository);
    fs::create_dir_all(&repository).unwrap();
    let commits = history::rebuild(&demo, &repository).unwrap();
    Some(Bench { lab: Lab::new(cache, backend, 1), repository, commits, environment })
}

/// Runs a program of the machine and returns what it printed, trimmed, or `None` if it failed.
fn host(argv: &[&str], cwd: &Path) -> Option<String> {
    let keep = |(name, _): &(OsString, OsString)| {
        let name = name.to_string_lossy();
        ["PATH", "HOME", "SSL_CERT_FILE"].contains(&&*name) || name.starts_with("PIP_")
    };
    let finished = process::run(&process::Command {
        argv: argv.iter().map(OsString::from).collect(),
        env: env::vars_os().filter(keep).collect(),
        cwd: Some(cwd.to_owned()),
        stdin: Vec::new(),
        wall: Duration::from_mins(5),
        max_output_bytes: 1 << 20,
    })
    .ok()?;
    if finished.exit != Exit::Code(0) {
        eprintln!("{argv:?}: {}", finished.stderr.text());
        return None;
    }
    Some(finished.stdout.text().trim().to_owned())
}

/// Returns a directory with a virtual environment that has pytest, and its interpreter; made once per machine.
fn pytest_environment() -> Option<(PathBuf, Toolchain)> {
    let data = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let lock = File::create(data.join("pytest-environment.lock")).unwrap();
    lock.lock().unwrap();
    let facts = "import os, sys, platform; print(os.path.realpath(getattr(sys, '_base_executable', sys.executable)), \
                 os.path.realpath(sys.base_prefix), platform.python_version())";
    let facts = host(&["python3", "-c", facts], data)?;
    let [path, prefix, version] = facts.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let directory = data.join(format!("{PYTEST}-python{version}"));
    if !directory.join("done").exists() {
        let _ = fs::remove_dir_all(&directory);
        let place = directory.to_str()?;
        host(&[path, "-m", "venv", place], data)?;
        host(&[&format!("{place}/bin/python"), "-m", "pip", "install", "--quiet", PYTEST], data)?;
        File::create(directory.join("done")).unwrap();
    }
    let interpreter = Toolchain {
        language: curate::record::environment::Language::Python,
        path: path.into(),
        prefix: prefix.into(),
        version: version.to_owned(),
    };
    Some((directory, interpreter))
}

impl Bench {
    /// Returns the task of one commit of the demo against another.
    pub fn task(&self, base: &str, fix: &str) -> Task {
        let (base, fix) = (self.commits[base].clone(), self.commits[fix].clone());
        let repo = Repo::open(&self.repository).unwrap();
        let (old, new) = (self.files(&base), self.files(&fix));
        let mut paths: Vec<&String> =
            old.keys().chain(new.keys()).filter(|path| old.get(*path) != new.get(*path)).collect();
        paths.sort();
        paths.dedup();
        let changes: Vec<FileChange> = paths.iter().map(|path| change(path, &old, &new)).collect();
        let edits = |is_test: bool| -> Vec<Edit> {
            changes
                .iter()
                .filter(|change| (change.role == Role::Test) == is_test)
                .map(|change| edit(&repo, change))
                .collect()
        };
        let build = self.build(&fix);
        let subject = Subject { repository: &self.repository, base_commit: &base, build: &build };
        let before = self.run(subject, TreeState::Before, &edits(true));
        let after = self.run(subject, TreeState::After, &[edits(true), edits(false)].concat());
        let (fail_to_pass, pass_to_pass): (Vec<String>, Vec<String>) = after
            .tests
            .iter()
            .filter(|(_, result)| result.status == Status::Passed)
            .map(|(id, _)| id.clone())
            .partition(|id| before.status(id) != Some(Status::Passed));
        assert!(!fail_to_pass.is_empty());
        let failing = fail_to_pass.iter().filter_map(|id| failing(&before, id)).collect();
        let test_files = changes.iter().filter(|change| change.role == Role::Test).map(|change| change.path.lossy());
        let hidden = HiddenTask {
            fix_commit: fix,
            message: "".into(),
            source_patch: repo.diff(&base, &edits(false)).unwrap(),
            test_patch: repo.diff(&base, &edits(true)).unwrap(),
            fail_to_pass,
            pass_to_pass,
            label: EvidenceLabel::Strong,
            test_files: test_files.collect(),
            whole_suite: true,
            hash_seed: 0,
            after_wall_ms: 1_000,
            quarantined: BTreeMap::new(),
            change_kind: ChangeKind::Fix,
            fairness: Vec::new(),
            n_fairness_left_out: 0,
            difficulty: Difficulty::default(),
            failing,
            strength: Strength::default(),
            changes,
        };
        let public = PublicTask {
            instance_id: build.instance_id.clone(),
            repo: "demo/ledgerlib".to_owned(),
            repo_source: "demo".to_owned(),
            base_commit: base,
            base_time: 0,
            language: "python".to_owned(),
            license: None,
            build,
        };
        Task { public, hidden }
    }

    fn build(&self, fix: &str) -> Build {
        Build {
            instance_id: curate::record::id::instance_id("demo/ledgerlib", fix),
            runner: Runner::Pytest,
            environment: self.environment.clone(),
            recipe: Recipe::default(),
            metadata: Vec::new(),
            generated: Vec::new(),
            import_roots: vec!["src".to_owned(), String::new()],
        }
    }

    /// Returns mode and object id by path.
    fn files(&self, commit: &str) -> HashMap<String, Side> {
        let listing = host(&["git", "ls-tree", "-r", commit], &self.repository).unwrap();
        let read = |line: &str| {
            let (entry, path) = line.split_once('\t').unwrap();
            let [mode, _, oid] = entry.split(' ').collect::<Vec<_>>().try_into().unwrap();
            let side = Side { mode: u32::from_str_radix(mode, 8).unwrap(), oid: oid.to_owned() };
            (path.to_owned(), side)
        };
        listing.lines().map(read).collect()
    }

    fn run(&self, subject: Subject, state: TreeState, edits: &[Edit]) -> Report {
        let request = Request {
            state,
            edits,
            selection: Selection::All,
            variation: Variation::PLAIN,
            with_stubs: false,
            wall: Duration::from_mins(1),
            test_wall: Duration::from_secs(5),
        };
        let run = harness::run_suite(&self.lab, subject, &request).unwrap();
        run.report().unwrap_or_else(|| panic!("{run:?}")).clone()
    }
}

fn change(path: &str, old: &HashMap<String, Side>, new: &HashMap<String, Side>) -> FileChange {
    let role = match () {
        () if path.starts_with("tests/") => Role::Test,
        () if path.ends_with(".py") => Role::Source,
        () => Role::Other,
    };
    let (old, new) = (old.get(path).cloned(), new.get(path).cloned());
    FileChange { path: path.into(), role, old, new, added_lines: 1, removed_lines: 1, with_new_tests: None }
}

fn edit(repo: &Repo, change: &FileChange) -> Edit {
    let content = change
        .new
        .as_ref()
        .map(|side| FileContent { mode: side.mode, bytes: ByteText::new(repo.blob(&side.oid).unwrap()) });
    Edit { path: change.path.clone(), content }
}

fn failing(before: &Report, id: &str) -> Option<FailingTest> {
    let result = before.tests.get(id)?;
    Some(FailingTest {
        test_id: id.to_owned(),
        transition: Transition::FailToPass,
        exception: result.exception.clone(),
        message: result.message.clone(),
        frames: result.frames.clone(),
    })
}

/// Returns an issue text made of a heading and what the failing tests said.
pub fn issue(task: &Task, heading: &str) -> Issue {
    let message = task.hidden.failing.first().map_or("", |failing| failing.message.as_str());
    Issue {
        instance_id: task.public.instance_id.clone(),
        writer: Writer::Template,
        text: format!("# {heading}\n\nWhat is seen:\n\n{message}\n"),
        findings: Vec::new(),
    }
}
