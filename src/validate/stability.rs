//! What holds under repetition: repeats of both states, quarantine by reason, each test alone, the whole suite.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    Before, Examination, Stop,
    causes::Varied,
    runs::Seen,
    verdict::{Class, Instability, class, is_fix, settle},
};
use crate::{
    lang,
    record::{
        environment::{Language, Runner},
        suite::{Company, Report, Selection, Status, TreeState, Variation},
        task::{EvidenceLabel, QuarantineReason, Transition},
    },
};

/// JavaScript's fail-to-pass tests that are run alone one by one; the rest together in one process.
const MAX_ALONE: usize = 40;

/// The whole suite's reports.
pub(super) struct Suite {
    /// A plain run, and where the buggy state at another date left it open what is the date's doing, one at that date.
    pub(super) after: Vec<Varied>,
    /// At another date and time.
    pub(super) before: Report,
    /// Of the plain run.
    pub(super) wall_ms: u64,
}

fn by_file(runner: Runner, ids: &[String]) -> Vec<Vec<String>> {
    let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for id in ids {
        files.entry(lang::file_of(runner, id).unwrap_or_default()).or_default().push(id.clone());
    }
    files.into_values().collect()
}

/// Returns a variation at another date and time.
fn later(variation: Variation) -> Variation {
    Variation { other_date: true, other_time: true, ..variation }
}

