//! `curate export` and `report`, the manifest, and the forms in which records are shown.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    config,
    console::counted,
    export::{self, Consumer, Format, TaskInput},
    files,
    git::Hinted,
    record::{
        episode::{Grade, Message},
        id::Digest,
        task::{Issue, Task},
    },
    report::{self, Summary},
    rollout,
    store::Store,
};

use super::{
    Session, args,
    dataset::{self, Records},
    exit::Exit,
    verify::Verified,
};

pub fn export_command(session: &Session, flags: &args::Export) -> Result<Exit> {
    let store = dataset::open_to_read(flags.dataset.dataset.as_deref())?;
    let mut settings = config::Export::default();
    settings.policies.extend(flags.include_policy.iter().copied());
    let records = Records::load(&store)?;
    let out = flags.out.clone().unwrap_or_else(|| export_path(&store, flags.consumer));
    let format = format_of(&out, flags.format)?;
    dataset::check_output(&store, &out, !is_jsonl(&out))?;
    let exported = export::export(&export_input(&store, &records)?, flags.consumer, format, &settings, &out)?;
    let mut text = format!("{} for {}\n", counted(exported.rows, "row"), flags.consumer.name());
    text.extend(exported.dropped.iter().map(|(reason, n)| format!("  left out, {reason}: {n}\n")));
    if exported.rows == 0 {
        text.push_str(&format!("  {}\n", why_empty(flags.consumer, &records)));
    }
    text.extend(exported.files.iter().map(|file| format!("{}\n", file.display())));
    session.result(&exported, &text)?;
    Ok(if exported.rows == 0 { Exit::NothingUsable } else { Exit::Done })
}

/// Says why an export has no row, and what to do.
fn why_empty(consumer: Consumer, records: &Records) -> &'static str {
    match consumer {
        _ if records.tasks().is_empty() => "the dataset has no task with an issue text yet; `curate mine` makes them",
        Consumer::Trl if records.episodes.is_empty() => "no episode is graded yet; `curate rollout` makes them",
        Consumer::Trl => {
            "no episode is left: they must be resolved, and of a policy that may be imitated (`--include-policy`)"
        }
        Consumer::VerlRl | Consumer::SweBench => "every task was left out",
    }
}

fn is_jsonl(out: &Path) -> bool {
    out.extension().is_some_and(|ending| ending == "jsonl")
}

/// Returns the format that was asked for, or else the one that the path's ending says.
fn format_of(out: &Path, asked: Option<Format>) -> Result<Format> {
    match (asked, is_jsonl(out)) {
        (Some(Format::Parquet), true) => Err(Hinted::error(
            "a Parquet export is a directory, and this ends like a file of JSON lines",
            "leave `--format` out, or name a directory with `--out`",
        ))
        .with_context(|| format!("write a Parquet export to `{}`", out.display())),
        (Some(Format::Parquet), false) => Ok(Format::Parquet),
        (Some(Format::Jsonl), _) | (None, true) => Ok(Format::Jsonl),
        (None, false) => Ok(Format::default()),
    }
}

/// Returns where a consumer's export lies in a dataset.
pub fn export_path(store: &Store, consumer: Consumer) -> PathBuf {
    store.dir().join("exports").join(consumer.name())
}

/// Returns what exports are made of.
///
/// # Errors
/// The store cannot be read.
pub fn export_input(store: &Store, records: &Records) -> Result<export::Input> {
    let budget = rollout::budget(&config::Rollout::default());
    let task = |(task, issue): (&Task, &Issue)| -> Result<TaskInput> {
        let verified: Option<Verified> = store.get("verify", &task.public.instance_id)?;
        Ok(TaskInput {
            prompt: rollout::prompt::messages(&task.public, issue, &budget),
            task: task.clone(),
            issue: issue.clone(),
            is_refuted: verified.is_some_and(|verified| verified.refutes(&Digest::of_json(task))),
        })
    };
    Ok(export::Input {
        dataset: store.name(),
        tasks: records.tasks().into_iter().map(task).collect::<Result<_>>()?,
        episodes: records.episodes.clone(),
        tools: rollout::tool::definitions(),
    })
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
    let store = dataset::open_to_read(flags.dataset.dataset.as_deref())?;
    let records = Records::load(&store)?;
    let page = flags.out.clone().unwrap_or_else(|| store.dir().join("report.html"));
    dataset::check_output(&store, &page, false)?;
    let summary = report(&store, &records, Some(&page))?;
    session.result(&summary, &format!("{}\n{}", report::text(&summary), page.display()))?;
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
        files::write(page, report::html(&input, &summary).as_bytes())?;
    }
    Ok(summary)
}

/// `manifest.json` of a dataset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    #[serde(default)]
    pub curate_version: String,
    /// Resolved settings of each command's last run; with `tasks`, where a rollout was of some tasks only.
    #[serde(default)]
    pub settings: BTreeMap<String, serde_json::Value>,
}

impl Manifest {
    /// # Errors
    /// The file cannot be read or understood.
    pub fn read(store: &Store) -> Result<Manifest> {
        let path = store.dir().join("manifest.json");
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .with_context(|| format!("understand `{}`; move it away to start a new one", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Manifest::default()),
            Err(error) => Err(error).with_context(|| format!("read `{}`", path.display())),
        }
    }

    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, store: &Store) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("encode the manifest")? + "\n";
        files::write(&store.dir().join("manifest.json"), text.as_bytes())
    }
}

/// Notes the version and a command's resolved settings in the manifest.
///
/// # Errors
/// As [`Manifest`].
pub fn write_manifest(store: &Store, command: &str, settings: &impl Serialize) -> Result<()> {
    let mut manifest = Manifest::read(store)?;
    env!("CARGO_PKG_VERSION").clone_into(&mut manifest.curate_version);
    manifest.settings.insert(command.to_owned(), json!(settings));
    manifest.write(store)
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
