use std::path::Path;

use anyhow::{Result, bail};

use crate::{lab::Lab, record::environment::Environment};

pub fn install(_lab: &Lab, _environment: &Environment, _dir: &Path) -> Result<()> {
    bail!("not yet")
}
