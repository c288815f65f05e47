//! Why something could not be done, as data.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Kind of a failure for want of room, which ends a run.
pub const DISK_FULL: &str = "disk_full";

/// Says by a message of the system or a tool whether there was no room left.
pub fn is_full_disk(text: &str) -> bool {
    ["No space left on device", "Disk quota exceeded", "database or disk is full"]
        .iter()
        .any(|word| text.contains(word))
}

/// The stage that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Mine,
    Build,
    Validate,
    Issue,
    Rollout,
    Grade,
}

/// Who is at fault; only [`Blame::Infra`] is worth a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blame {
    Repo,
    Task,
    Agent,
    Model,
    Infra,
}

/// One failure of a subject, a model or the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    pub phase: Phase,
    /// A short snake_case name, counted in reports (`resolve_failed`, `no_fail_to_pass`).
    pub kind: String,
    pub blame: Blame,
    /// What was seen: the failing command's last lines, or the ids concerned.
    pub detail: String,
}

impl Failure {
    pub fn new(phase: Phase, kind: &str, blame: Blame, detail: impl Into<String>) -> Failure {
        let detail = detail.into();
        // Whatever the machine could not do for want of room has one name.
        let kind = if blame == Blame::Infra && is_full_disk(&detail) { DISK_FULL } else { kind };
        Failure { phase, kind: kind.to_owned(), blame, detail }
    }

    /// Says whether another try may end differently: the machine failed, not the subject.
    pub fn is_transient(&self) -> bool {
        self.blame == Blame::Infra
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.detail)
    }
}

impl std::error::Error for Failure {}
