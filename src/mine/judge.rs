//! Is this change a candidate, and if not, why? Cheap questions first: ids, paths, sizes, and only then contents.

use anyhow::Result;

use super::{
    classify,
    pool::Worker,
    split::{self, Change, Split},
    tokens, unit_of,
};
use crate::{
    config::Mine,
    git::{
        self, Oid, ReadError, Repo,
        diff::LineCounts,
        object::Commit,
        tree::{BadName, Delta, Node},
    },
    lang::paths,
    record::{
        bytes::ByteText,
        candidate::{Candidate, FileChange, RejectReason, Role, Side},
        environment::Language,
        id::instance_id,
    },
    sources::Source,
    syntax,
};

/// Paths named in a detail at most.
const SHOWN_PATHS: usize = 5;
/// Source files and changed source lines of tier 1 at most.
const TIER_1: (u32, u32) = (5, 200);
/// The same of tier 2; what raised limits let through beyond is tier 3.
const TIER_2: (u32, u32) = (15, 500);

/// What was decided on a commit.
pub enum Judgement {
    Rejected { reason: RejectReason, detail: String },
    Candidate { candidate: Box<Candidate>, patch_id: String, detail: String },
}

impl Judgement {
    fn rejected(reason: RejectReason, detail: impl Into<String>) -> Judgement {
        Judgement::Rejected { reason, detail: detail.into() }
    }

    /// Says whether a merge cannot be one task while its commits may each be one.
    pub fn is_too_large(&self) -> bool {
        let Judgement::Rejected { reason, .. } = self else { return false };
        match reason {
            RejectReason::OctopusMerge
            | RejectReason::TooManyFiles
            | RejectReason::TooManyLines
            | RejectReason::OversizedFile
            | RejectReason::UnreadableCommit
            | RejectReason::MissingObjects => true,
            RejectReason::RootCommit
            | RejectReason::MergeCommit
            | RejectReason::DuplicateChange
            | RejectReason::PartOfMerge
            | RejectReason::NoChange
            | RejectReason::NoSourceChange
            | RejectReason::NoTestChange
            | RejectReason::CommentOrFormatOnly
            | RejectReason::GeneratedOrVendored
            | RejectReason::SubmoduleOnly
            | RejectReason::ShallowBoundary
            | RejectReason::PathCollision
            | RejectReason::UnsafePath
            | RejectReason::BeyondLimit => false,
        }
    }
}

/// Says why a commit with an object that cannot be read is none.
pub fn unreadable(error: &ReadError, is_partial: bool) -> Judgement {
    let reason = match error {
        ReadError::Missing(_) => RejectReason::MissingObjects,
        ReadError::Corrupt(..) => RejectReason::UnreadableCommit,
    };
    let hint = if is_partial { "; the clone is partial: fetch it again without --filter" } else { "" };
    Judgement::rejected(reason, format!("{error}{hint}"))
}

/// A rejection, or an error that ends the run.
enum Stop {
    Rejected(Judgement),
    Failed(anyhow::Error),
}

impl From<Judgement> for Stop {
    fn from(judgement: Judgement) -> Stop {
        Stop::Rejected(judgement)
    }
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Stop {
        Stop::Failed(error)
    }
}

fn reject<T>(reason: RejectReason, detail: impl Into<String>) -> Result<T, Stop> {
    Err(Judgement::rejected(reason, detail).into())
}

/// Decides by the settings of a run.
#[derive(Clone, Copy)]
pub struct Judge<'a> {
    pub source: &'a Source,
    pub settings: &'a Mine,
}

