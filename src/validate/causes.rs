//! Why a test disagrees with itself: what differed among its repeats is changed again, one thing at a time.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Examination, Stop,
    verdict::{class, is_port_conflict},
};
use crate::record::{
    suite::{Company, Report, Selection, TreeState, Variation},
    task::QuarantineReason,
};

/// Runs under each of two random seeds; a test that draws by other means passes all of them only by luck.
const RUNS_PER_RANDOM_SEED: usize = 3;
/// Plain runs that tell a test that hangs on its circumstances from one that draws lots.
const PLAIN_RUNS: usize = 5;
/// Runs with one changed circumstance.
const RUNS_PER_FACTOR: usize = 3;

/// A run of the fixed state, with what was varied in it.
pub(super) struct Varied {
    pub(super) variation: Variation,
    pub(super) report: Report,
}

impl Examination<'_> {
    /// Names the reasons for tests of the fixed state that come out differently in some of the runs.
    ///
    /// The first run is the plain one. Where nothing that is changed alone tells, the reason is
    /// [`QuarantineReason::Unstable`].
    pub(super) fn causes(
        &mut self,
        selection: &Selection,
        ids: &BTreeSet<String>,
        runs: &[Varied],
    ) -> Result<BTreeMap<String, QuarantineReason>, Stop> {
        let Some((first, varied)) = runs.split_first() else { return Ok(BTreeMap::new()) };
        let plain = first.variation;
        let differs = |report: &Report, id: &String| class(report.status(id)) != class(first.report.status(id));
        let mut steady = ids.clone();
        for _ in 0..PLAIN_RUNS {
            if steady.is_empty() {
                break;
            }
            let report = self.after(selection, plain)?;
            steady.retain(|id| !differs(&report, id));
        }
        let mut causes = self.random(selection, plain, &ids.difference(&steady).cloned().collect())?;
        let mut conflicts: BTreeSet<String> = port_conflicts(runs.iter().map(|run| &run.report));
        for (reason, alone) in factors(plain, varied) {
            let open = || steady.iter().filter(|id| !causes.contains_key(*id)).cloned();
            let (mut always, mut ever): (BTreeSet<String>, BTreeSet<String>) = (open().collect(), BTreeSet::new());
            // Two processes do not meet every time.
            let is_chance = alone.company == Company::Beside;
            for _ in 0..RUNS_PER_FACTOR {
                if always.is_empty() && !is_chance || open().next().is_none() {
                    break;
                }
                let (report, companion) = self.after_in_company(selection, alone)?;
                let both: Vec<&Report> = [&report].into_iter().chain(&companion).collect();
                ever.extend(open().filter(|id| both.iter().any(|report| differs(report, id))));
                always.retain(|id| differs(&report, id));
                conflicts.extend(port_conflicts(both));
            }
            causes.extend(if is_chance { ever } else { always }.into_iter().map(|id| (id, reason)));
        }
        // Whoever draws lots may have drawn the same up to here.
        for _ in 0..if causes.is_empty() { 0 } else { RUNS_PER_FACTOR } {
            let report = self.after(selection, plain)?;
            causes.retain(|id, reason| *reason == QuarantineReason::Random || !differs(&report, id));
        }
        for id in ids {
            let reason = causes.entry(id.clone()).or_insert(QuarantineReason::Unstable);
            if conflicts.contains(id) {
                *reason = QuarantineReason::PortConflict;
            }
        }
        Ok(causes)
    }

    fn after(&mut self, selection: &Selection, variation: Variation) -> Result<Report, Stop> {
        Ok(self.after_in_company(selection, variation)?.0)
    }

    fn after_in_company(
        &mut self,
        selection: &Selection,
        variation: Variation,
    ) -> Result<(Report, Option<Report>), Stop> {
        let seen = self.bench.run(TreeState::After, selection, variation, false)?;
        Ok(seen.map(|seen| (seen.report, seen.companion)).unwrap_or_default())
    }

    /// Names those tests that are constant once random numbers have a seed.
    fn random(
        &mut self,
        selection: &Selection,
        plain: Variation,
        ids: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, QuarantineReason>, Stop> {
        let mut constant = ids.clone();
        for seed in [1, 2] {
            let mut first = None;
            for _ in 0..RUNS_PER_RANDOM_SEED {
                if constant.is_empty() {
                    break;
                }
                let report = self.after(selection, Variation { random_seed: Some(seed), ..plain })?;
                let first = first.get_or_insert_with(|| report.clone());
                constant.retain(|id| class(report.status(id)) == class(first.status(id)));
            }
        }
        Ok(constant.into_iter().map(|id| (id, QuarantineReason::Random)).collect())
    }
}

fn port_conflicts<'r>(reports: impl IntoIterator<Item = &'r Report>) -> BTreeSet<String> {
    let results = reports.into_iter().flat_map(|report| &report.tests);
    results.filter(|(_, result)| is_port_conflict(result)).map(|(id, _)| id.clone()).collect()
}

/// Returns each thing that some of the runs change, changed alone; first what is sure to be no consequence of another.
fn factors(plain: Variation, varied: &[Varied]) -> Vec<(QuarantineReason, Variation)> {
    let mut factors = Vec::new();
    let mut add = |reason, alone: &dyn Fn(&Variation) -> Variation| {
        for alone in varied.iter().map(|run| alone(&run.variation)).filter(|alone| *alone != plain) {
            if !factors.contains(&(reason, alone)) {
                factors.push((reason, alone));
            }
        }
    };
    add(QuarantineReason::HashSeedDependent, &|of| Variation { hash_seed: of.hash_seed, ..plain });
    add(QuarantineReason::OrderDependent, &|of| Variation { order_seed: of.order_seed, ..plain });
    // The local hour also hangs on the zone.
    add(QuarantineReason::TimeDependent, &|of| Variation { other_time: of.other_time, ..plain });
    add(QuarantineReason::DateDependent, &|of| Variation { other_date: of.other_date, ..plain });
    add(QuarantineReason::ZoneDependent, &|of| Variation { other_zone: of.other_zone, ..plain });
    // What a run leaves behind also disturbs one beside it.
    let company = |wanted| {
        move |of: &Variation| Variation { company: if of.company == wanted { wanted } else { plain.company }, ..plain }
    };
    add(QuarantineReason::LeftoverDependent, &company(Company::Before));
    add(QuarantineReason::ParallelDependent, &company(Company::Beside));
    factors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_changed_at_a_time() {
        let one = Variation { hash_seed: 1, temp: 1, other_zone: true, company: Company::Before, ..Variation::PLAIN };
        let two = Variation { hash_seed: 2, other_zone: true, company: Company::Beside, ..Variation::PLAIN };
        let varied = [one, two].map(|variation| Varied { variation, report: Report::default() });
        assert_eq!(
            factors(Variation::PLAIN, &varied),
            [
                (QuarantineReason::HashSeedDependent, Variation { hash_seed: 1, ..Variation::PLAIN }),
                (QuarantineReason::HashSeedDependent, Variation { hash_seed: 2, ..Variation::PLAIN }),
                (QuarantineReason::ZoneDependent, Variation { other_zone: true, ..Variation::PLAIN }),
                (QuarantineReason::LeftoverDependent, Variation { company: Company::Before, ..Variation::PLAIN }),
                (QuarantineReason::ParallelDependent, Variation { company: Company::Beside, ..Variation::PLAIN }),
            ]
        );
    }
}
