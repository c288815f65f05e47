//! `curate mine`: history → candidates → environments → tasks → issue texts.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::{
    cache::Cache,
    config,
    git::Repo,
    mine::{self, Selection},
    pipeline::{self, Tally},
    record::{environment::BuildOutcome, id::Digest, task::Validation},
    report,
    sources::{self, Source},
    store::{Put, State, Store},
};

use super::{
    Session,
    args::{self, StopAfter},
    dataset::{self, Locator, Records, SELECTION},
    exit::Exit,
    output,
    stages::{BuildStage, IssueStage, ValidateStage},
};

/// Raised when selection itself changes meaning.
const SELECT_VERSION: u32 = 2;

pub fn command(session: &Session, flags: &args::Mine) -> Result<Exit> {
    let cache = Cache::open()?;
    let source = sources::resolve(&cache, &flags.repo, flags.refresh)?;
    let run = settings(flags)?;
    check(&source, &run.mine)?;
    let name = flags.dataset.clone().unwrap_or_else(|| source.name.replace('/', "__"));
    let store = Store::create(&dataset::directory(&name))?;
    output::write_manifest(&store, "mine", &run)?;
    let worked = mine(session, &cache, &store, &source, &run, flags.stop_after)?;
    let records = Records::load(&store)?;
    let summary = report::summary(&output::report_input(&store, &records));
    if worked == 0 {
        session.console.message("Nothing to do: everything was done before.");
    }
    session.result(&summary, &report::text(&summary))?;
    session.console.message(&format!("Dataset: {}", store.dir().display()));
    if records.commits.is_empty() {
        session.console.message(&format!("No commit of `{}` was looked at: it has none in that range.", source.name));
    }
    let usable = match flags.stop_after {
        StopAfter::Select => !records.candidates.is_empty(),
        StopAfter::Build => records.builds.values().any(Result::is_ok),
        StopAfter::Validate | StopAfter::Issue => records.validations.values().any(|v| v.verdict.is_ok()),
    };
    Ok(if usable { Exit::Done } else { Exit::NothingUsable })
}

/// Returns the defaults overridden by the flags.
fn settings(flags: &args::Mine) -> Result<config::Run> {
    let mut run = config::Run::default();
    let mine = &mut run.mine;
    mine.branch.clone_from(&flags.branch);
    mine.since.clone_from(&flags.since);
    mine.until.clone_from(&flags.until);
    mine.limit = flags.limit;
    mine.commits = commit_list(&flags.commits)?;
    mine.unit = flags.unit.unwrap_or(mine.unit);
    mine.max_source_files = flags.max_source_files.unwrap_or(mine.max_source_files);
    mine.max_source_lines = flags.max_source_lines.unwrap_or(mine.max_source_lines);
    if !flags.tiers.is_empty() {
        mine.tiers.clone_from(&flags.tiers);
    }
    run.validate.repeats = flags.repeats.unwrap_or(run.validate.repeats);
    Ok(run)
}

fn commit_list(given: &[String]) -> Result<Vec<String>> {
    let mut commits = Vec::new();
    for item in given {
        match item.strip_prefix('@') {
            Some(path) => {
                let text = fs::read_to_string(path).with_context(|| format!("read the list of commits `{path}`"))?;
                commits.extend(text.split_whitespace().map(str::to_owned));
            }
            None => commits.push(item.clone()),
        }
    }
    if commits.is_empty() && !given.is_empty() {
        bail!("find a commit in `{}`: the list is empty", given.join(" "));
    }
    Ok(commits)
}

/// Checks what a selection is asked for against the repository, before anything is written.
///
/// # Errors
/// A branch, commit or date that is none.
pub fn check(source: &Source, settings: &config::Mine) -> Result<()> {
    basis(source, settings).map(drop)
}

/// Returns what the names in the settings stand for now, and what of the history is there.
fn basis(source: &Source, settings: &config::Mine) -> Result<impl serde::Serialize> {
    let repo = Repo::open(&source.path)?;
    let tip = repo.tip(settings.branch.as_deref())?.map(|tip| tip.to_string());
    let commits = settings.commits.iter().map(|name| repo.resolve(name)).collect::<Result<Vec<_>>>()?;
    mine::check_dates(settings)?;
    Ok((tip, commits, repo.boundary()))
}

/// Brings a repository's records into the store; returns how many items were worked on.
///
/// # Errors
/// The repository, the cache, the store or the sandbox cannot be used, or an interrupt.
pub fn mine(
    session: &Session,
    cache: &Cache,
    store: &Store,
    source: &Source,
    run: &config::Run,
    stop_after: StopAfter,
) -> Result<u64> {
    let mut worked = select(session, store, source, &run.mine)?;
    if stop_after == StopAfter::Select {
        return Ok(worked);
    }
    let selection: Option<Selection> = store.get(SELECTION, &source.name)?;
    let candidates = selection.map(|selection| selection.candidates).unwrap_or_default();
    let lab = session.lab(cache)?;
    let build =
        BuildStage { lab: &lab, repository: &source.path, overrides: source.manifest.as_ref(), settings: &run.build };
    worked += drive(session, store, &build, &candidates)?.ran;
    if stop_after == StopAfter::Build {
        return Ok(worked);
    }
    let mut built = Vec::new();
    for candidate in candidates {
        if let Some(Ok(build)) = store.get::<BuildOutcome>("build", &candidate.instance_id)? {
            built.push((candidate, build));
        }
    }
    let validate = ValidateStage { lab: &lab, repository: &source.path, settings: &run.validate };
    worked += drive(session, store, &validate, &built)?.ran;
    if stop_after == StopAfter::Validate {
        return Ok(worked);
    }
    let mut tasks = Vec::new();
    for (candidate, _) in &built {
        if let Some(Validation { verdict: Ok(task), .. }) = store.get("validate", &candidate.instance_id)? {
            tasks.push(task);
        }
    }
    let locator = Locator::new(cache);
    let issue = IssueStage { locate: &|given| locator.locate(given) };
    Ok(worked + drive(session, store, &issue, &tasks)?.ran)
}

fn drive<S: pipeline::Stage>(session: &Session, store: &Store, stage: &S, inputs: &[S::Input]) -> Result<Tally> {
    pipeline::drive(store, stage, inputs, session.jobs, session.console)
}

fn select(session: &Session, store: &Store, source: &Source, settings: &config::Mine) -> Result<u64> {
    let basis = basis(source, settings)?;
    let key = Digest::of_json(&("select", SELECT_VERSION, &source.given, &source.name, basis, settings));
    if store.revive(SELECTION, &key)?.is_some() {
        return Ok(0);
    }
    let progress = session.console.progress("select", 0);
    let selection = mine::select(source, settings, &|done, total| progress.set(done, total))?;
    drop(progress);
    let (subject, body) = (source.name.as_str(), &selection);
    store.put(Put { stage: SELECTION, key: &key, subject, state: State::Done, reason: "", wall_ms: 0, body })?;
    Ok(selection.verdicts.len().max(1) as u64)
}
