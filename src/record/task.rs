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

impl EvidenceLabel {
    pub fn name(self) -> &'static str {
        match self {
            EvidenceLabel::Strong => "strong",
            EvidenceLabel::Resolved => "resolved",
            EvidenceLabel::Weak => "weak",
        }
    }
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

/// What kind of thing a hidden test needs that only the fix introduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FairnessKind {
    /// Something that is called, imported, read or given by its name.
    Name,
    /// A number, or a text without blanks.
    Literal,
    /// A text with blanks, or the part of it that the test looks for.
    Message,
}

/// What a name stands for in the fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameRole {
    Module,
    Type,
    Function,
    Method,
    Attribute,
    Parameter,
    Constant,
    /// A key that the fix reads or a text that it compares with; what it stands for cannot be told.
    Option,
}

/// Something that nobody could guess, and that a solution must have for the hidden tests to pass.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FairnessItem {
    pub kind: FairnessKind,
    pub text: String,
    /// Names only.
    pub role: Option<NameRole>,
    /// What the name belongs to, dotted: a parameter's function, a method's class.
    pub owner: Option<String>,
    /// Functions and methods: name, parameters and result, on one line.
    pub signature: Option<String>,
    /// What the fix says of it: first paragraph of its docstring or comment.
    pub doc: Option<String>,
    /// A hidden test file that needs it, relative to the tree, and the line, from 1.
    pub test_path: String,
    pub test_line: u32,
}

/// Whether a solution can be told from behaviour alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    #[default]
    Fix,
    /// The hidden tests use a name that only the fix introduces.
    Interface,
}

impl ChangeKind {
    pub fn name(self) -> &'static str {
        match self {
            ChangeKind::Fix => "fix",
            ChangeKind::Interface => "interface",
        }
    }
}

/// How much of the program the fix touches, tests left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difficulty {
    pub files: u32,
    /// Groups of changed lines without an unchanged line between them.
    pub hunks: u32,
    pub lines_added: u32,
    pub lines_removed: u32,
    /// Functions and types, the innermost around each changed line.
    pub entities: u32,
    /// From where a test fails to where the fix is, the least over all fail-to-pass tests: 0 the innermost frame outside
    /// tests is in a touched function, 1 in a touched file, 2 in a directory of one, 3 elsewhere. `None` where no failure
    /// has such a frame.
    pub frame_distance: Option<u8>,
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
    #[serde(default)]
    pub change_kind: ChangeKind,
    /// Sorted; at most 24.
    #[serde(default)]
    pub fairness: Vec<FairnessItem>,
    /// Items beyond that.
    #[serde(default)]
    pub n_fairness_left_out: u32,
    #[serde(default)]
    pub difficulty: Difficulty,
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
