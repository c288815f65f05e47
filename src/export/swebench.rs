//! A task as a row of `swebench`, in the columns of the princeton-nlp datasets and a few more.

use jiff::Timestamp;
use serde::Serialize;

use super::TaskInput;
use crate::{
    environments::dockerfile::dockerfile,
    record::{
        environment::Build,
        strength::HunkStrength,
        task::{Difficulty, FairnessItem},
    },
};

#[derive(Serialize)]
#[expect(non_snake_case, reason = "SWE-bench names two of its columns so")]
pub struct Row<'a> {
    repo: &'a str,
    instance_id: &'a str,
    base_commit: &'a str,
    patch: String,
    test_patch: String,
    problem_statement: &'a str,
    hints_text: &'static str,
    created_at: String,
    version: String,
    FAIL_TO_PASS: String,
    PASS_TO_PASS: String,
    environment_setup_commit: &'a str,
    fix_commit: &'a str,
    language: &'a str,
    license: Option<&'a str>,
    evidence_label: &'static str,
    mutants_killed: usize,
    mutants_total: usize,
    unneeded_hunks: Vec<String>,
    change_kind: &'static str,
    fairness: &'a [FairnessItem],
    difficulty: Difficulty,
    issue_writer: &'static str,
    image: Option<&'a str>,
    dockerfile: String,
}

/// Returns the row of a task.
pub fn row(task: &TaskInput) -> Row<'_> {
    let (public, hidden) = (&task.task.public, &task.task.hidden);
    Row {
        repo: &public.repo,
        instance_id: &public.instance_id,
        base_commit: &public.base_commit,
        patch: hidden.source_patch.escaped(),
        test_patch: hidden.test_patch.escaped(),
        problem_statement: &task.issue.text,
        hints_text: "",
        created_at: iso_time(public.base_time),
        version: project_version(&public.build),
        FAIL_TO_PASS: json_list(&hidden.fail_to_pass),
        PASS_TO_PASS: json_list(&hidden.pass_to_pass),
        environment_setup_commit: &public.base_commit,
        fix_commit: &hidden.fix_commit,
        language: &public.language,
        license: public.license.as_deref(),
        evidence_label: hidden.label.name(),
        mutants_killed: hidden.strength.n_killed(),
        mutants_total: hidden.strength.n_mutants(),
        unneeded_hunks: hidden.strength.unneeded_hunks().map(HunkStrength::place).collect(),
        change_kind: hidden.change_kind.name(),
        fairness: &hidden.fairness,
        difficulty: hidden.difficulty,
        issue_writer: task.issue.writer.name(),
        image: None,
        dockerfile: dockerfile(public),
    }
}

fn json_list(ids: &[String]) -> String {
    serde_json::to_string(ids).expect("strings serialise")
}

/// Returns `YYYY-MM-DDTHH:MM:SSZ`; a time outside the years that ISO 8601 can write becomes 1970.
fn iso_time(seconds: i64) -> String {
    Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH).to_string()
}

/// Reads the version off the name of the project's `<name>-<version>.dist-info` directory.
fn project_version(build: &Build) -> String {
    build
        .metadata
        .iter()
        .find_map(|file| {
            let path = file.path.lossy();
            let directory = path.split('/').find_map(|part| part.strip_suffix(".dist-info"))?;
            directory.rsplit_once('-').map(|(_, version)| version.to_owned())
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_iso_8601_whatever_the_commit_claims() {
        assert_eq!(iso_time(1_500_000_000), "2017-07-14T02:40:00Z");
        assert_eq!(iso_time(i64::MAX), "1970-01-01T00:00:00Z");
    }
}
