//! Counts per stage, per failure, per policy: what the page, `report` and `status` show.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::name_of;
use crate::record::{
    candidate::CommitVerdict,
    environment::BuildOutcome,
    episode::{Episode, Grade, Label},
    failure::Failure,
    strength::Strength,
    task::{Issue, Validation},
};

/// The numbers of a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    pub dataset: String,
    /// `commits`, `candidates`, `environments`, `tasks`, `issues`, `episodes`, `resolved`.
    pub funnel: Vec<Step>,
    /// Environments that differ; candidates share them.
    pub n_environments: usize,
    /// Environments' candidates by the rung of the ladder that held.
    pub rungs: Counts,
    /// Tasks by evidence label.
    pub evidence: Counts,
    /// Fail-to-pass tests of all tasks.
    pub n_fail_to_pass: usize,
    /// Pass-to-pass tests of all tasks.
    pub n_pass_to_pass: usize,
    pub strength: Faults,
    /// Quarantined tests by reason, those of rejected candidates too.
    pub quarantined: Counts,
    /// Wall time of all suite runs of validation together.
    pub suite_runs_ms: u64,
    /// Sorted by policy.
    pub attempts: Vec<Attempts>,
}

pub type Counts = BTreeMap<String, usize>;

/// How much of their fixes the tasks' fail-to-pass tests notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Faults {
    pub n_killed: usize,
    pub n_mutants: usize,
    /// Share of killed mutants of the median task that has any, percent.
    pub median_percent: u64,
    /// Tasks with hunks that no fail-to-pass test notices.
    pub n_tangled: usize,
}

/// One step of the funnel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub name: String,
    pub count: usize,
    /// What the step before had and this one has not, most frequent first. Empty for `episodes`, of which a task may
    /// have any number.
    pub lost: Vec<Loss>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loss {
    pub reason: String,
    pub count: usize,
}

/// The episodes of one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempts {
    pub policy: String,
    pub n_episodes: usize,
    /// Tasks with at least one episode.
    pub n_tasks: usize,
    /// In the order of [`Label::ALL`], those that occur; episodes not graded yet are `not_graded`, last.
    pub labels: Vec<Loss>,
    /// Most frequent first.
    pub stops: Vec<Loss>,
    pub pass_at: Vec<PassAt>,
    pub n_tokens: Spread,
    pub n_steps: Spread,
    pub times: Times,
}

/// The unbiased estimate of solving a task in `k` attempts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassAt {
    pub k: u64,
    /// Mean over the tasks with at least `k` valid rewards.
    pub value: f64,
    pub n_tasks: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    pub total: u64,
    /// The lower of the two middle values where their number is even.
    pub median: u64,
    pub max: u64,
}

/// Where the wall time of episodes and their grades went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    pub policy_ms: u64,
    pub tool_ms: u64,
    /// Setting up and taking down.
    pub other_ms: u64,
    pub grade_ms: u64,
}

/// Folds records into a [`Summary`] without keeping them.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    dataset: String,
    n_commits: usize,
    rejected: Counts,
    builds: Stage,
    validations: Stage,
    issues: Stage,
    environments: BTreeSet<String>,
    rungs: Counts,
    evidence: Counts,
    n_fail_to_pass: usize,
    n_pass_to_pass: usize,
    strength: Faults,
    /// By task with mutants.
    killed_percent: Vec<u64>,
    suite_runs_ms: u64,
    quarantined: Counts,
    policies: BTreeMap<String, PolicyTally>,
}

/// Outcomes of a stage that may fail.
#[derive(Clone, Debug, Default)]
struct Stage {
    n_ok: usize,
    failed: Counts,
}

#[derive(Clone, Debug, Default)]
struct PolicyTally {
    labels: Counts,
    stops: Counts,
    n_tokens: Vec<u64>,
    n_steps: Vec<u64>,
    times: Times,
    /// By task: attempts with a valid reward, and solved ones.
    by_task: BTreeMap<String, (u64, u64)>,
}

const NOT_GRADED: &str = "not_graded";
/// The reason of what a stage has not come to yet.
const PENDING: &str = "pending";

impl Tally {
    pub fn new(dataset: &str) -> Tally {
        Tally { dataset: dataset.to_owned(), ..Tally::default() }
    }

    pub fn commit(&mut self, verdict: &CommitVerdict) {
        self.n_commits += 1;
        if let Some(reason) = verdict.reason {
            add(&mut self.rejected, &reason.name());
        }
    }

    pub fn build(&mut self, outcome: &BuildOutcome) {
        self.builds.add(outcome.as_ref().err());
        if let Ok(build) = outcome {
            self.environments.insert(build.environment.key.as_str().to_owned());
            add(&mut self.rungs, &build.recipe.rung);
        }
    }

