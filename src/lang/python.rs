//! What Python's sandboxes look like, whatever the runner.

use super::Layout;
use crate::{
    record::environment::Build,
    sandbox::{METADATA, TREE},
};

/// The environment's own interpreter.
pub const PROGRAM: &str = "/opt/env/bin/python";

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
