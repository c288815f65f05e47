//! Commits and what mining says of them.

use serde::{Deserialize, Serialize};

use super::{bytes::ByteText, environment::Language};

/// What kind of file a change touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Program code of the repository's language, with tests inside where the language has it so.
    Source,
    /// A file that holds tests, or that only tests use (fixtures, data, `conftest.py`).
    Test,
    /// Everything else: documentation, packaging, CI. Part of the source patch.
    Other,
}

/// One side of a file change: git mode (octal, e.g. `0o100644`) and object id (hex).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    pub mode: u32,
    pub oid: String,
}

/// One path that differs between base and fix; renames are a removal and an addition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileChange {
    pub path: ByteText,
    pub role: Role,
    /// Absent where the fix adds the file.
    pub old: Option<Side>,
    /// Absent where the fix removes the file.
    pub new: Option<Side>,
    pub added_lines: u32,
    pub removed_lines: u32,
    /// The old program with the new tests, where one file holds both and both change (Rust's `#[cfg(test)]`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_new_tests: Option<ByteText>,
}

impl FileChange {
    /// Whether the file's tests differ, be they all of it or a part.
    pub fn changes_tests(&self) -> bool {
        self.role == Role::Test || self.with_new_tests.is_some()
    }
}

/// What one change is: a commit against its only parent, or a merge against its first parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Commit,
    Merge,
}

/// One change that may become a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// See [`super::id::instance_id`].
    pub instance_id: String,
    /// `owner/name` where it can be told, else the directory's name.
    pub repo: String,
    /// Path or URL the repository was read from.
    pub repo_source: String,
    pub base_commit: String,
    pub fix_commit: String,
    pub unit: Unit,
    /// Of the changed tests.
    pub language: Language,
    /// Commit time of the base, seconds since 1970 (UTC).
    pub base_time: i64,
    /// Commit time of the fix, seconds since 1970 (UTC).
    pub fix_time: i64,
    pub message: ByteText,
    /// Sorted by path.
    pub changes: Vec<FileChange>,
    /// Unified git diff with full binary data, of every change that is not [`Role::Test`], without its tests.
    pub source_patch: ByteText,
    /// The same of every [`Role::Test`] change and of tests inside source files. The two applied in either order to base
    /// give the fix's tree.
    pub test_patch: ByteText,
    pub n_source_files: u32,
    /// Added plus removed lines in [`Role::Source`] files, without their tests.
    pub n_source_lines: u32,
    /// 1: at most 5 source files and 200 source lines; 2: at most 15 and 500.
    pub tier: u8,
    /// Whether the message speaks of a fix; ranks, never rejects.
    pub mentions_fix: bool,
}

impl Candidate {
    pub fn changes_of(&self, role: Role) -> impl Iterator<Item = &FileChange> {
        self.changes.iter().filter(move |change| change.role == role)
    }

    /// Returns the message's first line.
    pub fn subject(&self) -> String {
        self.message.lossy().lines().next().unwrap_or_default().to_owned()
    }
}

/// Why a commit is not a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RejectReason {
    RootCommit,
    OctopusMerge,
    /// A merge, where only single commits are asked for.
    MergeCommit,
    /// Another candidate already is this change.
    DuplicateChange,
    /// A branch commit that a mined merge contains.
    PartOfMerge,
    NoChange,
    NoSourceChange,
    NoTestChange,
    TooManyFiles,
    TooManyLines,
    OversizedFile,
    CommentOrFormatOnly,
    GeneratedOrVendored,
    SubmoduleOnly,
    ShallowBoundary,
    UnreadableCommit,
    MissingObjects,
    PathCollision,
    /// A name that leaves the tree or stands for the repository itself.
    UnsafePath,
    /// A candidate in all respects that `--limit` left out: older, or less likely, than those that it was met by.
    BeyondLimit,
}

impl RejectReason {
    /// Returns the snake_case name used in the ledger.
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// What mining says of one commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitVerdict {
    pub commit: String,
    pub subject: String,
    /// Commit time, seconds since 1970 (UTC); absent where the commit carries none that can be read.
    pub time: Option<i64>,
    /// `None`: it is a candidate.
    pub reason: Option<RejectReason>,
    /// What the reason rests on (counts, paths), for `why`.
    pub detail: String,
}
