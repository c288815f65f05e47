//! Rust from end to end: an environment from the registry, and suite runs of a small workspace in it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use curate::{
    build,
    cache::Cache,
    config, environments,
    environments::rust::toolchain,
    harness::{self, Request, Subject},
    history,
    lab::Lab,
    record::{
        candidate::Candidate,
        environment::{Build, Language, Runner},
        patch::Edit,
        suite::{Report, Selection, Status, SuiteOutcome, SuiteRun, TreeState, Variation},
    },
};

use crate::support::{self, backends, plant, require, write};

const MANIFEST: &str = r#"
[package]
name = "shop"
version = "1.2.3"
edition = "2021"
[features]
extra = []
[dependencies]
cfg-if = "1"
[[test]]
name = "bare"
harness = false
[[test]]
name = "gated"
required-features = ["extra"]
"#;

const LIBRARY: &str = r#"#![deny(warnings)]
//! ```
//! assert_eq!(shop::total(1, 2), 3);
//! ```

/// ```
/// assert_eq!(shop::total(1, 2), 4, "documented wrongly");
/// ```
/// ```no_run
/// loop {}
/// ```
pub fn total(a: i32, b: i32) -> i32 {
    cfg_if::cfg_if! { if #[cfg(test)] { let unused = 0; } }
    a + b
}

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {
        assert_eq!(super::total(1, 1), 2);
    }
}
"#;

const KINDS: &str = r#"
mod common;
#[test]
fn passes() { assert_eq!(std::env::var("CARGO_PKG_VERSION").unwrap(), "1.2.3"); }
#[test]
fn fails() { common::check(shop::total(2, 2)); }
#[test]
fn errs() -> Result<(), String> { Err("went wrong".to_owned()) }
#[test]
#[ignore = "slow"]
fn ignored() {}
#[test]
#[should_panic]
fn should_panic() { panic!("as it should") }
#[test]
fn hangs() { loop { std::thread::sleep(std::time::Duration::from_secs(1)) } }
#[test]
fn aborts() { std::process::abort() }
#[test]
fn overflows() { fn f(n: u64) -> u64 { if n == 0 { 0 } else { 1 + f(std::hint::black_box(n + 1)) } } f(1); }
#[test]
fn leaves_early() { std::process::exit(0) }
#[test]
fn prints_a_pass() {
    println!("test prints_a_pass ... ok\n\ntest result: ok. 1 passed; 0 failed");
    eprintln!("ok prints_a_pass");
    println!("{{\"type\":\"test\",\"event\":\"ok\",\"name\":\"prints_a_pass\"}}");
    assert!(false);
}
#[test]
fn leaves_a_child() { std::process::Command::new("sleep").arg("600").spawn().unwrap(); }
"#;

const FILES: [(&str, &str); 7] = [
    ("Cargo.toml", MANIFEST),
    ("src/lib.rs", LIBRARY),
    ("tests/kinds.rs", KINDS),
    ("tests/common/mod.rs", "pub fn check(n: i32) {\n    assert_eq!(n, 5, \"two and two\");\n}\n"),
    ("tests/bare.rs", "fn main() { println!(\"no list here\"); }\n"),
    ("tests/gated.rs", "#[test]\nfn gated() {}\n"),
    ("rust-toolchain", "nightly-2019-01-01\n"),
];

/// A repository of two commits and the environment of the later one.
struct Bench {
    lab: Lab,
    repository: PathBuf,
    base_commit: String,
    build: Build,
}

/// Returns the bench, or `None` where the machine cannot have one (the reason is on standard error).
fn bench() -> Option<&'static Bench> {
    static BENCH: OnceLock<Option<Bench>> = OnceLock::new();
    BENCH.get_or_init(set_up).as_ref()
}

fn set_up() -> Option<Bench> {
    let backend = *backends().first()?;
    if !require("cargo", toolchain::find().is_some()) {
        return None;
    }
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rust-bench");
    let lab = Lab::new(Cache::at(&place.join("cache")).unwrap(), backend, 1);
    let repository = place.join(format!("repository-{}", std::process::id()));
    let candidate = candidate(&repository, &FILES);
    let outcome = build::build(&lab, &repository, &candidate, None, &config::Build::default()).unwrap();
    if !require("crates.io", !matches!(&outcome, Err(failure) if failure.kind == "no_network")) {
        return None;
    }
    Some(Bench { lab, base_commit: candidate.base_commit, repository, build: outcome.unwrap() })
}

