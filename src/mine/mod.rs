//! History → candidates: every commit looked at gets one verdict, with its reason.
//!
//! [`select`] walks the history, [`judge`] decides on one change, [`classify`] knows paths and messages, [`tokens`] tells
//! a change of code from one of its looks, [`split`] makes the two patches, [`rank`] says which candidates promise most. Trees are compared first; blobs are opened
//! only where the changed paths can pass. Nothing is written anywhere: what becomes of the verdicts is the caller's
//! matter.

mod classify;
mod judge;
mod pool;
pub mod rank;
mod split;
#[cfg(test)]
mod tests;
mod tokens;

use std::{
    collections::{HashMap, HashSet},
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context, Result};
use rayon::prelude::*;

use self::{
    judge::{Judge, Judgement},
    pool::Pool,
};
use crate::{
    config::{Limit, Mine, MineUnit},
    git::{Oid, ReadError, Repo, object::Commit},
    interrupt::{self, Interrupted},
    record::candidate::{Candidate, CommitVerdict, RejectReason, Unit},
    sources::Source,
};

/// What mining found, newest first; candidates the likeliest first where a number of tasks is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Selection {
    /// One per commit looked at.
    pub verdicts: Vec<CommitVerdict>,
    pub candidates: Vec<Candidate>,
}

impl Selection {
    /// Says of every candidate's commit where the candidate stands, and why.
    fn tell_ranks(&mut self) {
        let rank = |(n, candidate): (usize, &Candidate)| {
            (candidate.fix_commit.clone(), format!("; rank {}: {}", n + 1, rank::reasons(candidate)))
        };
        let ranks: HashMap<String, String> = self.candidates.iter().enumerate().map(rank).collect();
        for verdict in &mut self.verdicts {
            verdict.detail.push_str(ranks.get(&verdict.commit).map_or("", String::as_str));
        }
    }

    /// Leaves out all candidates but the first `n`, and says so of their commits.
    pub fn keep(&mut self, n: usize) {
        let left_out = self.candidates.split_off(n.min(self.candidates.len()));
        let left_out: HashSet<&str> = left_out.iter().map(|candidate| candidate.fix_commit.as_str()).collect();
        for verdict in self.verdicts.iter_mut().filter(|verdict| left_out.contains(verdict.commit.as_str())) {
            verdict.reason = Some(RejectReason::BeyondLimit);
        }
    }
}

/// Commits handed to a worker at once; neighbours share most of their trees.
const CHUNK: usize = 64;

/// Decides on every commit of a repository that the settings ask for. `progress` is told how many of how many are done.
///
/// # Errors
/// The repository cannot be opened, a named branch or commit is not there, a date cannot be read, or the user
/// interrupts.
pub fn select(source: &Source, settings: &Mine, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Selection> {
    let repo = Repo::open(&source.path)?;
    let window = Window::parse(settings)?;
    let judge = Judge { source, settings };
    let pool = Pool::new(&source.path);
    let work = Work { judge, pool, progress, done: AtomicU64::new(0) };
    let mut found = if settings.commits.is_empty() {
        let met = match repo.tip(settings.branch.as_deref())? {
            Some(tip) => repo.history(tip),
            None => Vec::new(),
        };
        walk(&work, met, settings.unit, &window)?
    } else {
        explicit(&work, &repo, settings)?
    };
    if settings.commits.is_empty() {
        reject_duplicates(&mut found);
    }
    Ok(match settings.limit {
        None => finish(found, usize::MAX),
        Some(Limit::Candidates(limit)) => finish(found, limit),
        Some(Limit::Tasks(_)) => {
            let mut selection = finish(found, usize::MAX);
            rank::sort(&mut selection.candidates);
            selection.tell_ranks();
            selection
        }
    })
}

/// Checks the dates of a selection.
///
/// # Errors
/// One that is no date.
pub fn check_dates(settings: &Mine) -> Result<()> {
    Window::parse(settings).map(drop)
}

/// The span of commit times that is asked for.
struct Window {
    since: Option<i64>,
    until: Option<i64>,
}

impl Window {
    fn parse(settings: &Mine) -> Result<Window> {
        Ok(Window {
            since: settings.since.as_deref().map(instant).transpose()?,
            until: settings.until.as_deref().map(instant).transpose()?,
        })
    }

    /// Commits without a time are always looked at.
    fn holds(&self, time: Option<i64>) -> bool {
        time.is_none_or(|time| {
            self.since.is_none_or(|since| time >= since) && self.until.is_none_or(|until| time < until)
        })
    }
}

/// Reads `YYYY-MM-DD` (its first moment, UTC) or an RFC 3339 instant as seconds since 1970.
fn instant(text: &str) -> Result<i64> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(time.as_second());
    }
    let day: jiff::civil::Date =
        text.parse().with_context(|| format!("read date `{text}`, which should look like 2024-03-01"))?;
    let start = jiff::tz::Offset::UTC.to_timestamp(day.to_datetime(jiff::civil::Time::midnight()));
    Ok(start.with_context(|| format!("read date `{text}`"))?.as_second())
}

