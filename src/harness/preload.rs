//! Test runners that are loaded once for many runs: one process for each environment and set of variables.

use std::{fs, sync::Arc};

use anyhow::{Context, Result};

use super::{Subject, surroundings};
use crate::{
    lab::Lab,
    lang::{self, Preload},
    record::id::Digest,
    sandbox::{METADATA, Spec, preload::Preloaded},
};

/// Variables that a fork sets for itself, and which decide nothing before.
const OF_A_RUN: [&str; 2] = ["TMPDIR", "TZ"];

/// Returns a process that has loaded a subject's test runner under the variables of `run`; `None` where that cannot be
/// done, and a run has to start from nothing.
pub fn process(lab: &Lab, subject: Subject, run: &Spec) -> Option<Arc<Preloaded>> {
    let preload = lang::preload(subject.build)?;
    let mut variables = run.env.clone();
    variables.retain(|(name, _)| !OF_A_RUN.contains(&name.as_str()));
    let key = Digest::of_json(&(&subject.build.environment.key, &variables));
    lab.preloaded.get(key.as_str(), || start(lab, subject, &preload, variables))
}

fn start(lab: &Lab, subject: Subject, preload: &Preload, env: Vec<(String, String)>) -> Result<Preloaded> {
    let surroundings = surroundings(lab, subject)?;
    let empty = surroundings.scratch.path().join("empty");
    fs::create_dir(&empty).with_context(|| format!("create `{}`", empty.display()))?;
    // What is the project's own stays out of sight.
    let own = |inside: &std::path::Path| [METADATA, lang::RESULTS].iter().any(|place| inside.starts_with(place));
    let mut mounts = surroundings.mounts;
    mounts.retain(|mount| !own(&mount.inside));
    mounts.push(super::surroundings::mount(empty, &preload.covered, false));
    let spec = Spec { mounts, env, ..Spec::default() };
    Preloaded::start(&spec, &preload.argv, &preload.covered, surroundings.scratch)
}
