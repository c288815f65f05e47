//! Dispatch: from parsed flags to stages, and from results to exit codes.

pub mod args;
mod cache;
mod dataset;
mod doctor;
pub mod exit;
mod mine;
mod outcomes;
mod output;
mod rollout;
mod run;
mod stages;
mod status;
mod verify;
mod why;

use std::{sync::OnceLock, thread};

use anyhow::{Context, Result};
use clap::Parser;

use crate::{
    cache::Cache,
    console::Console,
    git::Hinted,
    interrupt,
    lab::Lab,
    sandbox::{Backend, preload::Pool},
};
use args::{Cli, Command, Common};
use exit::Exit;

/// Parses the command line and runs it.
pub fn main() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Nothing is left to report a closed stream to.
            let _ = error.print();
            return if error.use_stderr() { Exit::BadUsage } else { Exit::Done };
        }
    };
    let console = Console { quiet: cli.common.quiet };
    let result = interrupt::install().and_then(|()| run(cli));
    match result {
        Ok(exit) => exit,
        Err(error) => {
            let exit = Exit::of(&error);
            match exit {
                Exit::Interrupted => {
                    console.message("Interrupted. What was finished is kept; the same command resumes.");
                }
                Exit::Done | Exit::Failed | Exit::BadUsage | Exit::NothingUsable | Exit::Differs => {
                    let hint = error.chain().find_map(|cause| cause.downcast_ref::<Hinted>());
                    console.error(&error, hint.map(|hinted| hinted.hint.as_str()));
                }
            }
            exit
        }
    }
}

fn run(cli: Cli) -> Result<Exit> {
    let session = Session::new(&cli.common);
    let result = dispatch(&session, cli.command);
    if let Some(cache) = session.cache.get() {
        cache.leave();
    }
    result
}

fn dispatch(session: &Session, command: Command) -> Result<Exit> {
    match command {
        Command::Mine(flags) => mine::command(session, &flags),
        Command::Rollout(flags) => rollout::command(session, &flags),
        Command::Export(flags) => output::export_command(session, &flags),
        Command::Run(flags) => run::command(session, &flags),
        Command::Grade(flags) => rollout::grade_command(session, &flags),
        Command::Verify(flags) => verify::command(session, &flags),
        Command::Report(flags) => output::report_command(session, &flags),
        Command::Status(flags) => status::command(session, &flags),
        Command::Why(flags) => why::command(session, &flags),
        Command::Doctor => doctor::command(session),
        Command::Cache(flags) => cache::command(session, &flags),
    }
}

/// What every command has: where to print, and how to get at the machine.
pub struct Session {
    console: Console,
    json: bool,
    jobs: usize,
    /// Test runners that are loaded already.
    preloaded: Pool,
    /// The cache of sandboxes, once one was used.
    cache: OnceLock<Cache>,
}

impl Session {
    fn new(common: &Common) -> Session {
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Session {
            console: Console { quiet: common.quiet },
            json: common.json,
            cache: OnceLock::new(),
            jobs: common.jobs.unwrap_or(cores),
            preloaded: if common.no_preload { Pool::off() } else { Pool::new() },
        }
    }

    /// Returns the lab; refuses where nothing isolates.
    fn lab(&self, cache: &Cache) -> Result<Lab> {
        let cache = self.cache.get_or_init(|| cache.clone());
        let preloaded = self.preloaded.clone();
        Ok(Lab { cache: cache.clone(), backend: Backend::probe()?, jobs: self.jobs, preloaded })
    }

    /// Prints a result: JSON with `--json`, else text.
    fn result(&self, json: &impl serde::Serialize, text: &str) -> Result<()> {
        if self.json {
            self.console.print(&serde_json::to_string_pretty(json).context("encode the result")?)
        } else {
            self.console.print(text)
        }
    }
}
