//! What the page shows, as data: an overview, and one block for each task and each episode that is read when opened.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use super::{Input, Summary, name_of};
use crate::console::counted;
use crate::record::{
    candidate::{CommitVerdict, RejectReason},
    environment::{Build, Recipe},
    episode::{Episode, Grade, Message},
    suite::{Selection, Status, SuiteOutcome, SuiteRun, TreeState},
    task::{FailingTest, Issue, QuarantineReason, Task, Transition, Validation},
};

/// Longest text shown whole; of longer ones the page shows head and tail, bytes.
const MAX_TEXT_BYTES: usize = 24_000;
/// Rows of an evidence matrix.
const MAX_MATRIX_ROWS: usize = 120;
/// Commits in the ledger, in the order of mining.
const MAX_COMMITS: usize = 20_000;

#[derive(Serialize)]
pub struct Overview<'a> {
    summary: &'a Summary,
    tasks: Vec<TaskRow<'a>>,
    episodes: Vec<EpisodeRow<'a>>,
    commits: Vec<CommitRow<'a>>,
    /// Candidates that became no task, with the stage that said so.
    failures: Vec<FailureRow<'a>>,
}

#[derive(Serialize)]
struct TaskRow<'a> {
    id: &'a str,
    /// The issue's first line, or the commit's.
    title: String,
    repo: &'a str,
    day: String,
    evidence: String,
    n_fail_to_pass: usize,
    n_pass_to_pass: usize,
    toolchain: String,
    environment: &'a str,
    license: Option<&'a str>,
    /// Numbers of its episodes.
    episodes: Vec<usize>,
}

#[derive(Serialize)]
struct EpisodeRow<'a> {
    id: &'a str,
    task: &'a str,
    policy: &'static str,
    script: Option<&'a str>,
    sample: u32,
    seed: u64,
    label: &'static str,
    reward: Option<f64>,
    stop: &'static str,
    n_steps: u32,
    n_tokens: u64,
    wall_ms: u64,
    flags: &'a [String],
}

#[derive(Serialize)]
struct CommitRow<'a> {
    commit: &'a str,
    subject: &'a str,
    day: String,
    /// Empty for a candidate.
    reason: String,
    detail: &'a str,
}

#[derive(Serialize)]
struct FailureRow<'a> {
    id: &'a str,
    stage: String,
    kind: &'a str,
    blame: String,
    detail: String,
}

#[derive(Serialize)]
pub struct TaskDetail<'a> {
    issue: Option<&'a Issue>,
    subject: String,
    base_commit: &'a str,
    fix_commit: &'a str,
    source_patch: String,
    test_patch: String,
    failing: &'a [FailingTest],
    fail_to_pass: &'a [String],
    quarantined: &'a BTreeMap<String, QuarantineReason>,
    whole_suite: bool,
    hash_seed: u32,
    recipe: &'a Recipe,
    runner: &'static str,
    matrix: Matrix<'a>,
}

/// Outcome of each test that matters in each run.
#[derive(Serialize)]
struct Matrix<'a> {
    columns: Vec<MatrixColumn>,
    rows: Vec<MatrixRow<'a>>,
    /// Tests of each transition that have no row.
    left_out: BTreeMap<String, usize>,
}

#[derive(Serialize)]
struct MatrixColumn {
    state: TreeState,
    note: String,
    wall_ms: u64,
    failure: Option<String>,
}

#[derive(Serialize)]
struct MatrixRow<'a> {
    test: &'a str,
    transition: Option<Transition>,
    quarantine: Option<QuarantineReason>,
    /// One letter for each column, see [`cell`].
    cells: String,
}

#[derive(Serialize)]
pub struct EpisodeDetail<'a> {
    episode: &'a str,
    messages: Vec<Message>,
    patch: String,
    stop_detail: &'a str,
    timing: crate::record::episode::Timing,
    budget: crate::record::episode::Budget,
    grade: Option<&'a Grade>,
}

/// Returns the data of the whole page.
pub fn overview<'a>(input: &'a Input, summary: &'a Summary) -> Overview<'a> {
    Overview {
        summary,
        tasks: tasks(input).map(|(task, _)| task_row(task, input)).collect(),
        episodes: input.episodes.iter().map(|(episode, grade)| episode_row(episode, grade.as_ref())).collect(),
        commits: input.commits.iter().take(MAX_COMMITS).map(commit_row).collect(),
        failures: failures(input),
    }
}

/// Returns the block of each task, in the order of the overview's.
pub fn task_details(input: &Input) -> impl Iterator<Item = TaskDetail<'_>> {
    tasks(input).map(|(task, validation)| task_detail(task, validation, input))
}

/// Returns the block of each episode, in the order of the overview's.
pub fn episode_details(input: &Input) -> impl Iterator<Item = EpisodeDetail<'_>> {
    input.episodes.iter().map(|(episode, grade)| EpisodeDetail {
        episode: &episode.episode_id,
        messages: episode.messages.iter().map(shortened).collect(),
        patch: shorten(&episode.patch.lossy()),
        stop_detail: &episode.stop_detail,
        timing: episode.timing,
        budget: episode.budget,
        grade: grade.as_ref(),
    })
}

