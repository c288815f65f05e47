//! Do the bodies of the tests decide? Asked by running them twice more so that they must fail.
//!
//! Code that shares a process with its tests can replace them once they are imported, or what calls them, or give back
//! what equals everything, and no text that a patch could be searched for gives that away. A test that passes although it
//! begins with a failure did not run; one that passes although it expects something else compares nothing.

use std::collections::BTreeSet;

use anyhow::Result;

use super::{Seen, run, tamper};
use crate::{
    config,
    git::Repo,
    harness::Subject,
    lab::Lab,
    lang,
    record::{
        bytes::ByteText,
        patch::{Edit, FileContent},
        suite::Status,
        task::HiddenTask,
    },
    syntax::failing::{with_failing_tests, with_other_expectations},
};

/// Path and text of a test file, and the names of its tests → its text with tests that fail.
type Apply = fn(&[u8], &[u8], &BTreeSet<&str>) -> Option<Vec<u8>>;

/// A way to make tests fail.
struct Sabotage {
    /// Flag of a patch under which tests pass nevertheless.
    flag: &'static str,
    /// Of such tests.
    what: &'static str,
    apply: Apply,
}

const SABOTAGES: [Sabotage; 2] = [
    Sabotage { flag: "bodies_unheard", what: "although their bodies fail at once", apply: with_failing_tests },
    Sabotage { flag: "expectations_unheard", what: "whatever they expect", apply: with_other_expectations },
];

/// What sabotaged tests show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bodies {
    /// No test passes that fails with the fix.
    Decide,
    Unheard(Unheard),
    /// The machine failed.
    Unknown(String),
}

/// Tests that pass and must not; with the fix they fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unheard {
    pub flag: &'static str,
    pub detail: String,
}

/// Runs the test files of a task sabotaged, on the graded tree `edits`; and on the fixed tree `fixed` where that leaves a
/// question, since a decorator may expect a failure. For Python and in part JavaScript; elsewhere, and where the trees are
/// the same, there is nothing to ask.
///
/// # Errors
/// The repository cannot be read, or the user's interrupt.
pub fn decide(
    lab: &Lab,
    subject: Subject,
    repo: &Repo,
    hidden: &HiddenTask,
    [edits, fixed]: [&[Edit]; 2],
    settings: &config::Grade,
) -> Result<Bodies> {
    if edits == fixed {
        return Ok(Bodies::Decide);
    }
    for sabotage in &SABOTAGES {
        // Nothing passes where nothing could be sabotaged, so that nothing is asked.
        let passed = |edits: &[Edit]| -> Result<Result<BTreeSet<String>, String>> {
            let sabotaged = sabotaged(repo, subject.base_commit, hidden, edits, sabotage)?;
            if sabotaged.is_empty() {
                return Ok(Ok(BTreeSet::new()));
            }
            let tree = tamper::overlay(&[edits, &sabotaged]);
            // The same files as in the run that is in question: what is imported first can change what comes later.
            let is_sabotaged = |id: &str| {
                let file = lang::file_of(subject.build.runner, id);
                file.is_none_or(|file| sabotaged.iter().any(|edit| edit.path.as_bytes() == file.as_bytes()))
            };
            Ok(passed(run(lab, subject, hidden, &tree, settings)?, hidden, is_sabotaged))
        };
        let unheard = match passed(edits)? {
            Ok(unheard) if unheard.is_empty() => continue,
            Ok(unheard) => unheard,
            Err(failure) => return Ok(Bodies::Unknown(failure)),
        };
        let expected = match passed(fixed)? {
            Ok(expected) => expected,
            Err(failure) => return Ok(Bodies::Unknown(failure)),
        };
        let mut unheard = unheard.difference(&expected);
        if let Some(first) = unheard.next() {
            let detail = format!("{} tests pass {}, `{first}` for one", 1 + unheard.count(), sabotage.what);
            return Ok(Bodies::Unheard(Unheard { flag: sabotage.flag, detail }));
        }
    }
    Ok(Bodies::Decide)
}

/// Returns those of the task's tests in question that passed, or what the machine failed in.
fn passed(seen: Seen, hidden: &HiddenTask, is_asked: impl Fn(&str) -> bool) -> Result<BTreeSet<String>, String> {
    match seen.infrastructure {
        Some(failure) => Err(failure),
        None => Ok(hidden
            .fail_to_pass
            .iter()
            .chain(&hidden.pass_to_pass)
            .filter(|id| {
                is_asked(id) && seen.report.as_ref().and_then(|report| report.status(id)) == Some(Status::Passed)
            })
            .cloned()
            .collect()),
    }
}

/// Returns the task's test files with failing tests, as edits.
fn sabotaged(
    repo: &Repo,
    base_commit: &str,
    hidden: &HiddenTask,
    edits: &[Edit],
    sabotage: &Sabotage,
) -> Result<Vec<Edit>> {
    let names: BTreeSet<&str> = hidden.fail_to_pass.iter().chain(&hidden.pass_to_pass).map(|id| function(id)).collect();
    let mut failing = Vec::new();
    for path in &hidden.test_files {
        let path = ByteText::from(path.as_str());
        let content = match edits.iter().find(|edit| edit.path == path) {
            Some(edit) => edit.content.clone(),
            None => repo
                .read(base_commit, path.as_bytes())?
                .map(|bytes| FileContent { mode: 0o100_644, bytes: ByteText(bytes) }),
        };
        let Some(content) = content else { continue };
        let Some(bytes) = (sabotage.apply)(path.as_bytes(), content.bytes.as_bytes(), &names) else { continue };
        failing.push(Edit { path, content: Some(FileContent { bytes: ByteText(bytes), ..content }) });
    }
    Ok(failing)
}

/// Returns the name of the function in a test id of Python: `t.py::C::test_a[x]` and `t.C.test_a`.
fn function(test_id: &str) -> &str {
    let plain = test_id.split('[').next().unwrap_or_default();
    plain.rsplit([':', '.']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::function;

    #[test]
    fn ids_name_their_function() {
        for id in ["t.py::test_a", "a/t.py::C::test_a[x::y.z]", "t.C.test_a"] {
            assert_eq!(function(id), "test_a");
        }
    }
}
