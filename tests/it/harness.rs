//! Suite runs from end to end: a repository, a sandbox, a real pytest.
//!
//! pytest comes from the package index once, into the directory for test data.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use curate::{
    cache::Cache,
    harness::{self, Request, Subject, series::run_series},
    lab::Lab,
    process::{self, Exit},
    record::{
        environment::{Build, Environment, LayerFile, Recipe, Runner, Toolchain},
        failure::Blame,
        id::Digest,
        patch::Edit,
        suite::{Report, Selection, Status, SuiteOutcome, SuiteRun, TreeState, Variation},
    },
    sandbox::{Limits, preload::Pool, session::Session},
};
use tempfile::TempDir;

use crate::{
    contract_sandbox::{assert_dead, marker},
    support::{backends, require, write},
};

const PYTEST: &str = "pytest==8.3.4";

/// A repository with a package `ws`, an environment with pytest, and a lab.
struct Bench {
    lab: Lab,
    repository: PathBuf,
    base_commit: String,
    build: Build,
    _place: TempDir,
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
        wall: Duration::from_secs(300),
        max_output_bytes: 64 << 10,
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
    static MADE: OnceLock<Option<(PathBuf, Toolchain)>> = OnceLock::new();
    MADE.get_or_init(|| {
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
        let interpreter = Toolchain { language: curate::record::environment::Language::Python, path: path.into(), prefix: prefix.into(), version: version.to_owned() };
        Some((directory, interpreter))
    })
    .clone()
}

/// Sets the bench up, or says why not.
fn bench() -> Option<Bench> {
    let backend = *backends().first()?;
    let environment = pytest_environment();
    if !require("pypi", environment.is_some()) {
        return None;
    }
    let (directory, interpreter) = environment?;
    let place = TempDir::new().unwrap();
    let cache = Cache::at(&place.path().join("cache")).unwrap();
    // The store of environments takes what is there under its key.
    let key = Digest::of(&[PYTEST.as_bytes(), interpreter.version.as_bytes()]);
    symlink(directory, cache.dir("environments").unwrap().join(key.as_str())).unwrap();
    let repository = place.path().join("repository");
    crate::support::plant(
        &repository,
        &[
            ("ws/__init__.py", "present = 1\n"),
            ("ws/mod.py", "value = 2\n\n\ndef f(x=None):\n    return 3\n"),
            ("ws/sub/__init__.py", ""),
            ("tests/__init__.py", ""),
            ("tests/typing_example.py", "def test_never():\n    assert 0\n"),
        ],
    );
    host(&["git", "init", "-q"], &repository).expect("git works");
    let base_commit = commit(&repository);
    let build = Build {
        instance_id: "o__r-1".to_owned(),
        runner: Runner::Pytest,
        environment: Environment { key, toolchain: interpreter, lock: String::new() },
        recipe: Recipe::default(),
        metadata: vec![LayerFile {
            path: "ws-4.5.dist-info/METADATA".into(),
            content: "Metadata-Version: 2.1\nName: ws\nVersion: 4.5\n".into(),
            executable: false,
        }],
        generated: vec![LayerFile {
            path: "ws/_version.py".into(),
            content: "version = '4.5'\n".into(),
            executable: false,
        }],
        import_roots: vec![String::new()],
    };
    let lab = Lab::new(cache, backend, 1);
    Some(Bench { lab, repository, base_commit, build, _place: place })
}

/// Commits all that is there and returns the commit.
fn commit(repository: &Path) -> String {
    let argv = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "base"];
    for argv in [&["git", "add", "-A"][..], &argv] {
        host(argv, repository).expect("git works");
    }
    host(&["git", "rev-parse", "HEAD"], repository).expect("there is a commit")
}

impl Bench {
    fn subject(&self) -> Subject<'_> {
        Subject { repository: &self.repository, base_commit: &self.base_commit, build: &self.build }
    }

    fn request(files: &[Edit], selection: Selection) -> Request<'_> {
        Request {
            state: TreeState::Before,
            edits: files,
            selection,
            variation: Variation::PLAIN,
            with_stubs: false,
            wall: Duration::from_secs(120),
            test_wall: Duration::from_secs(10),
        }
    }

    fn run(&self, request: &Request) -> SuiteRun {
        harness::run_suite(&self.lab, self.subject(), request).unwrap()
    }

    /// Runs everything with some files added.
    fn report(&self, files: &[Edit]) -> Report {
        report(self.run(&Bench::request(files, Selection::All)))
    }
}

fn report(run: SuiteRun) -> Report {
    match run.outcome {
        SuiteOutcome::Ran(report) => report,
        SuiteOutcome::NotRun(failure) => panic!("{failure}"),
    }
}

fn statuses(report: &Report) -> BTreeMap<&str, Status> {
    report.tests.iter().map(|(id, result)| (id.rsplit("test_kinds.py::").next().unwrap_or(id), result.status)).collect()
}

const KINDS: &str = include_str!("../fixtures/harness/kinds.py");

