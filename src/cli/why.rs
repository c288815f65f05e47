//! `curate why`: everything known of a commit, a task or an episode, and the list of tasks.

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::{
    console::counted,
    record::{
        candidate::{CommitVerdict, RejectReason},
        strength::{HunkStrength, Strength},
        suite::{Selection, Status, SuiteOutcome, SuiteRun},
        task::{Difficulty, EvidenceLabel, FairnessItem, HiddenTask, Validation},
    },
};

use super::{
    Session, args,
    dataset::{self, Records},
    exit::Exit,
    output,
};

pub fn command(session: &Session, flags: &args::Why) -> Result<Exit> {
    let store = dataset::open_to_read(flags.dataset.dataset.as_deref())?;
    let records = Records::load(&store)?;
    let Some(subject) = flags.subject.as_deref() else { return list(session, &records) };
    if let Some((episode, grade)) = records.episodes.iter().find(|(episode, _)| episode.episode_id == subject) {
        let mut text: String = episode.messages.iter().map(|message| output::message_text(message) + "\n").collect();
        text.push_str(&format!("stop: {} {}\n", episode.stop.name(), episode.stop_detail));
        text.push_str(&output::grade_text(grade));
        session.result(&json!({ "episode": episode, "grade": grade }), &text)?;
        return Ok(Exit::Done);
    }
    let (commits, id) = find(&records, subject)?;
    let mut text = String::new();
    for verdict in &commits {
        text.push_str(&commit_text(verdict));
    }
    let mut ledger = json!({ "commits": commits });
    if let Some(id) = id {
        text.push_str(&candidate_text(&records, &id));
        ledger["candidate"] = json!(records.candidates.get(&id));
        ledger["build"] = json!(records.builds.get(&id));
        ledger["validation"] = json!(records.validations.get(&id));
        ledger["issue"] = json!(records.issues.get(&id));
        let grades: Vec<Value> =
            records.episodes.iter().filter(|(e, _)| e.instance_id == id).map(|(_, grade)| json!(grade)).collect();
        ledger["grades"] = json!(grades);
    }
    session.result(&ledger, &text)?;
    Ok(Exit::Done)
}

/// Lists the tasks with their labels and what their issues begin with.
fn list(session: &Session, records: &Records) -> Result<Exit> {
    let first_line = |text: &str| text.lines().next().unwrap_or_default().trim_start_matches("# ").to_owned();
    let rows: Vec<(&str, EvidenceLabel, String)> = records
        .tasks()
        .into_iter()
        .map(|(task, issue)| (task.public.instance_id.as_str(), task.hidden.label, first_line(&issue.text)))
        .collect();
    let row = |(id, label, issue): &(&str, EvidenceLabel, String)| format!("{id}  {}  {issue}\n", label.name());
    let json = |(id, label, issue): &(&str, EvidenceLabel, String)| json!({ "instance_id": id, "label": label, "issue": issue });
    if rows.is_empty() && !session.json {
        session.console.message("There is no task yet; `curate mine` makes them, `curate status` says what is left.");
        return Ok(Exit::Done);
    }
    let json: Vec<Value> = rows.iter().map(json).collect();
    session.result(&json!({ "tasks": json }), &rows.iter().map(row).collect::<String>())?;
    Ok(Exit::Done)
}

/// Finds the commit verdicts that an abbreviated id or a candidate's id means, and the candidate.
fn find<'a>(records: &'a Records, subject: &str) -> Result<(Vec<&'a CommitVerdict>, Option<String>)> {
    if let Some(candidate) = records.candidates.get(subject) {
        let commits = records.commits.iter().filter(|verdict| verdict.commit == candidate.fix_commit).collect();
        return Ok((commits, Some(subject.to_owned())));
    }
    let is_hash = subject.len() >= 4 && subject.chars().all(|c| c.is_ascii_hexdigit());
    let commits: Vec<&CommitVerdict> = records
        .commits
        .iter()
        .filter(|verdict| is_hash && verdict.commit.starts_with(&subject.to_lowercase()))
        .collect();
    match commits.as_slice() {
        [] => bail!(
            "find `{subject}` in the dataset: it is no commit looked at (at least 4 digits), task or episode; \
             `curate why` lists the tasks"
        ),
        [only] => {
            let id = records.candidates.values().find(|c| c.fix_commit == only.commit).map(|c| c.instance_id.clone());
            Ok((commits, id))
        }
        _ => Ok((commits, None)),
    }
}

fn commit_text(verdict: &CommitVerdict) -> String {
    let reason = verdict.reason.map_or_else(|| "candidate".to_owned(), RejectReason::name);
    format!("commit {}\n  {}\n  {reason} {}\n", verdict.commit, verdict.subject, verdict.detail)
}

