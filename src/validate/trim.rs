//! Tests that do not compile before the fix, in languages where that keeps a whole file or package from running.
//!
//! What the compiler complains of is taken out of the test files, and the rest is compiled again, until it does: what
//! fails then is evidence, which a test that is merely missing is not.

use std::collections::BTreeMap;

use super::{Examination, Stop};
use crate::{
    record::{
        bytes::ByteText,
        environment::Language,
        patch::{Edit, FileContent},
        suite::{Report, Selection, TreeState, Variation},
    },
    syntax::{self, Span},
};

/// Each round finds what the errors of the one before had hidden.
const MAX_ROUNDS: usize = 8;

pub fn is_compiled(language: Language) -> bool {
    match language {
        Language::Rust | Language::Go => true,
        Language::Python | Language::Javascript => false,
    }
}

impl Examination<'_> {
    /// Prepares the buggy state in which as many tests compile as can be made to; returns what it shows.
    pub(super) fn trim(&mut self, selection: &Selection, first: &Report) -> Result<Option<Report>, Stop> {
        let mut last = None;
        let mut edits = self.bench.before.clone();
        let mut errors = spans(first);
        for _ in 0..MAX_ROUNDS {
            let mut has_changed = false;
            for (path, spans) in &errors {
                has_changed |= self.take_out(&mut edits, path, spans)?;
            }
            if !has_changed {
                break;
            }
            self.bench.trimmed = Some(edits.clone());
            let Ok(seen) = self.bench.run(TreeState::Before, selection, Variation::PLAIN, true)? else { break };
            errors = spans(&seen.report);
            last = Some(seen.report);
            if errors.is_empty() {
                break;
            }
        }
        Ok(last)
    }

    /// Takes erroneous parts out of one file that the test changes touch; says whether there were any.
    fn take_out(&self, edits: &mut Vec<Edit>, path: &ByteText, spans: &[Span]) -> Result<bool, Stop> {
        let candidate = self.context.candidate;
        if !candidate.changes.iter().any(|change| change.changes_tests() && change.path == *path) {
            return Ok(false);
        }
        let Some(Edit { content: Some(content), .. }) = edits.iter().find(|edit| edit.path == *path) else {
            return Ok(false);
        };
        let Some(bytes) = syntax::without_spans(path.as_bytes(), content.bytes.as_bytes(), spans) else {
            return Ok(false);
        };
        let content = Some(FileContent { mode: content.mode, bytes: ByteText(bytes) });
        edits.retain(|edit| edit.path != *path);
        edits.push(Edit { path: path.clone(), content });
        Ok(true)
    }
}

/// Returns where the errors of a run are, by file.
fn spans(report: &Report) -> BTreeMap<ByteText, Vec<Span>> {
    let mut found: BTreeMap<ByteText, Vec<Span>> = BTreeMap::new();
    for error in report.collection_errors.values() {
        let names: Vec<String> = error.message.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        for frame in &error.frames {
            let span = Span { line: frame.line, names: names.clone() };
            let spans = found.entry(frame.path.as_str().into()).or_default();
            if !spans.contains(&span) {
                spans.push(span);
            }
        }
    }
    found
}