#[test]
fn b033_b039_b046_every_kind_of_test_gets_its_own_status() {
    use Status::{Error, Failed, Passed, Skipped, TimedOut, Xfailed, Xpassed};
    let Some(bench) = bench() else { return };
    // Options that change the printed report, ask for a plugin that is not there, and run things that are no tests.
    let settings = "[tool:pytest]\naddopts = -q -q --no-summary --color=yes -n 2 --cov=ws --doctest-modules -x\n";
    let files = [write("tests/test_kinds.py", KINDS), write("setup.cfg", settings)];
    let mut request = Bench::request(&files, Selection::All);
    request.test_wall = Duration::from_secs(2);
    let run = bench.run(&request);
    assert!(run.wall_ms > 3_000 && run.output_tail.len() <= 4_000);
    let report = report(run);
    assert!(report.complete && report.collection_errors.is_empty());
    let expected = [
        ("test_pass", Passed),
        ("test_fail", Failed),
        ("test_value_error", Failed),
        ("test_skip", Skipped),
        ("test_xfail", Xfailed),
        ("test_xpass", Xpassed),
        ("test_xpass_strict", Failed),
        ("test_xfail_norun", Xfailed),
        ("test_xfail_imperative", Xfailed),
        ("test_setup_error", Error),
        ("test_teardown_error", Error),
        ("test_param[a b]", Passed),
        ("test_param[x]y]", Failed),
        ("test_param[::colon]", Passed),
        ("test_param[]", Passed),
        ("test_param[Unit 'deg' - FAILED at x]", Passed),
        ("test_param[\\xe9\\n]", Passed),
        ("test_prints", Passed),
        ("test_hang", TimedOut),
        ("test_hang_swallow", TimedOut),
        ("test_fork", Passed),
        ("test_exit", Failed),
        ("TestU::test_ok", Passed),
        ("TestU::test_sub", Failed),
        ("TestU::test_bad", Failed),
        ("TestU::test_err", Failed),
        ("TestU::test_xf", Xfailed),
        ("TestU::test_xp", Failed),
        ("TestU::test_sk", Skipped),
        ("TestU::test_sk2", Skipped),
        ("TestErr::test_a", Error),
        ("TestErr::test_b", Error),
        ("test_last", Passed),
    ];
    assert_eq!(statuses(&report), BTreeMap::from(expected));

    let result = |name: &str| &report.tests[&format!("tests/test_kinds.py::{name}")];
    assert_eq!(result("test_value_error").exception.as_deref(), Some("ValueError"));
    assert!(result("test_value_error").message.starts_with("line one\nPASSED tests/test_kinds.py::test_fail\n"));
    let fail = result("test_fail");
    assert!(fail.message.contains("[1, 2] == [1, 3]"), "{}", fail.message);
    let frame = fail.frames.last().unwrap();
    assert_eq!((frame.path.as_str(), frame.function.as_str()), ("tests/test_kinds.py", "test_fail"));
    assert!(result("test_pass").message.is_empty() && result("test_pass").exception.is_none());

    // Every id selects itself again, alone.
    let again = ["TestU::test_ok", "test_param[::colon]", "test_param[\\xe9\\n]", "test_param[]"];
    let ids: Vec<String> = again.iter().map(|name| format!("tests/test_kinds.py::{name}")).collect();
    let report = self::report(bench.run(&Bench::request(&files, Selection::Tests(ids.clone()))));
    assert!(report.complete);
    assert_eq!(
        report.tests.keys().collect::<Vec<_>>(),
        ids.iter().collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    );
}

#[test]
fn tests_that_run_alone_see_nothing_of_one_another() {
    use Status::{Crashed, Failed, Passed};
    let Some(mut bench) = bench() else { return };
    let text = "import os, unittest\nseen = []\nclass T(unittest.TestCase):\n    def test_1(self): seen.append(1)\n    \
                def test_2(self): assert not seen; seen.append(2)\n    def test_3(self): os._exit(0)\n    \
                def test_4(self): assert seen == []\n    def test_5(self): assert seen, 'nothing before me'\n";
    let files = [write("tests/__init__.py", ""), write("tests/test_alone.py", text)];
    for (runner, prefix) in [(Runner::Pytest, "tests/test_alone.py::T::"), (Runner::Unittest, "tests.test_alone.T.")] {
        let ids: Vec<String> = (1..=5).map(|n| format!("{prefix}test_{n}")).collect();
        bench.build.runner = runner;
        let together = self::report(bench.run(&Bench::request(&files, Selection::Tests(ids.clone()))));
        assert_eq!(together.status(&ids[1]), Some(Failed));
        let alone = self::report(bench.run(&Bench::request(&files, Selection::Alone(ids.clone()))));
        let statuses: Vec<Status> = ids.iter().map(|id| alone.status(id).unwrap()).collect();
        assert_eq!(statuses, [Passed, Passed, Crashed, Passed, Failed], "{runner:?}");
        assert!(alone.tests[&ids[4]].message.contains("nothing before me"));
    }
}

