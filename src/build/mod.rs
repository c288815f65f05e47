//! Candidate → environment: what its repository declares, resolved as of its date, installed once and shared.
//!
//! One environment serves all states of a candidate. It is derived from what the *fixed* commit declares, so that the
//! hidden tests find what they need, as of the day before the *base* commit. No model takes part, and nothing of the
//! repository is executed outside a sandbox. Whether the tests then pass is for validation to find out.

pub mod go;
pub mod javascript;
pub mod python;
pub mod rust;

use std::path::Path;

use anyhow::{Result, anyhow};
use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};

use crate::{
    config,
    git::ReadError,
    lab::Lab,
    record::{
        candidate::Candidate,
        environment::{Build, BuildOutcome, Language},
        failure::{Blame, Failure, Phase},
    },
    sources,
};

/// Builds the environment of one candidate, or says why there is none.
///
/// `overrides` is what `repos/<name>.toml` says better than the repository's files. Candidates whose resolutions are
/// equal share one environment. Safe to call from several threads.
///
/// # Errors
/// An unusable setup: a tool that is missing and cannot be had, a repository or cache that cannot be read, an interrupt.
pub fn build(
    lab: &Lab,
    repository: &Path,
    candidate: &Candidate,
    overrides: Option<&sources::Manifest>,
    settings: &config::Build,
) -> Result<BuildOutcome> {
    let outcome = match candidate.language {
        Language::Python => python::build(lab, repository, candidate, overrides, settings),
        Language::Javascript => javascript::build(lab, repository, candidate, overrides, settings),
        Language::Rust => rust::build(lab, repository, candidate, overrides, settings),
        Language::Go => go::build(lab, repository, candidate, overrides, settings),
    };
    match outcome {
        // The candidate's tree is not all there.
        Err(error) if error.downcast_ref::<ReadError>().is_some() => {
            Ok(Err(Failure::new(Phase::Build, "missing_objects", Blame::Repo, format!("{error:#}"))))
        }
        outcome => outcome,
    }
}

/// Returns what came of a build: a failure of the subject is a record, anything else an error.
fn outcome(build: Result<Build>) -> Result<BuildOutcome> {
    match build {
        Ok(build) => Ok(Ok(build)),
        Err(error) if crate::interrupt::requested() => Err(error),
        Err(error) => error.downcast::<Failure>().map(Err),
    }
}

/// Returns the failure of the repository's doing; what the machine or the user did passes through as an error.
fn of_repository(error: anyhow::Error) -> Result<Failure> {
    match error.downcast::<Failure>() {
        Ok(failure) if failure.is_transient() => Err(anyhow!(failure)),
        Ok(failure) => Ok(failure),
        Err(error) => Err(error),
    }
}

/// Returns the UTC day of an instant in seconds since 1970; one outside of time's range is taken as its end.
fn day(seconds: i64) -> Date {
    let seconds = seconds.clamp(Timestamp::MIN.as_second() + 86_400, Timestamp::MAX.as_second() - 86_400);
    let instant = Timestamp::from_second(seconds).expect("clamped to the range of time stamps");
    TimeZone::UTC.to_datetime(instant).date()
}

/// Returns the day from which on commits share a cut-off with this one: at most `share_days` - 1 days earlier.
fn shared_day(day: Date, share_days: u32) -> Date {
    let since = (day - Date::constant(1970, 1, 1)).get_days();
    let beyond = since.rem_euclid(share_days.clamp(1, 3_650).cast_signed());
    day.checked_sub(beyond.days()).unwrap_or(day)
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    #[test]
    fn days_share_a_cut_off_that_is_never_later() {
        let days = [date(2021, 3, 5), date(2021, 3, 6), date(2020, 12, 31), date(1969, 12, 31)];
        for day in days {
            assert_eq!(shared_day(day, 1), day);
            assert_eq!(shared_day(day, 0), day);
            let shared = shared_day(day, 91);
            assert!(shared <= day && (day - shared).get_days() < 91);
            assert_eq!(shared_day(shared, 91), shared);
        }
        assert_eq!(shared_day(days[0], 91), shared_day(days[1], 91));
    }
}