fn tasks(input: &Input) -> impl Iterator<Item = (&Task, &Validation)> {
    input.validations.iter().filter_map(|validation| validation.verdict.as_ref().ok().map(|task| (task, validation)))
}

fn issue_of<'a>(input: &'a Input, instance_id: &str) -> Option<&'a Issue> {
    input.issues.iter().find(|(id, _)| id == instance_id).and_then(|(_, issue)| issue.as_ref().ok())
}

fn task_row<'a>(task: &'a Task, input: &'a Input) -> TaskRow<'a> {
    let public = &task.public;
    let text =
        issue_of(input, &public.instance_id).map_or_else(|| task.hidden.message.lossy(), |issue| issue.text.clone());
    let mine =
        |(index, (episode, _)): (usize, &(Episode, _))| (episode.instance_id == public.instance_id).then_some(index);
    TaskRow {
        id: &public.instance_id,
        title: first_line(&text),
        repo: &public.repo,
        day: day(Some(public.base_time)),
        evidence: name_of(task.hidden.label),
        n_fail_to_pass: task.hidden.fail_to_pass.len(),
        n_pass_to_pass: task.hidden.pass_to_pass.len(),
        toolchain: format!(
            "{} {}",
            public.build.environment.toolchain.language.toolchain_name(),
            public.build.environment.toolchain.version
        ),
        environment: public.build.environment.key.short(),
        license: public.license.as_deref(),
        episodes: input.episodes.iter().enumerate().filter_map(mine).collect(),
    }
}

fn episode_row<'a>(episode: &'a Episode, grade: Option<&'a Grade>) -> EpisodeRow<'a> {
    EpisodeRow {
        id: &episode.episode_id,
        task: &episode.instance_id,
        policy: episode.policy.name(),
        script: episode.script.as_deref(),
        sample: episode.sample,
        seed: episode.seed,
        label: grade.map_or("not_graded", |grade| grade.label.name()),
        reward: grade.and_then(|grade| grade.reward),
        stop: episode.stop.name(),
        n_steps: episode.n_steps,
        n_tokens: episode.n_tokens,
        wall_ms: episode.timing.wall_ms,
        flags: grade.map_or(&[], |grade| &grade.flags),
    }
}

fn commit_row(verdict: &CommitVerdict) -> CommitRow<'_> {
    CommitRow {
        commit: &verdict.commit,
        subject: &verdict.subject,
        day: day(verdict.time),
        reason: verdict.reason.map_or_else(String::new, RejectReason::name),
        detail: &verdict.detail,
    }
}

fn failures(input: &Input) -> Vec<FailureRow<'_>> {
    let builds = input.builds.iter().filter_map(|(id, outcome)| Some((id, outcome.as_ref().err()?)));
    let validations = input.validations.iter().filter_map(|v| Some((&v.instance_id, v.verdict.as_ref().err()?)));
    let issues = input.issues.iter().filter_map(|(id, issue)| Some((id, issue.as_ref().err()?)));
    builds
        .chain(validations)
        .chain(issues)
        .map(|(id, failure)| FailureRow {
            id,
            stage: name_of(failure.phase),
            kind: &failure.kind,
            blame: name_of(failure.blame),
            detail: shorten(&failure.detail),
        })
        .collect()
}

fn task_detail<'a>(task: &'a Task, validation: &'a Validation, input: &'a Input) -> TaskDetail<'a> {
    let (public, hidden) = (&task.public, &task.hidden);
    let build: &Build = &public.build;
    TaskDetail {
        issue: issue_of(input, &public.instance_id),
        subject: first_line(&hidden.message.lossy()),
        base_commit: &public.base_commit,
        fix_commit: &hidden.fix_commit,
        source_patch: shorten(&hidden.source_patch.lossy()),
        test_patch: shorten(&hidden.test_patch.lossy()),
        failing: &hidden.failing,
        fail_to_pass: &hidden.fail_to_pass,
        quarantined: &hidden.quarantined,
        whole_suite: hidden.whole_suite,
        hash_seed: hidden.hash_seed,
        recipe: &build.recipe,
        runner: build.runner.name(),
        matrix: matrix(task, validation),
    }
}

