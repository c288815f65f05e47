//! Makes and records the suite runs of one candidate.

use std::time::Duration;

use anyhow::Result;

use crate::{
    harness::{self, Request, Subject},
    interrupt::{self, Interrupted},
    lab::Lab,
    record::{
        failure::{Blame, Failure, Phase},
        patch::Edit,
        suite::{Report, Selection, Status, SuiteOutcome, SuiteRun, TreeState, Variation},
    },
};

/// Runs that finish what a crash or time-out left unrun, at most.
const MAX_CONTINUATIONS: usize = 6;

/// The bench on which one candidate's states are run.
pub struct Bench<'a> {
    pub lab: &'a Lab,
    pub subject: Subject<'a>,
    pub before: Vec<Edit>,
    pub after: Vec<Edit>,
    /// The buggy state without those parts of its tests that do not compile; made when it is first needed.
    pub trimmed: Option<Vec<Edit>>,
    /// Limit for a whole process; lowered once the fixed state's time is known.
    pub wall: Duration,
    /// Limit for one test; likewise.
    pub test_wall: Duration,
    pub runs: Vec<SuiteRun>,
}

/// What one logical run saw: the reports of a run and of its continuations, merged.
#[derive(Clone, Debug)]
pub struct Seen {
    pub report: Report,
    /// What the other process saw, in a variation with company, if it got through.
    pub companion: Option<Report>,
    pub wall_ms: u64,
    /// Whether one process went through the whole selection.
    pub whole: bool,
}

impl Bench<'_> {
    /// Runs a selection at a state, in as many processes as crashing tests make necessary.
    ///
    /// # Errors
    /// The inner failure says why nothing ran; the outer error is an interrupt or an unusable setup.
    pub fn run(
        &mut self,
        state: TreeState,
        selection: &Selection,
        variation: Variation,
        with_stubs: bool,
    ) -> Result<Result<Seen, Failure>> {
        let first = self.run_once(state, selection, variation, with_stubs)?;
        let (wall_ms, companion) = (first.wall_ms, first.companion.clone().filter(|report| report.complete));
        let mut report = match &first.outcome {
            SuiteOutcome::Ran(report) => report.clone(),
            SuiteOutcome::NotRun(failure) => return Ok(Err(failure.clone())),
        };
        if let Some(file) = report.passed_decoys.first() {
            let detail = format!("a planted test that must fail passed in `{file}`: the bodies of tests do not run");
            return Ok(Err(Failure::new(Phase::Validate, "decoy_passed", Blame::Repo, detail)));
        }
        let whole = report.complete;
        for _ in 0..MAX_CONTINUATIONS {
            let left: Vec<String> = ids_with(&report, Status::NotRun);
            if left.is_empty() {
                break;
            }
            let rest = match selection {
                Selection::Alone(_) => Selection::Alone(left.clone()),
                Selection::All | Selection::Files(_) | Selection::Tests(_) => Selection::Tests(left.clone()),
            };
            let next = self.run_once(state, &rest, variation, with_stubs)?;
            let Some(more) = next.report() else { break };
            let progressed = left.iter().any(|id| more.status(id).is_some_and(|status| status != Status::NotRun));
            report.tests.extend(more.tests.iter().map(|(id, result)| (id.clone(), result.clone())));
            if !progressed {
                break;
            }
        }
        Ok(Ok(Seen { report, companion, wall_ms, whole }))
    }

    fn run_once(
        &mut self,
        state: TreeState,
        selection: &Selection,
        variation: Variation,
        with_stubs: bool,
    ) -> Result<&SuiteRun> {
        let edits: &[Edit] = match state {
            TreeState::Base => &[],
            TreeState::Before if with_stubs => self.trimmed.as_ref().unwrap_or(&self.before),
            TreeState::Before => &self.before,
            TreeState::After | TreeState::Agent => &self.after,
        };
        let request = Request {
            state,
            edits,
            selection: selection.clone(),
            variation,
            with_stubs,
            wall: self.wall,
            test_wall: self.test_wall,
        };
        let run = harness::run_suite(self.lab, self.subject, &request)?;
        if interrupt::requested() {
            return Err(Interrupted.into());
        }
        self.runs.push(run);
        Ok(self.runs.last().expect("a run was just pushed"))
    }
}

/// Returns the ids with a status, sorted.
pub fn ids_with(report: &Report, status: Status) -> Vec<String> {
    report.tests.iter().filter(|(_, result)| result.status == status).map(|(id, _)| id.clone()).collect()
}
