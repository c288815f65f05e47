//! Both sides of what a candidate changes, as texts with their differing lines: what fairness and difficulty read.

use anyhow::{Context as _, Result};

use crate::{
    git::{
        Repo,
        diff::{ChangedLines, changed_lines},
    },
    lang::paths,
    record::candidate::{Candidate, FileChange, Role, Side},
};

/// Base files larger than this, and those beyond this many bytes in all, are not searched.
const MAX_FILE_BYTES: usize = 1 << 20;
const MAX_BASE_BYTES: usize = 64 << 20;
/// Endings of documentation.
const DOC_ENDINGS: [&str; 6] = [".md", ".rst", ".txt", ".adoc", ".markdown", ".pyi"];

/// One file's change.
pub struct Changed {
    pub path: String,
    pub old: Vec<u8>,
    pub new: Vec<u8>,
    pub lines: ChangedLines,
    /// Whether the fix adds the file.
    pub is_new: bool,
}

/// What a candidate changes, program and tests apart, also where one file holds both.
pub struct Change {
    /// From the state before the fix, new tests included, to the fix.
    pub source: Vec<Changed>,
    /// From base to the state before the fix.
    pub tests: Vec<Changed>,
}

/// Reads both sides of every changed program and test file.
///
/// # Errors
/// A blob cannot be read.
pub fn read(repo: &Repo, candidate: &Candidate) -> Result<Change> {
    let mut change = Change { source: Vec::new(), tests: Vec::new() };
    for file in &candidate.changes {
        let old = side(repo, file.old.as_ref())?;
        let new = side(repo, file.new.as_ref())?;
        match (file.role, &file.with_new_tests) {
            (Role::Source, Some(middle)) => {
                change.tests.push(changed(file, old, middle.as_bytes().to_vec())?);
                change.source.push(changed(file, middle.as_bytes().to_vec(), new)?);
            }
            (Role::Source, None) => change.source.push(changed(file, old, new)?),
            (Role::Test, _) => change.tests.push(changed(file, old, new)?),
            (Role::Other, _) => {}
        }
    }
    Ok(change)
}

/// Hands over the base's program, test and documentation files, one by one; `each` says whether it wants more.
///
/// # Errors
/// A blob cannot be read.
pub fn read_base(repo: &Repo, commit: &str, each: &mut dyn FnMut(&str) -> bool) -> Result<()> {
    const SUBMODULE_OR_LINK: [u32; 2] = [0o160_000, 0o120_000];
    let mut n_bytes = 0;
    for (path, mode) in repo.files(commit)? {
        if SUBMODULE_OR_LINK.contains(&mode) || !is_searched(&path.lossy()) {
            continue;
        }
        let text = repo.read(commit, path.as_bytes()).with_context(|| format!("read `{path}`"))?.unwrap_or_default();
        if text.len() > MAX_FILE_BYTES {
            continue;
        }
        n_bytes += text.len();
        if n_bytes > MAX_BASE_BYTES || !each(&String::from_utf8_lossy(&text)) {
            break;
        }
    }
    Ok(())
}

fn is_searched(path: &str) -> bool {
    paths::language(path.as_bytes()).is_some() || DOC_ENDINGS.iter().any(|ending| path.ends_with(ending))
}

fn side(repo: &Repo, side: Option<&Side>) -> Result<Vec<u8>> {
    const SUBMODULE: u32 = 0o160_000;
    match side {
        Some(side) if side.mode != SUBMODULE => repo.blob(&side.oid),
        Some(_) | None => Ok(Vec::new()),
    }
}

fn changed(file: &FileChange, old: Vec<u8>, new: Vec<u8>) -> Result<Changed> {
    let lines = changed_lines(&old, &new)?;
    Ok(Changed { path: file.path.escaped(), old, new, lines, is_new: file.old.is_none() })
}
