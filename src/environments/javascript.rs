//! JavaScript: a lock document → a directory with `node_modules`, installed by npm.
//!
//! The lock is what npm needs to rebuild the same tree anywhere, and nothing else: the parts of `package.json` files
//! that npm reads, a `package-lock.json` without registry addresses, and the options that it holds under. Names and
//! versions of the project are left out, so that commits share environments. Packages' install scripts run here, in a
//! sandbox with a network, and never again.

pub mod npm;
pub mod toolchain;

use std::{fs, os::unix::fs::symlink, path::Path, time::Duration};

use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    lab::Lab,
    record::{
        environment::{Environment, Toolchain},
        failure::{Blame, Failure, Phase},
    },
};

/// Limit for installing one environment.
const INSTALL_WALL: Duration = Duration::from_mins(15);
const LOCK_FILE: &str = "package-lock.json";

/// What an environment's lock text holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// Options of `npm ci` (`--legacy-peer-deps`, `--ignore-scripts`), sorted.
    pub options: Vec<String>,
    /// JSON files by path: `package.json`, those of workspaces, `package-lock.json`.
    pub files: Map<String, Value>,
}

impl Lock {
    /// Returns the text for a record.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("JSON values can be written") + "\n"
    }

    /// Says whether a package is installed at the top.
    pub fn has(&self, package: &str) -> bool {
        let packages = self.files.get(LOCK_FILE).and_then(|lock| lock.get("packages"));
        packages.is_some_and(|packages| packages.get(format!("node_modules/{package}")).is_some())
    }
}

/// Writes the files of a lock below a directory.
///
/// # Errors
/// A path leaves the directory, or it cannot be written.
pub fn write_files(files: &Map<String, Value>, dir: &Path) -> Result<()> {
    for (path, value) in files {
        let is_plain = Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)));
        ensure!(is_plain, "write `{path}` of a lock: it leaves its directory");
        let target = dir.join(path);
        let parent = target.parent().expect("it is below the directory");
        fs::create_dir_all(parent).with_context(|| format!("create `{}`", parent.display()))?;
        let text = serde_json::to_string_pretty(value).context("write JSON")?;
        fs::write(&target, text).with_context(|| format!("write `{}`", target.display()))?;
    }
    Ok(())
}

/// Installs a lock.
///
/// # Errors
/// `no_node` where this machine lacks the version; and those of [`super::ensure`].
pub fn install(lab: &Lab, environment: &Environment, dir: &Path) -> Result<()> {
    let toolchain = here(&environment.toolchain)?;
    let lock: Lock = serde_json::from_str(&environment.lock).context("read an environment's lock")?;
    write_files(&lock.files, dir)?;
    let mut arguments = vec!["ci".to_owned(), "--prefer-offline".to_owned()];
    arguments.extend(lock.options.iter().cloned());
    npm::run(lab, "install_failed", &npm::Job { toolchain: &toolchain, dir, arguments, wall: INSTALL_WALL })?;
    let packages = dir.join("node_modules");
    fs::create_dir_all(&packages).with_context(|| format!("create `{}`", packages.display()))?;
    // Tools keep caches there; those of a sandbox are its own.
    let cache = packages.join(".cache");
    if fs::symlink_metadata(&cache).is_err() {
        symlink("/tmp", &cache).with_context(|| format!("create `{}`", cache.display()))?;
    }
    Ok(())
}

/// Returns the toolchain itself, or the same version elsewhere on this machine.
fn here(wanted: &Toolchain) -> Result<Toolchain> {
    if wanted.path.exists() {
        return Ok(wanted.clone());
    }
    let found = toolchain::find().iter().find(|node| node.version == wanted.version);
    found.cloned().ok_or_else(|| {
        let detail = format!("Node.js {} is not on this machine", wanted.version);
        anyhow!(Failure::new(Phase::Build, "no_node", Blame::Infra, detail))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lock_is_read_as_it_was_written() {
        let packages = json!({"packages": {"": {}, "node_modules/tap": {"version": "16.3.10"}}});
        let mut files = Map::new();
        files.insert("package.json".to_owned(), json!({"devDependencies": {"tap": "^16"}}));
        files.insert(LOCK_FILE.to_owned(), packages);
        let lock = Lock { options: vec!["--ignore-scripts".to_owned()], files };
        assert_eq!(serde_json::from_str::<Lock>(&lock.text()).unwrap(), lock);
        assert!(lock.has("tap") && !lock.has("ava"));
    }

    #[test]
    fn files_of_a_lock_stay_in_their_directory() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["../evil", "/evil", "a/../../evil"] {
            let mut files = Map::new();
            files.insert(path.to_owned(), json!({}));
            assert!(write_files(&files, dir.path()).is_err(), "{path}");
        }
    }
}
