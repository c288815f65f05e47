//! The result channel: sealed records that a runner script appended → a [`Report`].
//!
//! A line is `<number> <seal> <JSON>`; the seal is a digest over the run's nonce, the number and the JSON text, and the
//! numbers rise. Anything else in the file (torn lines, text of tests that found it) is counted and ignored. The nonce
//! is not in the file, so only code that searches the memory of its own process could make a record that counts; such
//! code shares the process with the runner and cannot be kept out by any channel.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::record::{
    id::Digest,
    suite::{CollectionError, Frame, Report, Status, TestResult},
};

/// Hexadecimal digits of a seal.
const SEAL_DIGITS: usize = 32;
const MAX_MESSAGE_BYTES: usize = 4_000;
/// Exit statuses of runners that went through all their tests: all passed, some failed, there are none.
const REGULAR_EXITS: [i64; 3] = [0, 1, 5];
/// pytest's exit statuses for an internal error and for a wrong use.
const BROKEN_EXITS: [i64; 2] = [3, 4];

/// What happened to the test process, as far as its supervisor or we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, in whatever way.
    Ended,
    /// We killed it at the limit for the whole process.
    TimedOut,
    OutOfMemory,
}

/// What a results file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    pub report: Report,
    /// The runner got as far as looking for tests.
    pub started: bool,
    /// The runner broke off before the first test: bad configuration, a plugin that failed.
    pub broken: bool,
    /// The supervisor has seen the runner's process end.
    pub ended: bool,
    /// Lines that are no records of this run.
    pub foreign_lines: usize,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Record {
    Start {},
    Collected {
        ids: Vec<String>,
    },
    CollectionError {
        file: String,
        #[serde(flatten)]
        details: Details,
    },
    TestStart {
        id: String,
    },
    Result {
        id: String,
        when: When,
        outcome: Outcome,
        #[serde(flatten)]
        details: Details,
    },
    TestEnd {
        id: String,
        ms: u64,
    },
    Stub {
        name: String,
    },
    /// A test of ours that must fail did not, among the tests of this file.
    DecoyPassed {
        file: String,
    },
    Finish {
        n_collected: u64,
        exitstatus: i64,
    },
    /// From the supervisor: how the test process ended.
    Exit {
        signal: Option<i32>,
        killed: bool,
    },
}

#[derive(Debug, Default, Deserialize)]
struct Details {
    #[serde(default)]
    exception: Option<String>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    frames: Vec<Frame>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum When {
    Setup,
    Call,
    Teardown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Passed,
    Failed,
    Skipped,
    Xfailed,
    Xpassed,
    TimedOut,
    /// From a driver that gives each test a process of its own.
    Crashed,
}

/// One test while its records are read.
#[derive(Debug, Default)]
struct Progress {
    collected: bool,
    started: bool,
    ended: bool,
    /// The worst so far, with the details of the first report that bad.
    worst: Option<(Status, Details)>,
    duration_ms: u64,
}

/// Reads a results file. Total: any bytes give an answer.
pub fn parse(bytes: &[u8], nonce: &str, ending: Ending) -> Parsed {
    let mut reader = Reader::default();
    let mut last_number = 0;
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match open(line, nonce, last_number) {
            Some((number, record)) => {
                last_number = number;
                reader.take(record);
            }
            None => reader.parsed.foreign_lines += 1,
        }
    }
    reader.finish(ending)
}

/// Returns a line's number and record if it is one of this run's and comes after `last_number`.
fn open(line: &[u8], nonce: &str, last_number: u64) -> Option<(u64, Record)> {
    let mut parts = line.splitn(3, |byte| *byte == b' ');
    let (number, seal, body) = (parts.next()?, parts.next()?, parts.next()?);
    let digest = Digest::of(&[nonce.as_bytes(), number, body]);
    if seal != &digest.as_str().as_bytes()[..SEAL_DIGITS] {
        return None;
    }
    let number = std::str::from_utf8(number).ok()?.parse().ok()?;
    let record = serde_json::from_slice(body).ok()?;
    (number > last_number).then_some((number, record))
}

#[derive(Debug, Default)]
struct Reader {
    parsed: Parsed,
    tests: BTreeMap<String, Progress>,
    finish: Option<(u64, i64)>,
    signal: Option<i32>,
    killed: bool,
}