/// A commit with what was decided on it.
struct Found {
    commit: Oid,
    subject: String,
    time: Option<i64>,
    on_first_line: bool,
    judgement: Judgement,
}

impl Found {
    fn new(commit: &Commit, on_first_line: bool, judgement: Judgement) -> Found {
        Found {
            commit: commit.id,
            subject: classify::subject(&commit.message),
            time: commit.time,
            on_first_line,
            judgement,
        }
    }

    fn unreadable(id: Oid, error: &ReadError) -> Found {
        let judgement = judge::unreadable(error, false);
        Found { commit: id, subject: String::new(), time: None, on_first_line: false, judgement }
    }
}

/// What the workers share.
struct Work<'a> {
    judge: Judge<'a>,
    pool: Pool<'a>,
    progress: &'a (dyn Fn(u64, u64) + Sync),
    done: AtomicU64,
}

impl Work<'_> {
    /// Judges commits against their first parents, in parallel; the order stays.
    fn judge_all(&self, commits: &[(&Commit, bool)], total: u64) -> Result<Vec<Found>> {
        let chunks: Result<Vec<Vec<Found>>> = commits
            .par_chunks(CHUNK)
            .map(|chunk| {
                self.pool.with(|worker| {
                    let mut found = Vec::with_capacity(chunk.len());
                    for &(commit, on_first_line) in chunk {
                        if interrupt::requested() {
                            return Err(Interrupted.into());
                        }
                        found.push(Found::new(commit, on_first_line, self.judge.change(worker, commit)?));
                        self.count(1, total);
                    }
                    Ok(found)
                })
            })
            .collect();
        Ok(chunks?.into_iter().flatten().collect())
    }

    fn count(&self, more: u64, total: u64) {
        let done = self.done.fetch_add(more, Ordering::Relaxed) + more;
        (self.progress)(done, total);
    }
}

/// Judges the named commits, each against its first parent, whatever line it is on.
fn explicit(work: &Work<'_>, repo: &Repo, settings: &Mine) -> Result<Vec<Found>> {
    let mut seen = HashSet::new();
    let mut commits = Vec::new();
    for name in &settings.commits {
        let id = repo.resolve(name)?;
        let id = Oid::from_str(&id).with_context(|| format!("read commit `{name}`"))?;
        if seen.insert(id) {
            commits.push(repo.commit(id).with_context(|| format!("read commit `{name}`"))?);
        }
    }
    commits.sort_by_key(|commit| std::cmp::Reverse((commit.time, commit.id)));
    let asked: Vec<(&Commit, bool)> = commits.iter().map(|commit| (commit, false)).collect();
    work.judge_all(&asked, asked.len() as u64)
}

/// Judges a whole history.
fn walk(
    work: &Work<'_>,
    met: Vec<Result<Commit, (Oid, ReadError)>>,
    unit: MineUnit,
    window: &Window,
) -> Result<Vec<Found>> {
    let mut found: HashMap<Oid, Found> = HashMap::new();
    let mut order = Vec::with_capacity(met.len());
    let mut commits = Vec::with_capacity(met.len());
    for item in met {
        match item {
            Ok(commit) => {
                order.push(commit.id);
                commits.push(commit);
            }
            Err((id, error)) => {
                order.push(id);
                found.insert(id, Found::unreadable(id, &error));
            }
        }
    }
    let asked: Vec<&Commit> = commits.iter().filter(|commit| window.holds(commit.time)).collect();
    let total = asked.len() as u64;
    match unit {
        MineUnit::Commit => every_commit(work, &asked, total, &mut found)?,
        MineUnit::Change => changes(work, &commits, &asked, total, &mut found)?,
    }
    Ok(order.iter().filter_map(|id| found.remove(id)).collect())
}

/// `--unit commit`: every commit that is no merge.
fn every_commit(work: &Work<'_>, asked: &[&Commit], total: u64, found: &mut HashMap<Oid, Found>) -> Result<()> {
    let (merges, single): (Vec<&Commit>, Vec<&Commit>) = asked.iter().partition(|commit| commit.parents.len() > 1);
    for merge in merges {
        let (reason, detail) = match merge.parents.len() {
            2 => (RejectReason::MergeCommit, "its commits are judged one by one".to_owned()),
            n => (RejectReason::OctopusMerge, format!("{n} parents")),
        };
        found.insert(merge.id, Found::new(merge, false, Judgement::Rejected { reason, detail }));
        work.count(1, total);
    }
    let single: Vec<(&Commit, bool)> = single.into_iter().map(|commit| (commit, false)).collect();
    found.extend(work.judge_all(&single, total)?.into_iter().map(|item| (item.commit, item)));
    Ok(())
}

