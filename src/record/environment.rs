//! What a repository's tests need besides the repository.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{bytes::ByteText, failure::Failure, id::Digest};

/// An ecosystem with an adapter of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    Python,
    /// And TypeScript.
    Javascript,
    Rust,
    Go,
}

impl Language {
    pub const ALL: [Language; 4] = [Language::Python, Language::Javascript, Language::Rust, Language::Go];

    pub fn name(self) -> &'static str {
        match self {
            Language::Python => "python",
            Language::Javascript => "javascript",
            Language::Rust => "rust",
            Language::Go => "go",
        }
    }

    /// Returns what a toolchain of the language is called on screen.
    pub fn toolchain_name(self) -> &'static str {
        match self {
            Language::Python => "Python",
            Language::Javascript => "Node.js",
            Language::Rust => "Rust",
            Language::Go => "Go",
        }
    }
}

/// The test runner of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runner {
    Pytest,
    Unittest,
    /// `node --test`.
    NodeTest,
    Jest,
    Vitest,
    Mocha,
    Ava,
    Tap,
    /// `cargo test`.
    Cargo,
    /// `go test`.
    Go,
}

impl Runner {
    pub fn name(self) -> &'static str {
        match self {
            Runner::Pytest => "pytest",
            Runner::Unittest => "unittest",
            Runner::NodeTest => "node_test",
            Runner::Jest => "jest",
            Runner::Vitest => "vitest",
            Runner::Mocha => "mocha",
            Runner::Ava => "ava",
            Runner::Tap => "tap",
            Runner::Cargo => "cargo",
            Runner::Go => "go",
        }
    }

    pub fn language(self) -> Language {
        match self {
            Runner::Pytest | Runner::Unittest => Language::Python,
            Runner::NodeTest | Runner::Jest | Runner::Vitest | Runner::Mocha | Runner::Ava | Runner::Tap => {
                Language::Javascript
            }
            Runner::Cargo => Language::Rust,
            Runner::Go => Language::Go,
        }
    }
}

/// What runs a language's programs, found on the machine: a Python interpreter, Node.js, a Rust or Go toolchain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toolchain {
    pub language: Language,
    /// Real path of the executable: `python3.11`, `node`, `cargo`, `go`.
    pub path: PathBuf,
    /// The directory that a sandbox must show for it to run: `sys.base_prefix`, a sysroot, `GOROOT`.
    pub prefix: PathBuf,
    /// Full version, e.g. `3.11.7`.
    pub version: String,
}

/// A locked, content-addressed set of installed packages; many candidates share one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// Digest of toolchain version and lock; names the directory in the cache.
    pub key: Digest,
    pub toolchain: Toolchain,
    /// What pins every package, by version and digest: a requirements file with hashes, a `package-lock.json`, a
    /// `Cargo.lock`, a `go.sum`; sorted.
    pub lock: String,
}

/// How the environment of one candidate was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Why this toolchain (`requires-python >=3.8, classifier 3.11`).
    pub interpreter_reason: String,
    /// Last day whose releases count, `YYYY-MM-DD`.
    pub cutoff: String,
    /// Packages exempt from the cut-off, with their own date (`atomicwrites=2022-12-01`).
    pub exceptions: Vec<String>,
    /// Extras, dependency groups and files that requirements were taken from.
    pub sources: Vec<String>,
    /// Requirements besides the project's own, as given to the resolver, sorted.
    pub requirements: Vec<String>,
    /// Name of the rung of the ladder that worked (`lock_file`, `dated`, `dated_unpinned`, …).
    pub rung: String,
    /// Rungs tried before, with the reason each failed (last line).
    pub failed_rungs: Vec<String>,
}

/// A file laid over the tree or beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerFile {
    /// Relative path.
    pub path: ByteText,
    pub content: ByteText,
    pub executable: bool,
}

/// The environment of one candidate and what its own build adds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    pub instance_id: String,
    pub runner: Runner,
    pub environment: Environment,
    pub recipe: Recipe,
    /// The project's `*.dist-info` (never its modules), mounted on the import path behind the tree.
    pub metadata: Vec<LayerFile>,
    /// Files that building generates inside the tree (`_version.py`), laid over every state.
    pub generated: Vec<LayerFile>,
    /// Directories of the tree on the import path, relative to it, e.g. `["src", ""]`; for Go those of its modules.
    pub import_roots: Vec<String>,
}

/// What the build stage writes.
pub type BuildOutcome = Result<Build, Failure>;
