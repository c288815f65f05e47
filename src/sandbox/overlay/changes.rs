//! Reads what differs from the template out of a workspace's upper layer.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, File, Metadata},
    io::{self, Read},
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, OpenOptionsExt, PermissionsExt},
    },
    path::Path,
};

use anyhow::{Context, Result, bail};
use rustix::{fs::OFlags, io::Errno};

use super::{Layer, is_whiteout};
use crate::record::{
    bytes::ByteText,
    patch::{Edit, FileContent},
};

/// Returns what differs, sorted by path.
pub(super) fn collect(upper: &Path, template: &Path, layer: Layer, max_bytes: u64) -> Result<Vec<Edit>> {
    let mut walk = Walk { layer, max_bytes, left_bytes: max_bytes, edits: BTreeMap::new() };
    walk.directory(upper, Some(template), b"")?;
    Ok(walk.edits.into_iter().map(|(path, content)| Edit { path: ByteText(path), content }).collect())
}

struct Walk {
    layer: Layer,
    max_bytes: u64,
    left_bytes: u64,
    edits: BTreeMap<Vec<u8>, Option<FileContent>>,
}

/// What a name stands for.
enum Entry {
    Directory,
    File(Metadata),
    Link,
    /// A mark that the template's entry is gone.
    Whiteout,
    /// Nothing to git: socket, pipe, device.
    Special,
}

impl Walk {
    /// Compares one directory of the upper layer, called `prefix` in the tree, with the template's, if it has one.
    fn directory(&mut self, upper: &Path, lower: Option<&Path>, prefix: &[u8]) -> Result<()> {
        let names = names(upper)?;
        for name in &names {
            if prefix.is_empty() && name == ".git" {
                continue;
            }
            let lower = lower.map(|lower| lower.join(name));
            self.entry(&upper.join(name), lower.as_deref(), join(prefix, name))?;
        }
        // The listing says all that there is; a name that only the template has is gone.
        if let Some(lower) = lower
            && (self.layer == Layer::Copy || is_opaque(upper))
        {
            for name in self::names(lower)? {
                if names.binary_search(&name).is_err() && !(prefix.is_empty() && name == ".git") {
                    self.removed(&lower.join(&name), join(prefix, &name))?;
                }
            }
        }
        Ok(())
    }

    fn entry(&mut self, upper: &Path, lower: Option<&Path>, path: Vec<u8>) -> Result<()> {
        let original = lower.map(look).transpose()?.flatten();
        let Some(entry) = look(upper)? else { return Ok(()) };
        match (entry, original, lower) {
            (Entry::Directory, Some(Entry::Directory), Some(lower)) => self.directory(upper, Some(lower), &path),
            (Entry::Directory, original, _) => {
                if matches!(original, Some(Entry::File(_) | Entry::Link)) {
                    self.record(path.clone(), None)?;
                }
                self.directory(upper, None, &path)
            }
            (Entry::Whiteout | Entry::Special, _, Some(lower)) => self.removed(lower, path),
            (Entry::Whiteout | Entry::Special, _, None) => Ok(()),
            (Entry::File(now), Some(Entry::File(before)), Some(lower)) => {
                let is_same = mode(&now) == mode(&before)
                    && now.len() == before.len()
                    && has_same_content(upper, lower).with_context(|| format!("compare `{}`", upper.display()))?;
                if is_same { Ok(()) } else { self.file(upper, &now, path) }
            }
            (Entry::Link, Some(Entry::Link), Some(lower)) if fs::read_link(upper)? == fs::read_link(lower)? => Ok(()),
            (now, original, lower) => {
                if let (Some(Entry::Directory), Some(lower)) = (original, lower) {
                    self.removed(lower, path.clone())?;
                }
                match now {
                    Entry::File(now) => self.file(upper, &now, path),
                    _ => self.link(upper, path),
                }
            }
        }
    }

    /// Records that what the template has at a path is gone, file by file.
    fn removed(&mut self, lower: &Path, path: Vec<u8>) -> Result<()> {
        match look(lower)? {
            Some(Entry::Directory) => {
                for name in names(lower)? {
                    self.removed(&lower.join(&name), join(&path, &name))?;
                }
                Ok(())
            }
            Some(Entry::File(_) | Entry::Link) => self.record(path, None),
            Some(Entry::Whiteout | Entry::Special) | None => Ok(()),
        }
    }

