//! PATH, URL or NAME → a repository on this machine.

use std::path::PathBuf;

use anyhow::Result;

use crate::cache::Cache;

/// A repository to mine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// `owner/name` where it can be told, else the directory's name.
    pub name: String,
    /// What was given: path (made absolute), URL, or name.
    pub given: String,
    /// Where its objects are.
    pub path: PathBuf,
}

/// Finds a repository: an existing path, a URL (mirrored into the cache by `git clone --mirror`, fetched again only
/// with `refresh`), or a name from `repos/<name>.toml` (a URL, or a bundled history that is rebuilt in the cache).
///
/// # Errors
/// Nothing is there, or it cannot be fetched; the message names the thing and the next step.
pub fn resolve(_cache: &Cache, _given: &str, _refresh: bool) -> Result<Source> {
    todo!()
}
