//! A validated task in its two halves, its evidence and its issue text.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    bytes::ByteText,
    candidate::FileChange,
    environment::Build,
    failure::Failure,
    strength::Strength,
    suite::{Frame, SuiteRun},
};

/// The half that an agent may see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicTask {
    pub instance_id: String,
    pub repo: String,
    pub repo_source: String,
    pub base_commit: String,
    /// Commit time of the base, seconds since 1970 (UTC).
    pub base_time: i64,
    /// Always `python` so far.
    pub language: String,
    /// SPDX expression found at the base commit, `None` where none was recognised.
    pub license: Option<String>,
    pub build: Build,
}

/// How sure the fail-to-pass set is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceLabel {
    /// At least one test ran before the fix and failed.
    Strong,
    /// Tests that could not be collected before the fix fail there once stubs stand in for the missing names.
    Resolved,
    /// No test was seen to fail before the fix, only to be missing.
    Weak,
}

/// How a test's outcome differs between before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transition {
    FailToPass,
    ErrorToPass,
    TimeoutToPass,
    CrashToPass,
    SkipToPass,
    MissingToPass,
    PassToPass,
    PassToFail,
    PassToMissing,
    /// The same on both sides and no pass (skip, expected failure, failure).
    Unchanged,
    /// Any other pair, e.g. fail to skip.
    Other,
}

/// Why a test takes no part in the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuarantineReason {
    /// Outcomes differ among repeats of one state, and nothing that was changed alone tells why.
    Unstable,
    /// The id occurs in only some runs of one state.
    UnstableId,
    /// Passes in the file's order, not alone or not in another order.
    OrderDependent,
    /// Passes or fails by the hash seed.
    HashSeedDependent,
    /// Passes on some days and fails on others.
    DateDependent,
    /// Passes at some times of the day and fails at others.
    TimeDependent,
    /// Passes or fails by the time zone.
    ZoneDependent,
    /// Draws random numbers, and is constant once their seed is.
    Random,
    /// Finds the port that it asks for in use.
    PortConflict,
    /// Fails where a run before it has left its files.
    LeftoverDependent,
    /// Fails beside another run of the same tests.
    ParallelDependent,
    /// Fails after the fix because it reaches for a network.
    NeedsNetwork,
}

/// What was seen to fail before the fix, for the issue writer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailingTest {
    pub test_id: String,
    pub transition: Transition,
    pub exception: Option<String>,
    pub message: String,
    pub frames: Vec<Frame>,
}

/// The half that only validation, grading and export see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HiddenTask {
    pub fix_commit: String,
    pub message: ByteText,
    pub changes: Vec<FileChange>,
    pub source_patch: ByteText,
    pub test_patch: ByteText,
    /// Sorted.
    pub fail_to_pass: Vec<String>,
    /// Sorted; uncapped.
    pub pass_to_pass: Vec<String>,
    pub label: EvidenceLabel,
    /// Test files of the touched part, run first; relative to the tree, sorted.
    pub test_files: Vec<String>,
    /// Whether pass-to-pass covers the whole suite or, because that took too long, the touched files only.
    pub whole_suite: bool,
    /// `PYTHONHASHSEED` that grading uses: 0, or a seed under which the bug shows.
    pub hash_seed: u32,
    /// Wall time of the slowest `after` run of the graded selection; time limits derive from it.
    pub after_wall_ms: u64,
    pub quarantined: BTreeMap<String, QuarantineReason>,
    pub failing: Vec<FailingTest>,
    /// How much of the fix the fail-to-pass tests notice.
    #[serde(default)]
    pub strength: Strength,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    pub public: PublicTask,
    pub hidden: HiddenTask,
}

/// What the validate stage writes: a task or why there is none, and the runs it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validation {
    pub instance_id: String,
    pub verdict: Result<Task, Failure>,
    /// In the order they were made; passing tests' messages are empty.
    pub runs: Vec<SuiteRun>,
    /// Transition of every test that was seen, after the repeats.
    pub transitions: BTreeMap<String, Transition>,
    pub quarantined: BTreeMap<String, QuarantineReason>,
}

/// Who wrote an issue text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Writer {
    Template,
}

impl Writer {
    pub fn name(self) -> &'static str {
        match self {
            Writer::Template => "template",
        }
    }
}

/// The task's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issue {
    pub instance_id: String,
    pub writer: Writer,
    pub text: String,
    /// What the leak gate took out or found on the way, one line each.
    pub findings: Vec<String>,
}