    fn file(&mut self, upper: &Path, metadata: &Metadata, path: Vec<u8>) -> Result<()> {
        self.spend(metadata.len())?;
        let context = || format!("read `{}`", upper.display());
        let mut bytes = Vec::new();
        // One more than it had, so that a file that grows is noticed instead of being read without end.
        open(upper).and_then(|file| file.take(metadata.len() + 1).read_to_end(&mut bytes)).with_context(context)?;
        if bytes.len() as u64 > metadata.len() {
            bail!("read `{}`: it is being written to", upper.display());
        }
        self.record(path, Some(FileContent { mode: mode(metadata), bytes: ByteText(bytes) }))
    }

    fn link(&mut self, upper: &Path, path: Vec<u8>) -> Result<()> {
        let target = fs::read_link(upper).with_context(|| format!("read link `{}`", upper.display()))?;
        let bytes = ByteText::new(target.as_os_str().as_bytes());
        self.spend(bytes.as_bytes().len() as u64)?;
        self.record(path, Some(FileContent { mode: 0o120_000, bytes }))
    }

    fn record(&mut self, path: Vec<u8>, content: Option<FileContent>) -> Result<()> {
        self.spend(path.len() as u64)?;
        self.edits.insert(path, content);
        Ok(())
    }

    /// Takes bytes, of names and contents alike, off what may differ.
    fn spend(&mut self, bytes: u64) -> Result<()> {
        let Some(left) = self.left_bytes.checked_sub(bytes) else {
            bail!("collect the changes: more than {} bytes differ from the template", self.max_bytes);
        };
        self.left_bytes = left;
        Ok(())
    }
}

fn join(prefix: &[u8], name: &OsString) -> Vec<u8> {
    if prefix.is_empty() { name.as_bytes().to_vec() } else { [prefix, b"/", name.as_bytes()].concat() }
}

/// Returns the sorted names in a directory, opening it up first if it was closed.
fn names(directory: &Path) -> Result<Vec<OsString>> {
    let entries = with_permission(directory, 0o700, || fs::read_dir(directory));
    let names = entries.and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>());
    let mut names = names.with_context(|| format!("list `{}`", directory.display()))?;
    names.sort_unstable();
    Ok(names)
}

fn look(path: &Path) -> Result<Option<Entry>> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("look at `{}`", path.display())),
    };
    let kind = metadata.file_type();
    Ok(Some(if kind.is_dir() {
        Entry::Directory
    } else if kind.is_file() {
        Entry::File(metadata)
    } else if kind.is_symlink() {
        Entry::Link
    } else if is_whiteout(&metadata) {
        Entry::Whiteout
    } else {
        debug_assert!(kind.is_fifo() || kind.is_socket() || kind.is_block_device() || kind.is_char_device());
        Entry::Special
    }))
}

/// Returns git's mode of a regular file.
fn mode(metadata: &Metadata) -> u32 {
    if metadata.permissions().mode() & 0o100 == 0 { 0o100_644 } else { 0o100_755 }
}

/// Says whether the overlay hides everything that the template has in this directory.
pub(super) fn is_opaque(directory: &Path) -> bool {
    ["user.overlay.opaque", "trusted.overlay.opaque"].into_iter().any(|name| {
        let mut value = [0_u8; 1];
        // Absent, forbidden and unsupported all mean that the overlay did not mark it.
        let length: Result<usize, Errno> = rustix::fs::lgetxattr(directory, name, &mut value[..]);
        matches!(length, Ok(1)) && value == *b"y"
    })
}

fn has_same_content(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (open(one)?, open(other)?);
    let (mut left, mut right) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let n = one.read(&mut left)?;
        if n == 0 {
            return Ok(other.read(&mut right[..1])? == 0);
        }
        match other.read_exact(&mut right[..n]) {
            Ok(()) if left[..n] == right[..n] => {}
            Ok(()) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// Opens a regular file without following a link or waiting for a pipe's other end.
fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    with_permission(path, 0o600, || fs::File::options().read(true).custom_flags(flags.cast_signed()).open(path))
}

/// Tries, and where permission is lacking tries once more with the owner's given.
fn with_permission<T>(path: &Path, mode: u32, action: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match action() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let metadata = fs::symlink_metadata(path)?;
            if metadata.is_symlink() {
                return Err(error);
            }
            fs::set_permissions(path, fs::Permissions::from_mode(metadata.permissions().mode() | mode))?;
            action()
        }
        result => result,
    }
}
