use std::path::Path;

use anyhow::Result;

use crate::{
    config,
    lab::Lab,
    record::{
        candidate::Candidate,
        environment::BuildOutcome,
        failure::{Blame, Failure, Phase},
    },
    sources,
};

pub fn build(
    _lab: &Lab,
    _repository: &Path,
    _candidate: &Candidate,
    _overrides: Option<&sources::Manifest>,
    _settings: &config::Build,
) -> Result<BuildOutcome> {
    Ok(Err(Failure::new(Phase::Build, "unsupported_language", Blame::Repo, "not yet")))
}
