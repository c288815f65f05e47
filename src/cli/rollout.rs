//! `curate rollout` and `curate grade`.

use std::{fs, io::Read, path::Path};

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::{
    cache::Cache,
    config, grade, pipeline,
    record::{
        bytes::ByteText,
        episode::{Episode, Message, PolicyName},
        task::{Issue, Task},
    },
    report,
    store::Store,
};

use super::{
    Session, args,
    dataset::{self, Locator, Records},
    exit::Exit,
    output,
    stages::{Attempt, GradeStage, RolloutStage},
};

pub fn command(session: &Session, flags: &args::Rollout) -> Result<Exit> {
    let cache = Cache::open()?;
    let store = dataset::open(flags.dataset.dataset.as_deref())?;
    let mut run = config::Run::default();
    run.rollout.max_steps = flags.max_steps.unwrap_or(run.rollout.max_steps);
    run.episodes = vec![config::Episodes { policy: flags.policy, samples: flags.samples, seed: flags.seed }];
    let records = Records::load(&store)?;
    let mut tasks = named(&records, &flags.task)?;
    tasks.truncate(flags.limit.unwrap_or(usize::MAX));
    if flags.trace {
        tasks.truncate(1);
    }
    let mut settings = json!(run);
    if tasks.len() < records.tasks().len() {
        let ids: Vec<&String> = tasks.iter().map(|(task, _)| &task.public.instance_id).collect();
        settings["tasks"] = json!(ids);
    }
    output::write_manifest(&store, "rollout", &settings)?;
    if tasks.is_empty() {
        bail!("find a task in `{}`; make some with `curate mine`", store.dir().display());
    }
    let trace = |message: &Message| {
        if flags.trace {
            session.console.message(&output::message_text(message));
        }
    };
    let worked = episodes(session, &cache, &store, &tasks, &run, &trace)?;
    if worked == 0 {
        session.console.message("Nothing to do: every episode was done before.");
        if flags.trace {
            let (id, policy, seed) = (&tasks[0].0.public.instance_id, flags.policy.name(), flags.seed);
            session.console.message(&format!("`curate why {id}.{policy}.{seed}.0` shows its steps."));
        }
    }
    let summary = report::summary(&output::report_input(&store, &Records::load(&store)?));
    session.result(&summary, &report::text(&summary))?;
    Ok(Exit::Done)
}

/// Returns the tasks with the given ids, or all.
///
/// # Errors
/// An id that is no task's.
pub fn named<'a>(records: &'a Records, ids: &[String]) -> Result<Vec<(&'a Task, &'a Issue)>> {
    let mut tasks = records.tasks();
    for id in ids {
        if !tasks.iter().any(|(task, _)| task.public.instance_id == *id) {
            bail!("find task `{id}`; `curate why` lists the tasks, `curate why {id}` tells what became of it");
        }
    }
    if !ids.is_empty() {
        tasks.retain(|(task, _)| ids.contains(&task.public.instance_id));
    }
    Ok(tasks)
}

/// Makes and grades the episodes that a run asks for; returns how many items were worked on.
///
/// # Errors
/// The store, the cache or the sandbox cannot be used, or an interrupt.
pub fn episodes(
    session: &Session,
    cache: &Cache,
    store: &Store,
    tasks: &[(&Task, &Issue)],
    run: &config::Run,
    trace: &(dyn Fn(&Message) + Sync),
) -> Result<u64> {
    let lab = session.lab(cache)?;
    let locator = Locator::new(cache);
    let locate = |given: &str| locator.locate(given);
    let mut attempts = Vec::new();
    for (task, issue) in tasks {
        for config::Episodes { policy, samples, seed } in &run.episodes {
            let attempt = |sample| attempt(task, issue, *policy, *seed, sample);
            attempts.extend((0..*samples).map(attempt));
        }
    }
    let rollout = RolloutStage { lab: &lab, locate: &locate, settings: &run.rollout, trace };
    let mut worked = pipeline::drive(store, &rollout, &attempts, session.jobs, session.console)?.ran;
    let mut played = Vec::new();
    for attempt in attempts {
        let subject = pipeline::Stage::subject(&rollout, &attempt);
        if let Some(episode) = store.get::<Episode>("rollout", &subject)? {
            played.push((attempt.task, episode));
        }
    }
    let grade = GradeStage { lab: &lab, locate: &locate, settings: &run.grade };
    worked += pipeline::drive(store, &grade, &played, session.jobs, session.console)?.ran;
    Ok(worked)
}

fn attempt(task: &Task, issue: &Issue, policy: PolicyName, seed: u64, sample: u32) -> Attempt {
    Attempt { task: task.clone(), issue: issue.clone(), policy, seed, sample }
}

pub fn grade_command(session: &Session, flags: &args::Grade) -> Result<Exit> {
    let patch = ByteText::new(read_patch(&flags.patch)?);
    let cache = Cache::open()?;
    let store = dataset::open_to_read(flags.dataset.dataset.as_deref())?;
    let records = Records::load(&store)?;
    let (task, _) = named(&records, std::slice::from_ref(&flags.task))?[0];
    let lab = session.lab(&cache)?;
    let repository = Locator::new(&cache).locate(&task.public.repo_source)?;
    let context = grade::Context { stop: None, stop_detail: "", messages: &[] };
    let (id, settings) = (format!("{}.patch", flags.task), config::Grade::default());
    let grade = grade::grade(&lab, &repository, task, &id, &patch, context, &settings)?;
    session.result(&grade, &output::grade_text(&grade))?;
    // Without a verdict the caller must not go on as if there were one.
    Ok(if grade.reward.is_some() { Exit::Done } else { Exit::Failed })
}

fn read_patch(path: &Path) -> Result<Vec<u8>> {
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("read the patch from standard input")?;
        return Ok(bytes);
    }
    fs::read(path).with_context(|| format!("read patch `{}`", path.display()))
}