fn candidate_text(records: &Records, id: &str) -> String {
    let mut text = format!("{id}\n");
    match records.builds.get(id) {
        None => text.push_str("  environment: not tried\n"),
        Some(Err(failure)) => text.push_str(&format!("  environment: {failure}\n")),
        Some(Ok(build)) => {
            let recipe = &build.recipe;
            text.push_str(&format!(
                "  environment: {} {} {} ({}), {} as of {}, rung {}\n",
                build.environment.key.short(),
                build.environment.toolchain.language.toolchain_name(),
                build.environment.toolchain.version,
                recipe.interpreter_reason,
                build.runner.name(),
                recipe.cutoff,
                recipe.rung
            ));
            for rung in &recipe.failed_rungs {
                text.push_str(&format!("    before that: {rung}\n"));
            }
        }
    }
    if let Some(validation) = records.validations.get(id) {
        text.push_str(&validation_text(validation));
    }
    match records.issues.get(id) {
        None => {}
        Some(Err(failure)) => text.push_str(&format!("  issue: {failure}\n")),
        Some(Ok(issue)) => {
            text.push_str(&format!("  issue by {}:\n", issue.writer.name()));
            text.extend(issue.text.lines().map(|line| format!("    | {line}\n")));
            text.extend(issue.findings.iter().map(|finding| format!("    found by the gate: {finding}\n")));
        }
    }
    for (episode, grade) in records.episodes.iter().filter(|(episode, _)| episode.instance_id == id) {
        let reward = grade.reward.map_or("null".to_owned(), |reward| format!("{reward:.1}"));
        text.push_str(&format!("  episode {}: {} reward {reward}\n", episode.episode_id, grade.label.name()));
    }
    text
}

fn validation_text(validation: &Validation) -> String {
    let mut text = String::new();
    match &validation.verdict {
        Err(failure) => text.push_str(&format!("  validation: {failure}\n")),
        Ok(task) => {
            let hidden = &task.hidden;
            let scope = if hidden.whole_suite { "the whole suite" } else { "the touched files" };
            text.push_str(&format!(
                "  validation: task, {:?}, {} fail-to-pass, {} pass-to-pass over {scope}, hash seed {}\n",
                hidden.label,
                hidden.fail_to_pass.len(),
                hidden.pass_to_pass.len(),
                hidden.hash_seed
            ));
            text.push_str(&hidden_text(hidden));
            for failing in &hidden.failing {
                let first = failing.message.lines().next().unwrap_or_default();
                let exception = failing.exception.as_deref().unwrap_or_default();
                text.push_str(&format!("    {} ({:?}) {exception}: {first}\n", failing.test_id, failing.transition));
            }
            text.push_str(&strength_text(&hidden.strength));
        }
    }
    for (id, reason) in &validation.quarantined {
        text.push_str(&format!("    quarantined: {id} ({reason:?})\n"));
    }
    text.push_str("  runs:\n");
    text.extend(validation.runs.iter().map(run_text));
    text
}

fn strength_text(strength: &Strength) -> String {
    if strength.n_planned == 0 && strength.hunks.is_empty() {
        return "    strength: not measured\n".to_owned();
    }
    let unneeded: Vec<&HunkStrength> = strength.unneeded_hunks().collect();
    let mut text = format!(
        "    strength: {} of {} mutants killed, {} of {} hunks unneeded; {} of {} variants run\n",
        strength.n_killed(),
        strength.n_mutants(),
        unneeded.len(),
        strength.hunks.len(),
        strength.n_run,
        strength.n_planned
    );
    text.extend(unneeded.iter().map(|hunk| format!("      unneeded: {} {}\n", hunk.place(), hunk.header)));
    let survived = |path, line, what| format!("      survived: {path}:{line} {what}\n");
    text.extend(strength.survivors().map(|mutant| survived(mutant.path.lossy(), mutant.line, &mutant.what)));
    text
}

/// Says what the task asks of a solution: how much is touched, and what nobody could guess.
fn hidden_text(hidden: &HiddenTask) -> String {
    let Difficulty { files, hunks, lines_added, lines_removed, entities, frame_distance } = hidden.difficulty;
    let distance = frame_distance.map_or("unknown".to_owned(), |distance| distance.to_string());
    let mut text = format!(
        "    {}: {}, {}, +{lines_added} -{lines_removed} lines, {}, \
         frame distance {distance}\n",
        hidden.change_kind.name(),
        counted(files as usize, "file"),
        counted(hunks as usize, "hunk"),
        counted(entities as usize, "definition")
    );
    for FairnessItem { kind, text: item, test_path, test_line, .. } in &hidden.fairness {
        text.push_str(&format!("    needed: {kind:?} `{item}` ({test_path}:{test_line})\n"));
    }
    if hidden.n_fairness_left_out > 0 {
        text.push_str(&format!("    needed: {} more\n", hidden.n_fairness_left_out));
    }
    text
}

fn run_text(run: &SuiteRun) -> String {
    let selection = match &run.selection {
        Selection::All => "whole suite".to_owned(),
        Selection::Files(files) => files.join(" "),
        Selection::Tests(tests) if tests.len() == 1 => tests[0].clone(),
        Selection::Tests(tests) => counted(tests.len(), "test"),
        Selection::Alone(tests) => counted(tests.len(), "test") + ", each alone",
    };
    let outcome = match &run.outcome {
        SuiteOutcome::NotRun(failure) => format!("not run, {failure}"),
        SuiteOutcome::Ran(report) => {
            let n_passed = report.tests.values().filter(|result| result.status == Status::Passed).count();
            let whole = if report.complete { "" } else { ", incomplete" };
            let errors = match report.collection_errors.len() {
                0 => String::new(),
                n => format!(", {} not collected", counted(n, "file")),
            };
            format!("{n_passed} of {} passed{errors}{whole}", report.tests.len())
        }
    };
    let order = run.variation.order_seed.map_or("own order".to_owned(), |seed| format!("order {seed}"));
    let stubs = if run.with_stubs { ", stubs" } else { "" };
    let (state, seed) = (run.state, run.variation.hash_seed);
    format!("    {state:?} ({selection}; seed {seed}, {order}{stubs}): {outcome} in {} ms\n", run.wall_ms)
}
