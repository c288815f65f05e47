//! Runs a selection of tests in an environment at a tree state. The only place where test processes are started.
//!
//! Every suite run gets a workspace, a sandbox and a results file of its own; what the runner in it reports is read by
//! [`crate::lang`]. Something that did not run is [`SuiteOutcome::NotRun`], never a set of failed tests. What a result
//! means for a task or an agent, this module does not know.

mod bytecode;
mod clock;
mod preload;
pub mod series;
mod surroundings;
mod ticket;

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use anyhow::{Context, Result};
use serde_json::json;

use crate::{
    git::{Repo, content_time},
    interrupt::Interrupted,
    lab::Lab,
    lang::{
        self, RESULTS,
        channel::{Ending, Parsed},
    },
    record::{
        environment::{Build, Language, LayerFile, Runner},
        failure::{Blame, Failure, Phase},
        patch::{Edit, FileContent},
        suite::{Company, Selection, SuiteOutcome, SuiteRun, TreeState, Variation},
    },
    sandbox::{self, Exit, Limits, Output, overlay::Workspace, session::Session},
};
pub use surroundings::{Surroundings, surroundings};
use ticket::Ticket;

const MAX_TAIL_BYTES: usize = 4_000;
/// A file of a tree, and executable.
const FILE_MODES: [u32; 2] = [0o100_644, 0o100_755];
/// What the runner scripts exit with when they cannot reach their instructions or the results file.
const CHANNEL_BROKEN: i32 = 97;

/// The repository at a base commit, with its environment.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Where the repository's objects are, bare or not.
    pub repository: &'a Path,
    pub base_commit: &'a str,
    pub build: &'a Build,
}

/// One suite run to make.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub state: TreeState,
    /// What differs from the base commit.
    pub edits: &'a [Edit],
    /// Files of a [`Selection::Files`] that do not exist in the tree are left out.
    pub selection: Selection,
    pub variation: Variation,
    pub with_stubs: bool,
    /// Limit for the whole process.
    pub wall: Duration,
    /// Limit for each test, enforced inside the process.
    pub test_wall: Duration,
}

/// Runs the tests in a fresh workspace and sandbox.
///
/// # Errors
/// [`Failure`]s of blame `Infra` only inside the outcome; an `Err` is an unusable setup or [`Interrupted`].
pub fn run_suite(lab: &Lab, subject: Subject, request: &Request) -> Result<SuiteRun> {
    let run = planned(request);
    let surroundings = match surroundings(lab, subject) {
        Ok(surroundings) => surroundings,
        Err(failure) => return Ok(SuiteRun { outcome: SuiteOutcome::NotRun(failure), ..run }),
    };
    let workspace = workspace(lab, subject, request.edits)?;
    let issue = || Ticket::issue(&surroundings, subject.build.runner, &run, request.test_wall);
    let tickets = issue().and_then(|own| {
        let other = (run.variation.company != Company::Nobody).then(issue).transpose()?;
        Ok((own, other))
    });
    let (own, other) = match tickets {
        Ok(tickets) => tickets,
        Err(error) => return Ok(SuiteRun { outcome: not_run(run.state, "results_unwritable", &error), ..run }),
    };
    let n_processes = 1 + u32::from(other.is_some());
    let mut spec = surroundings.spec(&workspace, Limits { wall: request.wall * n_processes, ..Limits::default() });
    spec.env.extend(varied(request.variation));
    spec.mounts.extend(bytecode::shown(lab, subject)?);
    let preloaded = preload::process(lab, subject, &spec);
    spec.preloaded = preloaded.as_deref();
    let argv = match &other {
        None => own.argv.clone(),
        Some(other) => in_company(&surroundings, subject.build.runner, run.variation.company, [other, &own])?,
    };
    let output = sandbox::run(lab.backend, &spec, &argv)?;
    let run = conclude(run, &own, &output)?;
    let companion = other.map(|ticket| ticket.results(Ending::Ended)).transpose()?;
    Ok(SuiteRun { companion: companion.map(|parsed| parsed.report), ..run })
}

/// Returns the record of a run that is to be made.
fn planned(request: &Request) -> SuiteRun {
    SuiteRun::empty(request.state, request.selection.clone(), request.variation, request.with_stubs)
}

/// Name of the file that tells a runner of Python of two runs.
const COMPANY: &str = "company.json";