impl Judge<'_> {
    /// Decides on a commit against its first parent.
    ///
    /// # Errors
    /// Our own failures; what is wrong with the commit is a rejection.
    pub fn change(&self, worker: &mut Worker, commit: &Commit) -> Result<Judgement> {
        match self.decide(worker, commit) {
            Ok(judgement) | Err(Stop::Rejected(judgement)) => Ok(judgement),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    fn decide(&self, worker: &mut Worker, commit: &Commit) -> Result<Judgement, Stop> {
        let repo = &worker.repo;
        let broken = |error: ReadError| Stop::Rejected(unreadable(&error, repo.is_partial));
        let base = base_of(repo, commit)?;
        let base = repo.commit(base).map_err(broken)?;
        let deltas = repo.compare(base.tree, commit.tree).map_err(broken)?;
        let roles = roles(repo, commit.tree, &deltas).map_err(broken)?;
        self.check_paths(&deltas, &roles)?;
        self.check_sizes(repo, &deltas).map_err(broken)??;

        let mut changes = read_changes(repo, deltas, roles).map_err(broken)?;
        join_what_cannot_be_split(repo, base.tree, &mut changes)?;
        check_roles(&changes)?;
        let lfs = check_contents(&changes)?;
        let split = split::split(&changes)?;
        let facts = self.check_lines(&changes, &split)?;
        for tree in [base.tree, commit.tree] {
            match worker.names.find_bad(&worker.repo, tree).map_err(broken)? {
                None => {}
                Some((path, BadName::Collides)) => {
                    let detail = format!("two paths differ only by case: {}", shown(&path));
                    return reject(RejectReason::PathCollision, detail);
                }
                Some((path, BadName::Unsafe)) => {
                    return reject(RejectReason::UnsafePath, format!("no tree may hold `{}`", shown(&path)));
                }
            }
        }
        let mut detail = facts.detail(&changes);
        if !lfs.is_empty() {
            detail = format!("{detail}; Git LFS pointers: {}", list(lfs.iter().map(Vec::as_slice)));
        }
        let patch_id = split::patch_id(&split);
        let candidate = Box::new(self.candidate(commit, &base, &changes, split, facts));
        Ok(Judgement::Candidate { candidate, patch_id, detail })
    }

    /// Asks what the paths alone can answer.
    fn check_paths(&self, deltas: &[Delta], roles: &[Role]) -> Result<(), Stop> {
        if deltas.is_empty() {
            return reject(RejectReason::NoChange, "the tree is its parent's");
        }
        if deltas.iter().all(is_gitlink) {
            return reject(RejectReason::SubmoduleOnly, list(deltas.iter().map(|delta| delta.path.as_slice())));
        }
        let of =
            |role: Role| deltas.iter().zip(roles).filter(move |(_, other)| **other == role).map(|(delta, _)| delta);
        let paths = || list(deltas.iter().map(|delta| delta.path.as_slice()));
        let n_source = of(Role::Source).count();
        if n_source == 0 {
            return reject(RejectReason::NoSourceChange, format!("changes {}", paths()));
        }
        if of(Role::Source).all(|delta| paths::is_generated_or_vendored(&delta.path)) {
            return reject(RejectReason::GeneratedOrVendored, format!("changes {}", paths()));
        }
        let may_hold_tests = |delta: &Delta| delta.path.ends_with(b".rs") && delta.old.is_some() && delta.new.is_some();
        if of(Role::Test).all(|delta| delta.new.is_none()) && !of(Role::Source).any(may_hold_tests) {
            let what = if of(Role::Test).next().is_none() { "changes" } else { "only removes tests; changes" };
            return reject(RejectReason::NoTestChange, format!("{what} {}", paths()));
        }
        let Mine { max_source_files, max_files, .. } = self.settings;
        let language = language(deltas.iter().zip(roles.iter().copied()));
        if !of(Role::Source).any(|delta| paths::language(&delta.path) == Some(language)) {
            return reject(RejectReason::NoSourceChange, format!("tests another language; changes {}", paths()));
        }
        if n_source > *max_source_files as usize {
            return reject(RejectReason::TooManyFiles, format!("{n_source} source files, limit {max_source_files}"));
        }
        if deltas.len() > *max_files as usize {
            return reject(RejectReason::TooManyFiles, format!("{} files, limit {max_files}", deltas.len()));
        }
        Ok(())
    }

    fn check_sizes(&self, repo: &Repo, deltas: &[Delta]) -> Result<Result<(), Stop>, ReadError> {
        for delta in deltas {
            for node in [delta.old, delta.new].into_iter().flatten().filter(|node| node.is_file()) {
                let size = repo.size(node.oid)?;
                if size > self.settings.max_file_bytes {
                    let limit = self.settings.max_file_bytes;
                    let detail = format!("{} has {size} bytes, limit {limit}", shown(&delta.path));
                    return Ok(reject(RejectReason::OversizedFile, detail));
                }
            }
        }
        Ok(Ok(()))
    }

    fn check_lines(&self, changes: &[Change], split: &Split) -> Result<Facts, Stop> {
        let source = changes.iter().zip(&split.counts).filter(|(change, _)| change.role == Role::Source);
        let mut facts = Facts { n_source_files: 0, n_source_lines: 0, tier: 3 };
        for (_, counts) in source {
            facts.n_source_files += 1;
            facts.n_source_lines = facts.n_source_lines.saturating_add(counts.added).saturating_add(counts.removed);
        }
        let Facts { n_source_files, n_source_lines, .. } = facts;
        let max = self.settings.max_source_lines;
        if n_source_lines > max {
            return reject(RejectReason::TooManyLines, format!("{n_source_lines} source lines, limit {max}"));
        }
        let fits = |(files, lines): (u32, u32)| n_source_files <= files && n_source_lines <= lines;
        facts.tier = if fits(TIER_1) {
            1
        } else if fits(TIER_2) {
            2
        } else {
            3
        };
        if facts.tier < 3 && !self.settings.tiers.contains(&facts.tier) {
            let reason = match (facts.tier, n_source_files > TIER_1.0) {
                (1, _) => RejectReason::BeyondLimit,
                (_, true) => RejectReason::TooManyFiles,
                (_, false) => RejectReason::TooManyLines,
            };
            return reject(reason, format!("{}, and that tier is not asked for", facts.detail(changes)));
        }
        Ok(facts)
    }

    fn candidate(&self, commit: &Commit, base: &Commit, changes: &[Change], split: Split, facts: Facts) -> Candidate {
        let fix_commit = commit.id.to_string();
        let fix_time = commit.time.expect("`base_of` has asked for it");
        Candidate {
            instance_id: instance_id(&self.source.name, &fix_commit),
            repo: self.source.name.clone(),
            repo_source: self.source.given.clone(),
            base_commit: base.id.to_string(),
            fix_commit,
            unit: unit_of(commit),
            language: language(changes.iter().map(|change| (&change.delta, change.role))),
            base_time: base.time.unwrap_or(fix_time),
            fix_time,
            message: ByteText::new(commit.message.as_slice()),
            changes: changes.iter().zip(&split.counts).map(|(change, counts)| file_change(change, *counts)).collect(),
            source_patch: split.source_patch,
            test_patch: split.test_patch,
            n_source_files: facts.n_source_files,
            n_source_lines: facts.n_source_lines,
            tier: facts.tier,
            mentions_fix: classify::mentions_fix(&commit.message),
        }
    }
}

/// Sizes of a change that has passed.
#[derive(Clone, Copy)]
struct Facts {
    n_source_files: u32,
    n_source_lines: u32,
    tier: u8,
}

impl Facts {
    fn detail(self, changes: &[Change]) -> String {
        let n_tests = changes.iter().filter(|change| change.role == Role::Test || change.inner.is_some()).count();
        let Facts { n_source_files, n_source_lines, tier } = self;
        format!("tier {tier}: {n_source_files} source files, {n_source_lines} source lines, {n_tests} test files")
    }
}

/// Returns the commit that a change starts from.
fn base_of(repo: &Repo, commit: &Commit) -> Result<Oid, Stop> {
    if let Some(defect) = &commit.defect {
        return reject(RejectReason::UnreadableCommit, defect.clone());
    }
    if commit.time.is_none() {
        return reject(RejectReason::UnreadableCommit, "its commit time is missing or no date");
    }
    if repo.is_boundary(commit.id) {
        let hint = "the shallow clone ends here; deepen it with `git fetch --unshallow`";
        return reject(RejectReason::ShallowBoundary, hint);
    }
    match commit.parents.as_slice() {
        [] => reject(RejectReason::RootCommit, "it has no parent"),
        [base] | [base, _] => Ok(*base),
        parents => reject(RejectReason::OctopusMerge, format!("{} parents", parents.len())),
    }
}

/// Returns the language that most of the changed tests are written in, else most of the source.
fn language<'a>(files: impl Iterator<Item = (&'a Delta, Role)>) -> Language {
    let files: Vec<(Role, Language)> = files
        .filter(|(delta, _)| delta.new.is_some())
        .filter_map(|(delta, role)| Some((role, paths::language(&delta.path)?)))
        .collect();
    let most = |role: Role| {
        let count = |language: &Language| files.iter().filter(|file| **file == (role, *language)).count();
        // The first of equals.
        Language::ALL.into_iter().rev().filter(|language| count(language) > 0).max_by_key(count)
    };
    most(Role::Test).or_else(|| most(Role::Source)).unwrap_or(Language::Python)
}

