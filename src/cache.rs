//! The cache directory: repository mirrors, trees, environments, tools. Shared by datasets, safe to delete at any time.

use std::{
    env, fs,
    fs::File,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// `$CURATE_CACHE_DIR`, else `$XDG_CACHE_HOME/curate`, else `~/.cache/curate`.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Opens the cache, creating its directory, and removes what dead processes left in its scratch directory.
    ///
    /// # Errors
    /// The directory cannot be created or written.
    pub fn open() -> Result<Cache> {
        let root = match (env::var_os("CURATE_CACHE_DIR"), env::var_os("XDG_CACHE_HOME"), env::var_os("HOME")) {
            (Some(path), _, _) if !path.is_empty() => PathBuf::from(path),
            (_, Some(path), _) if !path.is_empty() => Path::new(&path).join("curate"),
            (_, _, Some(home)) => Path::new(&home).join(".cache/curate"),
            (_, _, None) => anyhow::bail!("find a cache directory: neither CURATE_CACHE_DIR nor HOME is set"),
        };
        Cache::at(&root)
    }

    /// Opens a cache at a given directory.
    ///
    /// # Errors
    /// As [`Cache::open`].
    pub fn at(root: &Path) -> Result<Cache> {
        fs::create_dir_all(root.join("scratch"))
            .with_context(|| format!("create cache directory `{}`", root.display()))?;
        let root = root.canonicalize().with_context(|| format!("open cache directory `{}`", root.display()))?;
        let cache = Cache { root };
        cache.sweep();
        Ok(cache)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the named top-level directory (`trees`, `environments`, `mirrors`, `tools`, `uv`), created if missing.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn dir(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join(name);
        fs::create_dir_all(&path).with_context(|| format!("create `{}`", path.display()))?;
        Ok(path)
    }

    /// Returns a new private directory below `scratch`, on the same file system as the rest of the cache.
    ///
    /// Its name carries our process id, so that a later start can remove it if we die.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn scratch(&self) -> Result<tempfile::TempDir> {
        let prefix = format!("{}-", std::process::id());
        tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(self.root.join("scratch"))
            .with_context(|| format!("create a directory below `{}`", self.root.join("scratch").display()))
    }

    /// Returns `dir/name`, produced by `build` in a scratch directory and published by rename if it is not there.
    ///
    /// One process builds, others wait on the lock file `dir/name.lock`. `build` gets the directory to fill.
    ///
    /// # Errors
    /// `build`'s, or the directory cannot be written.
    pub fn publish<E: From<anyhow::Error>>(
        &self,
        dir: &str,
        name: &str,
        build: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<PathBuf, E> {
        let parent = self.dir(dir)?;
        let target = parent.join(name);
        if target.exists() {
            return Ok(target);
        }
        let lock_path = parent.join(format!("{name}.lock"));
        let lock = File::create(&lock_path).with_context(|| format!("create `{}`", lock_path.display()))?;
        lock.lock().with_context(|| format!("lock `{}`", lock_path.display()))?;
        if target.exists() {
            return Ok(target);
        }
        let staging = self.scratch()?;
        let content = staging.path().join("content");
        fs::create_dir(&content).with_context(|| format!("create `{}`", content.display()))?;
        build(&content)?;
        fs::rename(&content, &target).with_context(|| format!("publish `{}`", target.display()))?;
        Ok(target)
    }

    /// Returns the directory of our process for what has owners of its own, created if missing.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn workspaces(&self) -> Result<PathBuf> {
        let path = self.own_workspaces();
        fs::create_dir_all(&path).with_context(|| format!("create `{}`", path.display()))?;
        Ok(path)
    }

    fn own_workspaces(&self) -> PathBuf {
        // Named after our process, so that a later start removes what a crash leaves.
        self.root.join("scratch").join(format!("{}-workspaces", std::process::id()))
    }

    /// Removes what our process no longer uses; to be called when nothing runs any more.
    pub fn leave(&self) {
        // It is absent where nothing ran, and not empty only where something could not be removed.
        let _ = fs::remove_dir(self.own_workspaces());
    }

    /// Removes scratch directories whose process is gone.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(self.root.join("scratch")) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.split('-').next()).and_then(|pid| pid.parse::<u32>().ok());
            if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                // A directory that cannot be removed now is met again at the next start.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}
