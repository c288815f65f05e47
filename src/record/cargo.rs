//! What an environment for Rust pins: a `Cargo.lock`, and in its first line the workspace that it belongs to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Starts the line with the workspace; a comment to Cargo.
const HEAD: &str = "# curate: ";

/// A Cargo workspace without its code: what decides which dependencies are compiled, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workspace {
    /// Directory of the root manifest, relative to the tree; empty for the tree itself.
    pub directory: String,
    pub all_features: bool,
    /// `package/feature`, besides the default ones; sorted.
    pub features: Vec<String>,
    /// The repository's own compiler flags.
    pub rustflags: Vec<String>,
    /// Reduced manifests by path relative to the tree. Each is a package with the one target `stub_lib.rs` and, where
    /// it has a build script, `stub_build.rs`.
    pub manifests: BTreeMap<String, String>,
}

impl Workspace {
    /// Returns an environment's lock.
    pub fn lock(&self, cargo_lock: &str) -> String {
        let json = serde_json::to_string(self).expect("plain data has a JSON form");
        format!("{HEAD}{json}\n{cargo_lock}")
    }

    /// Reads an environment's lock; `None`: it is none of ours.
    pub fn of_lock(lock: &str) -> Option<(Workspace, &str)> {
        let (head, cargo_lock) = lock.strip_prefix(HEAD)?.split_once('\n')?;
        Some((serde_json::from_str(head).ok()?, cargo_lock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_gives_back_what_it_was_made_of_and_is_still_one_to_cargo() {
        let workspace = Workspace {
            directory: "rust".to_owned(),
            manifests: [("rust/Cargo.toml".to_owned(), "[package]\nname = \"a\"\n".to_owned())].into(),
            ..Workspace::default()
        };
        let lock = workspace.lock("version = 4\n");
        assert_eq!(Workspace::of_lock(&lock), Some((workspace, "version = 4\n")));
        assert_eq!(toml::from_str::<toml::Table>(&lock).unwrap()["version"].as_integer(), Some(4));
        assert_eq!(Workspace::of_lock("version = 4\n"), None);
    }
}
