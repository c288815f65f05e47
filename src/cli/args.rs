//! Flags. Help texts are one sentence without a full stop.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

use super::mine::date;
use crate::{
    config::{Limit, MineUnit, bounds, dataset_name},
    export::{Consumer, Format},
    record::episode::PolicyName,
};

/// Turn a repository's git history into training data for coding agents
#[derive(Debug, Parser)]
#[command(name = "curate", version, propagate_version = true, after_help = super::exit::HELP)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Print results as JSON on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// Print neither progress nor messages
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Workers, each running one sandbox at a time; the default is the number of cores
    #[arg(long, short, global = true, value_name = "N", value_parser = number::<usize>("jobs"))]
    pub jobs: Option<usize>,
    /// Start pytest anew for every run instead of forking a process that has loaded it
    #[arg(long, global = true)]
    pub no_preload: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make tasks from history: select commits, build environments, validate by execution, write issue texts
    Mine(Mine),
    /// Let a policy attempt the tasks, and grade what it did
    Rollout(Rollout),
    /// Write a dataset for a consumer
    Export(Export),
    /// Run all stages as a configuration file says
    Run(Run),
    /// Grade one patch on one task
    Grade(Grade),
    /// Execute tasks again from rebuilt environments: the gold patch must score 1, no patch 0
    Verify(Verify),
    /// Print the dataset's tables and write report.html
    Report(Report),
    /// Print what is done and failed, and what is left of the last mine, rollout and run
    Status(Status),
    /// Print everything known of a commit, a task or an episode; without one, list the tasks
    Why(Why),
    /// Say what this machine can do, and what mends each lack
    Doctor,
    /// Say what the cache holds; with `gc`, remove what was not used for long
    Cache(Cache),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum StopAfter {
    Select,
    Build,
    Validate,
    #[default]
    Issue,
}

#[derive(Args, Debug)]
pub struct Mine {
    /// Repository: a path (bare or not), a URL, or a name from repos/
    #[arg(long, value_name = "PATH|URL|NAME")]
    pub repo: String,
    /// Dataset to write: a name below datasets/, or a path; the default is the repository's name
    #[arg(long, value_name = "NAME|PATH", value_parser = dataset_name)]
    pub dataset: Option<String>,
    /// Branch, tag or commit to walk from
    #[arg(long)]
    pub branch: Option<String>,
    /// Only commits at or after this day (YYYY-MM-DD)
    #[arg(long, value_name = "DAY", value_parser = date)]
    pub since: Option<String>,
    /// Only commits before this day
    #[arg(long, value_name = "DAY", value_parser = date)]
    pub until: Option<String>,
    /// Candidates to keep, newest first; or tasks to make, from the likeliest candidates on (`20tasks`, `"20 tasks"`)
    #[arg(long, value_name = "N|N tasks")]
    pub limit: Option<Limit>,
    /// Exactly these commits, or @FILE with one a line
    #[arg(long, value_name = "SHA|@FILE", num_args = 1.., value_delimiter = ',')]
    pub commits: Vec<String>,
    /// What one change is
    #[arg(long, value_enum)]
    pub unit: Option<MineUnit>,
    /// Tiers to keep: 1 is at most 5 source files and 200 changed lines, 2 at most 15 and 500
    #[arg(long, value_name = "TIER", num_args = 1.., value_delimiter = ',', value_parser = number::<u8>("tiers"))]
    pub tiers: Vec<u8>,
    /// Changed source files, at most
    #[arg(long, value_name = "N", value_parser = number::<u32>("max_source_files"))]
    pub max_source_files: Option<u32>,
    /// Changed source lines, at most
    #[arg(long, value_name = "N", value_parser = number::<u32>("max_source_lines"))]
    pub max_source_lines: Option<u32>,
    /// Runs of each state besides the first
    #[arg(long, value_name = "N", value_parser = number::<u32>("repeats"))]
    pub repeats: Option<u32>,
    /// Last step to take
    #[arg(long, value_enum, default_value_t)]
    pub stop_after: StopAfter,
    /// Fetch a URL's mirror again
    #[arg(long)]
    pub refresh: bool,
}

#[derive(Args, Debug)]
pub struct Dataset {
    /// Dataset: a name below datasets/, or a path
    #[arg(long, value_name = "NAME|PATH", value_parser = dataset_name)]
    pub dataset: Option<String>,
}

#[derive(Args, Debug)]
pub struct Rollout {
    #[command(flatten)]
    pub dataset: Dataset,
    /// Who acts
    #[arg(long, value_enum)]
    pub policy: PolicyName,
    /// Attempts at each task
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = number::<u32>("samples"))]
    pub samples: u32,
    /// Seed of every seeded choice
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Only these tasks
    #[arg(long, value_name = "ID", num_args = 1..)]
    pub task: Vec<String>,
    /// Tasks to attempt, at most
    #[arg(long, value_name = "N", value_parser = number::<usize>("limit"))]
    pub limit: Option<usize>,
    /// Replies that an episode may take, at most
    #[arg(long, value_name = "N", value_parser = number::<u32>("max_steps"))]
    pub max_steps: Option<u32>,
    /// Print one task's steps as they happen; takes the first task if none is named
    #[arg(long)]
    pub trace: bool,
}

