//! Runs a selection of tests in an environment at a tree state. The only place where test processes are started.

use std::{path::Path, time::Duration};

use anyhow::Result;

use crate::{
    lab::Lab,
    record::{
        environment::Build,
        failure::Failure,
        patch::Edit,
        suite::{Selection, SuiteRun, TreeState, Variation},
    },
    sandbox::{Mount, overlay::Workspace, session::Session},
};

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
/// [`Failure`]s of blame `Infra` only inside the outcome; an `Err` is an unusable setup.
pub fn run_suite(_lab: &Lab, _subject: Subject, _request: &Request) -> Result<SuiteRun> {
    todo!()
}

/// Returns a fresh workspace: the base commit's tree (with a `.git` of one synthetic root commit), the build's
/// generated files, and `edits`.
///
/// # Errors
/// The repository or the cache cannot be read or written.
pub fn workspace(_lab: &Lab, _subject: Subject, _edits: &[Edit]) -> Result<Workspace> {
    todo!()
}

/// What a sandbox for this subject shows and sets besides the workspace: interpreter, environment, metadata, our
/// runner files, a results directory.
#[derive(Debug)]
pub struct Surroundings {
    pub mounts: Vec<Mount>,
    pub env: Vec<(String, String)>,
    /// Host side of the results directory and of the metadata; removed on drop.
    pub scratch: tempfile::TempDir,
}

/// # Errors
/// The environment cannot be rebuilt from its lock (a [`Failure`]).
pub fn surroundings(_lab: &Lab, _subject: Subject) -> Result<Surroundings, Failure> {
    todo!()
}

/// Runs visible tests in an open session over its workspace, for an agent's `run_tests`.
///
/// # Errors
/// The session cannot be reopened.
pub fn run_in_session(
    _session: &mut Session,
    _surroundings: &Surroundings,
    _build: &Build,
    _selection: &Selection,
    _wall: Duration,
) -> Result<SuiteRun> {
    todo!()
}
