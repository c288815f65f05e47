//! Contents → unified git diff.
//!
//! The text depends on nothing but the two contents: line hunks and binary blocks come from libgit2 working on buffers
//! without a repository, so that no attribute file, driver or setting takes part; the headers are ours.

use anyhow::{Context, Result};
use git2::{DiffOptions, ObjectType, Oid, Patch};

use super::quote::quoted;
use crate::record::{bytes::ByteText, patch::FileContent};

/// Lines of unchanged text around each change.
const CONTEXT_LINES: u32 = 3;

/// Appends one file's part of a patch; nothing where both sides are equal. A change between file and symbolic link
/// is a removal and an addition.
pub fn write_file(text: &mut Vec<u8>, path: &[u8], old: Option<&FileContent>, new: Option<&FileContent>) -> Result<()> {
    if old == new {
        return Ok(());
    }
    if let (Some(old), Some(new)) = (old, new)
        && (old.mode ^ new.mode) & 0o170_000 != 0
    {
        write_part(text, path, Some(old), None)?;
        return write_part(text, path, None, Some(new));
    }
    write_part(text, path, old, new)
}

fn write_part(text: &mut Vec<u8>, path: &[u8], old: Option<&FileContent>, new: Option<&FileContent>) -> Result<()> {
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
    let bytes = |side: Option<&FileContent>| side.map(|content| content.bytes.clone());
    let (old_bytes, new_bytes) = (bytes(old), bytes(new));
    if old_bytes == new_bytes {
        return Ok(());
    }
    let id = |side: &Option<ByteText>| match side {
        Some(bytes) => Oid::hash_object(ObjectType::Blob, bytes.as_bytes()),
        None => Ok(Oid::ZERO_SHA1),
    };
    let mut index = format!("index {}..{}", id(&old_bytes)?, id(&new_bytes)?);
    if let (Some(old), Some(new)) = (old, new)
        && old.mode == new.mode
    {
        index.push_str(&format!(" {:06o}", new.mode));
    }
    put_line(text, &[index.as_bytes()]);
    let body = body(&old_bytes.unwrap_or_default().0, &new_bytes.unwrap_or_default().0)?;
    if body.starts_with(b"@@") {
        put_name(text, b"--- ", old.map(|_| before.as_slice()));
        put_name(text, b"+++ ", new.map(|_| after.as_slice()));
    }
    text.extend_from_slice(&body);
    Ok(())
}

/// Returns hunks or a binary block; empty where both sides are empty.
pub fn body(old: &[u8], new: &[u8]) -> Result<Vec<u8>> {
    let mut options = DiffOptions::new();
    options.context_lines(CONTEXT_LINES).interhunk_lines(0).show_binary(true).id_abbrev(40);
    let mut patch = Patch::from_buffers(old, None, new, None, Some(&mut options)).context("compare two contents")?;
    let whole = patch.to_buf().context("write a patch")?;
    // libgit2's own header ends where the first hunk or the binary block begins; its file is named `file`.
    let starts = [b"@@ ".as_slice(), b"GIT binary patch\n"];
    let mut at = 0;
    while at < whole.len() {
        if starts.iter().any(|start| whole[at..].starts_with(start)) {
            return Ok(whole[at..].to_vec());
        }
        at += whole[at..].iter().position(|&byte| byte == b'\n').map_or(whole.len(), |end| end + 1);
    }
    Ok(Vec::new())
}

fn put_line(text: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| text.extend_from_slice(part));
    text.push(b'\n');
}

/// Writes `--- name` or `+++ name`; a name with a blank gets a final tab, which ends it for every reader.
fn put_name(text: &mut Vec<u8>, mark: &[u8], name: Option<&[u8]>) {
    let name = name.unwrap_or(b"/dev/null");
    let end: &[u8] = if name.contains(&b' ') && !name.starts_with(b"\"") { b"\t" } else { b"" };
    put_line(text, &[mark, name, end]);
}
