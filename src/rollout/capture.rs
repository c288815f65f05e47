//! What an agent leaves behind as a patch against the base commit.
//!
//! The difference is taken between files and the base tree, from outside, after every process of the sandbox is dead.
//! What the agent did to its own repository (staged, committed, deleted, made anew) makes no difference.

use std::{collections::HashSet, path::Path};

use anyhow::Result;

use crate::{
    git::Repo,
    record::{bytes::ByteText, environment::Build, patch::Edit},
    sandbox::overlay::Workspace,
};

/// Above this a patch is refused, bytes.
pub const MAX_PATCH_BYTES: usize = 5 << 20;
/// Above this not even the changed files are read, bytes.
const MAX_CHANGED_BYTES: u64 = 64 << 20;

/// What was left behind.
#[derive(Debug)]
pub enum Captured {
    Patch(ByteText),
    /// Nothing is kept of it; how large it is.
    TooLarge(String),
}

/// Returns the patch.
///
/// # Errors
/// The workspace or the repository cannot be read.
pub fn patch(repository: &Path, base_commit: &str, build: &Build, workspace: &Workspace) -> Result<Captured> {
    let repo = Repo::open(repository)?;
    let edits = match workspace.changes(MAX_CHANGED_BYTES) {
        Ok(edits) => edits,
        Err(error) if is_size_limit(&error) => return Ok(Captured::TooLarge(format!("{error:#}"))),
        Err(error) => return Err(error),
    };
    let base: HashSet<ByteText> = repo.files(base_commit)?.into_iter().map(|(path, _)| path).collect();
    let generated: HashSet<&ByteText> = build.generated.iter().map(|file| &file.path).collect();
    let edits: Vec<Edit> = edits
        .into_iter()
        .filter(|edit| !generated.contains(&edit.path) && !is_gits_own(edit.path.as_bytes()))
        .filter(|edit| base.contains(&edit.path) || !is_residue(edit.path.as_bytes()))
        .collect();
    let patch = repo.diff(base_commit, &edits)?;
    if patch.0.len() > MAX_PATCH_BYTES {
        return Ok(Captured::TooLarge(format!("{} bytes, at most {MAX_PATCH_BYTES} are kept", patch.0.len())));
    }
    Ok(Captured::Patch(patch))
}

fn is_size_limit(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.to_string().contains("bytes differ"))
}

/// Says whether a path lies in a git directory at any depth: a nested repository counts by its files.
fn is_gits_own(path: &[u8]) -> bool {
    parts(path).any(|part| part.eq_ignore_ascii_case(b".git"))
}

/// Says whether a path is what running and building leave behind, never work: bytecode, caches, build output.
fn is_residue(path: &[u8]) -> bool {
    const DIRECTORIES: [&[u8]; 9] = [
        b"__pycache__",
        b".pytest_cache",
        b".hypothesis",
        b".mypy_cache",
        b".ruff_cache",
        b".tox",
        b".nox",
        b".eggs",
        b"htmlcov",
    ];
    let is_build =
        path.starts_with(b"build/lib") || path.starts_with(b"build/bdist") || path.starts_with(b"build/temp");
    let last = parts(path).last().unwrap_or_default();
    is_build
        || last.ends_with(b".pyc")
        || last.ends_with(b".pyo")
        || last == b".coverage"
        || last.starts_with(b".coverage.")
        || parts(path).any(|part| DIRECTORIES.contains(&part) || part.ends_with(b".egg-info"))
}

fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn residue_is_told_from_work() {
        for path in [
            "pkg/__pycache__/a.cpython-311.pyc",
            "a.pyc",
            ".pytest_cache/v/cache/lastfailed",
            "src/pkg.egg-info/PKG-INFO",
            "build/lib/pkg/a.py",
            ".coverage",
            ".hypothesis/examples/1",
        ] {
            assert!(is_residue(path.as_bytes()), "{path}");
        }
        for path in ["pkg/cache.py", "build/notes.txt", "builder/lib.py", "egg-info.txt", "pyc/a.py", ".coveragerc"] {
            assert!(!is_residue(path.as_bytes()), "{path}");
        }
        assert!(is_gits_own(b"vendored/.git/HEAD") && is_gits_own(b".GIT") && !is_gits_own(b".gitignore"));
    }
}