fn matrix<'a>(task: &'a Task, validation: &'a Validation) -> Matrix<'a> {
    let mut tests: BTreeSet<&str> = task.hidden.fail_to_pass.iter().map(String::as_str).collect();
    tests.extend(validation.quarantined.keys().map(String::as_str));
    let plain = |transition: &Transition| matches!(transition, Transition::PassToPass | Transition::Unchanged);
    tests.extend(validation.transitions.iter().filter(|(_, t)| !plain(t)).map(|(test, _)| test.as_str()));
    let mut order: Vec<&str> = tests.into_iter().collect();
    order.sort_by_key(|&test| !task.hidden.fail_to_pass.iter().any(|id| id == test));
    let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
    let shown: BTreeSet<&str> = order.iter().take(MAX_MATRIX_ROWS).copied().collect();
    for (_, transition) in validation.transitions.iter().filter(|(test, _)| !shown.contains(test.as_str())) {
        *left_out.entry(name_of(transition)).or_default() += 1;
    }
    let row = |&test: &&'a str| MatrixRow {
        test,
        transition: validation.transitions.get(test).copied(),
        quarantine: validation.quarantined.get(test).copied(),
        cells: validation.runs.iter().map(|run| cell(run, test)).collect(),
    };
    Matrix {
        columns: validation.runs.iter().map(matrix_column).collect(),
        rows: order.iter().take(MAX_MATRIX_ROWS).map(row).collect(),
        left_out,
    }
}

fn matrix_column(run: &SuiteRun) -> MatrixColumn {
    let mut notes = Vec::new();
    match &run.selection {
        Selection::All => notes.push("whole suite".to_owned()),
        Selection::Files(files) => notes.push(counted(files.len(), "file")),
        Selection::Tests(tests) => notes.push(counted(tests.len(), "test")),
        Selection::Alone(tests) => notes.push(counted(tests.len(), "test") + ", each alone"),
    }
    notes.push(format!("hash seed {}", run.variation.hash_seed));
    if let Some(seed) = run.variation.order_seed {
        notes.push(format!("order {seed}"));
    }
    if run.with_stubs {
        notes.push("with stubs".to_owned());
    }
    let failure = match &run.outcome {
        SuiteOutcome::Ran(_) => None,
        SuiteOutcome::NotRun(failure) => Some(failure.to_string()),
    };
    MatrixColumn { state: run.state, note: notes.join(", "), wall_ms: run.wall_ms, failure }
}

/// Returns the letter of an outcome: a status's own, `-` for a test that should have been there, ` ` for one that was not
/// asked for, `!` where the run itself failed.
fn cell(run: &SuiteRun, test: &str) -> char {
    let Some(report) = run.report() else { return '!' };
    match report.status(test) {
        Some(Status::Passed) => 'p',
        Some(Status::Xfailed) => 'x',
        Some(Status::Xpassed) => 'X',
        Some(Status::Skipped) => 's',
        Some(Status::Failed) => 'f',
        Some(Status::Error) => 'e',
        Some(Status::TimedOut) => 't',
        Some(Status::Crashed) => 'c',
        Some(Status::NotRun) => 'n',
        None if asked_for(&run.selection, test) => '-',
        None => ' ',
    }
}

fn asked_for(selection: &Selection, test: &str) -> bool {
    match selection {
        Selection::All => true,
        Selection::Files(files) => match test.split_once("::") {
            Some((file, _)) => files.iter().any(|selected| selected == file),
            None => true,
        },
        Selection::Tests(tests) | Selection::Alone(tests) => tests.iter().any(|selected| selected == test),
    }
}

fn shortened(message: &Message) -> Message {
    Message { content: shorten(&message.content), ..message.clone() }
}

/// Cuts the middle out of a long text and says how much.
fn shorten(text: &str) -> String {
    if text.len() <= MAX_TEXT_BYTES {
        return text.to_owned();
    }
    let (head, tail) = (floor(text, MAX_TEXT_BYTES / 2), floor(text, text.len() - MAX_TEXT_BYTES / 2));
    format!("{}\n… {} bytes are left out on this page …\n{}", &text[..head], tail - head, &text[tail..])
}

fn floor(text: &str, index: usize) -> usize {
    (0..=index).rev().find(|&index| text.is_char_boundary(index)).unwrap_or(0)
}

fn first_line(text: &str) -> String {
    let line = text.lines().map(|line| line.trim_start_matches('#').trim()).find(|line| !line.is_empty());
    line.unwrap_or_default().to_owned()
}

fn day(seconds: Option<i64>) -> String {
    let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map_or_else(String::new, |time| time.to_string().chars().take_while(|&c| c != 'T').collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_lose_their_middle_at_character_boundaries() {
        let text = "é".repeat(MAX_TEXT_BYTES);
        let short = shorten(&text);
        assert!(short.len() < MAX_TEXT_BYTES + 100);
        assert!(short.contains(&format!("… {MAX_TEXT_BYTES} bytes")));
        assert_eq!(shorten("short"), "short");
    }

    #[test]
    fn a_test_that_was_not_asked_for_is_not_missing() {
        let files = Selection::Files(vec!["tests/a.py".to_owned()]);
        assert!(asked_for(&files, "tests/a.py::t"));
        assert!(!asked_for(&files, "tests/b.py::t"));
        assert!(!asked_for(&Selection::Tests(vec!["x".to_owned()]), "y"));
    }
}