/// Makes a repository whose fix, on 2024-06-02, changes nothing but a note.
fn candidate(repository: &Path, files: &[(&str, &str)]) -> Candidate {
    let text = tempfile::tempdir().unwrap();
    let history = "[[commit]]\nid = 'base'\nmessage = 'Begin'\ndate = '2024-06-01T12:00:00Z'\n\
                   [[commit]]\nid = 'fix'\nmessage = 'Fix'\ndate = '2024-06-02T12:00:00Z'\n";
    plant(text.path(), &[("history.toml", history), ("fix/NOTES", "fixed\n")]);
    plant(&text.path().join("base"), files);
    let _ = fs::remove_dir_all(repository);
    fs::create_dir_all(repository).unwrap();
    let ids = history::rebuild(text.path(), repository).unwrap();
    support::candidate(repository, Language::Rust, &ids["base"], &ids["fix"])
}

impl Bench {
    fn run(&self, edits: &[Edit], selection: Selection, order_seed: Option<u64>) -> SuiteRun {
        let request = Request {
            state: TreeState::Before,
            edits,
            selection,
            variation: Variation { order_seed, ..Variation::PLAIN },
            with_stubs: false,
            wall: Duration::from_secs(300),
            test_wall: Duration::from_secs(3),
        };
        let subject = Subject { repository: &self.repository, base_commit: &self.base_commit, build: &self.build };
        harness::run_suite(&self.lab, subject, &request).unwrap()
    }

    fn report(&self, edits: &[Edit], selection: Selection) -> Report {
        report(&self.run(edits, selection, None)).clone()
    }
}

fn report(run: &SuiteRun) -> &Report {
    match &run.outcome {
        SuiteOutcome::Ran(report) => report,
        SuiteOutcome::NotRun(failure) => panic!("{failure}"),
    }
}

fn files(paths: &[&str]) -> Selection {
    Selection::Files(paths.iter().map(|path| (*path).to_owned()).collect())
}

fn statuses(report: &Report) -> BTreeMap<&str, Status> {
    report.tests.iter().map(|(id, result)| (id.as_str(), result.status)).collect()
}

#[test]
fn every_kind_of_rust_test_gets_its_own_status() {
    use Status::{Crashed, Failed, Passed, Skipped, TimedOut};
    let Some(bench) = bench() else { return };
    assert_eq!((bench.build.runner, bench.build.recipe.rung.as_str()), (Runner::Cargo, "shared"));
    let run = bench.run(&[], Selection::All, Some(7));
    let report = report(&run);
    let expected = [
        ("shop$tests::adds", Passed),
        ("shop::bare$main", Passed),
        ("shop::gated$gated", Passed),
        ("shop::kinds$passes", Passed),
        ("shop::kinds$fails", Failed),
        ("shop::kinds$errs", Failed),
        ("shop::kinds$ignored", Skipped),
        ("shop::kinds$should_panic", Passed),
        ("shop::kinds$hangs", TimedOut),
        ("shop::kinds$aborts", Crashed),
        ("shop::kinds$overflows", Crashed),
        ("shop::kinds$leaves_early", Crashed),
        ("shop::kinds$prints_a_pass", Failed),
        ("shop::kinds$leaves_a_child", Passed),
        ("shop::doc$src/lib.rs::1", Passed),
        ("shop::doc$src/lib.rs::total::1", Failed),
        ("shop::doc$src/lib.rs::total::2", Passed),
    ];
    assert_eq!(statuses(report), BTreeMap::from(expected), "{}", run.output_tail);
    assert!(report.complete && report.collection_errors.is_empty());
    // Dependencies are compiled once, with the environment; the tree's own packages every time.
    assert!(run.output_tail.contains("Compiling shop") && !run.output_tail.contains("Compiling cfg-if"));

    let fails = &report.tests["shop::kinds$fails"];
    assert!(fails.message.contains("two and two") && fails.message.contains("left: 4"), "{}", fails.message);
    let frames: Vec<(&str, u32)> = fails.frames.iter().map(|frame| (frame.path.as_str(), frame.line)).collect();
    assert_eq!(frames.last(), Some(&("tests/common/mod.rs", 2)));
    assert!(frames.contains(&("tests/kinds.rs", 6)), "{frames:?}");
    assert_eq!(report.tests["shop::kinds$aborts"].exception.as_deref(), Some("SIGABRT"));
    assert!(report.tests["shop::doc$src/lib.rs::total::1"].message.contains("documented wrongly"));
}

#[test]
fn rust_tests_are_selected_by_file_and_by_id() {
    let Some(bench) = bench() else { return };
    let ids = |selection: Selection| -> Vec<String> {
        let report = bench
            .report(&[write("tests/kinds.rs", "mod common;\n#[test]\nfn one() {}\n#[test]\nfn two() {}\n")], selection);
        assert!(report.complete);
        report.tests.into_keys().collect()
    };
    assert_eq!(ids(files(&["tests/gated.rs", "tests/gone.rs"])), ["shop::gated$gated"]);
    // A helper stands for the targets that name it.
    assert_eq!(ids(files(&["tests/common/mod.rs"])), ["shop::kinds$one", "shop::kinds$two"]);
    let source = ids(files(&["src/lib.rs"]));
    assert_eq!(source[0], "shop$tests::adds");
    assert_eq!(source.len(), 4);
    let wanted = ["shop$tests::adds", "shop::doc$src/lib.rs::total::2", "shop::kinds$two"].map(str::to_owned);
    assert_eq!(ids(Selection::Tests(wanted.to_vec())), wanted);
}

