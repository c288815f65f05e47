//! What Python's sandboxes look like, whatever the runner.

use super::Layout;
use crate::{
    record::environment::Build,
    sandbox::{ENVIRONMENT, METADATA, TREE},
};

/// The environment's own interpreter.
pub const PROGRAM: &str = "/opt/env/bin/python";

/// Returns the directory of the environment's packages, where forks of its interpreter draw random numbers of their own.
pub fn packages(build: &Build) -> Option<String> {
    let mut numbers = build.environment.toolchain.version.split('.').map_while(|number| number.parse::<u32>().ok());
    let (major, minor) = (numbers.next()?, numbers.next()?);
    ((major, minor) >= (3, 7)).then(|| format!("{ENVIRONMENT}/lib/python{major}.{minor}/site-packages"))
}

pub fn layout(build: &Build) -> Layout {
    // The tree first: what the metadata directory could hold of modules must never win over it.
    let mut path: Vec<String> = build
        .import_roots
        .iter()
        .map(|root| if root.is_empty() { TREE.to_owned() } else { format!("{TREE}/{root}") })
        .collect();
    path.push(METADATA.to_owned());
    let path = path.join(":");
    let variables = [
        ("PYTHONPATH", path.as_str()),
        ("PYTHONHASHSEED", "0"),
        // No bytecode in the tree: none to go stale when a file changes within a second, none in an agent's patch.
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("PYTHONNOUSERSITE", "1"),
        ("HYPOTHESIS_STORAGE_DIRECTORY", "/tmp/hypothesis"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Layout { variables, ..Layout::default() }
}
