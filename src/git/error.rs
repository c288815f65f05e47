//! What goes wrong with repositories and objects, in words that say what to do next.

use std::{fmt, path::Path};

use anyhow::anyhow;
use git2::{ErrorCode, Oid};

/// An error whose cause is known well enough to say what to do next.
#[derive(Clone, Debug)]
pub struct Hinted {
    pub message: String,
    pub hint: String,
}

impl Hinted {
    pub fn error(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Hinted { message: message.into(), hint: hint.into() })
    }
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Hinted {}

pub const GIVE_REPOSITORY: &str = "give the directory that holds `.git`, a bare repository, or a URL";

/// Why an object could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The object is not here: a partial clone, or a damaged repository.
    Missing(Oid),
    Corrupt(Oid, String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Missing(oid) => write!(f, "object `{oid}` is missing"),
            ReadError::Corrupt(oid, why) => write!(f, "object `{oid}` is damaged: {why}"),
        }
    }
}

impl std::error::Error for ReadError {}

pub fn read_error(id: Oid, error: &git2::Error) -> ReadError {
    match error.code() {
        ErrorCode::NotFound => ReadError::Missing(id),
        _ => ReadError::Corrupt(id, error.message().to_owned()),
    }
}

pub fn open_error(path: &Path, error: &git2::Error) -> anyhow::Error {
    let message = error.message();
    match error.code() {
        ErrorCode::Owner => Hinted::error(
            "it belongs to another user",
            format!("if you trust it: git config --global --add safe.directory '{}'", path.display()),
        ),
        ErrorCode::NotFound => Hinted::error("it is not a git repository", GIVE_REPOSITORY),
        _ if message.contains("object format") => Hinted::error(
            format!("its object format is not supported: {message}"),
            "only SHA-1 repositories can be read; export it with `git fast-export` into one",
        ),
        _ if message.contains("extension") => Hinted::error(
            format!("its format is not supported: {message}"),
            "clone it anew with `git clone --mirror` and use the clone",
        ),
        _ => anyhow!("{message}"),
    }
}