#[test]
fn b043_a_process_that_dies_takes_only_the_rest_with_it() {
    let Some(bench) = bench() else { return };
    let three = |body: &str| {
        let text =
            format!("import os, signal, time\ndef test_1(): pass\ndef test_2():\n    {body}\ndef test_3(): pass\n");
        let files = [write("tests/test_three.py", text)];
        let mut request = Bench::request(&files, Selection::All);
        request.test_wall = Duration::from_secs(1);
        let report = report(bench.run(&request));
        assert!(!report.complete, "{body}");
        let status = |name: &str| report.status(&format!("tests/test_three.py::{name}"));
        assert_eq!((status("test_1"), status("test_3")), (Some(Status::Passed), Some(Status::NotRun)), "{body}");
        status("test_2").unwrap()
    };
    assert_eq!(three("os.kill(os.getpid(), 11)"), Status::Crashed);
    assert_eq!(three("os._exit(0)"), Status::Crashed);
    // Stuck where no Python handler runs
    assert_eq!(three("signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM}); time.sleep(999)"), Status::TimedOut);
    // pytest itself cannot go on; what was known is kept
    assert_eq!(three("os.closerange(0, 21)"), Status::Crashed);
}

#[test]
fn b054_the_limit_of_the_whole_process_marks_the_running_test() {
    use Status::{NotRun, Passed, TimedOut};
    let Some(bench) = bench() else { return };
    let marker = marker();
    let text = format!(
        "import subprocess\ndef test_1(): pass\ndef test_2():\n    \
         subprocess.call(['sh', '-c', 'sleep 10000; true', '{marker}'], start_new_session=True)\n\
         def test_3(): pass\ndef test_4(): pass\ndef test_5(): pass\n"
    );
    let files = [write("tests/test_t.py", text)];
    let mut request = Bench::request(&files, Selection::All);
    request.wall = Duration::from_secs(4);
    request.test_wall = Duration::from_secs(60);
    let report = report(bench.run(&request));
    let statuses: Vec<Status> = report.tests.values().map(|result| result.status).collect();
    assert_eq!(statuses, [Passed, TimedOut, NotRun, NotRun, NotRun]);
    assert!(!report.complete);
    assert_dead(&marker, Duration::from_secs(2));
}

#[test]
fn b040_a_file_that_cannot_be_imported_costs_only_its_own_tests() {
    let Some(bench) = bench() else { return };
    let report = bench.report(&[
        write("tests/test_new.py", "from ws import only_after_the_fix\ndef test_new(): pass\n"),
        write("tests/test_old.py", "def test_1(): pass\ndef test_2(): pass\ndef test_3(): pass\n"),
        write("tests/test_syntax.py", "def test_(: pass\n"),
        write("tests/test_hang.py", "import time\ntime.sleep(999)\n"),
    ]);
    assert!(report.complete);
    assert_eq!(report.tests.len(), 3);
    assert!(report.tests.values().all(|result| result.status == Status::Passed));
    let error = |file: &str| &report.collection_errors[&format!("tests/{file}")];
    assert_eq!(error("test_new.py").exception.as_deref(), Some("ImportError"));
    assert_eq!(error("test_new.py").frames[0].line, 1);
    assert_eq!(error("test_syntax.py").exception.as_deref(), Some("SyntaxError"));
    assert_eq!(error("test_hang.py").exception.as_deref(), Some("Timeout"));
    assert_eq!(report.collection_errors.len(), 3);
}

#[test]
fn reports_that_a_conftest_rewrites_do_not_count() {
    use Status::{Error, Failed, NotRun, Passed, Skipped};
    let Some(bench) = bench() else { return };
    let report = bench.report(&[
        write("conftest.py", include_str!("../fixtures/harness/forging_conftest.py")),
        write("tests/test_forged.py", include_str!("../fixtures/harness/forged.py")),
    ]);
    let expected = [
        ("test_ok", Passed),
        ("test_bad", Failed),
        ("test_bs", Error),
        ("TestU::test_u", Failed),
        ("test_protocol", Error),
        ("test_silent", NotRun),
        ("test_skip", Skipped),
        ("test_last", Passed),
    ];
    let expected: BTreeMap<String, Status> =
        expected.iter().map(|(name, status)| (format!("tests/test_forged.py::{name}"), *status)).collect();
    let seen: BTreeMap<String, Status> = report.tests.into_iter().map(|(id, result)| (id, result.status)).collect();
    assert_eq!(seen, expected);
    assert!(!report.complete);
}

#[test]
fn lines_that_a_test_writes_into_the_results_do_not_count() {
    let Some(bench) = bench() else { return };
    let text = r#"
import glob, os
def test_1():
    for path in glob.glob("/results/*"):
        known = open(path, "rb").read().strip().split(b"\n")
        with open(path, "ab") as results:
            results.write(b'half a line')
            results.write(b'\n900 ' + b'0' * 32 + b' {"kind":"result","id":"tests/test_t.py::test_2","outcome":"passed","when":"call"}\n')
            results.write(b"\n".join(known) + b"\n")
def test_2():
    assert 0
def test_3():
    assert len(os.listdir("/results")) == 1
    for name in os.listdir("/results"):
        os.unlink("/results/" + name)
def test_4(): pass
"#;
    let report = bench.report(&[write("tests/test_t.py", text)]);
    let statuses: Vec<Status> = report.tests.values().map(|result| result.status).collect();
    assert_eq!(statuses, [Status::Passed, Status::Failed, Status::Passed, Status::Passed]);
    assert!(report.complete);
}

