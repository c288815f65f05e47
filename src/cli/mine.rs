//! `curate mine`: history → candidates → environments → tasks → issue texts.

use std::fs;

use anyhow::{Context, Result, anyhow, bail};

use crate::{
    cache::Cache,
    config::{self, Limit},
    git::{Hinted, Repo},
    lab::Lab,
    mine::{self, Selection},
    pipeline,
    record::{
        candidate::Candidate,
        environment::BuildOutcome,
        failure::Failure,
        id::Digest,
        task::{Issue, Task, Validation},
    },
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
    let store = dataset::create(&name)?;
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

/// Checks a date of a selection.
///
/// # Errors
/// It is none, or so far off that it is no instant.
pub fn date(text: &str) -> Result<String, String> {
    let settings = config::Mine { since: Some(text.to_owned()), ..config::Mine::default() };
    match mine::check_dates(&settings) {
        Ok(()) => Ok(text.to_owned()),
        Err(_) => {
            Err("a day looks like 2024-03-01, an instant like 2024-03-01T12:00:00Z, up to the year 9998".to_owned())
        }
    }
}

/// Returns what the names in the settings stand for now, and what of the history is there.
fn basis(source: &Source, settings: &config::Mine) -> Result<impl serde::Serialize> {
    let repo = Repo::open(&source.path)?;
    let tip = repo.tip(settings.branch.as_deref())?.map(|tip| tip.to_string());
    let commits = settings.commits.iter().map(|name| repo.resolve(name)).collect::<Result<Vec<_>>>()?;
    for (key, given) in [("since", &settings.since), ("until", &settings.until)] {
        if let Some(given) = given {
            date(given).map_err(|why| anyhow!("read `{key} = {given}`: {why}"))?;
        }
    }
    Ok((tip, commits, repo.boundary()))
}

/// Brings a repository's records into the store; returns how many items were worked on.
///
/// # Errors
/// The repository, the cache, the store or the sandbox cannot be used, or an interrupt; or a number of tasks is asked
/// for, and the last step makes none.
pub fn mine(
    session: &Session,
    cache: &Cache,
    store: &Store,
    source: &Source,
    run: &config::Run,
    stop_after: StopAfter,
) -> Result<u64> {
    let (worked, key) = select(session, store, source, &run.mine)?;
    let selection: Selection = store.get(SELECTION, &source.name)?.unwrap_or_default();
    if selection.candidates.is_empty() && !Repo::open(&source.path)?.boundary().is_empty() {
        session.console.message(&format!(
            "No candidate in `{}`, which is a shallow clone; deepen it with `git fetch --unshallow`.",
            source.name
        ));
    }
    if stop_after == StopAfter::Select {
        return Ok(worked);
    }
    let (lab, locator) = (session.lab(cache)?, Locator::new(cache));
    let steps = Steps { session, store, source, run, stop_after, lab: &lab, locator: &locator };
    Ok(worked
        + match run.mine.limit {
            Some(Limit::Tasks(_)) if stop_after == StopAfter::Build => {
                bail!("stop after so many tasks: without validation there is none; take another `--stop-after`")
            }
            Some(Limit::Tasks(n)) => steps.take_until(n, selection, &key)?,
            Some(Limit::Candidates(_)) | None => steps.take(&selection.candidates)?,
        })
}

/// The steps from a candidate to its issue text, on one repository.
struct Steps<'a> {
    session: &'a Session,
    store: &'a Store,
    source: &'a Source,
    run: &'a config::Run,
    stop_after: StopAfter,
    lab: &'a Lab,
    locator: &'a Locator<'a>,
}

