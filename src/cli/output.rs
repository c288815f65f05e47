//! `curate export`, `report` and `status`, and the forms in which records are shown.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::json;

use crate::{
    config,
    export::{self, Consumer, Format, TaskInput},
    record::episode::{Grade, Message},
    report::{self, Summary},
    rollout,
    store::Store,
};

use super::{
    Session, args,
    dataset::{self, Records},
    exit::Exit,
};

pub fn export_command(session: &Session, flags: &args::Export) -> Result<Exit> {
    let store = dataset::open(flags.dataset.dataset.as_deref())?;
    let mut settings = config::Export::default();
    settings.policies.extend(flags.include_policy.iter().copied());
    let records = Records::load(&store)?;
    let out = flags.out.clone().unwrap_or_else(|| export_path(&store, flags.consumer));
    let format = if out.extension().is_some_and(|ending| ending == "jsonl") { Format::Jsonl } else { flags.format };
    let exported = export::export(&export_input(&store, &records), flags.consumer, format, &settings, &out)?;
    let mut text = format!("{} rows for {}\n", exported.rows, flags.consumer.name());
    text.extend(exported.dropped.iter().map(|(reason, n)| format!("  left out, {reason}: {n}\n")));
    text.extend(exported.files.iter().map(|file| format!("{}\n", file.display())));
    session.result(&exported, &text);
    Ok(if exported.rows == 0 { Exit::NothingUsable } else { Exit::Done })
}

/// Returns where a consumer's export lies in a dataset.
pub fn export_path(store: &Store, consumer: Consumer) -> PathBuf {
    store.dir().join("exports").join(consumer.name())
}

pub fn export_input(store: &Store, records: &Records) -> export::Input {
    let budget = rollout::budget(&config::Rollout::default());
    let task = |(task, issue): (&_, &_)| TaskInput {
        prompt: rollout::prompt::messages(&crate::record::task::Task::clone(task).public, issue, &budget),
        task: crate::record::task::Task::clone(task),
        issue: crate::record::task::Issue::clone(issue),
    };
    export::Input {
        dataset: store.name(),
        tasks: records.tasks().into_iter().map(task).collect(),
        episodes: records.episodes.clone(),
        tools: rollout::tool::definitions(),
    }
}

/// Returns what the report reads.
pub fn report_input(store: &Store, records: &Records) -> report::Input {
    report::Input {
        dataset: store.name(),
        commits: records.commits.clone(),
        builds: records.builds.clone().into_iter().collect(),
        validations: records.validations.values().cloned().collect(),
        issues: records.issues.clone().into_iter().collect(),
        episodes: records.episodes.iter().cloned().map(|(episode, grade)| (episode, Some(grade))).collect(),
    }
}

pub fn report_command(session: &Session, flags: &args::Report) -> Result<Exit> {
    let store = dataset::open(flags.dataset.dataset.as_deref())?;
    let records = Records::load(&store)?;
    let page = flags.out.clone().unwrap_or_else(|| store.dir().join("report.html"));
    let summary = report(&store, &records, Some(&page))?;
    session.result(&summary, &format!("{}\n{}", report::text(&summary), page.display()));
    Ok(Exit::Done)
}

pub fn status_command(session: &Session, flags: &args::Status) -> Result<Exit> {
    let store = dataset::open(flags.dataset.dataset.as_deref())?;
    let summary = report(&store, &Records::load(&store)?, None)?;
    session.result(&summary, &report::text(&summary));
    Ok(Exit::Done)
}

/// Sums a dataset up, and writes the page where one is wanted.
///
/// # Errors
/// The store cannot be read or the page not written.
pub fn report(store: &Store, records: &Records, page: Option<&Path>) -> Result<Summary> {
    let input = report_input(store, records);
    let summary = report::summary(&input);
    if let Some(page) = page {
        let partial = page.with_extension("html.partial");
        fs::write(&partial, report::html(&input, &summary))
            .with_context(|| format!("write `{}`", partial.display()))?;
        fs::rename(&partial, page).with_context(|| format!("publish `{}`", page.display()))?;
    }
    Ok(summary)
}

/// Writes `manifest.json`: the version, and the resolved settings of each command's last run.
///
/// # Errors
/// The file cannot be read, understood or written.
pub fn write_manifest(store: &Store, command: &str, run: &config::Run) -> Result<()> {
    let path = store.dir().join("manifest.json");
    let mut manifest = match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| format!("understand `{}`", path.display()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => json!({}),
        Err(error) => return Err(error).with_context(|| format!("read `{}`", path.display())),
    };
    manifest["curate_version"] = json!(env!("CARGO_PKG_VERSION"));
    manifest["settings"][command] = json!(run);
    let partial = path.with_extension("json.partial");
    let text = serde_json::to_string_pretty(&manifest).context("encode the manifest")? + "\n";
    fs::write(&partial, text).with_context(|| format!("write `{}`", partial.display()))?;
    fs::rename(&partial, &path).with_context(|| format!("publish `{}`", path.display()))
}

/// Shows a message as `--trace` and `why` print it.
pub fn message_text(message: &Message) -> String {
    let mut text = format!("── {}", message.role.name());
    if let Some(name) = &message.name {
        text.push_str(&format!(" ({name})"));
    }
    if message.train == Some(false) {
        text.push_str(" [not for imitation]");
    }
    text.push('\n');
    text.push_str(message.content.trim_end());
    for call in &message.tool_calls {
        text.push_str(&format!("\n→ {} {}", call.name, serde_json::Value::Object(call.arguments.clone())));
    }
    text
}

/// Shows a grade as `grade` and `why` print it.
pub fn grade_text(grade: &Grade) -> String {
    let reward = grade.reward.map_or("null".to_owned(), |reward| format!("{reward:.1}"));
    let mut text = format!(
        "{}: reward {reward}, fail-to-pass {}/{}, pass-to-pass {}/{}\n",
        grade.label.name(),
        grade.n_fail_to_pass_passed,
        grade.n_fail_to_pass,
        grade.n_pass_to_pass_passed,
        grade.n_pass_to_pass
    );
    if !grade.detail.is_empty() {
        text.push_str(&format!("  {}\n", grade.detail));
    }
    if !grade.dropped_paths.is_empty() {
        text.push_str(&format!("  not carried over: {}\n", grade.dropped_paths.join(", ")));
    }
    if !grade.flags.is_empty() {
        text.push_str(&format!("  flags: {}\n", grade.flags.join(", ")));
    }
    for (id, status) in &grade.failed_tests {
        let status = status.map_or("not seen".to_owned(), |status| format!("{status:?}"));
        text.push_str(&format!("  {status}: {id}\n"));
    }
    text
}
