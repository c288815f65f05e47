//! Typed settings of every stage. Flags override the file, the file overrides the defaults; unknown keys are errors,
//! and so are values out of [`bounds`].

pub mod bounds;

use std::{fmt, path::Path, str::FromStr};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Visitor};

use crate::record::episode::PolicyName;

/// A whole run: one dataset through all stages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    /// Dataset to write; the default is the file's name without its ending.
    pub dataset: Option<String>,
    /// Repositories to mine: paths, URLs or names.
    pub repos: Vec<String>,
    pub mine: Mine,
    pub build: Build,
    pub validate: Validate,
    pub rollout: Rollout,
    pub grade: Grade,
    pub export: Export,
    pub episodes: Vec<Episodes>,
    pub exports: Vec<ExportRun>,
}

impl Run {
    /// Reads a TOML file.
    ///
    /// # Errors
    /// It cannot be read, is not TOML, has an unknown key, a wrong type or a value out of bounds, or names no repository;
    /// the message names the place.
    pub fn read(path: &Path) -> Result<Run> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read config `{}`", path.display()))?;
        Run::parse(&text).with_context(|| format!("understand config `{}`", path.display()))
    }

    fn parse(text: &str) -> Result<Run> {
        bounds::check(&text.parse()?).map_err(|why| anyhow!(why))?;
        let run: Run = toml::from_str(text)?;
        if run.repos.is_empty() {
            bail!("it names no repository: `repos` must list paths, URLs or names of repositories");
        }
        if let Some((_, repo)) = run.repos.iter().enumerate().find(|(index, repo)| run.repos[..*index].contains(repo)) {
            bail!("`repos` lists `{repo}` twice: leave one of them out");
        }
        if let Some(name) = &run.dataset {
            dataset_name(name).map_err(|why| anyhow!("`dataset = \"{name}\"`: {why}"))?;
        }
        Ok(run)
    }
}

/// Checks how a dataset is called.
///
/// # Errors
/// Neither a name nor a path that ends in one.
pub fn dataset_name(text: &str) -> Result<String, String> {
    match Path::new(text).file_name() {
        Some(name) if name.as_encoded_bytes()[0] == b'-' || text.contains(char::is_control) => {
            Err("the name of a dataset neither begins with `-` nor holds control characters".to_owned())
        }
        Some(_) => Ok(text.to_owned()),
        None => {
            Err("a dataset is a name below `datasets/`, like `demo`, or a path with a `/` that ends in a name, like \
                     `./demo`"
                .to_owned())
        }
    }
}

/// Episodes of one policy on every task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Episodes {
    pub policy: PolicyName,
    #[serde(default = "one")]
    pub samples: u32,
    #[serde(default)]
    pub seed: u64,
}

fn one() -> u32 {
    1
}

/// One export to write below `exports/`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportRun {
    /// Consumer: `trl`, `verl-rl`, `swebench`.
    #[serde(rename = "for")]
    pub consumer: String,
    /// `parquet` or `jsonl`.
    #[serde(default)]
    pub format: Option<String>,
}

/// What `mine` selects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mine {
    /// Branch, tag or commit to walk from; the default is `HEAD`.
    pub branch: Option<String>,
    /// Only commits at or after this day (`YYYY-MM-DD`) or instant (RFC 3339).
    pub since: Option<String>,
    /// Only commits before this day or instant.
    pub until: Option<String>,
    /// Candidates to keep, newest first (`100`); or tasks to make, of the likeliest candidates first (`"20 tasks"`).
    pub limit: Option<Limit>,
    /// Exactly these commits, instead of a walk.
    pub commits: Vec<String>,
    /// `change`: the first-parent line, merges as one change, plus the branch commits of merges too large to be one
    /// task; `commit`: every non-merge commit.
    pub unit: MineUnit,
    pub max_source_files: u32,
    pub max_source_lines: u32,
    /// Test and other files together.
    pub max_files: u32,
    /// A changed file above this size rejects its commit, bytes.
    pub max_file_bytes: u64,
    /// Tiers to keep.
    pub tiers: Vec<u8>,
}