#[test]
fn doctests_run_where_the_repository_says_so() {
    let Some(bench) = bench() else { return };
    let code = "def good():\n    \"\"\"\n    >>> good()\n    1\n    \"\"\"\n    return 1\n\n\n\
                def bad():\n    \"\"\"\n    >>> bad()\n    2\n    \"\"\"\n    return 1\n";
    let files = [write("ws/doc.py", code), write("tests/test_t.py", "def test_t(): pass\n")];
    let report = bench.report(&files);
    assert_eq!(report.tests.keys().collect::<Vec<_>>(), ["tests/test_t.py::test_t"]);
    // A plugin that is not installed is done without.
    let settings = write("pytest.ini", "[pytest]\naddopts = --doctest-modules -p pytest_cov --cov\n");
    let report = bench.report(&[&files[..], &[settings]].concat());
    let statuses: Vec<_> = report.tests.iter().map(|(id, result)| (id.as_str(), result.status)).collect();
    let expected = [
        ("tests/test_t.py::test_t", Status::Passed),
        ("ws/doc.py::ws.doc.bad", Status::Failed),
        ("ws/doc.py::ws.doc.good", Status::Passed),
    ];
    assert_eq!(statuses, expected);
}

#[test]
fn code_that_keeps_tests_from_running_is_noticed_by_a_test_that_must_fail() {
    let Some(mut bench) = bench() else { return };
    let by_name = "import sys\nmodule = getattr(sys, 'mod' + 'ules').get('_pyt' + 'est.python')\n\
                   if module:\n    module.Function.runtest = lambda self: None\n";
    let by_search = "def change(kind):\n    for each in type.__subclasses__(kind):\n        change(each)\n        \
                     if each.__name__ in ('Function', 'TestCaseFunction'):\n            \
                     each.runtest = lambda self: None\nchange(object)\n";
    let case = "import unittest\nunittest.TestCase.run = lambda self, result: result.addSuccess(self)\n";
    let function = write("tests/test_t.py", "import ws.mod\n\n\ndef test_t():\n    assert 0\n");
    let method = "import ws.mod, unittest\n\n\nclass T(unittest.TestCase):\n    def test_t(self):\n        assert 0\n";
    let method = write("tests/test_u.py", method);
    for (code, test, noticed) in [
        (by_name, &function, true),
        (by_search, &function, true),
        (by_search, &method, true),
        (case, &method, true),
        ("", &function, false),
        ("", &method, false),
    ] {
        let report = bench.report(&[write("ws/mod.py", code), test.clone()]);
        let files: &[String] = if noticed { &[test.path.escaped()] } else { &[] };
        assert_eq!(report.passed_decoys, files, "{code}");
        // Of ours nothing else is seen.
        assert!(report.complete && report.tests.len() == 1, "{report:?}");
    }
    bench.build.runner = Runner::Unittest;
    let report = bench.report(&[write("ws/mod.py", case), method.clone()]);
    assert_eq!(report.passed_decoys, ["."]);
    assert_eq!(bench.report(&[method]).passed_decoys, Vec::<String>::new());
}

#[test]
fn compiled_modules_are_shared_by_content_and_leave_no_trace_in_the_tree() {
    let Some(mut bench) = bench() else { return };
    crate::support::plant(
        &bench.repository,
        &[("tests/test_base.py", "import ws.mod\n\n\ndef test_base():\n    pass\n")],
    );
    bench.base_commit = commit(&bench.repository);
    // Of one length: only the times tell them apart.
    let test = "import glob, sys, ws.mod\n\n\ndef test_value():\n    assert ws.mod.value == 3\n\n\n\
                def test_place():\n    assert not glob.glob('**/__pycache__', recursive=True)\n    \
                assert ws.mod.__cached__.startswith('/opt/bytecode/testbed/ws/__pycache__/')\n    \
                assert ws.__cached__.startswith('/opt/bytecode') and sys.dont_write_bytecode\n";
    let of = |value: u32| write("ws/mod.py", format!("value = {value}\n\n\ndef f(x=None):\n    return 3\n"));
    for (value, status) in [(2, Status::Failed), (3, Status::Passed), (4, Status::Failed), (3, Status::Passed)] {
        let report = bench.report(&[write("tests/test_cached.py", test), of(value)]);
        assert_eq!(report.status("tests/test_cached.py::test_value"), Some(status), "{value}");
        assert_eq!(report.status("tests/test_cached.py::test_place"), Some(Status::Passed), "{report:?}");
    }
    let kept = bench.lab.cache.kept().unwrap();
    let shared: Vec<_> = kept.iter().filter(|kept| kept.kind == "bytecode").collect();
    let [shared] = shared[..] else { panic!("{kept:?}") };
    let compiled = fs::read_dir(shared.path.join("testbed/ws/__pycache__")).unwrap().flatten();
    let names: Vec<String> = compiled.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert!(names.iter().any(|name| name.starts_with("mod.")), "{names:?}");
    assert!(fs::read_dir(shared.path.join("testbed/tests/__pycache__")).unwrap().flatten().any(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with("test_base.") && name.contains("pytest")
    }));
}

