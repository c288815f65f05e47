//! Many small changes of one state, run in turn by forks of one process that has loaded the test runner.
//!
//! Starting a sandbox and a test runner costs more than most tests do. Here it is paid once; the price is that the runs
//! share a tree. What is still running after one is killed, but files that one leaves behind the next will find: only
//! for runs whose answer a look at the unchanged state can check.

use std::{fs, time::Duration};

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;

use super::{Request, Subject, outcome, planned, surroundings, tail, ticket::Ticket, varied, workspace};
use crate::{
    interrupt::Interrupted,
    lab::Lab,
    lang::{RESULTS, channel::Ending},
    record::{patch::Edit, suite::SuiteOutcome},
    sandbox::{self, Exit, Limits},
};

/// Name of the file that tells the runner what to go through.
const INSTRUCTIONS: &str = "series.json";

/// What came of a series.
#[derive(Debug, Default)]
pub struct Series {
    /// By member; `None` for those that were not run, or broke the series off.
    pub outcomes: Vec<Option<SuiteOutcome>>,
    pub wall: Duration,
}

/// Runs the tests of a request once per member: on the request's state, with one regular file of it changed or removed.
///
/// The request's wall time is for each member. When `budget` is used up only the last member is still run. For runners
/// of Python; nothing is run where the test runner itself is part of the tree.
///
/// # Errors
/// As [`super::run_suite`].
pub fn run_series(
    lab: &Lab,
    subject: Subject,
    request: &Request,
    members: &[Option<&Edit>],
    budget: Duration,
) -> Result<Series> {
    let Ok(surroundings) = surroundings(lab, subject) else { return Ok(Series::default()) };
    let workspace = workspace(lab, subject, request.edits)?;
    let run = planned(request);
    let issue = || Ticket::issue(&surroundings, subject.build.runner, &run, request.test_wall);
    let tickets = members.iter().map(|_| issue()).collect::<Result<Vec<_>>>()?;
    let Some(first) = tickets.first() else { return Ok(Series::default()) };
    let listed: Vec<_> = tickets
        .iter()
        .zip(members)
        .map(|(ticket, edit)| json!({"plan": ticket.instructions(), "edit": edit.map(written)}))
        .collect();
    let instructions =
        json!({"members": listed, "budget_s": budget.as_secs_f64(), "wall_s": request.wall.as_secs_f64()});
    let path = surroundings.results().join(INSTRUCTIONS);
    fs::write(&path, instructions.to_string()).with_context(|| format!("write `{}`", path.display()))?;
    // The last of the others may begin just before the budget is used up, and the last of all comes after it.
    let limits = Limits { wall: budget + 3 * request.wall, ..Limits::default() };
    let mut spec = surroundings.spec(&workspace, limits);
    spec.env.extend(varied(request.variation));
    let argv = [&first.argv[..2], &[format!("{RESULTS}/{INSTRUCTIONS}")]].concat();
    let output = sandbox::run(lab.backend, &spec, &argv)?;
    if output.exit == Exit::Interrupted {
        return Err(Interrupted.into());
    }
    let mut outcomes = Vec::new();
    for ticket in tickets {
        let parsed = ticket.results(Ending::Ended)?;
        outcomes.push(parsed.ended.then(|| outcome(request.state, Exit::Code(0), parsed, &tail(&output))));
    }
    Ok(Series { outcomes, wall: output.wall })
}

fn written(edit: &Edit) -> serde_json::Value {
    let content = edit.content.as_ref().map(|content| STANDARD.encode(content.bytes.as_bytes()));
    json!({"path": STANDARD.encode(edit.path.as_bytes()), "content": content})
}
