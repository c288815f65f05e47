//! The header lines of one file's part of a patch: what they say alone, and put together.

use super::{Action, Body, FilePatch};
use crate::git::{EXECUTABLE, PLAIN, SYMLINK, quote::unquoted, template};

/// What a `---` or `+++` line says.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Name {
    #[default]
    Absent,
    /// `/dev/null`: there is no file on this side.
    Null,
    Path(Vec<u8>),
}

impl Name {
    pub fn path(&self) -> Option<&Vec<u8>> {
        match self {
            Name::Path(path) => Some(path),
            Name::Absent | Name::Null => None,
        }
    }
}

/// What a part's header says, before it is put together.
#[derive(Default)]
pub struct Header {
    /// From the `diff --git` line, where it can be split without doubt.
    pub names: Option<(Vec<u8>, Vec<u8>)>,
    /// From `---` and `+++`.
    pub old_name: Name,
    pub new_name: Name,
    /// From `rename from` and its like, without prefix.
    pub moved_from: Option<Vec<u8>>,
    pub moved_to: Option<Vec<u8>>,
    pub is_copy: bool,
    pub is_new: bool,
    pub is_deleted: bool,
    pub old_mode: Option<u32>,
    pub new_mode: Option<u32>,
    pub ids: Option<(String, String)>,
}

/// Reads one extended header line; `false` where the line is none.
pub fn extended_header(line: &[u8], header: &mut Header) -> Result<bool, String> {
    let after = |mark: &str| line.strip_prefix(mark.as_bytes());
    if let Some(text) = after("old mode ") {
        header.old_mode = Some(mode(text)?);
    } else if let Some(text) = after("new mode ") {
        header.new_mode = Some(mode(text)?);
    } else if let Some(text) = after("new file mode ") {
        header.is_new = true;
        header.new_mode = Some(mode(text)?);
    } else if let Some(text) = after("deleted file mode ") {
        header.is_deleted = true;
        header.old_mode = Some(mode(text)?);
    } else if let Some(text) = after("rename from ").or(after("copy from ")) {
        header.moved_from = Some(bare_name(text));
        header.is_copy = line.starts_with(b"copy");
    } else if let Some(text) = after("rename to ").or(after("copy to ")) {
        header.moved_to = Some(bare_name(text));
    } else if let Some(text) = after("index ") {
        index_line(text, header)?;
    } else {
        return Ok(line.starts_with(b"similarity index ") || line.starts_with(b"dissimilarity index "));
    }
    Ok(true)
}

fn bare_name(text: &[u8]) -> Vec<u8> {
    unquoted(text).map_or_else(|| text.to_vec(), |(name, _)| name)
}

fn mode(text: &[u8]) -> Result<u32, String> {
    match text {
        b"100644" | b"100664" => Ok(PLAIN),
        b"100755" | b"100775" => Ok(EXECUTABLE),
        b"120000" => Ok(SYMLINK),
        b"160000" => Err("changes a submodule".to_owned()),
        _ => Err(format!("unknown file mode `{}`", String::from_utf8_lossy(text))),
    }
}

fn index_line(text: &[u8], header: &mut Header) -> Result<(), String> {
    let text = String::from_utf8_lossy(text);
    let mut words = text.split(' ');
    let ids = words.next().and_then(|ids| ids.split_once(".."));
    let Some((old, new)) = ids else { return Err("malformed index line".to_owned()) };
    header.ids = Some((old.to_owned(), new.to_owned()));
    if let Some(text) = words.next() {
        let mode = mode(text.as_bytes())?;
        header.old_mode = header.old_mode.or(Some(mode));
        header.new_mode = header.new_mode.or(Some(mode));
    }
    Ok(())
}

/// Splits `a/NAME b/NAME`. Unquoted names may hold ` b/`; as both are the same name where no other line gives them,
/// the halves are of equal length.
pub fn header_names(text: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    if let Some((old, rest)) = unquoted(text) {
        let rest = rest.strip_prefix(b" ")?;
        let new = unquoted(rest).map_or_else(|| rest.to_vec(), |(name, _)| name);
        return Some((old, new));
    }
    let half = text.len().checked_sub(1)? / 2;
    let (old, new) = (&text[..half], text.get(half + 1..)?);
    let stem = |name: &[u8]| name.iter().position(|&byte| byte == b'/').map(|at| name[at..].to_vec());
    (text.get(half) == Some(&b' ') && stem(old).is_some() && stem(old) == stem(new))
        .then(|| (old.to_vec(), new.to_vec()))
}

