//! Compiled Python modules of trees, shared by all states and commits that have an environment in common.
//!
//! Python and pytest believe a compiled module if the time and size of its source are those that it was made from. File
//! times are derived from the content here, so what was compiled for one commit serves every other in which the file is
//! the same, and no other. It is written once per environment and repository, by a run that imports the tests and runs
//! none; afterwards it is shown read-only. Where a module is missing, or of another content, Python compiles as ever.

use std::{path::Path, time::Duration};

use anyhow::Result;

use super::{Request, Subject, planned, surroundings, surroundings::mount, ticket::Ticket, varied, workspace};
use crate::{
    interrupt::Interrupted,
    lab::Lab,
    lang::BYTECODE,
    record::{
        environment::Runner,
        id::Digest,
        suite::{Selection, TreeState, Variation},
    },
    sandbox::{self, Exit, Limits, Mount},
};

/// Directory of the cache.
const KIND: &str = "bytecode";
/// Limit for importing all tests; what was compiled until then is kept.
const WALL: Duration = Duration::from_mins(2);

/// Returns what shows a subject's compiled modules in its sandboxes; made if it is not there yet.
///
/// # Errors
/// The cache cannot be written, a sandbox cannot be started, or [`Interrupted`].
pub fn shown(lab: &Lab, subject: Subject) -> Result<Option<Mount>> {
    if subject.build.runner != Runner::Pytest {
        return Ok(None);
    }
    let repository = subject.repository.as_os_str().as_encoded_bytes();
    let key = Digest::of(&[subject.build.environment.key.as_str().as_bytes(), repository]);
    let directory = lab.cache.publish(KIND, key.as_str(), |directory| compile(lab, subject, directory))?;
    Ok(Some(mount(directory, BYTECODE, false)))
}

fn compile(lab: &Lab, subject: Subject, directory: &Path) -> Result<()> {
    // Of its own: another run's would still hold our results.
    let Ok(surroundings) = surroundings(lab, subject) else { return Ok(()) };
    let nothing = Request {
        state: TreeState::Base,
        edits: &[],
        selection: Selection::Tests(Vec::new()),
        variation: Variation::PLAIN,
        with_stubs: false,
        wall: WALL,
        test_wall: WALL,
    };
    let workspace = workspace(lab, subject, &[])?;
    let ticket = Ticket::issue(&surroundings, subject.build.runner, &planned(&nothing), WALL)?;
    let mut spec = surroundings.spec(&workspace, Limits { wall: WALL, ..Limits::default() });
    spec.env.extend(varied(Variation::PLAIN));
    spec.mounts.push(mount(directory.to_owned(), BYTECODE, true));
    let output = sandbox::run(lab.backend, &spec, &ticket.argv)?;
    if output.exit == Exit::Interrupted {
        return Err(Interrupted.into());
    }
    // Whatever came of it: a tree whose tests cannot be imported compiles less, and each run says so itself.
    Ok(())
}