#[test]
fn a_series_shows_each_member_as_it_is_and_no_other() {
    let Some(bench) = bench() else { return };
    let test = "import os\nfrom ws.mod import f\n\n\ndef test_f():\n    assert f() == 3\n\n\n\
                def test_alone():\n    assert not os.path.exists(os.environ['TMPDIR'] + '/left')\n    \
                open(os.environ['TMPDIR'] + '/left', 'w').close()\n";
    let files = [write("tests/test_mod.py", test)];
    let mut request = Bench::request(&files, Selection::Files(vec!["tests/test_mod.py".to_owned()]));
    request.test_wall = Duration::from_secs(2);
    // Of the same length, so that stale bytecode would show.
    let of = |body: &str| write("ws/mod.py", format!("value = 2\n\n\ndef f(x=None):\n    {body}\n"));
    let (wrong, other, endless) = (of("return 4"), of("return 5"), of("while True: pass"));
    let gone = Edit { path: "ws/mod.py".into(), content: None };
    let members = [None, Some(&wrong), Some(&endless), Some(&gone), Some(&other), None];
    let series = run_series(&bench.lab, bench.subject(), &request, &members, Duration::from_secs(60)).unwrap();
    let seen: Vec<_> = series
        .outcomes
        .iter()
        .map(|outcome| match outcome {
            Some(SuiteOutcome::Ran(report)) => {
                let status = |name| report.status(&format!("tests/test_mod.py::{name}"));
                (status("test_f"), status("test_alone"), report.collection_errors.len())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let passed = Some(Status::Passed);
    let expected = [
        (passed, passed, 0),
        (Some(Status::Failed), passed, 0),
        (Some(Status::TimedOut), passed, 0),
        (None, None, 1),
        (Some(Status::Failed), passed, 0),
        (passed, passed, 0),
    ];
    assert_eq!(seen, expected);
    // Without time only the last is run.
    let series = run_series(&bench.lab, bench.subject(), &request, &members, Duration::ZERO).unwrap();
    let ran: Vec<bool> = series.outcomes.iter().map(Option::is_some).collect();
    assert_eq!(ran, [false, false, false, false, false, true]);
}

#[test]
fn a_tree_that_holds_the_runner_is_run_in_no_series() {
    let Some(bench) = bench() else { return };
    let files = [write("tests/test_t.py", "def test_t(): pass\n"), write("iniconfig.py", "from sys import *\n")];
    let request = Bench::request(&files, Selection::All);
    let series = run_series(&bench.lab, bench.subject(), &request, &[None, None], Duration::from_secs(9)).unwrap();
    assert_eq!(series.outcomes, [None, None]);
}

#[test]
fn b046_a_runner_that_does_not_start_is_not_a_suite_of_failed_tests() {
    let Some(bench) = bench() else { return };
    for (path, text) in [
        ("conftest.py", "import nowhere\n"),
        ("pytest.ini", "[pytest]\nrequired_plugins = pytest-nowhere\n"),
        ("conftest.py", "def pytest_collection_modifyitems(): 1 / 0\n"),
        ("conftest.py", "import os\nos._exit(0)\n"),
    ] {
        let files = [write("tests/test_t.py", "def test_t(): pass\n"), write(path, text)];
        let run = bench.run(&Bench::request(&files, Selection::All));
        let SuiteOutcome::NotRun(failure) = &run.outcome else { panic!("{text}: {run:?}") };
        assert_eq!((failure.kind.as_str(), failure.blame), ("runner_failed", Blame::Repo), "{text}");
    }
    // Tests are seen although the repository looks for them elsewhere and prints to nowhere.
    let nowhere = "import os\nnowhere = os.open(os.devnull, os.O_WRONLY)\nos.dup2(nowhere, 1)\nos.dup2(nowhere, 2)\n";
    let report = bench.report(&[
        write("pytest.ini", "[pytest]\ntestpaths = nowhere\n"),
        write("conftest.py", nowhere),
        write("tests/test_t.py", "def test_t(): pass\ndef test_u(): assert 0\n"),
    ]);
    let statuses: Vec<Status> = report.tests.values().map(|result| result.status).collect();
    assert_eq!(statuses, [Status::Passed, Status::Failed]);
    assert!(report.complete);
    // No tests at all is a result, though.
    let empty = bench.report(&[]);
    assert!(empty.complete && empty.tests.is_empty());
}

#[test]
fn listed_files_count_as_in_a_run_of_their_directory() {
    let Some(bench) = bench() else { return };
    let files = [
        write("tests/test_a.py", "def test_a(): pass\n"),
        write("tests/test_b.py", "def test_b(): pass\n"),
        write("tests/sub dir/test_c.py", "def test_c(): pass\n"),
        write("ws/sub/tests.py", "def test_d(): pass\n"),
    ];
    let listed =
        ["tests/test_a.py", "tests/typing_example.py", "tests/gone.py", "tests/sub dir/test_c.py", "ws/sub/tests.py"];
    let selection = Selection::Files(listed.map(str::to_owned).to_vec());
    let report = self::report(bench.run(&Bench::request(&files, selection)));
    assert_eq!(
        report.tests.keys().collect::<Vec<_>>(),
        ["tests/sub dir/test_c.py::test_c", "tests/test_a.py::test_a", "ws/sub/tests.py::test_d"]
    );
    assert!(report.complete);
    for selection in [Selection::Files(vec!["gone.py".to_owned()]), Selection::Tests(vec!["gone.py::t".to_owned()])] {
        let report = self::report(bench.run(&Bench::request(&files, selection)));
        assert!(report.tests.is_empty() && report.complete);
    }
}

#[test]
fn a_seed_shuffles_files_and_tests_but_keeps_classes_together() {
    let Some(bench) = bench() else { return };
    // Every test fails with the order so far as its message.
    let file = "import ws\nseen = ws.__dict__.setdefault('seen', [])\n\
                def note(name):\n    seen.append(name)\n    assert 0, ' '.join(seen)\n";
    let body = |letter: char| {
        format!(
            "{file}def test_1(): note('{letter}1')\ndef test_2(): note('{letter}2')\n\
             class TestC:\n    def test_3(self): note('{letter}c3')\n    def test_4(self): note('{letter}c4')\n    \
             def test_5(self): note('{letter}c5')\ndef test_6(): note('{letter}6')\n"
        )
    };
    let files = [write("tests/test_a.py", body('a')), write("tests/test_b.py", body('b'))];
    let order = |seed: Option<u64>| {
        let mut request = Bench::request(&files, Selection::All);
        request.variation.order_seed = seed;
        let report = report(bench.run(&request));
        assert_eq!(report.tests.len(), 12);
        let longest = report.tests.values().map(|result| result.message.lines().next().unwrap_or("").to_owned());
        longest.max_by_key(String::len).unwrap().replace("AssertionError: ", "")
    };
    let plain = order(None);
    assert_eq!(plain, "a1 a2 ac3 ac4 ac5 a6 b1 b2 bc3 bc4 bc5 b6");
    let orders: Vec<String> = (1..5).map(|seed| order(Some(seed))).collect();
    assert_eq!(order(Some(1)), orders[0]);
    assert!(orders.iter().any(|order| order.starts_with('b')) && orders.iter().all(|order| *order != plain));
    for order in &orders {
        let classes: Vec<bool> = order.split(' ').map(|name| name.contains('c')).collect();
        let files: Vec<char> = order.split(' ').map(|name| name.chars().next().unwrap()).collect();
        assert_eq!(files.windows(2).filter(|pair| pair[0] != pair[1]).count(), 1, "{order}");
        assert!(classes.windows(2).filter(|pair| pair[0] != pair[1]).count() <= 4, "{order}");
    }
}

#[test]
fn the_environment_is_the_same_everywhere_and_varies_as_told() {
    let Some(bench) = bench() else { return };
    let text = "import importlib.metadata, os, sys, tempfile, time\n\
                def test_metadata(): assert importlib.metadata.version('ws') == '4.5'\n\
                def test_generated():\n    from ws._version import version\n    assert version == '4.5'\n\
                def test_tree_first():\n    import ws\n    assert ws.__file__ == '/testbed/ws/__init__.py'\n\
                def test_zone(): assert time.strftime('%Z') == 'UTC'\n\
                def test_encoding(): assert sys.getfilesystemencoding() == 'utf-8'\n\
                def test_quiet():\n    assert not {'CI', 'PYTEST_ADDOPTS', 'CURATE_CACHE_DIR'} & set(os.environ)\n\
                def test_user(): assert os.getuid() != 0\n\
                def test_no_bytecode(): assert not os.path.exists('/testbed/ws/__pycache__')\n\
                def test_varied():\n    assert os.environ['PYTHONHASHSEED'] == '7'\n    \
                assert tempfile.gettempdir() == '/tmp/t3' and os.path.isdir('/tmp/t3')\n";
    let files = [write("tests/test_t.py", text)];
    let mut request = Bench::request(&files, Selection::All);
    request.variation = Variation { hash_seed: 7, temp: 3, ..Variation::PLAIN };
    let report = report(bench.run(&request));
    let failed: Vec<_> = report.tests.iter().filter(|(_, result)| result.status != Status::Passed).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(report.tests.len(), 9);
}

/// Tests that fail with what they see of their process.
const SEEN: &str = "\
import ctypes, logging, os, resource, signal, socket, subprocess, sys, threading, time
def tell(*values): raise AssertionError(repr(values))
def status(*names): return [line for line in open('/proc/self/status') if line.split(':')[0] in names]
def test_rights(): tell(status('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Uid', 'Gid', 'Groups'))
def test_namespaces(): tell(os.listdir('/'), sorted(os.listdir('/proc/self/fd')), socket.if_nameindex(), socket.gethostname())
def test_limits(): tell([resource.getrlimit(kind) for kind in range(16)], os.umask(0), os.nice(0))
def test_place(): tell(os.getcwd(), sys.argv, sys.path, sys.prefix, sys.flags, getattr(sys, 'orig_argv', '')[:2])
def test_variables(): tell(sorted(os.environ.items()), time.tzname)
def test_first_modules(): tell(' '.join(sorted(sys.modules)[:140]))
def test_last_modules(): tell(' '.join(sorted(sys.modules)[140:]))
def test_addresses(): tell(open('/proc/self/personality').read(), subprocess.check_output(
    [sys.executable, '-c', 'print(id(object()))']))
def test_numbers(): tell(threading.main_thread().native_id == os.getpid() == threading.get_native_id())
def test_clock():
    began = int(open('/proc/%d/stat' % os.getppid()).read().rsplit(')', 1)[1].split()[19]) / os.sysconf('SC_CLK_TCK')
    age = float(open('/proc/uptime').read().split()[0]) - began
    tell(logging.makeLogRecord({}).relativeCreated / 1000 < age + 0.1)
def test_signals(): tell([signal.getsignal(n) for n in range(1, 32) if n not in (9, 14, 19)], status('SigBlk', 'SigIgn'))
def test_streams(): tell(sys.stdin.encoding, sys.stdout.errors, [os.fstat(n).st_mode for n in range(3)])
";

fn messages(report: &Report) -> BTreeMap<&str, &str> {
    report.tests.iter().map(|(id, result)| (id.as_str(), result.message.as_str())).collect()
}

#[test]
fn a_fork_of_a_preloaded_runner_is_like_one_that_was_started() {
    let Some(mut bench) = bench() else { return };
    let files = [
        write("tests/test_seen.py", SEEN),
        write(
            "tests/test_fork.py",
            "import random\ndef test_started(): assert '--preload' not in open('/proc/self/cmdline').read()\n\
             def test_random(): assert not random.random()\ndef test_address(): assert not id(random)\n",
        ),
    ];
    let mut request = Bench::request(&files, Selection::All);
    request.variation = Variation { other_zone: true, temp: 2, ..Variation::PLAIN };
    let reports = [report(bench.run(&request)), report(bench.run(&request))];
    bench.lab.preloaded = Pool::off();
    let cold = report(bench.run(&request));
    let failed = |report: &Report, id| report.tests[&format!("tests/test_fork.py::{id}")].status == Status::Failed;
    assert!(
        failed(&reports[0], "test_started") && failed(&reports[1], "test_started") && !failed(&cold, "test_started")
    );
    let seen = |report: &Report| {
        let of_this = |(id, _): &(&str, &str)| id.contains("test_seen");
        messages(report).into_iter().filter(of_this).map(|(id, text)| (id.to_owned(), text.to_owned())).collect()
    };
    let [first, second, cold_seen]: [BTreeMap<String, String>; 3] = [seen(&reports[0]), seen(&reports[1]), seen(&cold)];
    assert_eq!(first.len(), 12);
    assert_eq!(first, second);
    assert_eq!(first, cold_seen);
    let told = |report: &Report, id| report.tests[&format!("tests/test_fork.py::{id}")].message.clone();
    assert_ne!(told(&reports[0], "test_random"), told(&reports[1], "test_random"));
    assert_eq!(told(&reports[0], "test_address"), told(&reports[1], "test_address"));
}

#[test]
fn a_tree_with_modules_of_the_runner_or_of_its_start_starts_from_nothing() {
    let Some(bench) = bench() else { return };
    let told = "def test_own():\n    import iniconfig\n    assert iniconfig.__file__.startswith('/testbed')\n    \
                import os\n    assert '--preload' not in open('/proc/self/cmdline').read()\n";
    let own = "from pathlib import Path\nimport importlib.util, sys\nplaces = Path(sys.prefix).glob('lib/python*/site-packages')\n\
               path = next(places) / 'iniconfig' / '__init__.py'\nsource = path.read_text()\n\
               __path__ = [str(path.parent)]\nexec(compile(source, __file__, 'exec'))\n";
    let report = bench.report(&[write("tests/test_t.py", told), write("iniconfig/__init__.py", own)]);
    assert_eq!(report.status("tests/test_t.py::test_own"), Some(Status::Passed), "{report:?}");

    let told = "import sys\ndef test_first(): assert sys.is_first\n";
    let own = "import sys\nsys.is_first = '_pytest' not in sys.modules\n";
    let report = bench.report(&[write("tests/test_t.py", told), write("sitecustomize.py", own)]);
    assert_eq!(report.status("tests/test_t.py::test_first"), Some(Status::Passed), "{report:?}");
}

#[test]
fn names_that_do_not_exist_yet_are_stood_in_for() {
    let Some(bench) = bench() else { return };
    let files = [write("tests/test_stub.py", include_str!("../fixtures/harness/stubs.py"))];
    let mut request = Bench::request(&files, Selection::All);
    let without = report(bench.run(&request));
    assert!(without.tests.is_empty() && without.collection_errors.len() == 1);

    request.with_stubs = true;
    let report = report(bench.run(&request));
    assert!(report.complete && report.collection_errors.is_empty());
    let passed: Vec<&str> = statuses(&report)
        .into_iter()
        .filter(|(_, status)| *status == Status::Passed)
        .map(|(id, _)| id.rsplit("::").next().unwrap())
        .collect();
    assert_eq!(passed, ["test_hidden", "test_old", "test_param[int]", "test_view"]);
    let others = report.tests.values().filter(|result| result.status != Status::Passed);
    for result in others {
        assert_eq!((result.status, result.exception.as_deref()), (Status::Failed, Some("Stub")), "{result:?}");
    }
    assert!(report.tests.contains_key("tests/test_stub.py::test_param[NewThing]"));
    let mut stubs = report.stubs.clone();
    stubs.sort();
    assert_eq!(stubs, ["ws.brandnew", "ws.missing", "ws.mod.NewThing", "ws.newmod.X", "ws.sub.deep.Y", "ws.sub.other"]);
}

#[test]
fn unittest_suites_report_like_pytest_ones() {
    use Status::{Error, Failed, Passed, Skipped, TimedOut, Xfailed};
    let Some(mut bench) = bench() else { return };
    bench.build.runner = Runner::Unittest;
    let files = [
        write("tests/test_mod.py", include_str!("../fixtures/harness/unittest_kinds.py")),
        write("tests/test_broken.py", "import nowhere\n"),
        write("tests/sub/__init__.py", ""),
        write(
            "tests/sub/test_set.py",
            "import unittest\ndef setUpModule(): 1 / 0\nclass B(unittest.TestCase):\n    def test_a(self): pass\n",
        ),
    ];
    let mut request = Bench::request(&files, Selection::All);
    request.test_wall = Duration::from_secs(1);
    let report = report(bench.run(&request));
    assert!(report.complete);
    assert_eq!(report.collection_errors.keys().collect::<Vec<_>>(), ["tests/test_broken.py"]);
    let expected = [
        ("tests.sub.test_set.B.test_a", Error),
        ("tests.test_mod.A.test_bad", Failed),
        ("tests.test_mod.A.test_err", Failed),
        ("tests.test_mod.A.test_hang", TimedOut),
        ("tests.test_mod.A.test_hang_swallow", TimedOut),
        ("tests.test_mod.A.test_ok", Passed),
        ("tests.test_mod.A.test_sk", Skipped),
        ("tests.test_mod.A.test_sub", Failed),
        ("tests.test_mod.A.test_xf", Xfailed),
        ("tests.test_mod.A.test_xp", Failed),
        ("tests.test_mod.Async.test_a", Failed),
        ("tests.test_mod.ClassDown.test_a", Error),
        ("tests.test_mod.ClassErr.test_a", Error),
        ("tests.test_mod.ClassErr.test_b", Error),
        ("tests.test_mod.ClassSkip.test_a", Skipped),
        ("tests.test_mod.CleanupErr.test_a", Error),
        ("tests.test_mod.SetupErr.test_a", Error),
        ("tests.test_mod.Skipped.test_a", Skipped),
        ("tests.test_mod.TeardownErr.test_a", Error),
    ];
    assert_eq!(statuses(&report), BTreeMap::from(expected));
    let ids = vec!["tests.test_mod.A.test_ok".to_owned()];
    let report = self::report(bench.run(&Bench::request(&files, Selection::Tests(ids.clone()))));
    assert_eq!(report.tests.into_keys().collect::<Vec<_>>(), ids);
}

#[test]
fn visible_tests_run_in_an_open_session() {
    let Some(bench) = bench() else { return };
    let files = [write(
        "tests/test_t.py",
        "import ws\ndef test_1(): assert ws.present == 1\ndef test_2(): assert ws.present == 2\n",
    )];
    let workspace = harness::workspace(&bench.lab, bench.subject(), &files).unwrap();
    let surroundings = harness::surroundings(&bench.lab, bench.subject()).unwrap();
    let spec = surroundings.spec(&workspace, Limits::default());
    let mut session = Session::open(bench.lab.backend, &spec).unwrap();
    let mut run = |selection: Selection| {
        let wall = Duration::from_secs(60);
        harness::run_in_session(&mut session, &surroundings, &bench.build, &selection, wall).unwrap()
    };
    let statuses = |run: SuiteRun| report(run).tests.values().map(|result| result.status).collect::<Vec<_>>();
    assert_eq!(statuses(run(Selection::All)), [Status::Passed, Status::Failed]);
    assert_eq!(statuses(run(Selection::Files(vec!["tests".to_owned()]))), [Status::Passed, Status::Failed]);
    assert_eq!(statuses(run(Selection::Tests(vec!["tests/test_t.py::test_2".to_owned()]))), [Status::Failed]);

    // A change within the same second, of the same size, is seen.
    session.exec("sed -i 's/present = 1/present = 2/' ws/__init__.py", Duration::from_secs(10)).unwrap();
    let wall = Duration::from_secs(60);
    let run = harness::run_in_session(&mut session, &surroundings, &bench.build, &Selection::All, wall).unwrap();
    assert_eq!(statuses(run), [Status::Failed, Status::Passed]);
    let command = format!("{} -q tests", harness::visible_command(Runner::Pytest));
    let typed = session.exec(&command, wall).unwrap();
    assert!(typed.stdout.text().contains("1 failed, 1 passed"), "{}", typed.stdout.text());
}
