//! Isolated execution: what may be seen and used ([`Spec`], [`Limits`]), and the two ways to run: one command
//! ([`run`]) or a persistent shell ([`session::Session`]).

pub mod bwrap;
pub mod overlay;
pub mod session;

use std::{path::PathBuf, time::Duration};

use anyhow::Result;

use crate::process::Capture;
use overlay::Workspace;

/// How isolation is achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    Bubblewrap,
    /// No isolation at all; only with `--unsafe-no-sandbox`.
    None,
}

impl Backend {
    /// Starts a real process under bubblewrap and says what is wrong if that fails.
    ///
    /// # Errors
    /// Bubblewrap is missing or not usable; the message names the cause and the next step.
    pub fn probe() -> Result<Backend> {
        todo!()
    }
}

/// Path of the tree inside every sandbox.
pub const TREE: &str = "/testbed";
/// Path of the environment inside every sandbox.
pub const ENVIRONMENT: &str = "/opt/env";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub wall: Duration,
    /// Address space of each process, and memory of all together where a control group can be had.
    pub memory_bytes: u64,
    /// Processes and threads of the whole sandbox.
    pub processes: u64,
    /// Size of any one file.
    pub file_bytes: u64,
    /// Kept of each output stream.
    pub output_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            wall: Duration::from_secs(600),
            memory_bytes: 4 << 30,
            processes: 512,
            file_bytes: 1 << 30,
            output_bytes: 64 << 10,
        }
    }
}

/// A host path shown inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub host: PathBuf,
    pub inside: PathBuf,
    pub writable: bool,
}

/// What a sandbox shows. Everything else of the host is absent.
#[derive(Clone, Debug)]
pub struct Spec<'a> {
    /// Mounted writable at [`TREE`]; also the working directory.
    pub workspace: Option<&'a Workspace>,
    pub mounts: Vec<Mount>,
    /// Added to the fixed environment (`TZ=UTC`, `LC_ALL=C.UTF-8`, `HOME`, `PATH`, …); later entries win.
    pub env: Vec<(String, String)>,
    /// Only ever true while an environment is built.
    pub network: bool,
    pub limits: Limits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    TimedOut,
    /// A control group's memory limit ended it.
    OutOfMemory,
    Interrupted,
    /// The sandbox could not be set up or vanished: the machine's fault, never the subject's.
    Lost,
}

#[derive(Clone, Debug)]
pub struct Output {
    pub exit: Exit,
    pub stdout: Capture,
    pub stderr: Capture,
    pub wall: Duration,
}

/// Runs one command in a sandbox of its own; every process in it is dead when this returns.
///
/// # Errors
/// The backend cannot be started at all.
pub fn run(_backend: Backend, _spec: &Spec, _argv: &[String]) -> Result<Output> {
    todo!()
}