impl Examination<'_> {
    /// Repeats both states and keeps what is constant on both sides.
    pub(super) fn repeat(
        &mut self,
        selection: &Selection,
        label: EvidenceLabel,
        base_passed: &BTreeSet<String>,
        first_before: Before,
        first_after: &Seen,
        failing: &mut Report,
    ) -> Result<BTreeSet<String>, Stop> {
        let stubs = Some(!first_before.stubbed.is_empty());
        let mut before = vec![first_before.merged];
        let mut after = vec![Varied { variation: Variation::PLAIN, report: first_after.report.clone() }];
        // The last repeat is the whole suite.
        for n in 1..self.context.settings.repeats {
            let variation = Variation { hash_seed: n, order_seed: Some(u64::from(n)), temp: n, ..Variation::PLAIN };
            before.push(self.run_before(selection, variation, stubs)?.merged);
            let variation = self.hardened(variation);
            let seen = self.bench.run(TreeState::After, selection, variation, false)?.map_err(Stop::Rejected)?;
            after.push(Varied { variation, report: seen.report });
            // Nobody was there before the one before.
            let company = if variation.company == Company::Before { Company::Nobody } else { variation.company };
            after.extend(seen.companion.map(|report| Varied { variation: Variation { company, ..variation }, report }));
        }
        let reports: Vec<&Report> = after.iter().map(|varied| &varied.report).collect();
        let settled = settle(&before.iter().collect::<Vec<_>>(), &reports);
        self.transitions = settled.transitions;
        let mut stable: BTreeSet<String> = match label {
            EvidenceLabel::Strong | EvidenceLabel::Resolved => self.ids_where(is_fix),
            EvidenceLabel::Weak => {
                self.ids_where(|t| t == Transition::MissingToPass).difference(base_passed).cloned().collect()
            }
        };
        stable.retain(|id| !self.quarantined.contains_key(id));
        self.explain_after(selection, &settled.unstable, &after)?;
        self.explain_before(selection, &settled.unstable, &before, &mut stable, failing)?;
        if stable.is_empty() { Err(self.all_quarantined()) } else { Ok(stable) }
    }

    /// Adds what only the fixed state has to bear: in turn another zone and a run before it in the same place, and another
    /// date and time and a run beside it.
    fn hardened(&self, variation: Variation) -> Variation {
        if variation.temp % 2 == 1 {
            return Variation { company: Company::Before, other_zone: true, ..variation };
        }
        // What compiles or has workers of its own is not made for two in one tree.
        let is_python = self.context.build.runner.language() == Language::Python;
        let company = if is_python { Company::Beside } else { Company::Nobody };
        Variation { company, ..later(variation) }
    }

    pub(super) fn ids_where(&self, wanted: impl Fn(Transition) -> bool) -> BTreeSet<String> {
        self.transitions.iter().filter(|(_, transition)| wanted(**transition)).map(|(id, _)| id.clone()).collect()
    }

    /// Quarantines the tests of the fixed state that disagree with themselves, each with its cause.
    pub(super) fn explain_after(
        &mut self,
        selection: &Selection,
        unstable: &BTreeMap<String, Instability>,
        after: &[Varied],
    ) -> Result<(), Stop> {
        self.quarantine(unstable, Instability::Id, |_| QuarantineReason::UnstableId);
        let is_open =
            |(id, why): &(&String, &Instability)| **why == Instability::After && !self.quarantined.contains_key(*id);
        let mixed: BTreeSet<String> = unstable.iter().filter(is_open).map(|(id, _)| id.clone()).collect();
        if !mixed.is_empty() {
            let causes = self.causes(selection, &mixed, after)?;
            self.quarantined.extend(causes);
        }
        Ok(())
    }

    pub(super) fn quarantine(
        &mut self,
        unstable: &BTreeMap<String, Instability>,
        which: Instability,
        reason: impl Fn(&String) -> QuarantineReason,
    ) {
        for (id, _) in unstable.iter().filter(|(_, why)| **why == which) {
            let reason = reason(id);
            self.quarantined.entry(id.clone()).or_insert(reason);
        }
    }

    /// A test that always passes after the fix and fails only sometimes before: a bug that shows under some hash seeds
    /// makes a task pinned to such a seed, if no steadier test does.
    fn explain_before(
        &mut self,
        selection: &Selection,
        unstable: &BTreeMap<String, Instability>,
        before: &[Report],
        stable: &mut BTreeSet<String>,
        failing: &mut Report,
    ) -> Result<(), Stop> {
        let fails = |report: &Report, id: &String| class(report.status(id)) == Class::Fail;
        let mixed: Vec<&String> =
            unstable.iter().filter(|(_, why)| **why == Instability::BeforeOnly).map(|(id, _)| id).collect();
        let Some(first) = mixed.first() else { return Ok(()) };
        let seed_where = |wanted: bool| before.iter().position(|report| fails(report, first) == wanted);
        let mut pinned = BTreeSet::new();
        if let (Some(bad), Some(good)) = (seed_where(true), seed_where(false)) {
            let bad = Variation { hash_seed: u32::try_from(bad).unwrap_or(0), ..Variation::PLAIN };
            let good = Variation { hash_seed: u32::try_from(good).unwrap_or(0), ..Variation::PLAIN };
            let mut run = |variation| self.run_before(selection, variation, Some(false)).map(|before| before.merged);
            let (bad_runs, good_runs) = ([run(bad)?, run(bad)?, run(bad)?], [run(good)?, run(good)?]);
            pinned = mixed
                .iter()
                .filter(|id| {
                    bad_runs.iter().all(|report| fails(report, id)) && !good_runs.iter().any(|report| fails(report, id))
                })
                .map(|id| (*id).clone())
                .collect();
            if stable.is_empty() && !pinned.is_empty() {
                self.hash_seed = bad.hash_seed;
                let [first, ..] = bad_runs;
                *failing = first;
                for id in std::mem::take(&mut pinned) {
                    self.transitions.insert(id.clone(), Transition::FailToPass);
                    stable.insert(id);
                }
            }
        }
        for id in mixed.into_iter().filter(|id| !stable.contains(*id)) {
            let seeded = pinned.contains(id);
            let reason = if seeded { QuarantineReason::HashSeedDependent } else { QuarantineReason::Unstable };
            self.quarantined.entry(id.clone()).or_insert(reason);
        }
        Ok(())
    }

    pub(super) fn plain(&self) -> Variation {
        Variation { hash_seed: self.hash_seed, ..Variation::PLAIN }
    }

    /// Runs each fail-to-pass test of the fixed state alone; one that needs its neighbours is quarantined.
    pub(super) fn alone(&mut self, mut fail_to_pass: BTreeSet<String>) -> Result<BTreeSet<String>, Stop> {
        let ids: Vec<String> = fail_to_pass.iter().cloned().collect();
        for group in self.alone_groups(ids) {
            for id in self.not_passing(group)? {
                // A process of its own decides: the one it shared its imports with may be what it did not bear.
                let mut fails = || Ok::<bool, Stop>(!self.not_passing(Selection::Tests(vec![id.clone()]))?.is_empty());
                let reason = match (fails()?, fails()?) {
                    (false, false) => continue,
                    (true, true) => QuarantineReason::OrderDependent,
                    (true, false) | (false, true) => QuarantineReason::Unstable,
                };
                fail_to_pass.remove(&id);
                self.quarantined.insert(id, reason);
            }
        }
        if fail_to_pass.is_empty() { Err(self.all_quarantined()) } else { Ok(fail_to_pass) }
    }

    /// Returns the runs that show each test alone: one where the runner parts them, for JavaScript one a test, or a file
    /// where the runner goes through all of it whichever test is asked for.
    fn alone_groups(&self, ids: Vec<String>) -> Vec<Selection> {
        let runner = self.context.build.runner;
        if runner.language() != Language::Javascript {
            return vec![Selection::Alone(ids)];
        }
        if lang::runs_whole_files(runner) {
            return by_file(runner, &ids).into_iter().map(Selection::Tests).collect();
        }
        let (single, rest) = ids.split_at(ids.len().min(MAX_ALONE));
        let single = single.iter().map(|id| Selection::Tests(vec![id.clone()]));
        single.chain((!rest.is_empty()).then(|| Selection::Tests(rest.to_vec()))).collect()
    }

    fn not_passing(&mut self, selection: Selection) -> Result<Vec<String>, Stop> {
        let seen = self.bench.run(TreeState::After, &selection, self.plain(), false)?;
        let report = seen.map(|seen| seen.report).unwrap_or_default();
        let (Selection::Tests(ids) | Selection::Alone(ids)) = selection else { return Ok(Vec::new()) };
        Ok(ids.into_iter().filter(|id| report.status(id) != Some(Status::Passed)).collect())
    }

    /// Makes the last repeat of both states: on the repository's whole suite where that can be had, which also tells
    /// the pass-to-pass tests, else on the touched files. A fail-to-pass test has to be one here too.
    pub(super) fn last_repeat(
        &mut self,
        selection: &Selection,
        mut fail_to_pass: BTreeSet<String>,
    ) -> Result<(BTreeSet<String>, Option<Suite>), Stop> {
        let suite = self.whole_suite(&fail_to_pass)?;
        let (before, after) = match &suite {
            Some(suite) => (suite.before.clone(), suite.after.iter().map(|run| run.report.clone()).collect()),
            None if self.context.settings.repeats == 0 => return Ok((fail_to_pass, None)),
            None => self.touched_once_more(selection)?,
        };
        for id in fail_to_pass.clone() {
            let passed = |report: &&Report| report.status(&id) == Some(Status::Passed);
            let (n_after, passed_before) = (after.iter().filter(passed).count(), passed(&&before));
            if n_after == after.len() && !passed_before {
                continue;
            }
            fail_to_pass.remove(&id);
            let by_neighbours = suite.is_some() && (n_after == 0 || passed_before);
            let reason = if by_neighbours { QuarantineReason::OrderDependent } else { QuarantineReason::Unstable };
            self.quarantined.insert(id, reason);
        }
        Ok((fail_to_pass, suite))
    }

    fn touched_once_more(&mut self, selection: &Selection) -> Result<(Report, Vec<Report>), Stop> {
        let n = self.context.settings.repeats;
        let variation = Variation { order_seed: Some(u64::from(n)), temp: n, ..self.plain() };
        let after = self.bench.run(TreeState::After, selection, variation, false)?.map_err(Stop::Rejected)?.report;
        let before = self.run_before(selection, variation, Some(false))?.merged;
        Ok((before, vec![after]))
    }

    /// Runs the repository's whole suite: once on the fixed state, and at another date and time on the buggy one.
    ///
    /// `None` where that takes too long, dies, or does not include the fail-to-pass tests.
    fn whole_suite(&mut self, fail_to_pass: &BTreeSet<String>) -> Result<Option<Suite>, Stop> {
        self.bench.wall = Duration::from_secs(self.context.settings.suite_s);
        self.bench.test_wall = Duration::from_secs(self.context.settings.test_s);
        let plain = self.plain();
        let Some(seen) = self.whole_run(TreeState::After, plain)? else { return Ok(None) };
        if !fail_to_pass.iter().all(|id| seen.report.tests.contains_key(id)) {
            return Ok(None);
        }
        self.note_network_failures(seen.report.tests.iter());
        self.tighten(&seen);
        let later = later(Variation { temp: 1, ..plain });
        let before = self.whole_run(TreeState::Before, later)?.map(|seen| seen.report).unwrap_or_default();
        let passes = |report: &Report, id: &String| report.status(id) == Some(Status::Passed);
        let mut lost = seen.report.tests.keys().filter(|id| passes(&seen.report, id) && !passes(&before, id));
        let is_explained = lost.all(|id| fail_to_pass.contains(id));
        let wall_ms = seen.wall_ms;
        let mut after = vec![Varied { variation: plain, report: seen.report }];
        if !is_explained {
            // The bug or the date? The fixed state tells.
            let again = self.whole_run(TreeState::After, later)?;
            after.extend(again.map(|seen| Varied { variation: later, report: seen.report }));
        }
        Ok(Some(Suite { after, before, wall_ms }))
    }

    /// Runs everything in one process; `None` where that did not get through.
    fn whole_run(&mut self, state: TreeState, variation: Variation) -> Result<Option<Seen>, Stop> {
        let seen = self.bench.run(state, &Selection::All, variation, false)?;
        Ok(seen.ok().filter(|seen| seen.whole))
    }
}
