//! Writable workspaces over read-only templates.
//!
//! A workspace is a directory with an `upper` layer that holds what differs from the template. The overlay itself is
//! mounted inside each sandbox's own mount namespace, never on the host. Where overlays are not to be had, `upper` is
//! a full copy. Either way the host writes and reads `upper` without ever following a link in it.

mod changes;
mod edits;

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock},
};

use anyhow::{Context, Result};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, utimensat};

use super::launch;
use crate::{files, record::patch::Edit};

/// A private writable view of a template directory; removed with all it holds on drop.
///
/// Nothing is mounted on the host: the overlay is mounted inside each sandbox's own mount namespace. Where overlays
/// are not to be had, the template is copied. One sandbox at a time may use it. In an overlay, as in most containers,
/// `rename` of a directory of the template fails with `EXDEV`, and programs such as `mv` copy instead.
#[derive(Debug)]
pub struct Workspace {
    /// Holds `upper` and, for an overlay, `lower` (a link to the template), `work` and `merged`.
    root: PathBuf,
    template: PathBuf,
    layer: Layer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    /// `upper` holds what differs, and marks for what is gone.
    Overlay,
    /// `upper` is the whole tree.
    Copy,
}

impl Workspace {
    /// Creates a workspace below `scratch` and writes `edits` into it.
    ///
    /// # Errors
    /// Files cannot be written, or `edits` contradict themselves (a file below a file, a path that leaves the tree).
    pub fn create(template: &Path, scratch: &Path, edits: &[Edit]) -> Result<Workspace> {
        let layer = if is_available(scratch) { Layer::Overlay } else { Layer::Copy };
        Workspace::with_layer(layer, template, scratch, edits)
    }

    /// As [`Workspace::create`], with a full copy of the template even where overlays are to be had.
    ///
    /// # Errors
    /// As [`Workspace::create`].
    pub fn create_copy(template: &Path, scratch: &Path, edits: &[Edit]) -> Result<Workspace> {
        Workspace::with_layer(Layer::Copy, template, scratch, edits)
    }

    fn with_layer(layer: Layer, template: &Path, scratch: &Path, edits: &[Edit]) -> Result<Workspace> {
        let template = template.canonicalize().with_context(|| format!("open template `{}`", template.display()))?;
        let context = || format!("create a workspace below `{}`", scratch.display());
        let scratch = scratch.canonicalize().with_context(context)?;
        let root = tempfile::Builder::new().prefix("workspace-").tempdir_in(&scratch).with_context(context)?.keep();
        let workspace = Workspace { root, template, layer };
        match layer {
            Layer::Overlay => prepare_overlay(&workspace.root, &workspace.template).with_context(context)?,
            Layer::Copy => copy_tree(&workspace.template, &workspace.upper())
                .with_context(|| format!("copy template `{}`", workspace.template.display()))?,
        }
        edits::apply(&workspace.upper(), &workspace.template, layer, edits)?;
        Ok(workspace)
    }

    /// Returns what differs from the template, sorted by path; `.git` at the root is left out.
    ///
    /// Reads from the host side without following links; call it only while no sandbox uses the workspace. Modes are
    /// git's; empty directories, sockets, pipes and devices are nothing to git and left out.
    ///
    /// # Errors
    /// Files cannot be read, or more than `max_bytes` differ.
    pub fn changes(&self, max_bytes: u64) -> Result<Vec<Edit>> {
        changes::collect(&self.upper(), &self.template, self.layer, max_bytes)
    }

    /// Sets the modification time of a file that an edit has written, seconds since 1970.
    ///
    /// # Errors
    /// There is no such file in the workspace's own layer.
    pub fn set_time(&self, path: &[u8], seconds: i64) -> Result<()> {
        let file = self.upper().join(OsStr::from_bytes(path));
        let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
        let times = Timestamps { last_access: time, last_modification: time };
        utimensat(CWD, &file, &times, AtFlags::SYMLINK_NOFOLLOW)
            .with_context(|| format!("set the time of `{}`", file.display()))
    }

