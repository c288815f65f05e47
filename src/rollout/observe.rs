//! What a policy is shown of an outcome: clipped, and free of everything that differs from run to run. Pure.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::record::suite::{Report, Status, SuiteOutcome, SuiteRun, without_addresses};

/// Above this an observation is cut to its head and tail, bytes.
pub const MAX_OBSERVATION_BYTES: usize = 12_000;
const MAX_FAILURES: usize = 20;
const MAX_MESSAGE_BYTES: usize = 800;

/// An observation that had to be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clipped {
    pub head: String,
    pub tail: String,
    pub left_out_bytes: usize,
}

/// Cuts a long text to whole lines of its head and tail where lines allow; `None` where it fits.
pub fn clip(text: &str) -> Option<Clipped> {
    if text.len() <= MAX_OBSERVATION_BYTES {
        return None;
    }
    let half = MAX_OBSERVATION_BYTES / 2;
    let head = &text[..text.floor_char_boundary(half)];
    // Half of a half: a line end too far from the border would throw too much away.
    let head = head.rfind('\n').filter(|end| *end > half / 2).map_or(head, |end| &head[..=end]);
    let tail = &text[text.ceil_char_boundary(text.len() - half)..];
    let tail = tail.find('\n').filter(|start| *start < half / 2).map_or(tail, |start| &tail[start + 1..]);
    Some(Clipped { head: head.to_owned(), tail: tail.to_owned(), left_out_bytes: text.len() - head.len() - tail.len() })
}

impl Clipped {
    /// Returns head and tail with a line between that says what is missing and, where it was kept, where it is.
    pub fn text(&self, kept_in: Option<&str>) -> String {
        let hint = match kept_in {
            Some(path) => format!("; the whole output is in {path}, read it with `view` or `sed -n`"),
            None => String::new(),
        };
        let line_end = if self.head.ends_with('\n') { "" } else { "\n" };
        format!("{}{line_end}[… {} bytes left out{hint}]\n{}", self.head, self.left_out_bytes, self.tail)
    }
}

/// Replaces control characters that no terminal shows; line feeds, tabs and carriage returns stay.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && !matches!(c, '\n' | '\t' | '\r') { '\u{FFFD}' } else { c }).collect()
}

/// Formats a run of visible tests without times and addresses.
pub fn test_report(run: &SuiteRun) -> String {
    match &run.outcome {
        SuiteOutcome::Ran(report) => ran(report),
        SuiteOutcome::NotRun(failure) => {
            format!("The tests could not be run: {}\n{}", failure.kind, without_addresses(failure.detail.trim_end()))
        }
    }
}

fn ran(report: &Report) -> String {
    let mut counts: BTreeMap<Status, usize> = BTreeMap::new();
    report.tests.values().for_each(|result| *counts.entry(result.status).or_default() += 1);
    let mut parts: Vec<String> =
        counts.iter().map(|(status, count)| format!("{count} {}", status_word(*status))).collect();
    if !report.collection_errors.is_empty() {
        let n = report.collection_errors.len();
        parts.push(format!("{n} {} could not be collected", if n == 1 { "file" } else { "files" }));
    }
    let mut text = if parts.is_empty() { "no tests were found".to_owned() } else { parts.join(", ") };
    if !report.complete {
        text.push_str("\nThe run ended before all tests were done.");
    }
    text.push('\n');
    failures(report, &mut text);
    without_addresses(&text)
}

