//! Contents → unified git diff.
//!
//! The text depends on nothing but the two contents: no attribute file, driver or setting takes part. The headers are
//! written here, what follows them in [`super::hunks`].

use anyhow::{Context, Result};
use git2::{ObjectType, Oid};

pub use super::hunks::{ChangedLines, LineCounts, changed_lines};
use super::{
    ReadError, Repo,
    hunks::body,
    quote::quoted,
    tree::{Delta, Node},
};
use crate::record::patch::FileContent;

/// One side of a file's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version<'a> {
    pub mode: u32,
    pub bytes: &'a [u8],
    /// Computed from the bytes where it is not known.
    pub oid: Option<Oid>,
}

impl<'a> Version<'a> {
    pub fn new(content: &'a FileContent) -> Version<'a> {
        Version { mode: content.mode, bytes: content.bytes.as_bytes(), oid: None }
    }

    fn of_node(node: Node, bytes: &'a [u8]) -> Version<'a> {
        Version { mode: node.mode, bytes, oid: Some(node.oid) }
    }

    fn id(&self) -> Result<Oid> {
        match self.oid {
            Some(id) => Ok(id),
            None => Oid::hash_object(ObjectType::Blob, self.bytes).context("compute a blob id"),
        }
    }
}

/// The contents of a path on both sides of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    pub old: Option<Vec<u8>>,
    pub new: Option<Vec<u8>>,
}

impl Repo {
    /// Reads both sides of a changed file; a submodule has none.
    ///
    /// # Errors
    /// A blob is missing or damaged.
    pub fn contents(&self, delta: &Delta) -> Result<Contents, ReadError> {
        let read = |node: Option<Node>| match node {
            Some(node) if node.is_file() => self.content(node.oid).map(Some),
            Some(_) | None => Ok(None),
        };
        Ok(Contents { old: read(delta.old)?, new: read(delta.new)? })
    }
}

/// Appends the part of a patch that a delta makes, given its contents.
///
/// # Errors
/// libgit2 cannot compare the contents.
pub fn write_delta(text: &mut Vec<u8>, delta: &Delta, contents: &Contents) -> Result<LineCounts> {
    let old = delta.old.zip(contents.old.as_deref()).map(|(node, bytes)| Version::of_node(node, bytes));
    let new = delta.new.zip(contents.new.as_deref()).map(|(node, bytes)| Version::of_node(node, bytes));
    write_file(text, &delta.path, old, new)
}

/// Appends one file's part of a patch; nothing where both sides are equal. A change between file and symbolic link
/// is a removal and an addition.
///
/// # Errors
/// libgit2 cannot compare the contents.
pub fn write_file(
    text: &mut Vec<u8>,
    path: &[u8],
    old: Option<Version<'_>>,
    new: Option<Version<'_>>,
) -> Result<LineCounts> {
    if let (Some(old), Some(new)) = (old, new) {
        if old.mode == new.mode && old.bytes == new.bytes {
            return Ok(LineCounts::default());
        }
        if (old.mode ^ new.mode) & 0o170_000 != 0 {
            let removed = write_part(text, path, Some(old), None)?.removed;
            let added = write_part(text, path, None, Some(new))?.added;
            return Ok(LineCounts { added, removed });
        }
    }
    write_part(text, path, old, new)
}

fn write_part(
    text: &mut Vec<u8>,
    path: &[u8],
    old: Option<Version<'_>>,
    new: Option<Version<'_>>,
) -> Result<LineCounts> {
    let (before, after) = (quoted("a/", path), quoted("b/", path));
    put_line(text, &[b"diff --git ", &before, b" ", &after]);
    match (old, new) {
        (None, Some(new)) => put_line(text, &[format!("new file mode {:06o}", new.mode).as_bytes()]),
        (Some(old), None) => put_line(text, &[format!("deleted file mode {:06o}", old.mode).as_bytes()]),
        (Some(old), Some(new)) if old.mode != new.mode => {
            put_line(text, &[format!("old mode {:06o}", old.mode).as_bytes()]);
            put_line(text, &[format!("new mode {:06o}", new.mode).as_bytes()]);
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
    if old.map(|version| version.bytes) == new.map(|version| version.bytes) {
        return Ok(LineCounts::default());
    }
    put_index(text, old, new)?;
    let (body, counts) = body(old.map_or(b"", |version| version.bytes), new.map_or(b"", |version| version.bytes))?;
    if body.starts_with(b"@@") {
        put_name(text, b"--- ", old.map(|_| before.as_slice()));
        put_name(text, b"+++ ", new.map(|_| after.as_slice()));
    }
    text.extend_from_slice(&body);
    Ok(counts)
}

fn put_index(text: &mut Vec<u8>, old: Option<Version<'_>>, new: Option<Version<'_>>) -> Result<()> {
    let id = |side: Option<Version<'_>>| side.map_or(Ok(Oid::ZERO_SHA1), |version| version.id());
    let mut index = format!("index {}..{}", id(old)?, id(new)?);
    if let (Some(old), Some(new)) = (old, new)
        && old.mode == new.mode
    {
        index = format!("{index} {:06o}", new.mode);
    }
    put_line(text, &[index.as_bytes()]);
    Ok(())
}

fn put_line(text: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        text.extend_from_slice(part);
    }
    text.push(b'\n');
}

/// Writes `--- name` or `+++ name`; a name with a blank gets a final tab, which ends it for every reader.
fn put_name(text: &mut Vec<u8>, mark: &[u8], name: Option<&[u8]>) {
    let name = name.unwrap_or(b"/dev/null");
    let end: &[u8] = if name.contains(&b' ') && !name.starts_with(b"\"") { b"\t" } else { b"" };
    put_line(text, &[mark, name, end]);
}