/// `--unit change`: the first-parent line, then the branch commits of merges that cannot be one task.
fn changes(
    work: &Work<'_>,
    commits: &[Commit],
    asked: &[&Commit],
    total: u64,
    found: &mut HashMap<Oid, Found>,
) -> Result<()> {
    let by_id: HashMap<Oid, &Commit> = commits.iter().map(|commit| (commit.id, commit)).collect();
    let line = first_parents(&by_id, commits.first().map(|commit| commit.id));
    let on_line: HashSet<Oid> = line.iter().copied().collect();
    let (first, branch): (Vec<&Commit>, Vec<&Commit>) = asked.iter().partition(|commit| on_line.contains(&commit.id));
    let first: Vec<(&Commit, bool)> = first.into_iter().map(|commit| (commit, true)).collect();
    found.extend(work.judge_all(&first, total)?.into_iter().map(|item| (item.commit, item)));

    let merged_by = merged_by(&by_id, &line, &on_line);
    let mut alone = Vec::new();
    for commit in branch {
        let merge = merged_by.get(&commit.id).copied();
        let merge_is_too_large =
            merge.and_then(|merge| found.get(&merge)).is_none_or(|merge| merge.judgement.is_too_large());
        let part = |detail: String| Judgement::Rejected { reason: RejectReason::PartOfMerge, detail };
        let judgement = match (commit.parents.len(), merge) {
            (0..=1, _) if merge_is_too_large => {
                alone.push((commit, false));
                continue;
            }
            (_, Some(merge)) => part(format!("merged by {merge}")),
            (_, None) => part("not on the first-parent line".to_owned()),
        };
        found.insert(commit.id, Found::new(commit, false, judgement));
        work.count(1, total);
    }
    found.extend(work.judge_all(&alone, total)?.into_iter().map(|item| (item.commit, item)));
    Ok(())
}

/// Returns the first-parent line from a tip, newest first.
fn first_parents(by_id: &HashMap<Oid, &Commit>, tip: Option<Oid>) -> Vec<Oid> {
    std::iter::successors(tip, |id| by_id.get(id)?.parents.first().copied())
        .take_while(|id| by_id.contains_key(id))
        .collect()
}

/// Returns for every commit off the line the oldest merge of the line that brought it in.
fn merged_by(by_id: &HashMap<Oid, &Commit>, line: &[Oid], on_line: &HashSet<Oid>) -> HashMap<Oid, Oid> {
    let mut merged_by = HashMap::new();
    for merge in line.iter().rev() {
        let mut todo: Vec<Oid> = by_id[merge].parents.iter().skip(1).copied().collect();
        while let Some(id) = todo.pop() {
            let Some(commit) = by_id.get(&id) else { continue };
            if !on_line.contains(&id) && !merged_by.contains_key(&id) {
                merged_by.insert(id, *merge);
                todo.extend(&commit.parents);
            }
        }
    }
    merged_by
}

/// Keeps one candidate per change: the one on the first-parent line, among those the oldest.
fn reject_duplicates(found: &mut [Found]) {
    let mut kept: HashMap<String, usize> = HashMap::new();
    for index in (0..found.len()).rev() {
        let Judgement::Candidate { patch_id, .. } = &found[index].judgement else { continue };
        let patch_id = patch_id.clone();
        let Some(&other) = kept.get(&patch_id) else {
            kept.insert(patch_id, index);
            continue;
        };
        let is_better = found[index].on_first_line && !found[other].on_first_line;
        let (winner, loser) = if is_better { (index, other) } else { (other, index) };
        let detail = format!("the same change as {}", found[winner].commit);
        found[loser].judgement = Judgement::Rejected { reason: RejectReason::DuplicateChange, detail };
        kept.insert(patch_id, winner);
    }
}

/// Applies the limit and makes the records.
fn finish(found: Vec<Found>, limit: usize) -> Selection {
    let mut selection = Selection::default();
    for item in found {
        let (reason, detail) = match item.judgement {
            Judgement::Rejected { reason, detail } => (Some(reason), detail),
            Judgement::Candidate { detail, .. } if selection.candidates.len() >= limit => {
                (Some(RejectReason::BeyondLimit), detail)
            }
            Judgement::Candidate { candidate, detail, .. } => {
                selection.candidates.push(*candidate);
                (None, detail)
            }
        };
        selection.verdicts.push(CommitVerdict {
            commit: item.commit.to_string(),
            subject: item.subject,
            time: item.time,
            reason,
            detail,
        });
    }
    selection
}

fn unit_of(commit: &Commit) -> Unit {
    if commit.parents.len() > 1 { Unit::Merge } else { Unit::Commit }
}
