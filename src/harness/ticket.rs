//! One run's results file, its nonce and its instructions.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Seek},
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result};

use super::Surroundings;
use crate::{
    lang::{
        self, Plan,
        channel::{Ending, Parsed},
    },
    record::{environment::Runner, suite::SuiteRun},
};

/// Read of a results file; more than any honest run writes.
const MAX_RESULTS_BYTES: u64 = 256 << 20;

/// What one run needs to report to us.
#[derive(Debug)]
pub struct Ticket {
    pub argv: Vec<String>,
    nonce: String,
    /// Opened when it was created: the name may be gone or stand for something else when the run is over.
    results: File,
}

impl Ticket {
    /// Creates a results file and writes the instructions for a run.
    ///
    /// # Errors
    /// The results directory cannot be written.
    pub fn issue(surroundings: &Surroundings, runner: Runner, run: &SuiteRun, test_wall: Duration) -> Result<Ticket> {
        Ticket::issue_in(&surroundings.results(), runner, run, test_wall, false)
    }

    /// As [`Ticket::issue`]; a test id that names no single test stands for all tests below it.
    ///
    /// # Errors
    /// As [`Ticket::issue`].
    pub fn issue_loose(
        surroundings: &Surroundings,
        runner: Runner,
        run: &SuiteRun,
        test_wall: Duration,
    ) -> Result<Ticket> {
        Ticket::issue_in(&surroundings.results(), runner, run, test_wall, true)
    }

    fn issue_in(
        directory: &Path,
        runner: Runner,
        run: &SuiteRun,
        test_wall: Duration,
        is_loose: bool,
    ) -> Result<Ticket> {
        let nonce = random_name()?;
        let (results, instructions) = (format!("{}.records", random_name()?), format!("{}.json", random_name()?));
        let plan = Plan {
            nonce: &nonce,
            results: &results,
            instructions: &instructions,
            selection: &run.selection,
            is_loose,
            variation: run.variation,
            with_stubs: run.with_stubs,
            test_wall_s: test_wall.as_secs_f64(),
        };
        let planned = lang::plan(runner, &plan);
        let path = directory.join(&results);
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create_new(true)
            .open(&path)
            .with_context(|| format!("create results file `{}`", path.display()))?;
        let path = directory.join(&instructions);
        fs::write(&path, planned.instructions).with_context(|| format!("write `{}`", path.display()))?;
        Ok(Ticket { argv: planned.argv, nonce, results: file })
    }

    /// Returns where the run finds its instructions.
    pub fn instructions(&self) -> &str {
        self.argv.last().expect("a runner is told where its instructions are")
    }

    /// Reads what the run has reported.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn results(&self, ending: Ending) -> Result<Parsed> {
        let mut file = &self.results;
        let mut bytes = Vec::new();
        file.rewind()
            .and_then(|()| file.take(MAX_RESULTS_BYTES).read_to_end(&mut bytes))
            .context("read the results file")?;
        Ok(lang::channel::parse(&bytes, &self.nonce, ending))
    }
}

/// Returns 128 random bits in hexadecimal.
fn random_name() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).context("read `/dev/urandom`")?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}
