//! The only printing: progress and messages on standard error, results on standard output.

use std::{
    io::{IsTerminal, Write},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};

/// Without a terminal, a line with counts is printed this often.
const HEARTBEAT: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug, Default)]
pub struct Console {
    /// No progress and no messages, only results and errors.
    pub quiet: bool,
}

impl Console {
    /// Prints to standard output. A closed pipe is not an error: the reader went away (`| head`).
    ///
    /// # Errors
    /// The output cannot be written (a full disk).
    pub fn print(self, text: &str) -> Result<()> {
        let mut out = std::io::stdout().lock();
        let (text, end): (_, &[u8]) = (harmless(text), if text.ends_with('\n') { b"" } else { b"\n" });
        match out.write_all(text.as_bytes()).and_then(|()| out.write_all(end)).and_then(|()| out.flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error).context("write the result"),
            _ => Ok(()),
        }
    }

    /// Prints a message to standard error.
    pub fn message(self, text: &str) {
        if !self.quiet {
            write_stderr(text);
        }
    }

    /// Prints an error with its causes and, where one is known, the next step to standard error.
    pub fn error(self, error: &anyhow::Error, hint: Option<&str>) {
        let mut chain = error.chain();
        if let Some(top) = chain.next() {
            write_stderr(&format!("error: could not {top}"));
        }
        for cause in chain {
            write_stderr(&format!("  cause: {cause}"));
        }
        if let Some(hint) = hint {
            write_stderr(&format!("  hint: {hint}"));
        }
    }

    /// Starts the progress of a stage over `total` items.
    pub fn progress(self, stage: &'static str, total: u64) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        let bar = if self.quiet || !terminal || total == 0 { ProgressBar::hidden() } else { ProgressBar::new(total) };
        bar.set_style(
            ProgressStyle::with_template("{prefix:>9} {bar:30} {pos}/{len} {elapsed} {wide_msg}")
                .expect("the template is well formed"),
        );
        bar.set_prefix(stage);
        bar.enable_steady_tick(Duration::from_millis(500));
        let lines = !self.quiet && !terminal;
        Progress { stage, total, done: AtomicU64::new(0), bar, lines, last_line: Mutex::new(Instant::now()) }
    }
}

/// The progress of one stage; shared by its workers.
#[derive(Debug)]
pub struct Progress {
    stage: &'static str,
    total: u64,
    done: AtomicU64,
    bar: ProgressBar,
    lines: bool,
    last_line: Mutex<Instant>,
}

impl Progress {
    /// Says that an item is being worked on.
    pub fn start(&self, item: &str) {
        self.bar.set_message(item.to_owned());
    }

    /// Counts an item as finished.
    pub fn finish_one(&self, item: &str) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        self.bar.set_position(done);
        self.bar.set_message(item.to_owned());
        let mut last = self.last_line.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if self.lines && (last.elapsed() >= HEARTBEAT || done == self.total) {
            *last = Instant::now();
            write_stderr(&format!("{}: {done} of {}, {item}", self.stage, self.total));
        }
    }

    /// Sets the count directly, for work that is not item by item.
    pub fn set(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Returns a number with what it counts: `1 file`, `2 files`.
pub fn counted(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

fn write_stderr(text: &str) {
    // Nothing is left to report a closed standard error to.
    let _ = writeln!(std::io::stderr().lock(), "{}", harmless(text));
}

/// Returns the text without what a terminal would obey: commit messages and outputs of tests hold anything.
fn harmless(text: &str) -> String {
    text.replace(|c: char| c < ' ' && !matches!(c, '\n' | '\t'), "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_told_nothing_by_what_is_shown() {
        assert_eq!(harmless("a\x1b[2Jb\x07\r\n\tc é"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}\n\tc é");
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "file")), ["0 files", "1 file", "2 files"]);
    }
}
