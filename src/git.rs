//! The only use of git2. Foreign repositories never execute anything on the host: libgit2 runs no hooks, filters or
//! drivers, and the one call of the `git` program (mirroring a URL) clears its configuration.

use std::path::Path;

use anyhow::Result;

use crate::record::{bytes::ByteText, patch::Edit};

/// An open repository; one per thread.
pub struct Repo {
    pub(crate) _inner: git2::Repository,
}

impl Repo {
    /// # Errors
    /// Not a repository, owned by someone else, or of an unsupported format; the message says which and what to do.
    pub fn open(_path: &Path) -> Result<Repo> {
        todo!()
    }

    /// Returns the full id of a commit named by id, prefix, branch or tag.
    pub fn resolve(&self, _revision: &str) -> Result<String> {
        todo!()
    }

    /// Returns a file's bytes at a commit, `None` where there is none.
    pub fn read(&self, _commit: &str, _path: &[u8]) -> Result<Option<Vec<u8>>> {
        todo!()
    }

    /// Returns a blob's bytes.
    pub fn blob(&self, _oid: &str) -> Result<Vec<u8>> {
        todo!()
    }

    /// Returns every file of a commit's tree with its mode, sorted; submodules are left out.
    pub fn files(&self, _commit: &str) -> Result<Vec<(ByteText, u32)>> {
        todo!()
    }

    /// Returns the id of a commit's tree.
    pub fn tree(&self, _commit: &str) -> Result<String> {
        todo!()
    }

    /// Writes a commit's tree into an empty directory, plus a `.git` that holds one synthetic root commit with exactly
    /// this tree and nothing else. File times derive from blob ids.
    pub fn write_template(&self, _commit: &str, _dir: &Path) -> Result<()> {
        todo!()
    }

    /// Applies a unified git diff to a commit's tree, strictly, and returns the edits it makes.
    ///
    /// # Errors
    /// The patch does not apply or touches a path outside the tree, below `.git`, or through a link; the text says why.
    pub fn apply(&self, _commit: &str, _patch: &ByteText) -> Result<Vec<Edit>, String> {
        todo!()
    }

    /// Returns the unified git diff (full binary data, no renames) that edits make to a commit's tree.
    pub fn diff(&self, _commit: &str, _edits: &[Edit]) -> Result<ByteText> {
        todo!()
    }
}
