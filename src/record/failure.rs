//! Why something could not be done, as data.

use std::fmt;

use serde::{Deserialize, Serialize};

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
        Failure { phase, kind: kind.to_owned(), blame, detail: detail.into() }
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