fn roles(repo: &Repo, tree: Oid, deltas: &[Delta]) -> Result<Vec<Role>, ReadError> {
    let concerns_testing = deltas.iter().any(|delta| delta.path.starts_with(b"testing/"));
    let layout =
        paths::Layout { testing_holds_tests: concerns_testing && repo.lookup(tree, b"testing/__init__.py")?.is_none() };
    let role = |delta: &Delta| if is_gitlink(delta) { Role::Other } else { paths::role(&delta.path, layout) };
    Ok(deltas.iter().map(role).collect())
}

/// Says whether both sides are submodules, or one is and the other is not there.
fn is_gitlink(delta: &Delta) -> bool {
    [delta.old, delta.new].into_iter().flatten().all(Node::is_gitlink)
}

fn read_changes(repo: &Repo, deltas: Vec<Delta>, roles: Vec<Role>) -> Result<Vec<Change>, ReadError> {
    deltas
        .into_iter()
        .zip(roles)
        .map(|(delta, role)| {
            let contents = repo.contents(&delta)?;
            Ok(Change::new(delta, role, contents))
        })
        .collect()
}

/// Takes the tests inside files back where the two patches would not make the fix's tree of the base.
fn join_what_cannot_be_split(repo: &Repo, base: Oid, changes: &mut [Change]) -> Result<(), Stop> {
    for change in changes.iter_mut().filter(|change| change.inner.is_some()) {
        let Split { source_patch, test_patch, .. } = split::split(std::slice::from_ref(change))?;
        let gives_the_fix = |first: &ByteText, second: &ByteText| {
            let edits = git::apply::apply(repo, base, &[first.as_bytes(), second.as_bytes()].concat()).ok();
            let content = edits.and_then(|edits| edits.into_iter().next()?.content);
            content.is_some_and(|content| Some(content.bytes.as_bytes()) == change.contents.new.as_deref())
        };
        if !(gives_the_fix(&source_patch, &test_patch) && gives_the_fix(&test_patch, &source_patch)) {
            change.inner = None;
        }
    }
    Ok(())
}

