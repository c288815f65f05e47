//! The fail-to-pass tests on one variant of the fixed state after another, within a time for all of them.

use std::{collections::BTreeSet, time::Duration};

use anyhow::Result;

use super::super::{Examination, runs::Bench, trim};
use crate::{
    harness::{self, Request, series::run_series},
    interrupt::{self, Interrupted},
    record::{
        bytes::ByteText,
        environment::Language,
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
/// Fewer, the unchanged state twice among them, are not worth a series.
const MIN_MEMBERS: usize = 4;
const SYMLINK: u32 = 0o120_000;

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
    /// What was run already, and what was seen.
    known: Vec<(Edit, Seen)>,
}

/// One file as it is to be instead; one that is not to be, if there is no content.
#[derive(Clone, Copy, Debug)]
pub struct Variant<'v> {
    pub path: &'v ByteText,
    pub content: Option<&'v FileContent>,
}

impl Variant<'_> {
    fn edit(self) -> Edit {
        Edit { path: self.path.clone(), content: self.content.cloned() }
    }
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

    /// Returns the wall time of all runs so far.
    pub fn spent(&self) -> Duration {
        self.spent
    }

    /// Returns how many files differ between the buggy and the fixed state.
    pub fn n_changes(&self) -> usize {
        self.bench.after.iter().filter(|edit| !self.bench.before.contains(edit)).count()
    }

    /// Runs the fixed state once for each variant, in which one file is as given; `None` from where the time is up.
    ///
    /// # Errors
    /// An interrupt, or a sandbox that cannot be used at all.
    pub fn run(&mut self, variants: &[Variant]) -> Result<Vec<Option<Seen>>> {
        self.run_series(variants)?;
        variants.iter().map(|variant| self.run_alone(*variant)).collect()
    }

    /// Notes what variants show in one sandbox together, where that can be had and believed.
    fn run_series(&mut self, variants: &[Variant]) -> Result<()> {
        if self.bench.subject.build.runner.language() != Language::Python {
            return Ok(());
        }
        let edits: Vec<Edit> = variants.iter().map(|variant| variant.edit()).collect();
        let is_plain = |edit: &Edit| edit.content.as_ref().is_none_or(|content| content.mode != SYMLINK);
        // The unchanged state before and after all others: it must not have suffered.
        let members: Vec<Option<&Edit>> =
            [None].into_iter().chain(edits.iter().filter(|edit| is_plain(edit)).map(Some)).chain([None]).collect();
        if members.len() < MIN_MEMBERS {
            return Ok(());
        }
        let budget = MAX_SPENT.saturating_sub(self.spent);
        let series =
            run_series(self.bench.lab, self.bench.subject, &self.request(&self.bench.after), &members, budget)?;
        self.spent += series.wall;
        let mut seen = series.outcomes.iter().map(|outcome| outcome.as_ref().map(|outcome| seen(outcome, &self.tests)));
        let is_unharmed = |seen: Option<Option<Seen>>| seen == Some(Some(Seen::Failed(0)));
        if !is_unharmed(seen.next()) || !is_unharmed(seen.next_back()) {
            return Ok(());
        }
        for (edit, seen) in members[1..].iter().flatten().zip(seen) {
            self.known.extend(seen.map(|seen| ((*edit).clone(), seen)));
        }
        Ok(())
    }

    fn run_alone(&mut self, variant: Variant) -> Result<Option<Seen>> {
        let edit = variant.edit();
        if let Some((_, seen)) = self.known.iter().find(|(known, _)| *known == edit) {
            return Ok(Some(*seen));
        }
        if self.spent >= MAX_SPENT {
            return Ok(None);
        }
        let mut edits: Vec<Edit> = self.bench.after.iter().filter(|other| other.path != edit.path).cloned().collect();
        // Only a file that the fix adds is dropped, and the base has none.
        edits.extend(edit.content.is_some().then(|| edit.clone()));
        let run = self.run_once(&edits)?;
        let seen = seen(&run.outcome, &self.tests);
        self.known.push((edit, seen));
        Ok(Some(seen))
    }

    fn request<'r>(&self, edits: &'r [Edit]) -> Request<'r> {
        Request {
            state: TreeState::After,
            edits,
            selection: Selection::Tests(self.tests.clone()),
            variation: self.variation,
            with_stubs: false,
            wall: self.wall,
            test_wall: self.test_wall,
        }
    }

    fn run_once(&mut self, edits: &[Edit]) -> Result<SuiteRun> {
        let request = self.request(edits);
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
