//! The dataset card: what the rows are, who made them, under which licences, and what was left out.
//!
//! Each export describes itself in a [`Section`] that its files carry; the card is made from the sections of all exports
//! in a directory. Column types are left to the files: readers refuse a card that describes them in part.

use std::{collections::BTreeMap, fmt::Write, fs, io::ErrorKind, path::Path};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::{
    Consumer, FILTERS, Rows, TaskInput,
    schema::{self, Column, SCHEMA_VERSION},
};

pub const FILE_NAME: &str = "README.md";

/// Tells a card of ours from a file that somebody wrote.
const MARK: &str = "<!-- Written by `curate export`; changes are lost at the next export. -->";

type Counts = BTreeMap<String, usize>;

/// What one export says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    schema_version: i32,
    dataset: String,
    consumer: Consumer,
    n_rows: usize,
    n_tasks: usize,
    /// Rows by what they come from; keys are names.
    repos: Counts,
    licenses: Counts,
    evidence: Counts,
    issue_writers: Counts,
    policies: Counts,
    labels: Counts,
    dropped: Counts,
}

impl Section {
    pub fn new(rows: &Rows) -> Section {
        let selection = rows.selection;
        let episodes = match rows.consumer {
            Consumer::Trl => selection.episodes.as_slice(),
            Consumer::VerlRl | Consumer::SweBench => &[],
        };
        let tasks: Vec<&TaskInput> = match rows.consumer {
            Consumer::Trl => episodes.iter().map(|chosen| chosen.task).collect(),
            Consumer::VerlRl | Consumer::SweBench => selection.tasks.clone(),
        };
        let ids: std::collections::BTreeSet<&str> =
            tasks.iter().map(|task| task.task.public.instance_id.as_str()).collect();
        let by = |name: fn(&TaskInput) -> String| counts(tasks.iter().map(|task| name(task)));
        Section {
            schema_version: SCHEMA_VERSION,
            dataset: rows.input.dataset.clone(),
            consumer: rows.consumer,
            n_rows: rows.len(),
            n_tasks: ids.len(),
            repos: by(|task| task.task.public.repo.clone()),
            licenses: by(|task| task.task.public.license.clone().unwrap_or_else(|| UNKNOWN.to_owned())),
            evidence: by(|task| task.task.hidden.label.name().to_owned()),
            issue_writers: by(|task| task.issue.writer.name().to_owned()),
            policies: counts(episodes.iter().map(|chosen| chosen.episode.policy.name().to_owned())),
            labels: counts(episodes.iter().map(|chosen| chosen.grade.label.name().to_owned())),
            dropped: selection.dropped.clone(),
        }
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("sections have string keys")
    }

    /// # Errors
    /// It was written by a version with other fields.
    pub fn from_json(json: &str) -> Result<Section> {
        serde_json::from_str(json).context("read what the export says of itself")
    }
}

const UNKNOWN: &str = "unknown";

fn counts(names: impl Iterator<Item = String>) -> Counts {
    let mut counts = Counts::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    counts
}

/// Refuses a directory whose card somebody else wrote.
///
/// # Errors
/// There is such a card, or it cannot be read.
pub fn check_ownership(out: &Path) -> Result<()> {
    let path = out.join(FILE_NAME);
    match fs::read(&path) {
        Ok(bytes) if !String::from_utf8_lossy(&bytes).contains(MARK) => {
            bail!("replace `{}`: no export wrote it; choose another directory", path.display())
        }
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("read `{}`", path.display()))
        }
        _ => Ok(()),
    }
}

/// Returns the card of a directory that holds these exports.
pub fn render(sections: &[Section]) -> String {
    let mut card = String::new();
    front_matter(&mut card, sections);
    let datasets: Vec<&str> = sections.iter().map(|section| section.dataset.as_str()).collect();
    let title = datasets.first().copied().unwrap_or_default();
    line(&mut card, &format!("{MARK}\n\n# {title}\n\n{INTRODUCTION}\n"));
    for section in sections {
        describe(&mut card, section);
    }
    card
}