impl Steps<'_> {
    /// Takes candidates through all steps asked for; returns how many items were worked on.
    fn take(&self, candidates: &[Candidate]) -> Result<u64> {
        let repository = &self.source.path;
        let overrides = self.source.manifest.as_ref();
        let build = BuildStage { lab: self.lab, repository, overrides, settings: &self.run.build };
        let mut worked = self.drive(&build, candidates)?;
        if self.stop_after == StopAfter::Build {
            return Ok(worked);
        }
        let mut built = Vec::new();
        for candidate in candidates {
            if let Some(Ok(build)) = self.store.get::<BuildOutcome>("build", &candidate.instance_id)? {
                built.push((candidate.clone(), build));
            }
        }
        let validate = ValidateStage { lab: self.lab, repository, settings: &self.run.validate };
        worked += self.drive(&validate, &built)?;
        if self.stop_after == StopAfter::Validate {
            return Ok(worked);
        }
        let mut tasks = Vec::new();
        for (candidate, _) in &built {
            tasks.extend(self.task(candidate)?);
        }
        let issue = IssueStage { locate: &|given| self.locator.locate(given) };
        Ok(worked + self.drive(&issue, &tasks)?)
    }

    /// Takes the likeliest candidates until `n` of them have become tasks, and leaves the others out of the selection.
    ///
    /// The order of the candidates alone decides which tasks these are: where a batch, which keeps all workers busy,
    /// makes more tasks than are missing, the last ones in that order are left out.
    fn take_until(&self, n: usize, mut selection: Selection, key: &Digest) -> Result<u64> {
        let (mut worked, mut n_taken, mut made) = (0, 0, Vec::new());
        while made.len() < n && n_taken < selection.candidates.len() {
            // What an earlier run did is met first, and no worker is idle for it.
            let n_workers = if worked == 0 { 1 } else { self.session.jobs };
            let size = (n - made.len()).max(n_workers);
            let batch = &selection.candidates[n_taken..selection.candidates.len().min(n_taken + size)];
            worked += self.take(batch)?;
            for (at, candidate) in batch.iter().enumerate() {
                if self.is_done(candidate)? {
                    made.push(n_taken + at);
                }
            }
            n_taken += batch.len();
        }
        let n_kept = made.get(n - 1).map_or(n_taken, |last| last + 1);
        selection.keep(n_kept);
        let key = Digest::of_json(&("kept", key, n_kept));
        let (subject, body) = (self.source.name.as_str(), &selection);
        self.store.put(Put {
            stage: SELECTION,
            key: &key,
            subject,
            state: State::Done,
            reason: "",
            wall_ms: 0,
            body,
        })?;
        if made.len() < n {
            let text = format!("{} of {n} tasks were made: there are no more candidates.", made.len());
            self.session.console.message(&text);
        }
        Ok(worked)
    }

    fn task(&self, candidate: &Candidate) -> Result<Option<Task>> {
        let validation: Option<Validation> = self.store.get("validate", &candidate.instance_id)?;
        Ok(validation.and_then(|validation| validation.verdict.ok()))
    }

    /// Says whether a candidate has become all that the steps asked for can make of it.
    fn is_done(&self, candidate: &Candidate) -> Result<bool> {
        let id = &candidate.instance_id;
        // A candidate whose environment now fails may have records from when it did not.
        let is_built = matches!(self.store.get::<BuildOutcome>("build", id)?, Some(Ok(_)));
        if !is_built || self.task(candidate)?.is_none() {
            return Ok(false);
        }
        let issue = || self.store.get::<Result<Issue, Failure>>("issue", id);
        Ok(self.stop_after == StopAfter::Validate || matches!(issue()?, Some(Ok(_))))
    }

    fn drive<S: pipeline::Stage>(&self, stage: &S, inputs: &[S::Input]) -> Result<u64> {
        Ok(pipeline::drive(self.store, stage, inputs, self.session.jobs, self.session.console)?.ran)
    }
}

/// Refuses a repository of the same name as one whose records the dataset holds, unless they have commits in common.
fn refuse_another(store: &Store, source: &Source) -> Result<()> {
    let held: Option<Selection> = store.get(SELECTION, &source.name)?;
    let Some(verdict) = held.as_ref().and_then(|selection| selection.verdicts.first()) else { return Ok(()) };
    if Repo::open(&source.path)?.resolve(&verdict.commit).is_ok() {
        return Ok(());
    }
    let text = format!(
        "keep `{}` apart from another repository called `{}`, whose commits the dataset `{}` holds",
        source.given,
        source.name,
        store.name()
    );
    Err(Hinted::error(text, "name another dataset with `--dataset`, or the repository in a `repos/NAME.toml`"))
}

/// Selects candidates; returns how many commits were looked at now, and the selection's key.
fn select(session: &Session, store: &Store, source: &Source, settings: &config::Mine) -> Result<(u64, Digest)> {
    let basis = basis(source, settings)?;
    let key = Digest::of_json(&("select", SELECT_VERSION, &source.given, &source.name, basis, settings));
    if store.revive(SELECTION, &key)?.is_some() {
        return Ok((0, key));
    }
    refuse_another(store, source)?;
    let progress = session.console.progress("select", 0);
    let selection = mine::select(source, settings, &|done, total| progress.set(done, total))?;
    drop(progress);
    let (subject, body) = (source.name.as_str(), &selection);
    store.put(Put { stage: SELECTION, key: &key, subject, state: State::Done, reason: "", wall_ms: 0, body })?;
    Ok((selection.verdicts.len().max(1) as u64, key))
}
