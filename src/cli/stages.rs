//! Each stage's function as a [`Stage`] of the driver: what its record is about, what its key depends on, how it ended.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{
    build, config,
    git::Repo,
    grade, issue,
    lab::Lab,
    pipeline::{Done, Stage},
    record::{
        candidate::Candidate,
        environment::{Build, BuildOutcome},
        episode::{Episode, Grade, Label, PolicyName, StopReason},
        failure::{DISK_FULL, Failure, is_full_disk},
        id::Digest,
        task::{Issue, Task, Validation},
    },
    rollout,
    sources::Manifest,
    store::State,
    validate,
};

/// Where the objects of a record's repository are.
pub type Locate<'a> = dyn Fn(&str) -> Result<PathBuf> + Sync + 'a;

fn done<T>(output: T) -> Done<T> {
    Done { output, state: State::Done, reason: String::new() }
}

fn failed<T>(output: T, failure: &Failure) -> Done<T> {
    let state = if failure.is_transient() { State::Transient } else { State::Rejected };
    let reason = failure.kind.clone();
    Done { output, state, reason }
}

/// Candidate → environment.
pub struct BuildStage<'a> {
    pub lab: &'a Lab,
    pub repository: &'a Path,
    pub overrides: Option<&'a Manifest>,
    pub settings: &'a config::Build,
}

impl Stage for BuildStage<'_> {
    const NAME: &'static str = "build";
    const VERSION: u32 = 2;
    type Input = Candidate;
    type Output = BuildOutcome;

    fn subject(&self, candidate: &Candidate) -> String {
        candidate.instance_id.clone()
    }

    fn inputs(&self, candidate: &Candidate) -> Digest {
        Digest::of_json(&(&candidate.base_commit, &candidate.fix_commit, self.overrides, self.settings))
    }

    fn run(&self, candidate: &Candidate) -> Result<Done<BuildOutcome>> {
        let outcome = build::build(self.lab, self.repository, candidate, self.overrides, self.settings)?;
        Ok(match &outcome {
            Ok(_) => done(outcome),
            Err(failure) => failed(outcome.clone(), failure),
        })
    }
}

/// Candidate and environment → task.
pub struct ValidateStage<'a> {
    pub lab: &'a Lab,
    pub repository: &'a Path,
    pub settings: &'a config::Validate,
}

impl Stage for ValidateStage<'_> {
    const NAME: &'static str = "validate";
    const VERSION: u32 = 4;
    type Input = (Candidate, Build);
    type Output = Validation;

    fn subject(&self, (candidate, _): &Self::Input) -> String {
        candidate.instance_id.clone()
    }

    fn inputs(&self, (candidate, build): &Self::Input) -> Digest {
        Digest::of_json(&(candidate, build, self.settings))
    }

    fn run(&self, (candidate, build): &Self::Input) -> Result<Done<Validation>> {
        let context =
            validate::Context { lab: self.lab, repository: self.repository, candidate, build, settings: self.settings };
        let validation = validate::validate(context)?;
        Ok(match validation.verdict.clone() {
            Ok(_) => done(validation),
            Err(failure) => failed(validation, &failure),
        })
    }
}

/// Task → issue text.
pub struct IssueStage<'a> {
    pub locate: &'a Locate<'a>,
}

impl Stage for IssueStage<'_> {
    const NAME: &'static str = "issue";
    const VERSION: u32 = 3;
    type Input = Task;
    type Output = Result<Issue, Failure>;

    fn subject(&self, task: &Task) -> String {
        task.public.instance_id.clone()
    }

    fn inputs(&self, task: &Task) -> Digest {
        Digest::of_json(task)
    }

    fn run(&self, task: &Task) -> Result<Done<Self::Output>> {
        let repo = Repo::open(&(self.locate)(&task.public.repo_source)?)?;
        let outcome = issue::write(&repo, task)?;
        Ok(match &outcome {
            Ok(_) => done(outcome),
            Err(failure) => failed(outcome.clone(), failure),
        })
    }
}

/// One attempt to make.
pub struct Attempt {
    pub task: Task,
    pub issue: Issue,
    pub policy: PolicyName,
    pub seed: u64,
    pub sample: u32,
}

/// Attempt → episode.
pub struct RolloutStage<'a> {
    pub lab: &'a Lab,
    pub locate: &'a Locate<'a>,
    pub settings: &'a config::Rollout,
    pub trace: &'a (dyn Fn(&crate::record::episode::Message) + Sync),
}

impl Stage for RolloutStage<'_> {
    const NAME: &'static str = "rollout";
    const VERSION: u32 = 1;
    type Input = Attempt;
    type Output = Episode;

    fn subject(&self, attempt: &Attempt) -> String {
        let id = &attempt.task.public.instance_id;
        format!("{id}.{}.{}.{}", attempt.policy.name(), attempt.seed, attempt.sample)
    }

    fn inputs(&self, attempt: &Attempt) -> Digest {
        let Attempt { task, issue, policy, seed, sample } = attempt;
        Digest::of_json(&(task, issue, policy, seed, sample, self.settings))
    }

    fn run(&self, attempt: &Attempt) -> Result<Done<Episode>> {
        let repository = (self.locate)(&attempt.task.public.repo_source)?;
        let identity = rollout::Identity { policy: attempt.policy, seed: attempt.seed, sample: attempt.sample };
        let Task { public, hidden } = &attempt.task;
        let mut policy = rollout::policy_for(attempt.policy, Some(hidden), public, attempt.seed, attempt.sample);
        let episode = rollout::run(
            self.lab,
            &repository,
            public,
            &attempt.issue,
            policy.as_mut(),
            self.settings,
            identity,
            self.trace,
        )?;
        // A script may lose its sandbox on purpose; only an unplanned loss is worth another try.
        let lost = episode.stop == StopReason::Infrastructure && episode.script.is_none();
        let state = if lost { State::Transient } else { State::Done };
        let reason = match lost {
            true if is_full_disk(&episode.stop_detail) => DISK_FULL.to_owned(),
            true => episode.stop.name().to_owned(),
            false => String::new(),
        };
        Ok(Done { output: episode, state, reason })
    }
}

/// Task and episode → grade.
pub struct GradeStage<'a> {
    pub lab: &'a Lab,
    pub locate: &'a Locate<'a>,
    pub settings: &'a config::Grade,
}

impl Stage for GradeStage<'_> {
    const NAME: &'static str = "grade";
    const VERSION: u32 = 2;
    type Input = (Task, Episode);
    type Output = Grade;

    fn subject(&self, (_, episode): &Self::Input) -> String {
        episode.episode_id.clone()
    }

    fn inputs(&self, (task, episode): &Self::Input) -> Digest {
        Digest::of_json(&(task, &episode.episode_id, &episode.patch, episode.stop, &episode.messages, self.settings))
    }

    fn run(&self, (task, episode): &Self::Input) -> Result<Done<Grade>> {
        let repository = (self.locate)(&task.public.repo_source)?;
        let context =
            grade::Context { stop: Some(episode.stop), stop_detail: &episode.stop_detail, messages: &episode.messages };
        let (id, patch) = (&episode.episode_id, &episode.patch);
        let grade = grade::grade(self.lab, &repository, task, id, patch, context, self.settings)?;
        let lost = grade.label == Label::Infrastructure && episode.stop != StopReason::Infrastructure;
        let state = if lost { State::Transient } else { State::Done };
        let is_full = lost && is_full_disk(&grade.detail);
        let reason = if is_full { DISK_FULL } else { grade.label.name() };
        Ok(Done { reason: reason.to_owned(), output: grade, state })
    }
}