/// Where mining stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Candidates(usize),
    Tasks(usize),
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Limit::Candidates(number) => serializer.serialize_u64(*number as u64),
            Limit::Tasks(number) => serializer.serialize_str(&format!("{number} tasks")),
        }
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Limit, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Limit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of candidates, or a text like \"20 tasks\"")
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Limit, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Limit, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Limit, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Text)
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Limit, String> {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        if number.is_empty() {
            return Err(format!("`{text}` does not begin with a number"));
        }
        let number = bounds::number("limit", number)?;
        match unit.trim() {
            "" | "candidate" | "candidates" => Ok(Limit::Candidates(number)),
            "task" | "tasks" => Ok(Limit::Tasks(number)),
            other => Err(format!("`{other}` is neither `candidates` nor `tasks`")),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MineUnit {
    #[default]
    Change,
    Commit,
}

impl Default for Mine {
    fn default() -> Mine {
        Mine {
            branch: None,
            since: None,
            until: None,
            limit: None,
            commits: Vec::new(),
            unit: MineUnit::Change,
            max_source_files: 15,
            max_source_lines: 500,
            max_files: 60,
            max_file_bytes: 4 << 20,
            tiers: vec![1, 2],
        }
    }
}

/// What an attempt may use up, and how many are made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rollout {
    /// Policy replies.
    pub max_steps: u32,
    /// Whole conversation, estimated at four bytes a token where the policy reports none.
    pub max_tokens: u64,
    pub max_wall_s: u64,
    /// For one command or one run of the visible tests.
    pub command_s: u64,
}

impl Default for Rollout {
    fn default() -> Rollout {
        Rollout { max_steps: 40, max_tokens: 200_000, max_wall_s: 1_800, command_s: 180 }
    }
}

/// Time limits of grading. The whole run may take `wall_factor` times what the fixed state took in validation, but at
/// least `min_wall_s`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grade {
    pub min_wall_s: u64,
    pub wall_factor: u64,
    /// For each test.
    pub test_wall_s: u64,
}

impl Default for Grade {
    fn default() -> Grade {
        Grade { min_wall_s: 60, wall_factor: 10, test_wall_s: 60 }
    }
}

/// Which rows an export keeps and how its files are cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Export {
    /// Policies whose episodes are imitated; the oracle applies the gold patch and shows no work of its own.
    pub policies: Vec<PolicyName>,
    /// Whether SFT rows must be resolved.
    pub only_resolved: bool,
    /// SPDX expressions to keep; empty keeps every task, also one whose licence is unknown.
    pub licenses: Vec<String>,
    /// Episodes with one of these grade flags are dropped.
    pub drop_flags: Vec<String>,
    /// Strings that chat templates take for control tokens; an episode that holds one is flagged.
    pub control_tokens: Vec<String>,
    /// Whether flagged episodes are dropped from SFT.
    pub drop_control_tokens: bool,
    /// Longest SFT episode, tokens as the episode counts them.
    pub max_tokens: Option<u64>,
    /// A row above this size is dropped: a cell of more makes viewers and readers fail, bytes.
    pub max_row_bytes: u64,
    /// Uncompressed size of a row group; the Hub's viewer refuses to scan 300 MB at once, bytes.
    pub row_group_bytes: u64,
    /// Uncompressed size of a shard, as the `datasets` library cuts its own, bytes.
    pub shard_bytes: u64,
    /// The agent loop that verl runs on a row; its own default works on a single reply.
    pub agent_name: String,
}

impl Default for Export {
    fn default() -> Export {
        Export {
            policies: vec![PolicyName::Mock],
            only_resolved: true,
            licenses: Vec::new(),
            drop_flags: Vec::new(),
            control_tokens: CONTROL_TOKENS.iter().map(|&token| token.to_owned()).collect(),
            drop_control_tokens: true,
            max_tokens: None,
            max_row_bytes: 16 << 20,
            row_group_bytes: 32 << 20,
            shard_bytes: 500_000_000,
            agent_name: "single_turn_agent".to_owned(),
        }
    }
}

