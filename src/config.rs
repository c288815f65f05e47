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

/// What an attempt may use up, and how many are made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rollout {
    /// Attempts per task.
    pub samples: u32,
    pub seed: u64,
    /// Policy replies.
    pub max_steps: u32,
    /// Whole conversation, estimated at four bytes a token where the policy reports none.
    pub max_tokens: u64,
    pub max_wall_s: u64,
    /// For one command or one run of the visible tests.
    pub command_s: u64,
}

impl Default for Rollout {
    fn default() -> Rollout {
        Rollout { samples: 4, seed: 0, max_steps: 40, max_tokens: 200_000, max_wall_s: 1_800, command_s: 180 }
    }
}

/// Time limits of grading. The whole run may take `wall_factor` times what the fixed state took in validation, but at
/// least `min_wall_s`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grade {
    pub min_wall_s: u64,
    pub wall_factor: u64,
    /// For each test.
    pub test_wall_s: u64,
}

impl Default for Grade {
    fn default() -> Grade {
        Grade { min_wall_s: 60, wall_factor: 10, test_wall_s: 60 }
    }
}