const INTRODUCTION: &str = "Training data for coding agents, made by `curate` from the history of the repositories \
named below. A task is a commit that fixes something: tests that fail before it and pass after it, both seen in repeated \
runs in a sandbox, decide whether an attempt solves it. An episode is one attempt, graded in a fresh sandbox.";

fn front_matter(card: &mut String, sections: &[Section]) {
    line(card, "---\nconfigs:");
    for (index, section) in sections.iter().enumerate() {
        let name = section.consumer.name();
        line(card, &format!("- config_name: {name}\n  data_files:\n  - split: train\n    path: data/{name}/train-*"));
        if index == 0 {
            line(card, "  default: true");
        }
    }
    let mut licenses: Vec<String> =
        sections.iter().flat_map(|section| section.licenses.keys()).map(|license| hub_license(license)).collect();
    licenses.sort();
    licenses.dedup();
    match licenses.as_slice() {
        [] => {}
        [only] => line(card, &format!("license: {only}")),
        several => {
            line(card, "license:");
            for license in several {
                line(card, &format!("- {license}"));
            }
        }
    }
    line(card, "language:\n- en\n- code\nannotations_creators:\n- machine-generated");
    line(card, "task_categories:\n- text-generation\ntags:\n- code\n- agent\n- software-engineering\n- curate");
    let n_rows: usize = sections.iter().map(|section| section.n_rows).sum();
    line(card, &format!("size_categories:\n- {}\n---\n", size_category(n_rows)));
}

/// Returns the Hub's id of a licence: the SPDX id in lower case where the Hub knows it.
fn hub_license(license: &str) -> String {
    const KNOWN: [&str; 17] = [
        "afl-3.0",
        "agpl-3.0",
        "apache-2.0",
        "artistic-2.0",
        "bsd-2-clause",
        "bsd-3-clause",
        "bsl-1.0",
        "cc0-1.0",
        "epl-2.0",
        "gpl-2.0",
        "gpl-3.0",
        "isc",
        "lgpl-2.1",
        "lgpl-3.0",
        "mit",
        "mpl-2.0",
        "unlicense",
    ];
    let id = license.to_lowercase().replace("-only", "").replace("-or-later", "");
    match license {
        UNKNOWN => UNKNOWN.to_owned(),
        _ if KNOWN.contains(&id.as_str()) => id,
        _ => "other".to_owned(),
    }
}

fn size_category(n_rows: usize) -> &'static str {
    match n_rows {
        0..1_000 => "n<1K",
        1_000..10_000 => "1K<n<10K",
        10_000..100_000 => "10K<n<100K",
        100_000..1_000_000 => "100K<n<1M",
        _ => "1M<n<10M",
    }
}

fn describe(card: &mut String, section: &Section) {
    let name = section.consumer.name();
    line(card, &format!("## `{name}`\n\n{}\n", purpose(section.consumer)));
    let unit = match section.consumer {
        Consumer::Trl => "episodes",
        Consumer::VerlRl | Consumer::SweBench => "rows",
    };
    let counts = format!("{unit}: {}; tasks: {}", section.n_rows, section.n_tasks);
    line(card, &format!("From dataset `{}`. Number of {counts}.\n", section.dataset));
    line(card, "| rows by | |\n|---|---|");
    for (title, counts) in [
        ("repository", &section.repos),
        ("licence", &section.licenses),
        ("evidence", &section.evidence),
        ("issue writer", &section.issue_writers),
        ("policy", &section.policies),
        ("label", &section.labels),
    ] {
        if !counts.is_empty() {
            line(card, &format!("| {title} | {} |", listed(counts)));
        }
    }
    line(card, "");
    makers(card, section);
    filters(card, section);
    columns(card, section.consumer);
}

