//! `curate verify`: executes tasks from nothing. The gold patch must score 1, no patch 0.

use std::{fs, os::unix::fs::symlink};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{
    cache::Cache,
    config, grade,
    lab::Lab,
    pipeline::{self, Done, Stage},
    record::{
        bytes::ByteText,
        failure::{DISK_FULL, is_full_disk},
        id::Digest,
        task::Task,
    },
    store::State,
};

use super::{Session, args, dataset, dataset::Locator, exit::Exit, rollout, stages::Locate};

pub fn command(session: &Session, flags: &args::Verify) -> Result<Exit> {
    let cache = Cache::open()?;
    let store = dataset::open(flags.dataset.dataset.as_deref())?;
    let records = dataset::Records::load(&store)?;
    let tasks: Vec<Task> = rollout::named(&records, &flags.task)?.into_iter().map(|(task, _)| task.clone()).collect();
    let fresh = fresh_cache(&cache)?;
    let lab = session.lab(&Cache::at(fresh.path())?)?;
    let locator = Locator::new(&cache);
    let stage = VerifyStage {
        lab: &lab,
        locate: &|given| locator.locate(given),
        run: fresh.path().to_string_lossy().into_owned(),
    };
    pipeline::drive(&store, &stage, &tasks, session.jobs, session.console)?;
    let mut verified = Vec::new();
    for task in &tasks {
        verified.extend(store.get::<Verified>("verify", &task.public.instance_id)?);
    }
    let bad: Vec<&Verified> = verified.iter().filter(|verified| !verified.holds()).collect();
    let mut text: String = bad.iter().map(|v| format!("{}: {}\n", v.instance_id, v.detail)).collect();
    text.push_str(&format!(
        "{} of {} tasks verified: oracle 1.0 and noop 0.0",
        verified.len() - bad.len(),
        tasks.len()
    ));
    session.result(&verified, &text)?;
    Ok(match bad.is_empty() && verified.len() == tasks.len() {
        true if tasks.is_empty() => Exit::NothingUsable,
        true => Exit::Done,
        false => Exit::Differs,
    })
}

/// Returns a cache without environments and trees that shares tools, downloads and mirrors with `cache`.
fn fresh_cache(cache: &Cache) -> Result<tempfile::TempDir> {
    let fresh = cache.scratch()?;
    for shared in ["tools", "uv", "mirrors", "interpreters"] {
        let target = cache.dir(shared)?;
        let link = fresh.path().join(shared);
        symlink(&target, &link).with_context(|| format!("link `{}`", link.display()))?;
    }
    fs::create_dir_all(fresh.path().join("scratch")).context("create a scratch directory")?;
    Ok(fresh)
}

/// What executing a task again showed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verified {
    instance_id: String,
    /// Of the task as it was executed; `None` in records of older versions.
    #[serde(default)]
    task: Option<Digest>,
    /// Reward of the gold patch.
    oracle: Option<f64>,
    /// Reward of no patch at all.
    noop: Option<f64>,
    /// What went differently, empty where nothing did.
    detail: String,
}

impl Verified {
    fn holds(&self) -> bool {
        self.oracle == Some(1.0) && self.noop == Some(0.0)
    }

    /// Says whether this very task was found wrong at one of its ends; an end that the machine failed says nothing.
    pub fn refutes(&self, task: &Digest) -> bool {
        let is_wrong = |seen: Option<f64>, right: f64| seen.is_some() && seen != Some(right);
        (is_wrong(self.oracle, 1.0) || is_wrong(self.noop, 0.0)) && self.task.as_ref() == Some(task)
    }
}

struct VerifyStage<'a> {
    lab: &'a Lab,
    locate: &'a Locate<'a>,
    /// Differs from run to run, so that nothing is ever taken from an earlier one.
    run: String,
}

impl Stage for VerifyStage<'_> {
    const NAME: &'static str = "verify";
    const VERSION: u32 = 1;
    type Input = Task;
    type Output = Verified;

    fn subject(&self, task: &Task) -> String {
        task.public.instance_id.clone()
    }

    fn inputs(&self, task: &Task) -> Digest {
        Digest::of_json(&(&self.run, &task.public.instance_id))
    }

    fn run(&self, task: &Task) -> Result<Done<Verified>> {
        let id = &task.public.instance_id;
        let repository = (self.locate)(&task.public.repo_source)?;
        let grade = |name: &str, patch: &ByteText| {
            let context = grade::Context { stop: None, stop_detail: "", messages: &[] };
            let settings = config::Grade::default();
            grade::grade(self.lab, &repository, task, &format!("{id}.{name}"), patch, context, &settings)
        };
        let oracle = grade("oracle", &task.hidden.source_patch)?;
        let noop = grade("noop", &ByteText::default())?;
        let mut detail = String::new();
        if oracle.reward != Some(1.0) {
            detail.push_str(&format!("oracle {:?} ({}: {}) ", oracle.reward, oracle.label.name(), oracle.detail));
        }
        if noop.reward != Some(0.0) {
            detail.push_str(&format!("noop {:?} ({}: {})", noop.reward, noop.label.name(), noop.detail));
        }
        let verified = Verified {
            instance_id: id.clone(),
            task: Some(Digest::of_json(task)),
            oracle: oracle.reward,
            noop: noop.reward,
            detail,
        };
        let is_unknown = oracle.reward.is_none() || noop.reward.is_none();
        let (state, reason) = match verified.holds() {
            true => (State::Done, ""),
            false if is_unknown && is_full_disk(&verified.detail) => (State::Transient, DISK_FULL),
            false if is_unknown => (State::Transient, "infrastructure"),
            false => (State::Rejected, "not_verified"),
        };
        let reason = reason.to_owned();
        Ok(Done { output: verified, state, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b055_a_task_is_refuted_by_either_end_and_by_nothing_that_the_machine_failed() {
        let seen = |oracle, noop| Verified {
            instance_id: "o__r-1".to_owned(),
            task: Some(Digest::of(&[b"task"])),
            oracle,
            noop,
            detail: String::new(),
        };
        let refutes = |oracle, noop| seen(oracle, noop).refutes(&Digest::of(&[b"task"]));
        assert!(!refutes(Some(1.0), Some(0.0)));
        assert!(refutes(Some(0.0), Some(0.0)) && refutes(Some(1.0), Some(1.0)) && refutes(None, Some(1.0)));
        assert!(!refutes(None, None) && !refutes(Some(1.0), None));
        assert!(!seen(Some(0.0), Some(0.0)).refutes(&Digest::of(&[b"validated anew"])));
    }
}