pub fn assemble(patch_line: usize, header: &Header, body: Body) -> Result<FilePatch, String> {
    let fail = |why: &str| Err(format!("patch line {patch_line}: {why}"));
    let action = match (header.is_new, header.is_deleted, &header.moved_from, &header.moved_to) {
        (true, false, None, None) => Action::Create,
        (false, true, None, None) => Action::Delete,
        (false, false, Some(_), Some(_)) if header.is_copy => Action::Copy,
        (false, false, Some(_), Some(_)) => Action::Rename,
        (false, false, None, None) => Action::Modify,
        (..) => return fail("contradictory header lines"),
    };
    let null_sides = (header.old_name == Name::Null, header.new_name == Name::Null);
    let expected = match (&body, action) {
        (Body::Hunks(_), Action::Create) => (true, false),
        (Body::Hunks(_), Action::Delete) => (false, true),
        _ => (false, false),
    };
    if null_sides != expected {
        return fail("`/dev/null` does not agree with the other header lines");
    }
    let (old_path, new_path) = paths(patch_line, header)?;
    if old_path != new_path && !matches!(action, Action::Rename | Action::Copy) {
        return fail("two different names without a rename");
    }
    let whole = |id: &String| (id.len() == 40).then(|| id.clone());
    Ok(FilePatch {
        patch_line,
        action,
        old_path,
        new_path,
        old_mode: header.old_mode,
        new_mode: header.new_mode,
        old_id: header.ids.as_ref().and_then(|(old, _)| whole(old)),
        new_id: header.ids.as_ref().and_then(|(_, new)| whole(new)),
        body,
    })
}

/// Returns old and new path; every header line that names one must agree.
fn paths(patch_line: usize, header: &Header) -> Result<(Vec<u8>, Vec<u8>), String> {
    let side = |from_header: Option<&Vec<u8>>, from_text: Option<&Vec<u8>>, moved: Option<&Vec<u8>>| {
        let mut found: Option<Vec<u8>> = moved.map(|name| check_path(name)).transpose()?;
        for name in [from_header, from_text].into_iter().flatten() {
            let name = without_prefix(name)?;
            if found.as_ref().is_some_and(|found| *found != name) {
                return Err("header lines name different files".to_owned());
            }
            found = Some(name);
        }
        Ok(found)
    };
    let at = |why: String| format!("patch line {patch_line}: {why}");
    // The first line cannot be split for sure where the names differ; `rename` lines then decide.
    let names = if header.moved_from.is_some() { None } else { header.names.as_ref() };
    let old = side(names.map(|(old, _)| old), header.old_name.path(), header.moved_from.as_ref()).map_err(at)?;
    let new = side(names.map(|(_, new)| new), header.new_name.path(), header.moved_to.as_ref()).map_err(at)?;
    match (old, new) {
        (Some(old), Some(new)) => Ok((old, new)),
        (Some(path), None) | (None, Some(path)) => Ok((path.clone(), path)),
        (None, None) => Err(at("the file's name cannot be told".to_owned())),
    }
}

/// Removes the first component (`a/`, `b/`) of a name.
fn without_prefix(name: &[u8]) -> Result<Vec<u8>, String> {
    let shown = || String::from_utf8_lossy(name).into_owned();
    if name.starts_with(b"/") {
        return Err(format!("absolute path `{}`", shown()));
    }
    match name.iter().position(|&byte| byte == b'/') {
        Some(at) if name[..at] != *b".." => check_path(&name[at + 1..]),
        Some(_) => Err(format!("path `{}` leaves the tree", shown())),
        None => Err(format!("path `{}` lacks the prefix `a/` or `b/`", shown())),
    }
}

fn check_path(path: &[u8]) -> Result<Vec<u8>, String> {
    template::check_path(path)?;
    Ok(path.to_vec())
}
