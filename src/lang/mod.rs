//! Test runners: how each is started and how its results are read. Pure: plans and parses, never runs anything.
//!
//! Results never come from printed text. A runner script of ours works inside the test process or above it and appends
//! sealed records to a file of its own ([`channel`]). What a test run means for a task, this module does not know.

pub mod channel;
pub mod go;
mod javascript;
pub mod paths;
mod pytest;
mod python;
pub mod rust;
mod unittest;

use serde::Serialize;
use serde_json::json;

use crate::{
    record::{
        environment::{Build, Language, Runner},
        suite::{Selection, Variation},
    },
    sandbox::TREE,
};

/// Where the runner scripts are shown inside a sandbox, read-only.
pub const RUNNERS: &str = "/opt/curate";
/// Where the results directory is shown inside a sandbox, writable.
pub const RESULTS: &str = "/results";
/// Where compiled modules of the tree are shown, if they are: writable to the run that fills it.
pub const BYTECODE: &str = "/opt/bytecode";

/// What plans start, with what that imports, by name.
const SCRIPTS: [(&str, &str); 9] = [
    ("curate_channel.py", include_str!("python/curate_channel.py")),
    ("curate_preload.py", include_str!("python/curate_preload.py")),
    (pytest::NAME, pytest::SCRIPT),
    (unittest::NAME, unittest::SCRIPT),
    (go::NAME, go::SCRIPT),
    (go::PROCESS_NAME, go::PROCESS_SCRIPT),
    (go::SOURCE_NAME, go::SOURCE_SCRIPT),
    (rust::NAME, rust::SCRIPT),
    (javascript::NAME, javascript::SCRIPT),
];

/// Returns the files to show at [`RUNNERS`], by name; the same for every runner.
pub fn scripts() -> impl Iterator<Item = (&'static str, &'static str)> {
    SCRIPTS.into_iter().chain(javascript::MODULES)
}

/// Runs the scripts for all languages but Python, which has its own interpreter in the environment.
const DRIVER: &str = "/usr/bin/python3";

/// What a language's sandboxes show and set besides the tree and the environment's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Directories of the environment, with where else they are shown, read-only.
    pub shown: &'static [(&'static str, &'static str)],
    /// Directories of the environment, with where each sandbox gets a writable view of its own.
    pub overlaid: &'static [(&'static str, &'static str)],
    pub variables: Vec<(String, String)>,
    /// Address space of one process, bytes, where the program reserves more than it uses.
    pub address_space_bytes: Option<u64>,
}

/// Returns the layout of a build's sandboxes.
pub fn layout(build: &Build) -> Layout {
    match build.runner.language() {
        Language::Python => python::layout(build),
        Language::Javascript => javascript::layout(build),
        Language::Rust => rust::layout(build),
        Language::Go => go::layout(build),
    }
}

/// How to start a process that has loaded a test runner, and forks itself into sandboxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preload {
    /// Without the number of its socket and `covered`, which come last.
    pub argv: Vec<String>,
    /// Directory to be covered by an empty one at the start.
    pub covered: String,
}

/// Returns how to preload a build's test runner, where that can be done.
pub fn preload(build: &Build) -> Option<Preload> {
    let covered = python::packages(build)?;
    let argv = [python::PROGRAM.to_owned(), format!("{RUNNERS}/{}", pytest::NAME), "--preload".to_owned()];
    (build.runner == Runner::Pytest).then(|| Preload { argv: argv.to_vec(), covered })
}

/// One run to plan.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Secret of this run; seals the records.
    pub nonce: &'a str,
    /// Name of the results file in [`RESULTS`]; it must exist.
    pub results: &'a str,
    /// Name of the file in [`RESULTS`] that the instructions will be in.
    pub instructions: &'a str,
    pub selection: &'a Selection,
    /// A test id that names no single test stands for all tests below it.
    pub is_loose: bool,
    pub variation: Variation,
    pub with_stubs: bool,
    /// Limit for each phase of a test, seconds.
    pub test_wall_s: f64,
}

/// How to start the tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// No word in it needs quoting for a shell.
    pub argv: Vec<String>,
    /// JSON text to put into the instructions file; the runner removes it before it runs foreign code.
    pub instructions: String,
}

#[derive(Serialize)]
struct Chosen<'a> {
    kind: &'a str,
    items: &'a [String],
}

