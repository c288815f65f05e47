//! Selected tasks and episodes as files that a training library reads.
//!
//! Owns the row of every consumer, its schema, the filters with their counts and the layout on disk. Knows nothing of
//! the store: it is handed records. The same records give the same bytes: rows are ordered by id, and no time, duration
//! or path of this machine is written.
//!
//! | consumer | one row per | columns |
//! |---|---|---|
//! | `trl` | episode worth imitating | [`schema::TRL`] |
//! | `verl-rl` | task | [`schema::VERL_RL`] |
//! | `swebench` | task | [`schema::SWEBENCH`] |
//!
//! A Parquet export is a directory in the layout of the Hugging Face Hub: `README.md` (the card) and
//! `data/<consumer>/train-00000-of-0000N.parquet`. Exports for several consumers may share it. A JSON Lines export is
//! one file, with tool arguments as objects.

mod card;
mod layout;
mod parquet;
mod rl;
pub mod schema;
mod select;
mod sft;
mod swebench;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    config,
    record::{
        episode::{Episode, Grade, Message},
        task::{Issue, Task},
    },
};

use select::Selection;
pub use select::{FILTERS, Filter};

/// A task that has an issue text.
#[derive(Clone, Debug)]
pub struct TaskInput {
    pub task: Task,
    pub issue: Issue,
    /// The system and user messages that every rollout of it starts with.
    pub prompt: Vec<Message>,
    /// Executed again, its fix did not score 1 or nothing at all scored more than 0.
    pub is_refuted: bool,
}

/// Everything that may be exported. Episodes name their tasks by `instance_id`.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// The dataset's name, never a path.
    pub dataset: String,
    pub tasks: Vec<TaskInput>,
    pub episodes: Vec<(Episode, Grade)>,
    /// The tools of rollouts, a list of function definitions as OpenAI's chat interface takes them.
    pub tools: Value,
}

/// Who reads the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Consumer {
    /// Supervised fine-tuning with TRL: conversations with tool calls and a mask per turn
    Trl,
    /// Reinforcement learning with verl: prompts and what the reward function needs
    VerlRl,
    /// Tasks in the columns of SWE-bench
    #[value(name = "swebench")]
    #[serde(rename = "swebench")]
    SweBench,
}

impl Consumer {
    pub const ALL: [Consumer; 3] = [Consumer::Trl, Consumer::VerlRl, Consumer::SweBench];

    pub fn name(self) -> &'static str {
        match self {
            Consumer::Trl => "trl",
            Consumer::VerlRl => "verl-rl",
            Consumer::SweBench => "swebench",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    #[default]
    Parquet,
    Jsonl,
}

/// What an export wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// Data files first, then what accompanies them.
    pub files: Vec<PathBuf>,
    pub rows: usize,
    /// Records left out, by the name of the filter that dropped them; see [`FILTERS`].
    pub dropped: BTreeMap<String, usize>,
}

/// Writes the rows of one consumer to a directory or, for JSON Lines, to a directory or a `.jsonl` file.
///
/// An older export for the same consumer at the same place is replaced as a whole; whoever reads meanwhile, or after a
/// crash, sees the old files or the new ones.
///
/// # Errors
/// The place cannot be written, holds a card that is not ours, or another export writes there.
pub fn export(
    input: &Input,
    consumer: Consumer,
    format: Format,
    settings: &config::Export,
    out: &Path,
) -> Result<Exported> {
    let selection = select::select(input, consumer, settings);
    let rows = Rows { input, consumer, selection: &selection, settings };
    let files = match format {
        Format::Parquet => layout::write_hub(out, &rows)?,
        Format::Jsonl => layout::write_jsonl(out, &rows)?,
    };
    Ok(Exported { files, rows: rows.len(), dropped: selection.dropped })
}

/// The rows of one export, made one at a time so that only a row group is held in memory.
struct Rows<'a> {
    input: &'a Input,
    consumer: Consumer,
    selection: &'a Selection<'a>,
    settings: &'a config::Export,
}

impl Rows<'_> {
    fn len(&self) -> usize {
        match self.consumer {
            Consumer::Trl => self.selection.episodes.len(),
            Consumer::VerlRl | Consumer::SweBench => self.selection.tasks.len(),
        }
    }

    /// Returns row `index` with JSON columns as the values that they hold.
    fn row(&self, index: usize) -> Value {
        let row = match self.consumer {
            Consumer::Trl => serde_json::to_value(sft::row(&self.selection.episodes[index], &self.input.tools)),
            Consumer::VerlRl => serde_json::to_value(rl::row(
                self.selection.tasks[index],
                index,
                &self.input.dataset,
                &self.settings.agent_name,
            )),
            Consumer::SweBench => serde_json::to_value(swebench::row(self.selection.tasks[index])),
        };
        row.expect("rows have string keys and finite numbers")
    }

    fn iter(&self) -> impl Iterator<Item = Value> {
        (0..self.len()).map(|index| self.row(index))
    }
}