impl Reader {
    fn take(&mut self, record: Record) {
        match record {
            Record::Start {} => self.parsed.started = true,
            Record::Collected { ids } => ids.into_iter().for_each(|id| self.test(id).collected = true),
            Record::CollectionError { file, details } => {
                let Details { exception, message, frames } = details;
                let error = CollectionError { exception, message: shorten(message), frames };
                self.parsed.report.collection_errors.entry(file).or_insert(error);
            }
            Record::TestStart { id } => {
                let test = self.test(id);
                (test.started, test.ended) = (true, false);
            }
            Record::Result { id, when, outcome, details } => self.test(id).note(status_of(when, outcome), details),
            Record::TestEnd { id, ms } => {
                let test = self.test(id);
                test.ended = true;
                test.duration_ms += ms;
            }
            Record::Stub { name } => self.parsed.report.stubs.push(name),
            Record::DecoyPassed { file } => self.parsed.report.passed_decoys.push(file),
            Record::Finish { n_collected, exitstatus } => self.finish = Some((n_collected, exitstatus)),
            Record::Exit { signal, killed } => {
                (self.signal, self.killed, self.parsed.ended) = (signal, killed, true);
            }
        }
    }

    fn test(&mut self, id: String) -> &mut Progress {
        self.tests.entry(id).or_default()
    }

    fn finish(mut self, ending: Ending) -> Parsed {
        let last_words = match (ending, self.killed, self.signal) {
            (Ending::TimedOut, _, _) => "the process was killed at its time limit while it ran".to_owned(),
            (Ending::OutOfMemory, _, _) => "the process was killed at its memory limit while it ran".to_owned(),
            (Ending::Ended, true, _) => "did not stop at the time limit; the process was killed".to_owned(),
            (Ending::Ended, false, Some(signal)) => format!("signal {signal} ended the process while it ran"),
            (Ending::Ended, false, None) => "the process ended while it ran".to_owned(),
        };
        let cut_short = if self.killed || ending == Ending::TimedOut { Status::TimedOut } else { Status::Crashed };
        let report = &mut self.parsed.report;
        let (mut all_ended, mut any_started) = (true, false);
        for (id, progress) in self.tests {
            if progress.collected {
                // A class fixture that fails gives its tests results without starting them.
                all_ended &= (progress.ended || !progress.started) && progress.worst.is_some();
                any_started |= progress.started;
                report.tests.insert(id, progress.result(cut_short, &last_words));
            }
        }
        let n_tests = report.tests.len() as u64;
        report.complete = all_ended
            && self.finish.is_some_and(|(n, exit)| n == n_tests && REGULAR_EXITS.contains(&exit))
            && self.parsed.started;
        self.parsed.broken = !any_started && self.finish.is_some_and(|(_, exit)| BROKEN_EXITS.contains(&exit));
        self.parsed
    }
}

impl Progress {
    fn note(&mut self, status: Status, details: Details) {
        if self.worst.as_ref().is_none_or(|(worst, _)| status > *worst) {
            self.worst = Some((status, details));
        }
    }

    fn result(self, cut_short: Status, last_words: &str) -> TestResult {
        let (status, details) = match (self.started, self.ended, self.worst) {
            (true, false, Some((status, details))) if status == Status::TimedOut => (cut_short.max(status), details),
            (true, false, _) => (cut_short, Details { message: last_words.to_owned(), ..Details::default() }),
            (_, _, Some(worst)) => worst,
            (_, _, None) => (Status::NotRun, Details::default()),
        };
        let Details { exception, message, frames } =
            if status == Status::Passed { Details::default() } else { details };
        TestResult { status, exception, message: shorten(message), frames, duration_ms: self.duration_ms }
    }
}

/// The one table from what a runner reports to what it means. A strict xpass arrives as `failed`.
fn status_of(when: When, outcome: Outcome) -> Status {
    match (outcome, when) {
        (Outcome::Passed, _) => Status::Passed,
        (Outcome::Failed, When::Call) => Status::Failed,
        (Outcome::Failed, When::Setup | When::Teardown) => Status::Error,
        (Outcome::Skipped, _) => Status::Skipped,
        (Outcome::Xfailed, _) => Status::Xfailed,
        (Outcome::Xpassed, _) => Status::Xpassed,
        (Outcome::TimedOut, _) => Status::TimedOut,
        (Outcome::Crashed, _) => Status::Crashed,
    }
}