/// Asks again for source and tests, now that files with tests inside have been read.
fn check_roles(changes: &[Change]) -> Result<(), Stop> {
    let paths = || list(changes.iter().map(|change| change.delta.path.as_slice()));
    if changes.iter().all(|change| change.role != Role::Source) {
        return reject(RejectReason::NoSourceChange, format!("changes {}", paths()));
    }
    let has_tests =
        |change: &Change| change.inner.is_some() || (change.role == Role::Test && change.delta.new.is_some());
    match changes.iter().any(has_tests) {
        true => Ok(()),
        false => reject(RejectReason::NoTestChange, format!("changes {}", paths())),
    }
}

/// Asks what the contents can answer before any diff is made; returns the paths of Git LFS pointers.
fn check_contents(changes: &[Change]) -> Result<Vec<Vec<u8>>, Stop> {
    let source = || changes.iter().filter(|change| change.role == Role::Source);
    if source().all(is_only_looks) {
        let detail = format!("no token differs in {}", list(source().map(|change| change.delta.path.as_slice())));
        return reject(RejectReason::CommentOrFormatOnly, detail);
    }
    let is_pointer = |change: &&Change| change.contents.new.as_deref().is_some_and(classify::is_lfs_pointer);
    let pointers: Vec<&Change> = changes.iter().filter(is_pointer).collect();
    let has_real_test = changes.iter().any(|change| {
        change.inner.is_some() || (change.role == Role::Test && change.contents.new.is_some() && !is_pointer(&change))
    });
    let paths = || pointers.iter().map(|change| change.delta.path.as_slice());
    if !has_real_test {
        return reject(RejectReason::NoTestChange, format!("its tests are Git LFS pointers: {}", list(paths())));
    }
    Ok(paths().map(<[u8]>::to_vec).collect())
}

/// Says whether a source file's change is one of comments, docstrings and layout alone. In doubt it is not.
fn is_only_looks(change: &Change) -> bool {
    let path = change.delta.path.as_slice();
    let modes = |node: Option<Node>| node.map_or(crate::git::PLAIN, |node| node.mode);
    let (old, new) = (change.contents.old.as_deref().unwrap_or_default(), change.new_program().unwrap_or_default());
    let is_same_code = || match paths::language(path) {
        Some(Language::Python) => path.ends_with(b".py") && tokens::is_same_code(old, new),
        _ => syntax::is_same_code(path, old, new),
    };
    modes(change.delta.old) == modes(change.delta.new) && is_same_code()
}

fn file_change(change: &Change, counts: LineCounts) -> FileChange {
    let side = |node: Option<Node>| node.map(|node| Side { mode: node.mode, oid: node.oid.to_string() });
    FileChange {
        path: ByteText::new(change.delta.path.as_slice()),
        role: change.role,
        old: side(change.delta.old),
        new: side(change.delta.new),
        added_lines: counts.added,
        removed_lines: counts.removed,
        with_new_tests: change.inner.as_ref().map(|inner| ByteText::new(inner.new_tests.as_slice())),
    }
}

fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Names the first paths and counts the rest.
fn list<'a>(paths: impl Iterator<Item = &'a [u8]>) -> String {
    let paths: Vec<&[u8]> = paths.collect();
    let mut text: Vec<String> = paths.iter().take(SHOWN_PATHS).map(|path| shown(path)).collect();
    if paths.len() > SHOWN_PATHS {
        text.push(format!("and {} more", paths.len() - SHOWN_PATHS));
    }
    text.join(", ")
}