/// Returns what starts a run's own process, after or beside another one. Its end is the end of the own.
fn in_company(
    surroundings: &Surroundings,
    runner: Runner,
    company: Company,
    [other, own]: [&Ticket; 2],
) -> Result<Vec<String>> {
    if runner.language() == Language::Python {
        // Both are forks of one process that has loaded the test runner.
        let plans = json!({ "company": company, "plans": [other.instructions(), own.instructions()] });
        let path = surroundings.results().join(COMPANY);
        fs::write(&path, plans.to_string()).with_context(|| format!("write `{}`", path.display()))?;
        return Ok([&own.argv[..2], &[format!("{RESULTS}/{COMPANY}")]].concat());
    }
    let (other, own) = (other.argv.join(" "), own.argv.join(" "));
    let script = match company {
        Company::Beside => format!("{other} & {own}; code=$?; wait; exit $code"),
        Company::Nobody | Company::Before => format!("{other}; exec {own}"),
    };
    Ok(vec!["/bin/sh".to_owned(), "-c".to_owned(), script])
}

/// Runs visible tests in an open session over its workspace, for an agent's `run_tests`.
///
/// The session must show the surroundings' mounts. A test id without an exact match stands for all tests below it. The
/// agent's own processes may still be around and can write to the results directory, and its code shares the test
/// process: what is returned is advice to the agent, never evidence for a grade.
///
/// # Errors
/// The session cannot be reopened, or [`Interrupted`].
pub fn run_in_session(
    session: &mut Session,
    surroundings: &Surroundings,
    build: &Build,
    selection: &Selection,
    wall: Duration,
) -> Result<SuiteRun> {
    let run = SuiteRun::empty(TreeState::Agent, selection.clone(), Variation::PLAIN, false);
    // One hanging test must not use up the time of all others.
    let test_wall = (wall / 4).max(Duration::from_secs(10)).min(wall);
    let ticket = Ticket::issue_loose(surroundings, build.runner, &run, test_wall)?;
    let output = session.exec(&ticket.argv.join(" "), wall)?;
    conclude(run, &ticket, &output)
}

/// Returns the command that runs visible tests in a session's shell, as an agent would type it.
pub fn visible_command(runner: Runner) -> &'static str {
    lang::visible_command(runner)
}

/// Returns a fresh workspace: the base commit's tree (with a `.git` of one synthetic root commit), the build's
/// generated files, and `edits`, which win over generated files. Times of Python files derive from their content.
///
/// # Errors
/// The repository or the cache cannot be read or written.
pub fn workspace(lab: &Lab, subject: Subject, edits: &[Edit]) -> Result<Workspace> {
    let repo = Repo::open(subject.repository)?;
    let tree = repo.tree(subject.base_commit)?;
    let template = lab.cache.publish("trees", &tree, |dir| repo.write_template(subject.base_commit, dir))?;
    let edits = layered(&subject.build.generated, edits);
    let workspace = Workspace::create(&template, &lab.cache.workspaces()?, &edits)?;
    // Cargo, for one, compares times with its last build and must see what is new.
    if subject.build.runner.language() == Language::Python {
        for edit in edits.iter().filter(|edit| edit.path.as_bytes().ends_with(b".py")) {
            if let Some(content) = &edit.content {
                workspace.set_time(edit.path.as_bytes(), content_time(content.bytes.as_bytes())?)?;
            }
        }
    }
    Ok(workspace)
}

/// Returns generated files as edits, with `edits` over them; each path once.
fn layered(generated: &[LayerFile], edits: &[Edit]) -> Vec<Edit> {
    let mut layers = BTreeMap::new();
    for file in generated {
        let mode = FILE_MODES[usize::from(file.executable)];
        let content = Some(FileContent { mode, bytes: file.content.clone() });
        layers.insert(&file.path, Edit { path: file.path.clone(), content });
    }
    for edit in edits {
        layers.insert(&edit.path, edit.clone());
    }
    layers.into_values().collect()
}

/// Returns the environment that a variation sets.
fn varied(variation: Variation) -> Vec<(String, String)> {
    let mut variables = clock::variables(variation);
    variables.extend([
        ("PYTHONHASHSEED".to_owned(), variation.hash_seed.to_string()),
        // The runner creates it.
        ("TMPDIR".to_owned(), format!("/tmp/t{}", variation.temp)),
    ]);
    variables
}

/// Reads the results and says what came of the run.
fn conclude(run: SuiteRun, ticket: &Ticket, output: &Output) -> Result<SuiteRun> {
    let output_tail = tail(output);
    let ending = match output.exit {
        Exit::Interrupted => return Err(Interrupted.into()),
        Exit::TimedOut => Ending::TimedOut,
        Exit::OutOfMemory => Ending::OutOfMemory,
        Exit::Code(_) | Exit::Signal(_) | Exit::Lost => Ending::Ended,
    };
    let parsed = ticket.results(ending)?;
    let outcome = outcome(run.state, output.exit, parsed, &output_tail);
    let wall_ms = u64::try_from(output.wall.as_millis()).unwrap_or(u64::MAX);
    Ok(SuiteRun { outcome, wall_ms, output_tail, ..run })
}

