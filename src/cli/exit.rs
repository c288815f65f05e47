//! Exit codes.

use std::process::ExitCode;

use crate::interrupt::Interrupted;

pub const HELP: &str = "Exit codes: 0 done; 1 could not be done, the error says why; 2 bad usage; \
3 done, but nothing usable came out; 4 a comparison or verification failed; 130 interrupted, \
the same command resumes";

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done,
    Failed,
    BadUsage,
    NothingUsable,
    Differs,
    Interrupted,
}

impl Exit {
    pub fn of(error: &anyhow::Error) -> Exit {
        if error.is::<Interrupted>() || error.chain().any(<dyn std::error::Error>::is::<Interrupted>) {
            Exit::Interrupted
        } else {
            Exit::Failed
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::BadUsage => 2,
            Exit::NothingUsable => 3,
            Exit::Differs => 4,
            Exit::Interrupted => 130,
        })
    }
}
