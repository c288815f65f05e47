//! The environment store: an [`Environment`]'s lock → an installed, read-only directory in the cache.
//!
//! A directory is there whole or not at all. How a lock is found, this module does not know; it rebuilds any lock on
//! any machine that has the toolchain.

pub mod dockerfile;
pub mod go;
pub mod javascript;
pub mod python;
pub mod rust;

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    lab::Lab,
    record::{
        environment::{Environment, Language, Toolchain},
        failure::{Blame, Failure, Phase},
        id::Digest,
    },
};

/// Name of the cache's directory.
const DIRECTORY: &str = "environments";

impl Environment {
    /// Names a lock under a toolchain.
    pub fn new(toolchain: Toolchain, lock: String) -> Environment {
        let language = toolchain.language.name().as_bytes();
        let key = Digest::of(&[b"environment 2", language, toolchain.version.as_bytes(), lock.as_bytes()]);
        Environment { key, toolchain, lock }
    }
}

/// Returns the directory to mount at [`crate::sandbox::ENVIRONMENT`], installing it from the lock if it is missing.
///
/// # Errors
/// `install_failed` with the failing command's last lines, what a language adds to that, and the machine's own.
pub fn ensure(lab: &Lab, environment: &Environment) -> Result<PathBuf, Failure> {
    publish(lab, environment).map_err(|error| match error.downcast::<Failure>() {
        Ok(failure) => failure,
        Err(error) => Failure::new(Phase::Build, "environment_unavailable", Blame::Infra, format!("{error:#}")),
    })
}

/// Says whether the environment is there already.
pub fn is_installed(lab: &Lab, environment: &Environment) -> bool {
    lab.cache.root().join(DIRECTORY).join(environment.key.as_str()).exists()
}

fn publish(lab: &Lab, environment: &Environment) -> Result<PathBuf> {
    lab.cache.publish(DIRECTORY, environment.key.as_str(), |dir| match environment.toolchain.language {
        Language::Python => python::install(lab, environment, dir),
        Language::Javascript => javascript::install(lab, environment, dir),
        Language::Rust => rust::install(lab, environment, dir),
        Language::Go => go::install(lab, environment, dir),
    })
}