fn purpose(consumer: Consumer) -> &'static str {
    match consumer {
        Consumer::Trl => {
            "Conversations with tool calls for supervised fine-tuning. `tools` and every call's `arguments` are JSON \
             values: `datasets` 4.7 and later gives exact objects, without keys of other rows; readers that do not know \
             the type give the text. `train` is false on turns that should not be imitated. \
             `chat_template_qwen3.jinja` limits the loss to the others: \
             `SFTConfig(assistant_only_loss=True, chat_template_path=\"chat_template_qwen3.jinja\")`."
        }
        Consumer::VerlRl => {
            "Prompts for reinforcement learning. The reward comes from `reward_fn.py`, which grades a patch with \
             `curate grade` in a fresh sandbox: `reward.custom_reward_function.path=reward_fn.py`."
        }
        Consumer::SweBench => {
            "Tasks in the columns of SWE-bench, with `fix_commit`, `language`, `license`, `evidence_label`, \
             `mutants_killed`, `mutants_total`, `unneeded_hunks`, `change_kind`, `fairness`, `difficulty`, `issue_writer`, \
             `image` and `dockerfile` added. Bytes of a patch that are not UTF-8 are written as the private-use \
             characters U+10FF00 + byte."
        }
    }
}

/// Names who made the rows, and which makers are no models.
fn makers(card: &mut String, section: &Section) {
    for policy in section.policies.keys() {
        let what = match policy.as_str() {
            "mock" => {
                "a **script, not a model**: it knows the gold patch, works through the same tools as a model would and \
                 fails on purpose by a seeded choice"
            }
            "oracle" => "applies the **gold patch**; shows no work of its own",
            "noop" => "does nothing",
            _ => "a model",
        };
        line(card, &format!("- Policy `{policy}`: {what}."));
    }
    for writer in section.issue_writers.keys() {
        let what = match writer.as_str() {
            "template" => "a **template, not a model**, filled from what the failing tests said",
            _ => "a model, from what the failing tests said",
        };
        line(card, &format!("- Issue writer `{writer}`: {what}."));
    }
    line(card, "");
}

fn filters(card: &mut String, section: &Section) {
    line(card, "| filter | drops | why | setting | dropped |\n|---|---|---|---|---|");
    for filter in FILTERS.iter().filter(|filter| filter.concerns(section.consumer)) {
        let n_dropped = section.dropped.get(filter.name).copied().unwrap_or(0);
        let (name, drops, why, setting) = (filter.name, filter.drops, filter.why, filter.setting);
        line(card, &format!("| `{name}` | {drops} | {why} | {setting} | {n_dropped} |"));
    }
    line(card, "");
}

fn columns(card: &mut String, consumer: Consumer) {
    line(card, &format!("Schema version {SCHEMA_VERSION}:\n\n| column | type | null | meaning |\n|---|---|---|---|"));
    for column in schema::columns(consumer) {
        column_rows(card, "", column);
    }
    line(card, "");
}

/// One line for the column, then one for each field of the structures in it.
fn column_rows(card: &mut String, prefix: &str, column: &Column) {
    let name = format!("{prefix}{}", column.name);
    let null = if column.nullable { "yes" } else { "no" };
    line(card, &format!("| `{name}` | {} | {null} | {} |", schema::type_name(column.kind), column.meaning));
    let inner_prefix = match column.kind {
        schema::Kind::Structs(_) => format!("{name}[]."),
        _ => format!("{name}."),
    };
    for field in schema::inner(column.kind) {
        column_rows(card, &inner_prefix, field);
    }
}

fn listed(counts: &Counts) -> String {
    let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{} {count}", escape_cell(name))).collect();
    parts.join(", ")
}

/// Repository and licence names are foreign text.
fn escape_cell(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace(['\n', '\r'], " ").replace('<', "&lt;")
}

fn line(card: &mut String, text: &str) {
    writeln!(card, "{text}").expect("writing to a string cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_get_the_names_of_the_hub() {
        assert_eq!(hub_license("BSD-3-Clause"), "bsd-3-clause");
        assert_eq!(hub_license("GPL-3.0-or-later"), "gpl-3.0");
        assert_eq!(hub_license("MIT OR Apache-2.0"), "other");
        assert_eq!(hub_license(UNKNOWN), "unknown");
    }

    #[test]
    fn a_foreign_card_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        assert!(check_ownership(dir.path()).is_ok());
        fs::write(dir.path().join(FILE_NAME), render(&[])).unwrap();
        assert!(check_ownership(dir.path()).is_ok());
        fs::write(dir.path().join(FILE_NAME), "# My project").unwrap();
        assert!(check_ownership(dir.path()).is_err());
    }
}
