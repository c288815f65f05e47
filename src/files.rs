//! Files that are there whole or not at all, and trees that go whole.

use std::{
    fs::{self, File, TryLockError},
    io::Write,
    ops::Deref,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// An open file whose lock ends with it.
///
/// Closing is not enough: a child that another thread has forked and that has not yet begun its program holds a copy of
/// the descriptor, and with it the lock.
#[derive(Debug)]
pub struct Lockable(pub File);

impl Deref for Lockable {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Lockable {
    fn drop(&mut self) {
        // A file that was never locked has nothing to give back.
        let _ = self.0.unlock();
    }
}

/// A file under a temporary name beside its own, which the next try takes over if we die.
#[derive(Debug)]
pub struct Partial {
    file: Lockable,
    path: PathBuf,
    target: PathBuf,
    is_published: bool,
}

impl Partial {
    /// Begins to write a file.
    ///
    /// # Errors
    /// The directory cannot be written, something other than a file has the name, or somebody else is writing the file.
    pub fn create(target: &Path) -> Result<Partial> {
        let is_odd = |found: fs::Metadata| !found.is_file() && !found.is_symlink();
        if fs::symlink_metadata(target).is_ok_and(is_odd) {
            bail!("write `{}`: it is no regular file, and would be replaced by one", target.display());
        }
        let name = target.file_name().with_context(|| format!("write `{}`: it names no file", target.display()))?;
        let partial = target.with_file_name(format!(".{}.partial", name.to_string_lossy()));
        let context = || format!("write `{}`", target.display());
        let file = File::options().write(true).create(true).truncate(false).open(&partial).with_context(context)?;
        let file = Lockable(file);
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("write `{}`: another process is writing it; try again when it is done", target.display())
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(context),
        }
        file.set_len(0).with_context(context)?;
        Ok(Partial { file, path: partial, target: target.to_owned(), is_published: false })
    }

    /// Flushes the file and gives it its name.
    ///
    /// # Errors
    /// It cannot be flushed or named; the target is then as it was.
    pub fn publish(mut self) -> Result<()> {
        self.file.sync_all().with_context(|| format!("flush `{}`", self.target.display()))?;
        fs::rename(&self.path, &self.target).with_context(|| format!("name `{}`", self.target.display()))?;
        self.is_published = true;
        sync_dir(directory(&self.target))
    }
}

impl Write for Partial {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        (&*self.file).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        (&*self.file).flush()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_published {
            // What cannot be removed now, the next try overwrites.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Writes a whole file.
///
/// # Errors
/// As [`Partial`].
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = Partial::create(path)?;
    file.write_all(bytes).with_context(|| format!("write `{}`", path.display()))?;
    file.publish()
}

/// Returns the directory of a file; a bare name lies in the working directory.
pub fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Flushes a directory's entries.
///
/// # Errors
/// It cannot be opened or flushed.
pub fn sync_dir(path: &Path) -> Result<()> {
    let directory = File::open(path).with_context(|| format!("open `{}`", path.display()))?;
    directory.sync_all().with_context(|| format!("flush `{}`", path.display()))
}

/// Removes a directory with all it holds, also what was made unreadable.
///
/// # Errors
/// Something cannot be removed.
pub fn remove_tree(path: &Path) -> Result<()> {
    let context = || format!("remove `{}`", path.display());
    if fs::remove_dir_all(path).is_err() && path.symlink_metadata().is_ok() {
        open_up(path);
        fs::remove_dir_all(path).with_context(context)?;
    }
    Ok(())
}

/// Lets us into every directory below.
fn open_up(path: &Path) {
    // What stays closed makes the removal fail, with the reason.
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_while_a_forked_child_still_holds_the_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Lockable(File::open(dir.path()).unwrap());
        let ours = open();
        ours.lock().unwrap();
        let of_child = ours.try_clone().unwrap();
        assert!(open().try_lock().is_err());
        drop(ours);
        open().try_lock().unwrap();
        drop(of_child);
    }

    #[test]
    fn a_file_is_whole_or_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        write(&path, b"one").unwrap();
        fs::write(dir.path().join(".a.json.partial"), "left by a crash, and longer").unwrap();
        let mut unfinished = Partial::create(&path).unwrap();
        unfinished.write_all(b"tw").unwrap();
        assert!(Partial::create(&path).is_err());
        drop(unfinished);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(write(dir.path(), b"a directory").is_err());
        let nowhere = dir.path().join("nowhere/b.json");
        let error = write(&nowhere, b"").unwrap_err().to_string();
        assert_eq!(error, format!("write `{}`", nowhere.display()));
    }
}
