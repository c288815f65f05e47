//! Typed settings of every stage. Flags override the file, the file overrides the defaults; unknown keys are errors.

use serde::{Deserialize, Serialize};

/// What `mine` selects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mine {
    /// Branch, tag or commit to walk from; the default is `HEAD`.
    pub branch: Option<String>,
    /// Only commits at or after this day (`YYYY-MM-DD`) or instant (RFC 3339).
    pub since: Option<String>,
    /// Only commits before this day or instant.
    pub until: Option<String>,
    /// Candidates to keep, newest first.
    pub limit: Option<usize>,
    /// Exactly these commits, instead of a walk.
    pub commits: Vec<String>,
    /// `change`: the first-parent line, merges as one change, plus the branch commits of merges too large to be one
    /// task; `commit`: every non-merge commit.
    pub unit: MineUnit,
    pub max_source_files: u32,
    pub max_source_lines: u32,
    /// Test and other files together.
    pub max_files: u32,
    /// A changed file above this size rejects its commit, bytes.
    pub max_file_bytes: u64,
    /// Tiers to keep.
    pub tiers: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MineUnit {
    #[default]
    Change,
    Commit,
}

impl Default for Mine {
    fn default() -> Mine {
        Mine {
            branch: None,
            since: None,
            until: None,
            limit: None,
            commits: Vec::new(),
            unit: MineUnit::Change,
            max_source_files: 15,
            max_source_lines: 500,
            max_files: 60,
            max_file_bytes: 4 << 20,
            tiers: vec![1, 2],
        }
    }
}

/// How candidates are validated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Validate {
    /// Runs of each state besides the first, each with its own order, hash seed and temporary directory.
    pub repeats: u32,
    /// Limit for one test of the fixed state, seconds; other states get a multiple of what the fixed one needed.
    pub test_s: u64,
    /// Limit for one process of the fixed state, seconds. A whole suite that needs longer is replaced by the touched
    /// files' suite.
    pub suite_s: u64,
}

impl Default for Validate {
    fn default() -> Validate {
        Validate { repeats: 3, test_s: 60, suite_s: 300 }
    }
}