#[derive(Args, Debug)]
pub struct Export {
    #[command(flatten)]
    pub dataset: Dataset,
    /// Who reads the data
    #[arg(long = "for", value_enum, value_name = "CONSUMER")]
    pub consumer: Consumer,
    /// Directory to write, or one file ending in .jsonl; the default is exports/<consumer> in the dataset
    #[arg(long, value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// File format; the default is Parquet, or what the ending of `--out` says
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Policies whose episodes may be imitated, besides those that are by default
    #[arg(long, value_enum, value_name = "POLICY", num_args = 1..)]
    pub include_policy: Vec<PolicyName>,
}

#[derive(Args, Debug)]
pub struct Run {
    /// Configuration file
    pub config: PathBuf,
    /// Dataset to write instead of the file's
    #[arg(long, value_name = "NAME|PATH", value_parser = dataset_name)]
    pub dataset: Option<String>,
    /// Fail if any outcome, label, stop reason or reward differs from this dataset's outcomes.json
    #[arg(long, value_name = "DATASET")]
    pub compare_to: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Grade {
    #[command(flatten)]
    pub dataset: Dataset,
    /// Task to grade on
    #[arg(long, value_name = "ID")]
    pub task: String,
    /// File with a unified git diff, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub patch: PathBuf,
}

#[derive(Args, Debug)]
pub struct Verify {
    #[command(flatten)]
    pub dataset: Dataset,
    /// Only these tasks
    #[arg(long, value_name = "ID", num_args = 1..)]
    pub task: Vec<String>,
}

#[derive(Args, Debug)]
pub struct Report {
    #[command(flatten)]
    pub dataset: Dataset,
    /// Page to write; the default is report.html in the dataset
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Status {
    #[command(flatten)]
    pub dataset: Dataset,
}

#[derive(Args, Debug)]
pub struct Why {
    /// Commit (full or abbreviated), task or episode; without it the tasks are listed
    pub subject: Option<String>,
    #[command(flatten)]
    pub dataset: Dataset,
}

#[derive(Args, Debug)]
pub struct Cache {
    #[command(subcommand)]
    pub action: Option<CacheAction>,
}

#[derive(Debug, Subcommand)]
pub enum CacheAction {
    /// Remove environments, trees, resolutions and mirrors, the longest unused first
    Gc(Gc),
}

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("what").args(["older_than", "max_gb"]).required(true).multiple(true))]
pub struct Gc {
    /// Everything that was not used for so many days
    #[arg(long, value_name = "DAYS", value_parser = number::<u64>("older_than"))]
    pub older_than: Option<u64>,
    /// Until the whole cache is no larger than so many GB
    #[arg(long, value_name = "GB", value_parser = gigabytes, allow_negative_numbers = true)]
    pub max_gb: Option<f64>,
    /// Only say what would go
    #[arg(long)]
    pub dry_run: bool,
}

/// Returns the parser of a number within the bounds of a setting.
fn number<T: TryFrom<u64>>(setting: &'static str) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| bounds::number(setting, text)
}

/// Parses a size in GB, fractions too.
fn gigabytes(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|gb: &f64| gb.is_finite() && *gb >= 0.0);
    number.ok_or_else(|| "it must be a number of GB, like 20 or 0.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_bounds_and_names_of_no_dataset_are_bad_usage() {
        for arguments in [
            "mine --repo x --tiers 3",
            "mine --repo x --repeats 0",
            "mine --repo x --limit 99999999999999999999",
            "mine --repo x --dataset ..",
            "rollout --policy noop --max-steps 0",
            "rollout --policy noop --samples 10001",
            "mine --repo x --since yesterday",
            "mine --repo x --until 9999-12-31",
            "status --dataset .",
            "status --dataset=",
            "cache gc --older-than 18446744073709551615",
            "cache gc --max-gb -1",
            "cache gc --max-gb nan",
            "cache gc",
        ] {
            let parsed = Cli::try_parse_from(format!("curate {arguments}").split(' '));
            assert_eq!(parsed.map(drop).map_err(|error| error.exit_code()), Err(2), "{arguments}");
        }
        let usage = Cli::try_parse_from(["curate", "cache", "gc"]).unwrap_err().to_string();
        assert!(usage.contains("--older-than") && usage.contains("--max-gb"), "{usage}");
        Cli::try_parse_from("curate cache gc --max-gb 0.5 --older-than 30".split(' ')).unwrap();
        Cli::try_parse_from("curate mine --repo x --tiers 1,2 --limit 20tasks".split(' ')).unwrap();
    }
}