/// Returns how to run the planned tests.
pub fn plan(runner: Runner, plan: &Plan) -> Planned {
    let [program, script] = match runner {
        Runner::Pytest => [python::PROGRAM, pytest::NAME],
        Runner::Unittest => [python::PROGRAM, unittest::NAME],
        Runner::NodeTest | Runner::Jest | Runner::Vitest | Runner::Mocha | Runner::Ava | Runner::Tap => {
            [DRIVER, javascript::NAME]
        }
        Runner::Cargo => [DRIVER, rust::NAME],
        Runner::Go => [DRIVER, go::NAME],
    };
    let selection = match plan.selection {
        Selection::All => Chosen { kind: "all", items: &[] },
        Selection::Files(files) => Chosen { kind: "files", items: files },
        Selection::Tests(tests) | Selection::Alone(tests) => Chosen { kind: "tests", items: tests },
    };
    let instructions = json!({
        "nonce": plan.nonce,
        "results": format!("{RESULTS}/{}", plan.results),
        "root": TREE,
        "runner": runner.name(),
        "selection": selection,
        "loose": plan.is_loose,
        "alone": matches!(plan.selection, Selection::Alone(_)),
        "order_seed": plan.variation.order_seed,
        "hash_seed": plan.variation.hash_seed,
        "random_seed": plan.variation.random_seed,
        "stubs": plan.with_stubs,
        "test_wall_s": plan.test_wall_s,
    });
    Planned {
        argv: vec![program.to_owned(), format!("{RUNNERS}/{script}"), format!("{RESULTS}/{}", plan.instructions)],
        instructions: instructions.to_string(),
    }
}

/// Returns the command that runs the visible tests in an agent's shell, as an agent would type it.
pub fn visible_command(runner: Runner) -> &'static str {
    match runner {
        Runner::Pytest => "python -m pytest",
        Runner::Unittest => "python -m unittest",
        Runner::NodeTest => "node --test",
        Runner::Jest => "npx jest",
        Runner::Vitest => "npx vitest run",
        Runner::Mocha => "npx mocha",
        Runner::Ava => "npx ava",
        Runner::Tap => "npx tap",
        Runner::Cargo => "cargo test",
        Runner::Go => "go test ./...",
    }
}

/// Returns the file of a test id, relative to the tree, where the id names it.
pub fn file_of(runner: Runner, test_id: &str) -> Option<&str> {
    match runner.language() {
        Language::Python if runner == Runner::Unittest => None,
        Language::Python => test_id.split_once("::").map(|(file, _)| file),
        Language::Javascript => javascript::file_of(test_id),
        Language::Rust | Language::Go => None,
    }
}

/// Says whether a runner runs all tests of a file whichever of them are asked for.
pub fn runs_whole_files(runner: Runner) -> bool {
    matches!(runner, Runner::NodeTest | Runner::Tap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_reach_the_runner_as_they_are() {
        let ids = vec!["tests/test a.py::T::test[x y]".to_owned(), "t.py::test[\"'\\$(id)\n]".to_owned()];
        let selection = Selection::Tests(ids.clone());
        let planned = plan(
            Runner::Pytest,
            &Plan {
                nonce: "00ff",
                results: "r.jsonl",
                instructions: "i.json",
                selection: &selection,
                is_loose: false,
                variation: Variation { order_seed: Some(u64::MAX), ..Variation::PLAIN },
                with_stubs: false,
                test_wall_s: 1.5,
            },
        );
        assert_eq!(planned.argv, ["/opt/env/bin/python", "/opt/curate/curate_pytest.py", "/results/i.json"]);
        let read: serde_json::Value = serde_json::from_str(&planned.instructions).unwrap();
        assert_eq!(read["selection"], json!({"kind": "tests", "items": ids}));
        assert_eq!(read["order_seed"], u64::MAX);
        assert!(!planned.argv.concat().contains("00ff"));
    }

    #[test]
    fn every_planned_script_is_shown() {
        for name in [pytest::NAME, unittest::NAME, go::NAME, rust::NAME, javascript::NAME] {
            assert!(scripts().any(|(shown, text)| shown == name && text.contains("import curate_channel")));
        }
    }

    #[test]
    fn the_file_of_an_id_ends_at_the_first_colons() {
        assert_eq!(file_of(Runner::Pytest, "a b/t.py::test[::x]"), Some("a b/t.py"));
        assert_eq!(file_of(Runner::Unittest, "tests.test_a.A.test"), None);
    }
}