    pub fn validation(&mut self, validation: &Validation) {
        self.validations.add(validation.verdict.as_ref().err());
        if let Ok(task) = &validation.verdict {
            add(&mut self.evidence, &name_of(task.hidden.label));
            self.n_fail_to_pass += task.hidden.fail_to_pass.len();
            self.n_pass_to_pass += task.hidden.pass_to_pass.len();
            self.strength(&task.hidden.strength);
        }
        self.suite_runs_ms += validation.runs.iter().map(|run| run.wall_ms).sum::<u64>();
        validation.quarantined.values().for_each(|reason| add(&mut self.quarantined, &name_of(reason)));
    }

    fn strength(&mut self, strength: &Strength) {
        self.suite_runs_ms += strength.wall_ms;
        let (n_killed, n_mutants) = (strength.n_killed(), strength.n_mutants());
        self.strength.n_killed += n_killed;
        self.strength.n_mutants += n_mutants;
        self.strength.n_tangled += usize::from(strength.unneeded_hunks().next().is_some());
        self.killed_percent.extend((100 * n_killed).checked_div(n_mutants).map(|percent| percent as u64));
    }

    pub fn issue(&mut self, issue: &Result<Issue, Failure>) {
        self.issues.add(issue.as_ref().err());
    }

    pub fn episode(&mut self, episode: &Episode, grade: Option<&Grade>) {
        let tally = self.policies.entry(episode.policy.name().to_owned()).or_default();
        add(&mut tally.labels, grade.map_or(NOT_GRADED, |grade| grade.label.name()));
        add(&mut tally.stops, episode.stop.name());
        tally.n_tokens.push(episode.n_tokens);
        tally.n_steps.push(episode.n_steps.into());
        let timing = episode.timing;
        tally.times.policy_ms += timing.policy_ms;
        tally.times.tool_ms += timing.tool_ms;
        tally.times.other_ms += timing.wall_ms.saturating_sub(timing.policy_ms + timing.tool_ms);
        let (n_valid, n_solved) = tally.by_task.entry(episode.instance_id.clone()).or_default();
        if let Some(grade) = grade {
            tally.times.grade_ms += grade.wall_ms;
            *n_valid += u64::from(grade.reward_valid());
            *n_solved += u64::from(grade.reward_valid() && grade.resolved());
        }
    }

    pub fn finish(self) -> Summary {
        let attempts: Vec<Attempts> = self.policies.into_iter().map(|(policy, tally)| tally.finish(policy)).collect();
        let n_candidates = self.n_commits - self.rejected.values().sum::<usize>();
        let n_episodes = attempts.iter().map(|attempts| attempts.n_episodes).sum();
        let mut labels = Counts::new();
        for label in attempts.iter().flat_map(|attempts| &attempts.labels) {
            *labels.entry(label.reason.clone()).or_default() += label.count;
        }
        let n_resolved = labels.remove(Label::Resolved.name()).unwrap_or(0);
        let step = |name: &str, count, lost| Step { name: name.to_owned(), count, lost: by_frequency(lost) };
        let funnel = vec![
            step("commits", self.n_commits, Counts::new()),
            step("candidates", n_candidates, self.rejected),
            step("environments", self.builds.n_ok, self.builds.lost_of(n_candidates)),
            step("tasks", self.validations.n_ok, self.validations.lost_of(self.builds.n_ok)),
            step("issues", self.issues.n_ok, self.issues.lost_of(self.validations.n_ok)),
            step("episodes", n_episodes, Counts::new()),
            step("resolved", n_resolved, labels),
        ];
        Summary {
            dataset: self.dataset,
            funnel,
            rungs: self.rungs,
            n_environments: self.environments.len(),
            suite_runs_ms: self.suite_runs_ms,
            evidence: self.evidence,
            n_fail_to_pass: self.n_fail_to_pass,
            n_pass_to_pass: self.n_pass_to_pass,
            strength: Faults { median_percent: spread(self.killed_percent).median, ..self.strength },
            quarantined: self.quarantined,
            attempts,
        }
    }
}

impl Stage {
    fn add(&mut self, failure: Option<&Failure>) {
        match failure {
            None => self.n_ok += 1,
            Some(failure) => add(&mut self.failed, &failure.kind),
        }
    }

    /// Returns what is missing of `n_before` items, with those that the stage has not come to.
    fn lost_of(&self, n_before: usize) -> Counts {
        let mut lost = self.failed.clone();
        let n_pending = n_before.saturating_sub(self.n_ok + lost.values().sum::<usize>());
        if n_pending > 0 {
            *lost.entry(PENDING.to_owned()).or_default() += n_pending;
        }
        lost
    }
}

