//! The only place that starts processes: argv, cleared environment, limits, tree kill, bounded capture.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use anyhow::Result;

/// What to run. The environment is cleared, then set.
#[derive(Clone, Debug)]
pub struct Command {
    pub argv: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub cwd: Option<PathBuf>,
    pub stdin: Vec<u8>,
    /// Killed with all its descendants when this has passed.
    pub wall: Duration,
    /// Bytes kept of each stream: half of it from the head, half from the tail.
    pub max_output_bytes: usize,
}

/// What is kept of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    pub head: Vec<u8>,
    /// Empty while everything fits into `head`.
    pub tail: Vec<u8>,
    pub total_bytes: u64,
}

impl Capture {
    /// Returns head and tail with a line between them that says how many bytes are left out.
    pub fn text(&self) -> String {
        todo!()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    TimedOut,
    /// Killed because of Ctrl-C.
    Interrupted,
}

#[derive(Clone, Debug)]
pub struct Finished {
    pub exit: Exit,
    pub stdout: Capture,
    pub stderr: Capture,
    pub wall: Duration,
}

/// Runs a command to its end, its time limit, or an interrupt.
///
/// A background process that holds the streams open does not hold the call open.
///
/// # Errors
/// The program cannot be started.
pub fn run(_command: &Command) -> Result<Finished> {
    todo!()
}
