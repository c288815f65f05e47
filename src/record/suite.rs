//! One execution of a selection of tests at one tree state.

use std::{collections::BTreeMap, sync::LazyLock};

use regex::Regex;
use serde::{Deserialize, Serialize};

use super::failure::Failure;

/// What became of one test; the worst over all its phases and subtests.
///
/// Ordered from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Passed,
    Xfailed,
    Xpassed,
    Skipped,
    Failed,
    /// Failed outside the test's own body: set-up, tear-down, fixture.
    Error,
    TimedOut,
    /// The process died while it ran.
    Crashed,
    /// Collected, but the process ended before its turn.
    NotRun,
}

/// A stack frame inside the tree, innermost last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frame {
    /// Relative to the tree.
    pub path: String,
    pub line: u32,
    pub function: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestResult {
    pub status: Status,
    /// Exception class name (`ValueError`), absent for a pass.
    pub exception: Option<String>,
    /// The exception's text or the assertion's explanation, at most 4,000 bytes.
    pub message: String,
    /// Frames inside the tree only.
    pub frames: Vec<Frame>,
    pub duration_ms: u64,
}

/// A file or package that could not be collected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectionError {
    pub exception: Option<String>,
    pub message: String,
    pub frames: Vec<Frame>,
}

/// What a suite run saw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// By exact test id. Every collected test has an entry.
    pub tests: BTreeMap<String, TestResult>,
    /// By file, relative to the tree.
    pub collection_errors: BTreeMap<String, CollectionError>,
    /// Import names that a stub stood in for (`pkg.mod.name`), when the run allowed stubs.
    pub stubs: Vec<String>,
    /// Files among whose tests one of ours, which must fail, passed: what they show of the tests' bodies is nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_decoys: Vec<String>,
    /// Whether the closing record with the run's nonce and the right count arrived.
    pub complete: bool,
}

impl Report {
    pub fn status(&self, test_id: &str) -> Option<Status> {
        self.tests.get(test_id).map(|result| result.status)
    }
}

/// Returns what a test printed without the addresses of objects, which say nothing and differ between machines.
pub fn without_addresses(text: &str) -> String {
    static ADDRESS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"0x[0-9a-f]{6,16}\b").expect("a constant pattern"));
    ADDRESS.replace_all(text, "0x…").into_owned()
}

/// Something that did not run is never mistaken for something that ran and failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuiteOutcome {
    Ran(Report),
    NotRun(Failure),
}

/// The state of the tree a suite ran on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeState {
    /// The base commit as it is.
    Base,
    /// Base and test patch.
    Before,
    /// Base, test patch and source patch.
    After,
    /// Base, an agent's patch and the hidden tests.
    Agent,
}

/// Which tests to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// Everything the repository's tests make up.
    All,
    /// Whole files, relative to the tree.
    Files(Vec<String>),
    /// Exact test ids.
    Tests(Vec<String>),
    /// Exact test ids, each in a process in which no other test has run. What is imported to find them is imported once.
    Alone(Vec<String>),
}

/// What else runs the same tests in the same sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Company {
    #[default]
    Nobody,
    /// A process before, with the same tree and temporary directory: what it leaves behind, the second finds.
    Before,
    /// A process at the same time.
    Beside,
}

/// What is varied between repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Variation {
    /// `PYTHONHASHSEED`.
    pub hash_seed: u32,
    /// `None`: the runner's own order. Otherwise files and the tests in each are shuffled with it.
    pub order_seed: Option<u64>,
    /// Number in the temporary directory's name.
    pub temp: u32,
    /// Seed of the program's own random numbers, set before each test where the language has one generator for all.
    pub random_seed: Option<u32>,
    /// More than a year later.
    pub other_date: bool,
    /// The other half of the same day.
    pub other_time: bool,
    /// A time zone east of UTC, off by a part of an hour.
    pub other_zone: bool,
    pub company: Company,
}

impl Variation {
    /// The variation of first runs and of grading.
    pub const PLAIN: Variation = Variation {
        hash_seed: 0,
        order_seed: None,
        temp: 0,
        random_seed: None,
        other_date: false,
        other_time: false,
        other_zone: false,
        company: Company::Nobody,
    };
}

/// One suite run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteRun {
    pub state: TreeState,
    pub selection: Selection,
    pub variation: Variation,
    /// Whether names that could not be imported were replaced by stubs that raise on use.
    pub with_stubs: bool,
    pub outcome: SuiteOutcome,
    /// What the other process saw, in a variation with company.
    #[serde(default)]
    pub companion: Option<Report>,
    /// Wall time of the whole process.
    pub wall_ms: u64,
    /// Last lines of the combined output, at most 4,000 bytes.
    pub output_tail: String,
}

impl SuiteRun {
    /// A run that has seen nothing yet.
    pub fn empty(state: TreeState, selection: Selection, variation: Variation, with_stubs: bool) -> SuiteRun {
        SuiteRun {
            state,
            selection,
            variation,
            with_stubs,
            outcome: SuiteOutcome::Ran(Report::default()),
            companion: None,
            wall_ms: 0,
            output_tail: String::new(),
        }
    }

    pub fn report(&self) -> Option<&Report> {
        match &self.outcome {
            SuiteOutcome::Ran(report) => Some(report),
            SuiteOutcome::NotRun(_) => None,
        }
    }
}
