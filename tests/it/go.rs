//! Go from end to end: environments, the driver, and mining, with the Go of this machine.
//!
//! Modules come from a proxy made of files, so that nothing depends on the network.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use curate::{
    build,
    cache::Cache,
    config, environments,
    harness::{self, Request, Subject},
    history,
    lab::Lab,
    process,
    record::{
        environment::{Build, Language},
        patch::Edit,
        suite::{Report, Selection, Status, SuiteOutcome, TreeState, Variation},
    },
};

use crate::support::{backends, candidate, output, plant, require, spawn, write};

const CORE: &str = "package demo\n\nfunc Add(a, b int) int { return a + b }\n\nfunc At(i int) int {\n\tvar list []int\n\treturn list[i]\n}\n";
const KINDS: &str = include_str!("../fixtures/go/kinds_test.go");

/// A repository of one commit, its environment, and a lab.
struct Bench {
    lab: Lab,
    repository: PathBuf,
    commit: String,
    build: Build,
    _place: tempfile::TempDir,
}

fn bench(files: &[(&str, &str)]) -> Option<Bench> {
    let backend = backends().into_iter().next()?;
    let found = environments::go::toolchain().map_err(|failure| eprintln!("{failure}"));
    if !require("go", found.is_ok()) {
        return None;
    }
    let cache = Cache::at(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-cache")).unwrap();
    let lab = Lab::new(cache, backend, 1);
    let place = tempfile::tempdir().unwrap();
    let (repository, ids) = repository(place.path(), &[("base", files)]);
    let commit = ids[0].clone();
    let candidate = candidate(&repository, Language::Go, &commit, &commit);
    let build = build::build(&lab, &repository, &candidate, None, &config::Build::default()).unwrap().unwrap();
    Some(Bench { lab, repository, commit, build, _place: place })
}

/// Makes a bare repository of commits, a day apart from 2024-06-01 on; returns their ids.
fn repository(place: &Path, commits: &[(&str, &[(&str, &str)])]) -> (PathBuf, Vec<String>) {
    let text = place.join("text");
    let mut steps = String::new();
    for (day, (id, files)) in commits.iter().enumerate() {
        steps += &format!("[[commit]]\nid = '{id}'\nmessage = 'Fix {id}'\ndate = '2024-06-0{}T12:00:00Z'\n", day + 1);
        plant(&text.join(id), files);
    }
    plant(&text, &[("history.toml", steps.as_str())]);
    let target = place.join("repository");
    fs::create_dir(&target).unwrap();
    let ids = history::rebuild(&text, &target).unwrap();
    (target, commits.iter().map(|(id, _)| ids[*id].clone()).collect())
}

impl Bench {
    fn run(&self, edits: &[Edit], selection: Selection, order_seed: Option<u64>) -> Report {
        let subject = Subject { repository: &self.repository, base_commit: &self.commit, build: &self.build };
        let request = Request {
            state: TreeState::Before,
            edits,
            selection,
            variation: Variation { order_seed, ..Variation::PLAIN },
            with_stubs: false,
            wall: Duration::from_secs(240),
            test_wall: Duration::from_secs(2),
        };
        match harness::run_suite(&self.lab, subject, &request).unwrap().outcome {
            SuiteOutcome::Ran(report) => report,
            SuiteOutcome::NotRun(failure) => panic!("{failure}"),
        }
    }
}

fn statuses(report: &Report) -> BTreeMap<&str, Status> {
    report.tests.iter().map(|(id, result)| (id.rsplit("::").next().unwrap(), result.status)).collect()
}

fn tests(ids: &[&str]) -> Selection {
    Selection::Tests(ids.iter().map(|id| format!("example.com/demo::{id}")).collect())
}

#[test]
fn every_kind_of_test_gets_its_own_status() {
    use Status::{Crashed, Failed, Passed, Skipped, TimedOut};
    let Some(bench) = bench(&[("go.mod", "module example.com/demo\n\ngo 1.18\n"), ("demo.go", CORE)]) else { return };
    let edits = [write("kinds_test.go", KINDS)];
    let report = bench.run(&edits, Selection::All, None);
    assert!(report.complete && report.collection_errors.is_empty(), "{report:?}");
    let expected = [
        ("TestPass", Passed),
        ("TestFail", Failed),
        ("TestSkip", Skipped),
        ("TestPanic", Failed),
        ("TestPanicElsewhere", Failed),
        ("TestHang", TimedOut),
        ("TestSubs", Failed),
        ("TestSubs/a/b_c", Passed),
        ("TestSubs/bad", Failed),
        ("TestSubs/skip", Skipped),
        ("TestSubs/#00", Passed),
        ("TestDies", Failed),
        ("TestDies/a", Passed),
        ("TestDies/b", Failed),
        ("TestDies/c", Passed),
        ("TestForgedFail", Failed),
        ("TestForgedExit", Crashed),
        ("TestForgedSub", Failed),
        ("TestExitZero", Failed),
        ("TestExitThree", Crashed),
        ("TestKilled", Crashed),
        ("TestBackground", Passed),
        ("TestReadsTheDriver", Passed),
        ("TestOffline", Passed),
        ("FuzzAdd", Failed),
        ("FuzzAdd/seed#0", Passed),
        ("FuzzAdd/seed#1", Failed),
        ("ExampleAdd", Passed),
        ("ExampleAt", Failed),
    ];
    let mut seen = statuses(&report);
    // What a test says of a subtest that there is not: present or not, it has not passed.
    assert_ne!(seen.remove("TestForgedSub/never"), Some(Passed));
    assert_eq!(seen, BTreeMap::from(expected));

    let result = |name: &str| &report.tests[&format!("example.com/demo::{name}")];
    let places = |name: &str| -> Vec<(String, String)> {
        result(name).frames.iter().map(|frame| (frame.path.clone(), frame.function.clone())).collect()
    };
    assert_eq!(result("TestFail").message, "want 3, got 2");
    assert_eq!(places("TestFail"), [("kinds_test.go".to_owned(), "TestFail".to_owned())]);
    assert!(result("TestPanic").message.starts_with("panic: runtime error: index out of range [5] with length 0"));
    let [outer, inner] = &places("TestPanic")[..] else { panic!("{:?}", result("TestPanic")) };
    assert_eq!((outer.1.as_str(), inner.0.as_str(), inner.1.as_str()), ("demo.TestPanic", "demo.go", "demo.At"));
    assert_eq!(places("TestHang"), [("kinds_test.go".to_owned(), "demo.TestHang".to_owned())]);
    assert_eq!(result("ExampleAt").message, "got:\n3\nwant:\n4");

    // Every id selects itself again, alone, in any order.
    let ids = ["TestPass", "TestSubs/a/b_c", "TestDies/c", "FuzzAdd/seed#0", "ExampleAdd", "TestGone", "TestSubs/gone"];
    let report = bench.run(&edits, tests(&ids), Some(7));
    assert!(report.complete);
    assert_eq!(statuses(&report), ids[..5].iter().map(|id| (*id, Passed)).collect());
}

#[test]
fn a_package_that_does_not_compile_costs_only_its_own_tests() {
    let files = [
        ("go.mod", "module example.com/demo\n\ngo 1.18\n"),
        ("demo.go", CORE),
        ("demo_test.go", "package demo\n\nimport \"testing\"\n\nfunc TestOld(t *testing.T) {}\n"),
        ("other/other_test.go", "package other\n\nimport \"testing\"\n\nfunc TestOther(t *testing.T) {}\n"),
    ];
    let Some(bench) = bench(&files) else { return };
    let new = "package demo_test\n\nimport (\n\t\"testing\"\n\n\t\"example.com/demo\"\n)\n\n\
               func TestNew(t *testing.T) {\n\tdemo.New(1)\n\tdemo.Newer(2)\n}\n";
    let edits = [write("new_test.go", new), write("broken/b_test.go", "package broken\n\nfunc TestB( {\n")];
    let report = bench.run(&edits, Selection::All, None);
    assert!(report.complete);
    assert_eq!(statuses(&report), BTreeMap::from([("TestOther", Status::Passed)]));
    let error = |file: &str| {
        let error = &report.collection_errors[file];
        let lines: Vec<(&str, u32)> = error.frames.iter().map(|frame| (frame.path.as_str(), frame.line)).collect();
        (error.message.clone(), lines)
    };
    let (message, spans) = error("new_test.go");
    assert_eq!(spans, [("new_test.go", 10), ("new_test.go", 11)]);
    assert_eq!(message, "new_test.go:10:7: undefined: demo.New\nnew_test.go:11:7: undefined: demo.Newer");
    // A file without errors of its own names those that keep it from running.
    assert_eq!(error("demo_test.go").1, spans);
    assert_eq!(error("broken/b_test.go").1[0], ("broken/b_test.go", 3));

    let report =
        bench.run(&edits, Selection::Files(vec!["other/other_test.go".to_owned(), "gone_test.go".to_owned()]), None);
    assert_eq!(statuses(&report), BTreeMap::from([("TestOther", Status::Passed)]));
    assert!(report.complete && report.collection_errors.is_empty());
}

/// Adds a release to a proxy made of files.
fn release(proxy: &Path, module: &str, version: &str, time: &str, files: &[(&str, &str)]) {
    let dir = proxy.join(module).join("@v");
    let info = format!("{{\"Version\": \"{version}\", \"Time\": \"{time}\"}}");
    let manifest = format!("module {module}\n\ngo 1.18\n");
    plant(&dir, &[(&format!("{version}.info"), &info), (&format!("{version}.mod"), &manifest)]);
    let mut list = File::options().create(true).append(true).open(dir.join("list")).unwrap();
    writeln!(list, "{version}").unwrap();
    let mut archive = zip::ZipWriter::new(File::create(dir.join(format!("{version}.zip"))).unwrap());
    for (path, text) in [("go.mod", manifest.as_str())].iter().chain(files) {
        let name = format!("{module}@{version}/{path}");
        archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    archive.finish().unwrap();
}

#[test]
fn versions_that_no_go_mod_names_are_those_of_the_day() {
    if backends().is_empty() || !require("go", environments::go::toolchain().is_ok()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let proxy = place.path().join("proxy");
    let source = |n: u32| format!("package dep\n\nfunc Version() int {{ return {n} }}\n");
    release(&proxy, "example.com/dep", "v1.0.0", "2020-01-01T00:00:00Z", &[("dep.go", &source(0))]);
    release(&proxy, "example.com/dep", "v1.1.0", "2023-01-01T00:00:00Z", &[("dep.go", &source(1))]);
    release(&proxy, "example.com/dep", "v1.2.0", "2026-01-01T00:00:00Z", &[("dep.go", &source(2))]);
    let test = "package demo\n\nimport (\n\t\"testing\"\n\n\t\"example.com/dep\"\n)\n\nfunc TestTwice(t *testing.T) {\n\
                \tif got := Twice(dep.Version()); got != 2 {\n\t\tt.Fatalf(\"got %d\", got)\n\t}\n}\n";
    let old: &[(&str, &str)] = &[
        ("demo.go", "package demo\n\nfunc Twice(n int) int { return n }\n"),
        ("demo_test.go", "package demo\n\nimport \"testing\"\n\nfunc TestOld(t *testing.T) {}\n"),
    ];
    let fixed: &[(&str, &str)] =
        &[("demo.go", "package demo\n\nfunc Twice(n int) int { return 2 * n }\n"), ("demo_test.go", test)];
    let (repository, _) = repository(place.path(), &[("old", old), ("fixed", fixed)]);
    let dataset = place.path().join("dataset");
    let url = PathBuf::from(format!("file://{}", proxy.display()));
    let cache = place.path().join("cache");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let curate = env!("CARGO_BIN_EXE_curate");
    let variables = [("GOPROXY", url.as_path()), ("CURATE_CACHE_DIR", cache.as_path())];
    let dataset = text(&dataset);
    let mine = [curate, "mine", "--repo", &text(&repository), "--dataset", &dataset, "--repeats", "1", "-j", "1"];
    let mined = spawn(&mine, &variables, 240).unwrap();
    assert_eq!(mined.exit, process::Exit::Code(0), "{}", mined.stderr.text());
    let fix = output(&["git", "-C", &text(&repository), "rev-parse", "HEAD"], &[], 20);
    let why = output(&[curate, "why", "--dataset", &dataset, fix.trim()], &variables, 20);
    assert!(why.contains("rung go_mod_init_dated") && why.contains("::TestTwice (FailToPass)"), "{why}");
    // What the environment holds is the release of the day.
    let holds = |version: &str| {
        let environments = fs::read_dir(cache.join("environments")).unwrap().flatten();
        environments
            .filter(|entry| entry.path().join("mod/example.com").join(format!("dep@{version}")).is_dir())
            .count()
    };
    assert_eq!([holds("v1.0.0"), holds("v1.1.0"), holds("v1.2.0")], [0, 1, 0]);
}

#[test]
fn a_commit_that_needs_a_newer_go_is_refused_by_name() {
    let Some(bench) = bench(&[("go.mod", "module example.com/demo\n\ngo 1.18\n"), ("demo.go", CORE)]) else { return };
    let place = tempfile::tempdir().unwrap();
    let (repository, ids) = repository(
        place.path(),
        &[("new", &[("go.mod", "module example.com/demo\n\ngo 1.999.1\n"), ("demo.go", CORE)])],
    );
    let candidate = candidate(&repository, Language::Go, &ids[0], &ids[0]);
    let outcome = build::build(&bench.lab, &repository, &candidate, None, &config::Build::default()).unwrap();
    let failure = outcome.unwrap_err();
    assert_eq!(failure.kind, "toolchain_too_old");
    assert!(failure.detail.contains("needs Go 1.999.1; Go "), "{failure}");
}