fn outcome(state: TreeState, exit: Exit, parsed: Parsed, tail: &str) -> SuiteOutcome {
    let detail = if tail.trim().is_empty() { format!("no output; it ended with {exit:?}") } else { tail.to_owned() };
    let failed = |kind: &str, blame| SuiteOutcome::NotRun(Failure::new(phase(state), kind, blame, detail.as_str()));
    match exit {
        Exit::Lost => failed("sandbox_lost", Blame::Infra),
        Exit::Code(CHANNEL_BROKEN) if !parsed.started => failed("results_unwritable", Blame::Infra),
        _ if parsed.started && !parsed.broken => SuiteOutcome::Ran(parsed.report),
        Exit::TimedOut => failed("runner_timed_out", Blame::Repo),
        Exit::OutOfMemory => failed("runner_out_of_memory", Blame::Repo),
        Exit::Code(_) | Exit::Signal(_) | Exit::Interrupted => failed("runner_failed", Blame::Repo),
    }
}

fn not_run(state: TreeState, kind: &str, error: &anyhow::Error) -> SuiteOutcome {
    SuiteOutcome::NotRun(Failure::new(phase(state), kind, Blame::Infra, format!("{error:#}")))
}

fn phase(state: TreeState) -> Phase {
    match state {
        TreeState::Base | TreeState::Before | TreeState::After => Phase::Validate,
        TreeState::Agent => Phase::Grade,
    }
}

/// Returns the last lines of both streams, standard error last, at most [`MAX_TAIL_BYTES`].
fn tail(output: &Output) -> String {
    let mut text = output.stdout.text();
    let errors = output.stderr.text();
    if !text.is_empty() && !text.ends_with('\n') && !errors.is_empty() {
        text.push('\n');
    }
    text.push_str(&errors);
    let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_TAIL_BYTES));
    text.split_off(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{lang::channel, process::Capture, record::suite::Report};

    fn output(exit: Exit, stdout: &str, stderr: &str) -> Output {
        let capture =
            |text: &str| Capture { head: text.as_bytes().to_vec(), tail: Vec::new(), total_bytes: text.len() as u64 };
        Output { exit, stdout: capture(stdout), stderr: capture(stderr), wall: Duration::ZERO }
    }

    #[test]
    fn edits_win_over_generated_files() {
        let file = |path: &str, text: &str| LayerFile { path: path.into(), content: text.into(), executable: true };
        let edit = Edit { path: "b".into(), content: None };
        let edits = layered(&[file("a", "1"), file("b", "2")], std::slice::from_ref(&edit));
        assert_eq!(edits.len(), 2);
        assert_eq!(edits[0].content.as_ref().map(|content| content.mode), Some(0o100_755));
        assert_eq!(edits[1], edit);
    }

    #[test]
    fn what_did_not_run_is_never_a_report() {
        let kind = |exit, parsed| match outcome(TreeState::Before, exit, parsed, "tail") {
            SuiteOutcome::Ran(_) => "ran".to_owned(),
            SuiteOutcome::NotRun(failure) => format!("{} {:?}", failure.kind, failure.blame),
        };
        let started = || Parsed { started: true, ..Parsed::default() };
        assert_eq!(kind(Exit::Lost, started()), "sandbox_lost Infra");
        assert_eq!(kind(Exit::Code(97), Parsed::default()), "results_unwritable Infra");
        assert_eq!(kind(Exit::Code(0), Parsed::default()), "runner_failed Repo");
        assert_eq!(kind(Exit::Code(4), Parsed { broken: true, ..started() }), "runner_failed Repo");
        assert_eq!(kind(Exit::TimedOut, Parsed::default()), "runner_timed_out Repo");
        assert_eq!(kind(Exit::OutOfMemory, Parsed::default()), "runner_out_of_memory Repo");
        for exit in [Exit::Code(1), Exit::Code(97), Exit::Signal(11), Exit::TimedOut, Exit::OutOfMemory] {
            assert_eq!(kind(exit, started()), "ran");
        }
        let empty = outcome(TreeState::After, Exit::Code(5), started(), "");
        assert_eq!(empty, SuiteOutcome::Ran(Report::default()));
        assert_eq!(channel::parse(b"", "", Ending::Ended), Parsed::default());
    }

    #[test]
    fn the_tail_keeps_whole_characters_and_ends_with_standard_error() {
        let text = tail(&output(Exit::Code(1), &"é".repeat(4_000), "usage"));
        assert!(text.len() <= MAX_TAIL_BYTES && text.ends_with("é\nusage"));
    }
}