impl PolicyTally {
    fn finish(self, policy: String) -> Attempts {
        let ordered = Label::ALL.iter().map(|label| label.name()).chain([NOT_GRADED]);
        let labels = ordered
            .filter_map(|name| self.labels.get(name).map(|&count| Loss { reason: name.to_owned(), count }))
            .collect();
        Attempts {
            policy,
            n_episodes: self.n_tokens.len(),
            n_tasks: self.by_task.len(),
            labels,
            stops: by_frequency(self.stops),
            pass_at: pass_at(self.by_task.values()),
            n_tokens: spread(self.n_tokens),
            n_steps: spread(self.n_steps),
            times: self.times,
        }
    }
}

impl Summary {
    /// Returns the count of a step of the funnel, 0 for a name that it has not.
    pub fn count(&self, step: &str) -> usize {
        self.funnel.iter().find(|candidate| candidate.name == step).map_or(0, |step| step.count)
    }
}

/// Returns 1 − C(n−c, k) / C(n, k): the chance that `k` of `n` attempts, `c` of them good, hold a good one.
///
/// Source: Chen et al., "Evaluating Large Language Models Trained on Code", 2021, equation 1. `None` where `k > n`.
pub fn pass_at_k(n: u64, c: u64, k: u64) -> Option<f64> {
    if k > n || c > n {
        return None;
    }
    if n - c < k {
        return Some(1.0);
    }
    let all_bad: f64 = (n - c + 1..=n).map(|i| 1.0 - k as f64 / i as f64).product();
    Some(1.0 - all_bad)
}

fn pass_at<'a>(by_task: impl Iterator<Item = &'a (u64, u64)>) -> Vec<PassAt> {
    let by_task: Vec<(u64, u64)> = by_task.copied().collect();
    let mut result = Vec::new();
    for k in [1, 2, 4, 8] {
        let values: Vec<f64> = by_task.iter().filter_map(|&(n, c)| pass_at_k(n, c, k)).collect();
        if !values.is_empty() {
            let value = values.iter().sum::<f64>() / values.len() as f64;
            result.push(PassAt { k, value, n_tasks: values.len() });
        }
    }
    result
}

fn spread(mut values: Vec<u64>) -> Spread {
    values.sort_unstable();
    let Some(&max) = values.last() else { return Spread::default() };
    Spread { total: values.iter().sum(), median: values[(values.len() - 1) / 2], max }
}

fn add(counts: &mut Counts, name: &str) {
    *counts.entry(name.to_owned()).or_default() += 1;
}

fn by_frequency(counts: Counts) -> Vec<Loss> {
    let mut losses: Vec<Loss> = counts.into_iter().map(|(reason, count)| Loss { reason, count }).collect();
    losses.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.reason.cmp(&b.reason)));
    losses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pass_at_k_is_the_share_of_draws_with_a_good_one() {
        let close = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 1e-12, "{a:?} {b}");
        close(pass_at_k(4, 1, 1), 0.25);
        // Of the six pairs out of four, three hold the good one.
        close(pass_at_k(4, 1, 2), 0.5);
        // Of the six pairs out of four, one holds none of two good ones.
        close(pass_at_k(4, 2, 2), 5.0 / 6.0);
        close(pass_at_k(4, 0, 4), 0.0);
        close(pass_at_k(4, 1, 4), 1.0);
        close(pass_at_k(3, 3, 1), 1.0);
        assert_eq!(pass_at_k(3, 1, 4), None);
        assert_eq!(pass_at_k(0, 0, 1), None);
    }

    #[test]
    fn pass_at_averages_over_the_tasks_with_enough_attempts() {
        let result = pass_at([(4, 1), (2, 2), (0, 0)].iter());
        let shown: Vec<(u64, f64, usize)> = result.iter().map(|p| (p.k, p.value, p.n_tasks)).collect();
        assert_eq!(shown, [(1, 0.625, 2), (2, 0.75, 2), (4, 1.0, 1)]);
    }

    #[test]
    fn what_a_stage_has_not_come_to_is_pending() {
        let mut stage = Stage::default();
        stage.add(None);
        stage.add(Some(&Failure::new(
            crate::record::failure::Phase::Build,
            "resolve_failed",
            crate::record::failure::Blame::Repo,
            "",
        )));
        assert_eq!(stage.lost_of(5), [("pending".to_owned(), 3), ("resolve_failed".to_owned(), 1)].into());
        assert_eq!(stage.lost_of(2), [("resolve_failed".to_owned(), 1)].into());
    }

    #[test]
    fn the_median_of_an_even_number_is_the_lower_middle() {
        assert_eq!(spread(vec![9, 1, 5, 3]), Spread { total: 18, median: 3, max: 9 });
        assert_eq!(spread(Vec::new()), Spread::default());
    }
}
