//! Do the bodies of the tests decide? Asked by running them once more, each with a failure for its first statement.
//!
//! Code that shares a process with its tests can replace them once they are imported, or what calls them, and no text
//! that a patch could be searched for gives that away. A test that passes although it begins with a failure did not run.

use std::collections::BTreeSet;

use anyhow::Result;

use super::{Seen, run, tamper};
use crate::{
    config,
    git::Repo,
    harness::Subject,
    lab::Lab,
    record::{
        bytes::ByteText,
        patch::{Edit, FileContent},
        suite::{Selection, Status},
        task::HiddenTask,
    },
    syntax::failing::with_failing_tests,
};

/// What the tests without their bodies show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bodies {
    /// No test passes that fails with the fix.
    Decide,
    /// These pass, and with the fix they fail.
    Unheard(Vec<String>),
    /// The machine failed.
    Unknown(String),
}

/// Runs the test files of a task with failing tests, on the graded tree `edits`; and on the fixed tree `fixed` where
/// that leaves a question, since a decorator may expect a failure. For Python and JavaScript; elsewhere, and where the
/// trees are the same, there is nothing to ask.
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
    let failing = |edits| failing_files(repo, subject.base_commit, hidden, edits);
    let sabotaged = failing(edits)?;
    if sabotaged.is_empty() {
        return Ok(Bodies::Decide);
    }
    let passed = |edits: &[Edit], sabotaged: &[Edit]| -> Result<Result<BTreeSet<String>, String>> {
        let tree = tamper::overlay(&[edits, sabotaged]);
        Ok(passed(run(lab, subject, hidden, &tree, Selection::Files(hidden.test_files.clone()), settings)?, hidden))
    };
    let unheard = match passed(edits, &sabotaged)? {
        Ok(unheard) if unheard.is_empty() => return Ok(Bodies::Decide),
        Ok(unheard) => unheard,
        Err(failure) => return Ok(Bodies::Unknown(failure)),
    };
    Ok(match passed(fixed, &failing(fixed)?)? {
        Ok(expected) => match unheard.difference(&expected).cloned().collect::<Vec<_>>() {
            unheard if unheard.is_empty() => Bodies::Decide,
            unheard => Bodies::Unheard(unheard),
        },
        Err(failure) => Bodies::Unknown(failure),
    })
}

/// Returns the tests of the task that passed, or what the machine failed in.
fn passed(seen: Seen, hidden: &HiddenTask) -> Result<BTreeSet<String>, String> {
    match seen.infrastructure {
        Some(failure) => Err(failure),
        None => Ok(hidden
            .fail_to_pass
            .iter()
            .chain(&hidden.pass_to_pass)
            .filter(|id| seen.report.as_ref().and_then(|report| report.status(id)) == Some(Status::Passed))
            .cloned()
            .collect()),
    }
}

/// Returns the task's test files with failing tests, as edits.
fn failing_files(repo: &Repo, base_commit: &str, hidden: &HiddenTask, edits: &[Edit]) -> Result<Vec<Edit>> {
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
        let Some(bytes) = with_failing_tests(path.as_bytes(), content.bytes.as_bytes(), &names) else { continue };
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
