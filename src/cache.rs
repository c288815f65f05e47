//! The cache directory: repository mirrors, trees, environments, tools. Shared by datasets, safe to delete at any time.

use std::{
    collections::HashSet,
    env, fs,
    fs::File,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use anyhow::{Context, Result, bail};

use crate::files::{self, Lockable};

/// `$CURATE_CACHE_DIR`, else `$XDG_CACHE_HOME/curate`, else `~/.cache/curate`.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
    /// Locked in common by everybody who uses the cache, so that nothing is collected meanwhile.
    users: Arc<Lockable>,
}

/// Directories that hold one entry per thing, each of which can be made again.
const COLLECTED: [&str; 5] = ["environments", "trees", "resolutions", "mirrors", "bytecode"];

/// Something that the cache keeps.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The top-level directory that it lies in, or is.
    pub kind: String,
    pub path: PathBuf,
    /// On disk, bytes; what several entries share is counted with the first.
    pub bytes: u64,
    pub last_used: SystemTime,
    /// Whether it can be collected by itself.
    pub is_collected: bool,
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
        let path = root.join("users.lock");
        let context = || format!("lock `{}`", path.display());
        let users = File::options().write(true).create(true).truncate(false).open(&path).with_context(context)?;
        let users = Lockable(users);
        users.lock_shared().with_context(context)?;
        let cache = Cache { root, users: Arc::new(users) };
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
            // Only collecting asks when something was last used, and takes any answer.
            let _ = File::options()
                .append(true)
                .open(parent.join(format!("{name}.lock")))
                .and_then(|lock| lock.set_modified(SystemTime::now()));
            return Ok(target);
        }
        let lock_path = parent.join(format!("{name}.lock"));
        let lock = File::create(&lock_path).with_context(|| format!("create `{}`", lock_path.display()))?;
        let lock = Lockable(lock);
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

    /// Returns everything that the cache keeps.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn kept(&self) -> Result<Vec<Kept>> {
        let mut seen = HashSet::new();
        let mut kept = Vec::new();
        for path in entries(&self.root)?.into_iter().filter(|path| path.is_dir()) {
            let kind = name_of(&path);
            let parts = match COLLECTED.contains(&kind.as_str()) {
                true => entries(&path)?.into_iter().filter(|path| path.is_dir()).collect(),
                false => vec![path.clone()],
            };
            for part in parts {
                let lock = part.with_file_name(format!("{}.lock", name_of(&part)));
                let times = [&lock, &part].map(|path| fs::metadata(path).and_then(|metadata| metadata.modified()));
                let last_used = times.into_iter().flatten().max().unwrap_or(SystemTime::UNIX_EPOCH);
                let bytes = size_on_disk(&part, &mut seen);
                let is_collected = COLLECTED.contains(&kind.as_str());
                kept.push(Kept { kind: kind.clone(), path: part, bytes, last_used, is_collected });
            }
        }
        Ok(kept)
    }

    /// Removes entries.
    ///
    /// # Errors
    /// Somebody else uses the cache, or an entry cannot be removed.
    pub fn collect(&self, entries: &[Kept]) -> Result<()> {
        if self.users.try_lock().is_err() {
            bail!("collect in `{}`: another `curate` is using it; try again when it is done", self.root.display());
        }
        for entry in entries.iter().filter(|entry| entry.is_collected) {
            files::remove_tree(&entry.path)?;
            // Where there is no lock file, nothing is left to remove.
            let _ = fs::remove_file(entry.path.with_file_name(format!("{}.lock", name_of(&entry.path))));
        }
        self.users.lock_shared().with_context(|| format!("lock `{}`", self.root.display()))
    }

    /// Removes scratch directories whose process is gone.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(self.root.join("scratch")) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.split('-').next()).and_then(|pid| pid.parse::<u32>().ok());
            if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                // A directory that cannot be removed now is met again at the next start.
                let _ = files::remove_tree(&entry.path());
            }
        }
    }
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let context = || format!("list `{}`", dir.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).with_context(context)? {
        paths.push(entry.with_context(context)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Returns the blocks that a tree takes, each file once; what cannot be read counts nothing.
fn size_on_disk(path: &Path, seen: &mut HashSet<(u64, u64)>) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else { return 0 };
    if !seen.insert((metadata.dev(), metadata.ino())) {
        return 0;
    }
    let inside = match metadata.is_dir() {
        true => fs::read_dir(path).into_iter().flatten().flatten().map(|entry| size_on_disk(&entry.path(), seen)).sum(),
        false => 0,
    };
    metadata.blocks() * 512 + inside
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_kept_is_measured_and_collected_while_nobody_uses_it() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        let fill = |dir: &Path| -> Result<()> { Ok(fs::write(dir.join("file"), vec![1; 100_000])?) };
        cache.publish("trees", "old", fill).unwrap();
        cache.publish("trees", "new", fill).unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(1_000_000);
        for path in ["trees/old", "trees/old.lock"] {
            File::open(dir.path().join(path)).unwrap().set_modified(long_ago).unwrap();
        }
        let kept: Vec<Kept> = cache.kept().unwrap().into_iter().filter(|kept| kept.kind == "trees").collect();
        assert_eq!(kept.len(), 2);
        assert!(kept.iter().all(|kept| kept.is_collected && kept.bytes >= 100_000));
        let old: Vec<Kept> = kept.into_iter().filter(|kept| kept.last_used <= long_ago).collect();
        assert_eq!(old.len(), 1);
        let other = Cache::at(dir.path()).unwrap();
        assert!(cache.collect(&old).is_err());
        drop(other);
        cache.collect(&old).unwrap();
        assert!(!dir.path().join("trees/old").exists() && dir.path().join("trees/new").exists());
        // Using something makes it young again.
        File::open(dir.path().join("trees/new.lock")).unwrap().set_modified(long_ago).unwrap();
        File::open(dir.path().join("trees/new")).unwrap().set_modified(long_ago).unwrap();
        cache.publish("trees", "new", fill).unwrap();
        assert!(cache.kept().unwrap().iter().any(|kept| kept.kind == "trees" && kept.last_used > long_ago));
    }
}
