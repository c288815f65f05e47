//! How much of a fix its fail-to-pass tests notice: summaries of runs on variants of the fixed state.

use serde::{Deserialize, Serialize};

use super::bytes::ByteText;

/// What came of dropping each hunk of the fix, and of planting small faults into the lines that it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strength {
    /// Those of program files, in the patch's order.
    pub hunks: Vec<HunkStrength>,
    /// Those that were run, by place.
    pub mutants: Vec<MutantStrength>,
    /// Variants chosen to be run, within the number that the settings allow.
    pub n_planned: u32,
    /// Fewer where the time for them was up.
    pub n_run: u32,
    /// Wall time of all these runs together.
    #[serde(default)]
    pub wall_ms: u64,
}

/// The fixed state without one hunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HunkStrength {
    pub path: ByteText,
    /// First and last changed line of the fixed file, from 1; of the old file where the fix removes it.
    pub lines: (u32, u32),
    /// `@@ -a,b +c,d @@ function`, or what happens to the file as a whole.
    pub header: String,
    /// Whether it changes more than comments, docstrings and layout.
    pub is_code: bool,
    /// Fail-to-pass tests that do not pass without it; absent where it was not tried.
    pub noticed_by: Option<u32>,
}

/// The fixed state with one small fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MutantStrength {
    pub path: ByteText,
    /// Of the fixed file, from 1.
    pub line: u32,
    /// `` `==` → `!=` ``.
    pub what: String,
    pub fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// At least one fail-to-pass test did not pass.
    Killed,
    Survived,
    /// It does not compile, which no test can take credit for.
    Unviable,
}

impl Strength {
    pub fn n_killed(&self) -> usize {
        self.mutants.iter().filter(|mutant| mutant.fate == Fate::Killed).count()
    }

    /// Returns how many mutants could be run; of these some were killed.
    pub fn n_mutants(&self) -> usize {
        self.n_killed() + self.survivors().count()
    }

    pub fn survivors(&self) -> impl Iterator<Item = &MutantStrength> {
        self.mutants.iter().filter(|mutant| mutant.fate == Fate::Survived)
    }

    /// Returns the hunks that no fail-to-pass test notices: the fix is tangled with them.
    pub fn unneeded_hunks(&self) -> impl Iterator<Item = &HunkStrength> {
        self.hunks.iter().filter(|hunk| hunk.is_code && hunk.noticed_by == Some(0))
    }
}

impl HunkStrength {
    /// Returns `path:first-last`.
    pub fn place(&self) -> String {
        let (first, last) = self.lines;
        format!("{}:{first}-{last}", self.path.escaped())
    }
}
