//! The environment store: an [`Environment`]'s lock → an installed, compiled, read-only directory in the cache.

use std::path::PathBuf;

use crate::{
    lab::Lab,
    record::{environment::Environment, failure::Failure},
};

/// Returns the directory to mount at [`crate::sandbox::ENVIRONMENT`], installing it from the lock if it is missing.
///
/// # Errors
/// `install_failed` with the failing command's last lines.
pub fn ensure(_lab: &Lab, _environment: &Environment) -> Result<PathBuf, Failure> {
    todo!()
}
