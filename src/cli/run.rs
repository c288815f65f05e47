//! `curate run`: all stages from one configuration file.

use std::fs;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::{
    cache::Cache,
    config,
    console::counted,
    export::{self, Consumer, Format},
    files,
    record::id::Digest,
    report,
    sources::{self, Source},
};

use super::{
    Session,
    args::{self, StopAfter},
    dataset::{self, Records},
    exit::Exit,
    mine,
    outcomes::Outcomes,
    output, rollout,
};

/// Holds the digest of what the exports and the report were last made of.
const MADE_OF: &str = ".made-of";

/// Differences printed, at most.
const MAX_DIFFERENCES: usize = 20;

pub fn command(session: &Session, flags: &args::Run) -> Result<Exit> {
    let run = config::Run::read(&flags.config)?;
    let exports = exports(&run)?;
    let expected = flags.compare_to.as_deref().map(Outcomes::read).transpose()?;
    let cache = Cache::open()?;
    let stem = || flags.config.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let Some(name) = flags.dataset.clone().or_else(|| run.dataset.clone()).or_else(stem) else {
        bail!("name the dataset: `{}` has no file name", flags.config.display());
    };
    let resolve = |repo: &String| -> Result<Source> {
        let source = sources::resolve(&cache, repo, false)?;
        mine::check(&source, &run.mine)?;
        Ok(source)
    };
    let sources = run.repos.iter().map(resolve).collect::<Result<Vec<_>>>()?;
    let store = dataset::create(&name)?;
    output::write_manifest(&store, "run", &run)?;
    let mut worked = 0;
    for source in sources {
        worked += mine::mine(session, &cache, &store, &source, &run, StopAfter::Issue)?;
    }
    let records = Records::load(&store)?;
    worked += rollout::episodes(session, &cache, &store, &records.tasks(), &run, &|_| ())?;
    let records = Records::load(&store)?;
    let outcomes = Outcomes::of(&records);
    let page = store.dir().join("report.html");
    let made_of = Digest::of_json(&(env!("CARGO_PKG_VERSION"), store.heads()?, &run.export, &run.exports));
    let mark = store.dir().join(MADE_OF);
    let done_before = worked == 0
        && fs::read_to_string(&mark).is_ok_and(|text| text == made_of.to_string())
        && page.is_file()
        && store.dir().join("outcomes.json").is_file();
    let mut paths = Vec::new();
    let input = output::export_input(&store, &records)?;
    for (consumer, format) in exports {
        let out = output::export_path(&store, consumer);
        if !done_before || !out.exists() {
            export::export(&input, consumer, format, &run.export, &out)?;
        }
        paths.push(out);
    }
    let summary = output::report(&store, &records, (!done_before).then_some(&page))?;
    if done_before {
        session.console.message("Nothing to do: everything was done before.");
    } else {
        outcomes.write(store.dir())?;
        files::write(&mark, made_of.to_string().as_bytes())?;
    }
    paths.push(page);
    let lines: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    session.result(&summary, &format!("{}\n{}", report::text(&summary), lines.join("\n")))?;
    let differences = expected.map(|expected| outcomes.differences(&expected)).unwrap_or_default();
    for line in differences.iter().take(MAX_DIFFERENCES) {
        session.console.message(line);
    }
    if !differences.is_empty() {
        let verb = if differences.len() == 1 { "differs" } else { "differ" };
        let n_outcomes = counted(differences.len(), "outcome");
        session.console.message(&format!("{n_outcomes} {verb} from those to compare with."));
        return Ok(Exit::Differs);
    }
    Ok(if records.tasks().is_empty() { Exit::NothingUsable } else { Exit::Done })
}

/// Parses the exports early, so that a wrong name does not surface after an hour.
fn exports(run: &config::Run) -> Result<Vec<(Consumer, Format)>> {
    let names = |values: &[&str]| values.join(", ");
    let consumers = Consumer::ALL.map(Consumer::name);
    let parse = |export: &config::ExportRun| -> Result<(Consumer, Format)> {
        let Ok(consumer) = Consumer::from_str(&export.consumer, false) else {
            bail!("export for `{}`: known are {}", export.consumer, names(&consumers));
        };
        let format = export.format.as_deref().unwrap_or("parquet");
        let Ok(format) = Format::from_str(format, false) else {
            bail!("export as `{format}`: known are parquet, jsonl")
        };
        Ok((consumer, format))
    };
    run.exports.iter().map(parse).collect()
}
