//! The fail-to-pass tests on one variant of the fixed state after another, within a time for all of them.

use std::{collections::BTreeSet, time::Duration};

use anyhow::Result;

use super::super::{Examination, runs::Bench, trim};
use crate::{
    harness::{self, Request},
    interrupt::{self, Interrupted},
    record::{
        bytes::ByteText,
        patch::{Edit, FileContent},
        suite::{Report, Selection, Status, SuiteOutcome, SuiteRun, TreeState, Variation},
    },
};

/// Wall time of all runs of one task together.
const MAX_SPENT: Duration = Duration::from_secs(60);
/// Limit for one test: this many times what the slowest one needs on the fixed state, but at least [`MIN_TEST_WALL`].
const TEST_FACTOR: u32 = 10;
const MIN_TEST_WALL: Duration = Duration::from_secs(2);
/// Limit for one process, likewise; where it compiles first, at least what the bench allows.
const WALL_FACTOR: u32 = 5;
const MIN_WALL: Duration = Duration::from_secs(10);

/// What a run on a variant says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// So many tests did not pass.
    Failed(u32),
    /// Tests could not be compiled or imported.
    Broken,
    /// The machine failed.
    Unknown,
}

/// The bench with tightened limits.
pub struct Trial<'e> {
    bench: &'e Bench<'e>,
    /// Those that pass on the fixed state when they are run together.
    tests: Vec<String>,
    variation: Variation,
    wall: Duration,
    test_wall: Duration,
    spent: Duration,
    /// What was run already: path, content, and what was seen.
    known: Vec<(ByteText, Option<FileContent>, Seen)>,
}

impl<'e> Trial<'e> {
    /// Runs the fixed state as it is, from which limits follow; `None` where no test passes.
    pub fn start(examination: &'e Examination, fail_to_pass: &BTreeSet<String>) -> Result<Option<Trial<'e>>> {
        let bench = &examination.bench;
        let mut trial = Trial {
            bench,
            tests: fail_to_pass.iter().cloned().collect(),
            variation: examination.plain(),
            wall: bench.wall,
            test_wall: bench.test_wall,
            spent: Duration::ZERO,
            known: Vec::new(),
        };
        let run = trial.run_once(&bench.after)?;
        let Some(report) = run.report() else { return Ok(None) };
        trial.tests.retain(|id| report.status(id) == Some(Status::Passed));
        let slowest_ms = trial.tests.iter().map(|id| report.tests[id].duration_ms).max().unwrap_or(0);
        let is_compiled = trim::is_compiled(examination.context.candidate.language);
        let min_wall = if is_compiled { bench.wall } else { MIN_WALL };
        trial.test_wall = (TEST_FACTOR * Duration::from_millis(slowest_ms)).max(MIN_TEST_WALL).min(bench.test_wall);
        trial.wall = (WALL_FACTOR * Duration::from_millis(run.wall_ms)).max(min_wall).min(bench.wall);
        Ok((!trial.tests.is_empty()).then_some(trial))
    }

    pub fn n_tests(&self) -> u32 {
        u32::try_from(self.tests.len()).unwrap_or(u32::MAX)
    }

    /// Returns how many files differ between the buggy and the fixed state.
    pub fn n_changes(&self) -> usize {
        self.bench.after.iter().filter(|edit| !self.bench.before.contains(edit)).count()
    }

    /// Runs the fixed state with one file as given; `None` where the time is up.
    ///
    /// # Errors
    /// An interrupt, or a sandbox that cannot be used at all.
    pub fn run(&mut self, path: &ByteText, content: Option<&FileContent>) -> Result<Option<Seen>> {
        let is_same = |known: &&(ByteText, Option<FileContent>, Seen)| known.0 == *path && known.1.as_ref() == content;
        if let Some((_, _, seen)) = self.known.iter().find(is_same) {
            return Ok(Some(*seen));
        }
        if self.spent >= MAX_SPENT {
            return Ok(None);
        }
        let mut edits: Vec<Edit> = self.bench.after.iter().filter(|edit| edit.path != *path).cloned().collect();
        // Only a file that the fix adds is dropped, and the base has none.
        edits.extend(content.map(|content| Edit { path: path.clone(), content: Some(content.clone()) }));
        let run = self.run_once(&edits)?;
        let seen = seen(&run.outcome, &self.tests);
        self.known.push((path.clone(), content.cloned(), seen));
        Ok(Some(seen))
    }

    fn run_once(&mut self, edits: &[Edit]) -> Result<SuiteRun> {
        let request = Request {
            state: TreeState::After,
            edits,
            selection: Selection::Tests(self.tests.clone()),
            variation: self.variation,
            with_stubs: false,
            wall: self.wall,
            test_wall: self.test_wall,
        };
        let run = harness::run_suite(self.bench.lab, self.bench.subject, &request)?;
        self.spent += Duration::from_millis(run.wall_ms);
        if interrupt::requested() { Err(Interrupted.into()) } else { Ok(run) }
    }
}

fn seen(outcome: &SuiteOutcome, tests: &[String]) -> Seen {
    let report = match outcome {
        SuiteOutcome::NotRun(failure) if failure.is_transient() => return Seen::Unknown,
        SuiteOutcome::NotRun(_) => return Seen::Broken,
        SuiteOutcome::Ran(report) => report,
    };
    let count =
        |is_counted: &dyn Fn(&Report, &String) -> bool| tests.iter().filter(|id| is_counted(report, id)).count();
    let n_missing = count(&|report, id| report.status(id).is_none());
    if n_missing > 0 && !report.collection_errors.is_empty() {
        return Seen::Broken;
    }
    let n_failed = count(&|report, id| report.status(id) != Some(Status::Passed));
    Seen::Failed(u32::try_from(n_failed).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{
        failure::{Blame, Failure, Phase},
        suite::{CollectionError, TestResult},
    };

    fn report(statuses: &[(&str, Status)]) -> Report {
        let result =
            |status| TestResult { status, exception: None, message: String::new(), frames: Vec::new(), duration_ms: 0 };
        let tests = statuses.iter().map(|(id, status)| ((*id).to_owned(), result(*status))).collect();
        Report { tests, complete: true, ..Report::default() }
    }

    #[test]
    fn what_did_not_run_is_told_from_what_failed() {
        let tests = ["a".to_owned(), "b".to_owned()];
        let ran = |report| seen(&SuiteOutcome::Ran(report), &tests);
        assert_eq!(ran(report(&[("a", Status::Passed), ("b", Status::Passed)])), Seen::Failed(0));
        assert_eq!(
            ran(report(&[("a", Status::TimedOut), ("b", Status::Passed), ("c", Status::Failed)])),
            Seen::Failed(1)
        );
        assert_eq!(ran(report(&[("a", Status::Crashed)])), Seen::Failed(2));
        let error = CollectionError { exception: None, message: String::new(), frames: Vec::new() };
        let mut broken = report(&[("a", Status::Passed)]);
        broken.collection_errors.insert("b.py".to_owned(), error);
        assert_eq!(ran(broken.clone()), Seen::Broken);
        broken.tests.extend(report(&[("b", Status::Passed)]).tests);
        assert_eq!(ran(broken), Seen::Failed(0));
        let not_run = |blame| seen(&SuiteOutcome::NotRun(Failure::new(Phase::Validate, "x", blame, "")), &tests);
        assert_eq!(not_run(Blame::Infra), Seen::Unknown);
        assert_eq!(not_run(Blame::Repo), Seen::Broken);
    }
}