fn shorten(mut message: String) -> String {
    if message.len() > MAX_MESSAGE_BYTES {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &str = "0123456789abcdef";

    /// Seals records as the scripts do.
    fn stream(records: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (index, body) in records.iter().enumerate() {
            let number = (index + 1).to_string();
            let digest = Digest::of(&[NONCE.as_bytes(), number.as_bytes(), body.as_bytes()]);
            bytes.extend(format!("\n{number} {} {body}\n", &digest.as_str()[..SEAL_DIGITS]).into_bytes());
        }
        bytes
    }

    fn parsed(records: &[&str]) -> Parsed {
        parse(&stream(records), NONCE, Ending::Ended)
    }

    const GOOD: [&str; 9] = [
        r#"{"kind":"start","pid":7}"#,
        r#"{"kind":"collected","ids":["a.py::t[x y]","a.py::u"]}"#,
        r#"{"kind":"test_start","id":"a.py::t[x y]"}"#,
        r#"{"kind":"result","id":"a.py::t[x y]","when":"call","outcome":"passed"}"#,
        r#"{"kind":"test_end","id":"a.py::t[x y]","ms":3}"#,
        r#"{"kind":"test_start","id":"a.py::u"}"#,
        r#"{"kind":"result","id":"a.py::u","when":"call","outcome":"failed","exception":"E","message":"m","frames":[{"path":"a.py","line":2,"function":"u"}]}"#,
        r#"{"kind":"test_end","id":"a.py::u","ms":4}"#,
        r#"{"kind":"finish","n_collected":2,"exitstatus":1}"#,
    ];

    #[test]
    fn a_whole_stream_gives_a_complete_report() {
        let Parsed { report, started, broken, foreign_lines, .. } = parsed(&GOOD);
        assert!(started && !broken && report.complete);
        assert_eq!(foreign_lines, 0);
        assert_eq!(report.status("a.py::t[x y]"), Some(Status::Passed));
        let failed = &report.tests["a.py::u"];
        assert_eq!((failed.status, failed.exception.as_deref(), failed.duration_ms), (Status::Failed, Some("E"), 4));
        assert_eq!(failed.frames[0].function, "u");
    }

    #[test]
    fn a_stream_cut_anywhere_is_incomplete_and_never_gains_a_pass() {
        let whole = stream(&GOOD);
        // The last byte is only the newline after the last record.
        for length in 0..whole.len() - 1 {
            let report = parse(&whole[..length], NONCE, Ending::Ended).report;
            assert!(!report.complete, "cut at {length}");
            assert!(matches!(report.status("a.py::u"), None | Some(Status::NotRun | Status::Crashed | Status::Failed)));
        }
    }

    #[test]
    fn b056_any_damaged_byte_costs_at_most_its_own_record() {
        let whole = stream(&GOOD);
        for index in 0..whole.len() {
            for byte in [0, b'\n', b' ', b'"', 0xff] {
                let mut damaged = whole.clone();
                damaged[index] = byte;
                let parsed = parse(&damaged, NONCE, Ending::Ended);
                assert_ne!(parsed.report.status("a.py::u"), Some(Status::Passed));
                assert!(parsed.foreign_lines <= 2);
            }
        }
    }

    #[test]
    fn lines_of_others_are_ignored() {
        let mut bytes = b"PASSED a.py::u\n[ 50%]\n\xff\xfe 1 2 3".to_vec();
        bytes.extend(stream(&GOOD[..8]));
        let forged = r#"{"kind":"result","id":"a.py::u","when":"call","outcome":"passed"}"#;
        bytes.extend(format!("9 {} {forged}\n", "0".repeat(32)).into_bytes());
        // A record of ours once more: its number has passed.
        bytes.extend(stream(&GOOD[..4]));
        let parsed = parse(&bytes, NONCE, Ending::Ended);
        assert_eq!(parsed.foreign_lines, 3 + 1 + 4);
        assert_eq!(parsed.report.status("a.py::u"), Some(Status::Failed));
        assert!(!parsed.report.complete);
        assert_eq!(parse(&stream(&GOOD), "another nonce", Ending::Ended).foreign_lines, 9);
    }

    #[test]
    fn duplicate_keys_and_unknown_kinds_are_no_records() {
        let twice = r#"{"kind":"test_end","id":"a.py::u","id":"a.py::t","ms":1}"#;
        assert_eq!(parsed(&[twice, r#"{"kind":"nonsense"}"#, "[]", "{}"]).foreign_lines, 4);
    }

    #[test]
    fn b039_the_worst_of_all_phases_and_subtests_counts() {
        let run = |outcomes: &[(&str, &str)]| {
            let results: Vec<String> = outcomes
                .iter()
                .map(|(when, outcome)| {
                    format!(r#"{{"kind":"result","id":"t","when":"{when}","outcome":"{outcome}","message":"{when}"}}"#)
                })
                .collect();
            let mut records = vec![r#"{"kind":"collected","ids":["t"]}"#, r#"{"kind":"test_start","id":"t"}"#];
            records.extend(results.iter().map(String::as_str));
            records.push(r#"{"kind":"test_end","id":"t","ms":1}"#);
            parsed(&records).report.tests["t"].clone()
        };
        assert_eq!(run(&[("call", "passed"), ("teardown", "failed")]).status, Status::Error);
        assert_eq!(run(&[("call", "failed"), ("call", "passed")]).status, Status::Failed);
        assert_eq!(run(&[("call", "failed"), ("teardown", "failed")]).message, "teardown");
        assert_eq!(run(&[("setup", "skipped")]).status, Status::Skipped);
        assert_eq!(run(&[("call", "xfailed")]).status, Status::Xfailed);
        assert_eq!(run(&[("call", "xpassed")]).status, Status::Xpassed);
        assert_eq!(run(&[("setup", "timed_out")]).status, Status::TimedOut);
        assert_eq!(run(&[("call", "passed")]).message, "");
        assert_eq!(run(&[]).status, Status::NotRun);
    }

    #[test]
    fn b043_a_process_that_dies_leaves_its_test_crashed_and_the_rest_not_run() {
        let mut records = GOOD[..3].to_vec();
        let report = parsed(&records).report;
        assert_eq!(report.status("a.py::t[x y]"), Some(Status::Crashed));
        assert_eq!(report.status("a.py::u"), Some(Status::NotRun));

        records.push(r#"{"kind":"exit","code":null,"signal":11,"killed":false}"#);
        assert!(parsed(&records).report.tests["a.py::t[x y]"].message.contains("signal 11"));
        records[3] = r#"{"kind":"exit","code":null,"signal":9,"killed":true}"#;
        assert_eq!(parsed(&records).report.status("a.py::t[x y]"), Some(Status::TimedOut));
        let at_limit = parse(&stream(&records[..3]), NONCE, Ending::TimedOut).report;
        assert_eq!(at_limit.status("a.py::t[x y]"), Some(Status::TimedOut));
        assert_eq!(at_limit.status("a.py::u"), Some(Status::NotRun));
    }

    #[test]
    fn an_early_exit_is_never_complete() {
        let mut records = GOOD[..5].to_vec();
        records.push(r#"{"kind":"exit","code":0,"signal":null,"killed":false}"#);
        assert!(!parsed(&records).report.complete);
        // `pytest.exit()`, a wrong count, a test that no result came from
        let mut interrupted = GOOD.to_vec();
        interrupted[8] = r#"{"kind":"finish","n_collected":2,"exitstatus":2}"#;
        assert!(!parsed(&interrupted).report.complete);
        interrupted[8] = r#"{"kind":"finish","n_collected":3,"exitstatus":0}"#;
        assert!(!parsed(&interrupted).report.complete);
    }

    #[test]
    fn b046_a_broken_start_is_told_from_an_empty_suite() {
        let start = r#"{"kind":"start","pid":7}"#;
        let empty = parsed(&[start, r#"{"kind":"finish","n_collected":0,"exitstatus":5}"#]);
        assert!(empty.report.complete && empty.started && !empty.broken);
        let internal = parsed(&[start, r#"{"kind":"finish","n_collected":0,"exitstatus":3}"#]);
        assert!(internal.broken && !internal.report.complete);
        let finish = r#"{"kind":"finish","n_collected":2,"exitstatus":3}"#;
        assert!(parsed(&[start, GOOD[1], finish]).broken);
        assert!(!parsed(&[start, GOOD[1], GOOD[2], finish]).broken);
        assert!(!parsed(&[]).started);
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let message = "é".repeat(3_000);
        let record = format!(r#"{{"kind":"collection_error","file":"a.py","message":"{message}"}}"#);
        let report = parsed(&[record.as_str()]).report;
        assert_eq!(report.collection_errors["a.py"].message.len(), MAX_MESSAGE_BYTES);
    }
}