    /// A private directory beside the tree, for whoever runs in the workspace; removed with it.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Directory in which the overlay is to be mounted, if it is one.
    pub(super) fn overlay(&self) -> Option<&Path> {
        (self.layer == Layer::Overlay).then_some(self.root.as_path())
    }

    /// Host path under which the tree is seen once the overlay is mounted.
    pub(super) fn visible_tree(&self) -> PathBuf {
        self.root.join(match self.layer {
            Layer::Overlay => "merged",
            Layer::Copy => "upper",
        })
    }

    fn upper(&self) -> PathBuf {
        self.root.join("upper")
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // What cannot be removed now goes with the scratch directory.
        let _ = files::remove_tree(&self.root);
    }
}

/// Makes the directories of an overlay. The template is reached through a link, so that no character of its path can
/// mean something in the mount options.
fn prepare_overlay(root: &Path, template: &Path) -> Result<()> {
    for name in ["upper", "work", "merged"] {
        fs::create_dir(root.join(name))?;
    }
    let mode = fs::symlink_metadata(template)?.permissions().mode() | 0o700;
    fs::set_permissions(root.join("upper"), fs::Permissions::from_mode(mode))?;
    std::os::unix::fs::symlink(template, root.join("lower"))?;
    Ok(())
}

/// Says whether overlays work on the file system of `scratch`, found once per file system by mounting one.
pub fn is_available(scratch: &Path) -> bool {
    static KNOWN: OnceLock<Mutex<HashMap<u64, bool>>> = OnceLock::new();
    let Ok(device) = fs::metadata(scratch).map(|metadata| metadata.dev()) else { return false };
    let mut known = KNOWN.get_or_init(Mutex::default).lock().expect("no holder panics");
    *known.entry(device).or_insert_with(|| try_overlay(scratch).unwrap_or(false))
}

fn try_overlay(scratch: &Path) -> Result<bool> {
    let place = tempfile::Builder::new().prefix("overlay-").tempdir_in(scratch)?;
    let (root, template) = (place.path().join("root"), place.path().join("template"));
    fs::create_dir(&root)?;
    for name in ["kept", "gone", "emptied"] {
        fs::create_dir_all(template.join(name))?;
        fs::write(template.join(name).join("file"), name)?;
    }
    prepare_overlay(&root, &template)?;
    let upper = root.join("upper");
    make_whiteout(&upper.join("gone"))?;
    let check = "set -e; cd merged; ! test -e gone; echo new >kept/file; rm -r emptied; mkdir emptied; \
                 ! test -e emptied/file";
    let argv =
        ["unshare", "--user", "--map-root-user", "--mount", "--", "sh", "-c", launch::MOUNT, "curate", ".", "--"];
    let works = launch::succeeds(&[&argv[..], &["sh", "-c", check]].concat(), Some(root.clone()));
    let is_written = fs::read(upper.join("kept/file")).is_ok_and(|bytes| bytes == b"new\n");
    // File systems without user attributes, such as older tmpfs, cannot mark a directory that was made anew.
    Ok(works && is_written && changes::is_opaque(&upper.join("emptied")))
}

/// Marks a name of the template as gone.
fn make_whiteout(path: &Path) -> Result<()> {
    rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, Mode::empty(), 0)
        .with_context(|| format!("hide `{}`", path.display()))
}

fn is_whiteout(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    metadata.file_type().is_char_device() && metadata.rdev() == 0
}

/// Copies directories, files and links, with modes and times; other kinds of file are left out.
fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target, kind) = (entry.path(), to.join(entry.file_name()), entry.file_type()?);
        if kind.is_dir() {
            copy_tree(&source, &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
        } else if kind.is_file() {
            fs::copy(&source, &target)?;
            let modified = entry.metadata()?.modified()?;
            fs::File::options().write(true).open(&target).and_then(|file| file.set_modified(modified))?;
        }
    }
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    Ok(())
}