/// Control tokens of the ChatML, Qwen, Llama 3, GLM, DeepSeek, Mistral and gpt-oss families.
const CONTROL_TOKENS: [&str; 22] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|python_tag|>",
    "<|start|>",
    "<|end|>",
    "<|channel|>",
    "<|message|>",
    "<|call|>",
    "<|return|>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<｜end▁of▁sentence｜>",
    "[/INST]",
];

/// How candidates are validated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Validate {
    /// Runs of each state besides the first, each with its own order, hash seed and temporary directory; the last one is
    /// of the whole suite, in its own order.
    pub repeats: u32,
    /// Limit for one test of the fixed state, seconds; other states get a multiple of what the fixed one needed.
    pub test_s: u64,
    /// Limit for one process of the fixed state, seconds. A whole suite that needs longer is replaced by the touched
    /// files' suite.
    pub suite_s: u64,
    /// Variants of the fix, without a hunk or with a small fault, on which the fail-to-pass tests of one task are tried; a
    /// third of it in languages where each costs a compilation, 0 for none.
    pub strength_runs: u32,
}

impl Default for Validate {
    fn default() -> Validate {
        Validate { repeats: 3, test_s: 60, suite_s: 300, strength_runs: 16 }
    }
}

/// How environments are built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Build {
    /// Limit for building the project itself, seconds.
    pub project_timeout_s: u64,
    /// Limit for one resolution, seconds.
    pub resolve_timeout_s: u64,
    /// Interpreters to climb the ladder with, best first.
    pub max_interpreters: usize,
    /// Days in which commits share a cut-off, where what they need can be had as of the first of these days; 1: every
    /// commit has its own.
    pub share_days: u32,
}

impl Default for Build {
    fn default() -> Build {
        Build { project_timeout_s: 300, resolve_timeout_s: 300, max_interpreters: 3, share_days: 91 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_counts_candidates_unless_it_says_tasks() {
        for (text, expected) in [
            ("20", Limit::Candidates(20)),
            ("20 candidates", Limit::Candidates(20)),
            ("20tasks", Limit::Tasks(20)),
            ("1 task", Limit::Tasks(1)),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in ["", "0", "0 tasks", "tasks", "20 commits", "-1"] {
            assert!(text.parse::<Limit>().is_err(), "{text}");
        }
        let read = |text: &str| toml::from_str::<Mine>(text).map(|mine| mine.limit);
        assert_eq!(read("limit = 3").unwrap(), Some(Limit::Candidates(3)));
        assert_eq!(read("limit = '3 tasks'").unwrap(), Some(Limit::Tasks(3)));
        assert!(read("limit = 0").is_err());
        assert_eq!(serde_json::to_string(&Limit::Candidates(3)).unwrap(), "3");
        let too_large = "99999999999999999999".parse::<Limit>().unwrap_err();
        assert_eq!(too_large, "it must be a whole number from 1 to 1000000000");
        let wrong_type = read("limit = true").unwrap_err().to_string();
        assert!(wrong_type.contains("a number of candidates, or a text like \"20 tasks\""), "{wrong_type}");
    }

    #[test]
    fn a_configuration_names_repositories_and_a_dataset_that_can_be_one() {
        let refused = |text: &str| Run::parse(text).unwrap_err().to_string();
        assert!(refused("").contains("names no repository") && refused("repos = []").contains("`repos = []`"));
        for name in ["", ".", "..", "../..", "/", "a/.."] {
            assert!(
                refused(&format!("repos = ['demo']\ndataset = '{name}'")).contains("a dataset is a name"),
                "{name}"
            );
        }
        for name in ["-x", "./-x", "a\tb"] {
            assert!(refused(&format!("repos = ['demo']\ndataset = '{name}'")).contains("control characters"), "{name}");
        }
        assert!(refused("repos = ['demo', 'a', 'demo']").contains("lists `demo` twice"));
        for name in ["demo", "./demo", "/data/demo/"] {
            Run::parse(&format!("repos = ['demo']\ndataset = '{name}'")).unwrap();
        }
    }
}
