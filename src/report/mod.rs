//! What a dataset holds, as numbers, as text and as one self-contained page.
//!
//! Owns the fold of all records into a [`Summary`] and its two renderings. Knows nothing of the store: it is handed
//! records, one at a time through [`Tally`] or all at once as [`Input`].

mod html;
mod page;
mod summary;
mod text;

use crate::record::{
    candidate::CommitVerdict,
    environment::BuildOutcome,
    episode::{Episode, Grade},
    failure::Failure,
    task::{Issue, Validation},
};

pub use html::html;
pub use summary::{Attempts, Loss, PassAt, Spread, Step, Summary, Tally, Times, pass_at_k};
pub use text::text;

/// Every record that the page shows.
#[derive(Clone, Debug, Default)]
pub struct Input {
    pub dataset: String,
    /// In the order of mining.
    pub commits: Vec<CommitVerdict>,
    /// With the candidate's `instance_id`, which a failure does not carry.
    pub builds: Vec<(String, BuildOutcome)>,
    pub validations: Vec<Validation>,
    /// With the task's `instance_id`.
    pub issues: Vec<(String, Result<Issue, Failure>)>,
    /// `None` where the episode is not graded yet.
    pub episodes: Vec<(Episode, Option<Grade>)>,
}

/// Returns the numbers of a dataset.
pub fn summary(input: &Input) -> Summary {
    let mut tally = Tally::new(&input.dataset);
    input.commits.iter().for_each(|verdict| tally.commit(verdict));
    input.builds.iter().for_each(|(_, outcome)| tally.build(outcome));
    input.validations.iter().for_each(|validation| tally.validation(validation));
    input.issues.iter().for_each(|(_, issue)| tally.issue(issue));
    input.episodes.iter().for_each(|(episode, grade)| tally.episode(episode, grade.as_ref()));
    tally.finish()
}

/// Returns the snake_case name that a unit variant is serialised by.
fn name_of(variant: impl serde::Serialize) -> String {
    match serde_json::to_value(variant) {
        Ok(serde_json::Value::String(name)) => name,
        other => unreachable!("a unit variant serialises to its name, not to {other:?}"),
    }
}
