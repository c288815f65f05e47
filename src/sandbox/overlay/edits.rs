//! Writes edits into a workspace's upper layer.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    io::{self, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{OpenOptionsExt, PermissionsExt},
    },
    path::Path,
};

use anyhow::{Context, Result, bail, ensure};

use super::{Layer, make_whiteout};
use crate::files::remove_tree;
use crate::record::patch::{Edit, FileContent};

/// Writes contents, then removals. Links of the template are never followed: they are replaced.
pub(super) fn apply(upper: &Path, template: &Path, layer: Layer, edits: &[Edit]) -> Result<()> {
    let edits = checked(edits)?;
    for (path, content) in &edits {
        if let Some(content) = content {
            make_parents(upper, template, path).with_context(|| format!("write `{}`", display(path)))?;
            write(&upper.join(as_path(path)), content).with_context(|| format!("write `{}`", display(path)))?;
        }
    }
    for (path, content) in &edits {
        if content.is_none() {
            remove(upper, template, layer, path, &edits).with_context(|| format!("remove `{}`", display(path)))?;
        }
    }
    Ok(())
}

/// Edits by path.
type Checked<'a> = BTreeMap<&'a [u8], Option<&'a FileContent>>;

fn checked(edits: &[Edit]) -> Result<Checked<'_>> {
    let mut by_path = Checked::new();
    for edit in edits {
        let path = edit.path.as_bytes();
        ensure!(is_inside(path), "apply edits: `{}` is not a path inside the tree", edit.path);
        ensure!(by_path.insert(path, edit.content.as_ref()).is_none(), "apply edits: `{}` is there twice", edit.path);
    }
    for (path, content) in &by_path {
        let above = parents(path).find(|parent| content.is_some() && matches!(by_path.get(parent), Some(Some(_))));
        if let Some(above) = above {
            bail!("apply edits: `{}` lies below the file `{}`", display(path), display(above));
        }
    }
    Ok(by_path)
}

fn is_inside(path: &[u8]) -> bool {
    let is_name = |name: &[u8]| !name.is_empty() && name != b"." && name != b".." && !name.contains(&0);
    path.split(|byte| *byte == b'/').all(is_name)
}

/// Returns the directories above a path, outermost first.
fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at])
}

fn as_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

fn display(path: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(path)
}

/// Makes real directories of everything above a path, with the template's modes where it has them.
fn make_parents(upper: &Path, template: &Path, path: &[u8]) -> Result<()> {
    for parent in parents(path) {
        let target = upper.join(as_path(parent));
        match fs::symlink_metadata(&target) {
            Ok(metadata) if metadata.is_dir() => continue,
            // A file or link that a copy brought along; no edit wrote it, or the set would contradict itself.
            Ok(_) => fs::remove_file(&target)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        fs::create_dir(&target)?;
        let original = in_template(template, parent).filter(fs::Metadata::is_dir);
        let mode = original.map_or(0o755, |metadata| metadata.permissions().mode() | 0o700);
        fs::set_permissions(&target, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Looks a path up in the template without following links.
fn in_template(template: &Path, path: &[u8]) -> Option<fs::Metadata> {
    let is_directory = |parent| fs::symlink_metadata(template.join(as_path(parent))).is_ok_and(|it| it.is_dir());
    if !parents(path).all(is_directory) {
        return None;
    }
    fs::symlink_metadata(template.join(as_path(path))).ok()
}

fn write(target: &Path, content: &FileContent) -> Result<()> {
    clear(target)?;
    let permissions = match content.mode {
        0o120_000 => {
            std::os::unix::fs::symlink(OsStr::from_bytes(content.bytes.as_bytes()), target)?;
            return Ok(());
        }
        0o100_644 => 0o644,
        0o100_755 => 0o755,
        mode => bail!("mode {mode:o} is not a file's"),
    };
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(permissions).open(target)?;
    file.write_all(content.bytes.as_bytes())?;
    file.set_permissions(fs::Permissions::from_mode(permissions))?;
    Ok(())
}

/// Removes whatever is at a path of the upper layer.
fn clear(target: &Path) -> Result<()> {
    match fs::symlink_metadata(target) {
        Ok(metadata) if metadata.is_dir() => remove_tree(target),
        Ok(_) => Ok(fs::remove_file(target)?),
        Err(error) if is_absent(&error) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Removes what the template has at a path, a file or a whole directory; what edits write there stays.
fn remove(upper: &Path, template: &Path, layer: Layer, path: &[u8], edits: &Checked) -> Result<()> {
    let is_written = |path: &[u8]| matches!(edits.get(path), Some(Some(_)));
    let Some(original) = in_template(template, path) else { return Ok(()) };
    if is_written(path) || parents(path).any(is_written) {
        return Ok(());
    }
    let prefix = [path, b"/"].concat();
    let below = edits.range(prefix.as_slice()..).take_while(|(other, _)| other.starts_with(&prefix));
    if !below.into_iter().any(|(_, content)| content.is_some()) {
        return hide(upper, layer, template, path);
    }
    // Something is written below: it stays, or becomes, a directory.
    if original.is_dir() {
        for entry in fs::read_dir(template.join(as_path(path)))? {
            let child = [prefix.as_slice(), entry?.file_name().as_bytes()].concat();
            remove(upper, template, layer, &child, edits)?;
        }
    }
    Ok(())
}

fn hide(upper: &Path, layer: Layer, template: &Path, path: &[u8]) -> Result<()> {
    let target = upper.join(as_path(path));
    clear(&target)?;
    let is_hidden = |parent| fs::symlink_metadata(upper.join(as_path(parent))).is_ok_and(|it| !it.is_dir());
    if layer == Layer::Copy || parents(path).any(is_hidden) {
        return Ok(());
    }
    make_parents(upper, template, path)?;
    make_whiteout(&target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::bytes::ByteText;

    fn edit(path: &str, content: Option<&str>) -> Edit {
        let content = content.map(|text| FileContent { mode: 0o100_644, bytes: ByteText::from(text) });
        Edit { path: ByteText::from(path), content }
    }

    #[test]
    fn paths_that_leave_the_tree_are_refused() {
        for path in ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/.", "./a", "a/", "a\0b"] {
            let error = checked(&[edit(path, Some(""))]).unwrap_err().to_string();
            assert!(error.contains("is not a path inside the tree"), "{path:?}: {error}");
        }
        checked(&[edit("a..b/..c/.git", Some(""))]).unwrap();
    }

    #[test]
    fn sets_that_contradict_themselves_are_refused() {
        let error = checked(&[edit("a", Some("")), edit("a", None)]).unwrap_err().to_string();
        assert!(error.contains("there twice"), "{error}");
        let error = checked(&[edit("a", Some("")), edit("a-b", Some("")), edit("a/b", Some(""))]).unwrap_err();
        assert_eq!(error.to_string(), "apply edits: `a/b` lies below the file `a`");
        checked(&[edit("a", None), edit("a/b", Some("")), edit("c", Some("")), edit("c/d", None)]).unwrap();
    }
}
