//! A persistent shell in one sandbox: commands run one after another, background processes live on between them.

use std::time::Duration;

use anyhow::Result;

use super::{Backend, Output, Spec};

/// An open sandbox with a shell server in it. Dropping it kills everything inside.
pub struct Session<'a> {
    _spec: &'a Spec<'a>,
}

impl<'a> Session<'a> {
    /// # Errors
    /// The backend cannot be started.
    pub fn open(_backend: Backend, _spec: &'a Spec<'a>) -> Result<Session<'a>> {
        todo!()
    }

    /// Runs `bash -c command` in [`super::TREE`] with empty standard input; standard error goes to `Output::stdout`
    /// with standard output, in order.
    ///
    /// Returns soon after the shell exits even if background processes hold its output. On a time-out the whole
    /// sandbox is killed and opened anew over the same workspace: files stay, background processes are gone.
    ///
    /// # Errors
    /// The sandbox cannot be reopened. A sandbox that vanishes under a command gives `Exit::Lost`.
    pub fn exec(&mut self, _command: &str, _wall: Duration) -> Result<Output> {
        todo!()
    }
}