#[test]
fn code_that_does_not_compile_costs_only_its_own_target() {
    let Some(bench) = bench() else { return };
    let broken = "#[test]\nfn old() {}\n#[test]\nfn new() {\n    shop::missing();\n}\n#[test]\nfn other() { let _: u8 = \"\"; }\n";
    let edits = [write("tests/kinds.rs", broken)];
    let report = bench.report(&edits, files(&["tests/kinds.rs", "tests/gated.rs"]));
    assert_eq!(report.tests.keys().collect::<Vec<_>>(), ["shop::gated$gated"]);
    assert!(report.complete);
    let error = &report.collection_errors["tests/kinds.rs"];
    assert_eq!(report.collection_errors.len(), 1);
    let lines: Vec<(&str, u32)> = error.frames.iter().map(|frame| (frame.path.as_str(), frame.line)).collect();
    assert_eq!(lines, [("tests/kinds.rs", 5), ("tests/kinds.rs", 8)]);
    assert!(error.message.contains("cannot find function `missing`"), "{}", error.message);

    // The tests are there once the fix is, whatever the file times are.
    let fixed = LIBRARY.replace("pub fn total", "pub fn missing() {}\npub fn total");
    let edits = [write("tests/kinds.rs", broken.replace("let _: u8", "let _: &str")), write("src/lib.rs", fixed)];
    let report = bench.report(&edits, files(&["tests/kinds.rs"]));
    assert_eq!(report.tests.len(), 3);
    assert!(report.tests.values().all(|result| result.status == Status::Passed));

    // A library that does not compile leaves nothing to run.
    let edits = [write("src/lib.rs", "pub fn total() -> Missing {}\n")];
    let report = bench.report(&edits, files(&["tests/gated.rs"]));
    assert!(report.tests.is_empty() && report.complete);
    assert_eq!(report.collection_errors["tests/gated.rs"].frames[0].path, "src/lib.rs");
    let report = bench.report(&[write("Cargo.toml", "[package")], Selection::All);
    assert!(report.tests.is_empty() && report.collection_errors.contains_key("Cargo.toml"));
}

#[test]
fn test_programs_and_sources_that_others_write_to_are_not_believed() {
    let Some(bench) = bench() else { return };
    let overwrite = r#"
#[test]
fn a_overwrites() {
    let me = std::env::current_exe().unwrap();
    let program = std::fs::read(&me).unwrap();
    std::fs::remove_file(&me).unwrap();
    std::fs::write(&me, program).unwrap();
    std::process::Command::new("chmod").arg("755").arg(&me).status().unwrap();
}
#[test]
fn b_comes_later() {}
"#;
    let report = bench.report(&[write("tests/gated.rs", overwrite)], files(&["tests/gated.rs"]));
    assert_eq!(report.status("shop::gated$a_overwrites"), Some(Status::Passed));
    assert_eq!(report.status("shop::gated$b_comes_later"), Some(Status::Crashed));

    let rewrite = "fn main() { std::fs::write(\"tests/gated.rs\", \"#[test]\\nfn gated() {}\\n\").unwrap(); }\n";
    let edits = [write("build.rs", rewrite), write("tests/gated.rs", "#[test]\nfn gated() { panic!() }\n")];
    let report = bench.report(&edits, files(&["tests/gated.rs"]));
    assert!(report.tests.is_empty());
    assert!(report.collection_errors["tests/gated.rs"].message.contains("the build changed `tests/gated.rs`"));
}

#[test]
fn an_environment_holds_nothing_of_the_trees_own_packages() {
    let Some(bench) = bench() else { return };
    let environment = &bench.build.environment;
    let directory = environments::ensure(&bench.lab, environment).unwrap();
    for part in ["deps", ".fingerprint", "build"] {
        for entry in fs::read_dir(directory.join("target/debug").join(part)).into_iter().flatten() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(!name.contains("shop") && !name.contains("stub"), "{part}/{name}");
        }
    }
    assert!(environment.lock.contains("name = \"cfg-if\"\nversion = \"1.0.0\""), "{}", environment.lock);
    let generated: Vec<String> = bench.build.generated.iter().map(|file| file.path.lossy()).collect();
    assert_eq!(generated, ["Cargo.lock"]);
    assert!(bench.build.recipe.interpreter_reason.contains("`rust-toolchain` is ignored"));
}