fn failures(report: &Report, text: &mut String) {
    let errors = report
        .collection_errors
        .iter()
        .map(|(path, error)| (path, "not collected", error.exception.as_deref(), error.message.as_str()));
    let tests = report
        .tests
        .iter()
        .filter(|(_, result)| result.status >= Status::Failed && result.status != Status::NotRun)
        .map(|(id, result)| (id, status_word(result.status), result.exception.as_deref(), result.message.as_str()));
    let all: Vec<_> = errors.chain(tests).collect();
    for (id, word, exception, message) in all.iter().take(MAX_FAILURES) {
        let _ = writeln!(text, "\n{word}: {id}");
        let message = message.trim();
        let cut = message.floor_char_boundary(MAX_MESSAGE_BYTES);
        let mut shown = match exception {
            Some(exception) if !message.starts_with(exception) => format!("{exception}: {}", &message[..cut]),
            _ => message[..cut].to_owned(),
        };
        if cut < message.len() {
            shown.push_str(" […]");
        }
        shown.lines().for_each(|line| {
            let _ = writeln!(text, "    {line}");
        });
    }
    if all.len() > MAX_FAILURES {
        let _ = writeln!(text, "\n{} more failures are not shown.", all.len() - MAX_FAILURES);
    }
}

fn status_word(status: Status) -> &'static str {
    match status {
        Status::Passed => "passed",
        Status::Xfailed => "xfailed",
        Status::Xpassed => "xpassed",
        Status::Skipped => "skipped",
        Status::Failed => "failed",
        Status::Error => "error",
        Status::TimedOut => "timed out",
        Status::Crashed => "crashed",
        Status::NotRun => "not run",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::suite::{CollectionError, Selection, TestResult, TreeState, Variation};

    #[test]
    fn a_long_text_keeps_head_and_tail_and_says_what_is_missing() {
        assert_eq!(clip(&"x".repeat(MAX_OBSERVATION_BYTES)), None);
        let mut text = String::new();
        for n in 0..10_000 {
            writeln!(text, "line {n}").unwrap();
        }
        let clipped = clip(&text).unwrap();
        assert_eq!(clipped.head.len() + clipped.tail.len() + clipped.left_out_bytes, text.len());
        assert!(clipped.head.ends_with('\n') && clipped.tail.starts_with("line "));
        let shown = clipped.text(Some("/tmp/out-1.txt"));
        assert!(shown.len() < MAX_OBSERVATION_BYTES + 200 && shown.contains("/tmp/out-1.txt"), "{shown}");
        assert!(shown.starts_with("line 0\n") && shown.ends_with("line 9999\n"));
    }

    #[test]
    fn one_long_line_of_wide_characters_is_cut_between_characters() {
        let clipped = clip(&"日".repeat(MAX_OBSERVATION_BYTES)).unwrap();
        assert_eq!(clipped.head.len() % 3, 0);
        assert_eq!(clipped.tail.len() % 3, 0);
    }

    #[test]
    fn a_test_report_has_counts_and_failures_but_no_times_or_addresses() {
        let result = |status, exception: Option<&str>, message: &str| TestResult {
            status,
            exception: exception.map(str::to_owned),
            message: message.to_owned(),
            frames: vec![],
            duration_ms: 17,
        };
        let report = Report {
            tests: BTreeMap::from([
                ("t.py::a".to_owned(), result(Status::Passed, None, "")),
                ("t.py::b".to_owned(), result(Status::Failed, Some("ValueError"), "bad <X at 0x7f00deadbeef>")),
            ]),
            collection_errors: BTreeMap::from([(
                "u.py".to_owned(),
                CollectionError {
                    exception: Some("SyntaxError".to_owned()),
                    message: "SyntaxError: invalid syntax".to_owned(),
                    frames: vec![],
                },
            )]),
            stubs: vec![],
            passed_decoys: Vec::new(),
            complete: true,
        };
        let run = SuiteRun {
            state: TreeState::Agent,
            selection: Selection::All,
            variation: Variation::PLAIN,
            with_stubs: false,
            outcome: SuiteOutcome::Ran(report),
            wall_ms: 99,
            companion: None,
            output_tail: "in 0.12s".to_owned(),
        };
        assert_eq!(
            test_report(&run),
            "1 passed, 1 failed, 1 file could not be collected\n\nnot collected: u.py\n    SyntaxError: invalid \
             syntax\n\nfailed: t.py::b\n    ValueError: bad <X at 0x…>\n"
        );
    }
}
