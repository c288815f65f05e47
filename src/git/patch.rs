//! Unified git diff → values. Lines end at `\n` and nowhere else; bodies are read by the counts of their headers, so that
//! text inside a hunk is never taken for a header. Nothing is trimmed; only a missing last newline is added.

mod header;

use self::header::{Header, Name, assemble, extended_header, header_names};
use super::{
    binary::{self, Block},
    quote::unquoted,
};

/// What one part of a patch does to its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Modify,
    Create,
    Delete,
    Rename,
    Copy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Only modes or names change, or an empty file comes or goes.
    Empty,
    Hunks(Vec<Hunk>),
    Binary(Block),
}

/// One hunk; lines include their newline, where they have one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// Line of the patch it begins at, from 1.
    pub patch_line: usize,
    /// As written in the header: from 1, or the line before an insertion without context.
    pub old_start: usize,
    pub old: Vec<Vec<u8>>,
    pub new: Vec<Vec<u8>>,
    /// Unchanged lines at its end.
    pub trailing: usize,
}

/// One file's part of a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePatch {
    /// Line of the patch it begins at, from 1.
    pub patch_line: usize,
    pub action: Action,
    pub old_path: Vec<u8>,
    pub new_path: Vec<u8>,
    pub old_mode: Option<u32>,
    pub new_mode: Option<u32>,
    /// Object ids of the index line where they are complete.
    pub old_id: Option<String>,
    pub new_id: Option<String>,
    pub body: Body,
}

/// Parses a patch.
///
/// # Errors
/// The text names the line that cannot be understood.
pub fn parse(patch: &[u8]) -> Result<Vec<FilePatch>, String> {
    if patch.iter().all(u8::is_ascii_whitespace) {
        return Ok(Vec::new());
    }
    let text = patch.strip_suffix(b"\n").unwrap_or(patch);
    let mut reader = Reader { lines: text.split(|&byte| byte == b'\n').collect(), at: 0 };
    let mut files = Vec::new();
    while let Some(line) = reader.peek() {
        if line.starts_with(b"diff --git ") {
            files.push(git_part(&mut reader)?);
        } else if reader.is_plain_header() {
            files.push(plain_part(&mut reader)?);
        } else if line == b"-- " || line == b"--" {
            reader.skip_signature();
        } else if !files.is_empty() && matches!(line.first(), Some(b' ' | b'+' | b'-' | b'@' | b'\\')) {
            return reader.fail("text outside of any hunk; the hunk before it announces fewer lines");
        } else {
            reader.at += 1;
        }
    }
    if files.is_empty() { Err("the patch names no file".to_owned()) } else { Ok(files) }
}

struct Reader<'a> {
    lines: Vec<&'a [u8]>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a [u8]> {
        self.lines.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'a [u8]> {
        let line = self.peek();
        self.at += 1;
        line
    }

    fn fail<T>(&self, why: &str) -> Result<T, String> {
        Err(format!("patch line {}: {why}", self.at + 1))
    }

    /// Says whether a unified diff without git's own header begins here.
    fn is_plain_header(&self) -> bool {
        let starts =
            |offset: usize, mark: &[u8]| self.lines.get(self.at + offset).is_some_and(|line| line.starts_with(mark));
        starts(0, b"--- ") && starts(1, b"+++ ") && starts(2, b"@@ -")
    }

    /// Skips the end of a mailed patch: `-- ` and the program's version.
    fn skip_signature(&mut self) {
        self.at += 1;
        while self.peek().is_some_and(|line| !line.starts_with(b"diff --git ") && !line.starts_with(b"From ")) {
            self.at += 1;
        }
    }
}

fn git_part(reader: &mut Reader<'_>) -> Result<FilePatch, String> {
    let patch_line = reader.at + 1;
    let first = reader.next().unwrap_or_default();
    let mut header = Header { names: header_names(&first[b"diff --git ".len()..]), ..Header::default() };
    while let Some(line) = reader.peek() {
        match extended_header(line, &mut header) {
            Ok(true) => reader.at += 1,
            Ok(false) => break,
            Err(why) => return reader.fail(&why),
        }
    }
    let body = match reader.peek() {
        Some(line) if line.starts_with(b"--- ") => text_body(reader, &mut header)?,
        Some(b"GIT binary patch") => Body::Binary(binary_body(reader)?),
        Some(line) if line.starts_with(b"Binary files ") => {
            return reader.fail("a binary file without its data; make the patch with `git diff --binary`");
        }
        Some(_) | None => Body::Empty,
    };
    assemble(patch_line, &header, body)
}

fn plain_part(reader: &mut Reader<'_>) -> Result<FilePatch, String> {
    let patch_line = reader.at + 1;
    let mut header = Header::default();
    let body = text_body(reader, &mut header)?;
    header.is_new = header.old_name == Name::Null;
    header.is_deleted = header.new_name == Name::Null;
    assemble(patch_line, &header, body)
}

fn text_body(reader: &mut Reader<'_>, header: &mut Header) -> Result<Body, String> {
    header.old_name = side_name(reader, b"--- ")?;
    header.new_name = side_name(reader, b"+++ ")?;
    let mut hunks = Vec::new();
    while reader.peek().is_some_and(|line| line.starts_with(b"@@ -")) {
        hunks.push(hunk(reader)?);
    }
    if hunks.is_empty() { reader.fail("expected a hunk") } else { Ok(Body::Hunks(hunks)) }
}

fn side_name(reader: &mut Reader<'_>, mark: &[u8]) -> Result<Name, String> {
    let Some(name) = reader.peek().and_then(|line| line.strip_prefix(mark)) else {
        return reader.fail("expected a `+++` line");
    };
    let name = match unquoted(name) {
        Some((name, _)) => name,
        None => name.split(|&byte| byte == b'\t').next().unwrap_or_default().to_vec(),
    };
    reader.at += 1;
    Ok(if name == b"/dev/null" { Name::Null } else { Name::Path(name) })
}

fn hunk(reader: &mut Reader<'_>) -> Result<Hunk, String> {
    let patch_line = reader.at + 1;
    let Some((old_start, n_old, n_new)) = reader.peek().and_then(hunk_header) else {
        return reader.fail("malformed hunk header");
    };
    reader.at += 1;
    let (mut old, mut new): (Vec<Vec<u8>>, Vec<Vec<u8>>) = (Vec::new(), Vec::new());
    let mut trailing = 0;
    loop {
        let line = reader.peek();
        if old.len() == n_old && new.len() == n_new && line.is_none_or(|line| !line.starts_with(b"\\ ")) {
            break;
        }
        let Some(line) = line else { return reader.fail("the patch ends within a hunk") };
        let (mark, content) = line.split_first().map_or((b' ', line), |(mark, content)| (*mark, content));
        let whole = [content, b"\n"].concat();
        match mark {
            b' ' => {
                old.push(whole.clone());
                new.push(whole);
                trailing += 1;
            }
            b'-' => old.push(whole),
            b'+' => new.push(whole),
            b'\\' => remove_newlines(reader, patch_line, &mut old, &mut new)?,
            _ => return reader.fail("unexpected text in a hunk"),
        }
        if mark == b'-' || mark == b'+' {
            trailing = 0;
        }
        if old.len() > n_old || new.len() > n_new {
            return reader.fail("the hunk has more lines than its header says");
        }
        reader.at += 1;
    }
    Ok(Hunk { patch_line, old_start, old, new, trailing })
}

/// Carries out a `\ No newline at end of file` mark: the line before it ends without one.
fn remove_newlines(
    reader: &Reader<'_>,
    hunk_line: usize,
    old: &mut [Vec<u8>],
    new: &mut [Vec<u8>],
) -> Result<(), String> {
    let before = reader.lines[reader.at - 1].first().copied().unwrap_or(b' ');
    let strip = |lines: &mut [Vec<u8>]| match lines.last_mut().map(Vec::pop) {
        Some(Some(b'\n')) => true,
        Some(_) | None => false,
    };
    let is_ours = reader.at >= hunk_line;
    let stripped = is_ours
        && match before {
            b'-' => strip(old),
            b'+' => strip(new),
            b' ' => strip(old) && strip(new),
            _ => false,
        };
    if stripped { Ok(()) } else { reader.fail("misplaced `\\ No newline` mark") }
}

/// Reads `@@ -a,b +c,d @@`: old start, old count, new count.
fn hunk_header(line: &[u8]) -> Option<(usize, usize, usize)> {
    let text = line.strip_prefix(b"@@ -")?;
    let end = text.windows(3).position(|mark| mark == b" @@")?;
    let ranges = std::str::from_utf8(&text[..end]).ok()?;
    let (old, new) = ranges.split_once(" +")?;
    let range = |text: &str| -> Option<(usize, usize)> {
        match text.split_once(',') {
            Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
            None => Some((text.parse().ok()?, 1)),
        }
    };
    let ((old_start, n_old), (_, n_new)) = (range(old)?, range(new)?);
    Some((old_start, n_old, n_new))
}

/// Reads the block for the new content; the one back to the old content, if there, is skipped.
fn binary_body(reader: &mut Reader<'_>) -> Result<Block, String> {
    reader.at += 1;
    let Some(block) = binary_block(reader)? else { return reader.fail("expected `literal` or `delta`") };
    binary_block(reader)?;
    Ok(block)
}

fn binary_block(reader: &mut Reader<'_>) -> Result<Option<Block>, String> {
    let Some(line) = reader.peek() else { return Ok(None) };
    let (is_delta, size) = match (line.strip_prefix(b"literal "), line.strip_prefix(b"delta ")) {
        (Some(size), _) => (false, size),
        (None, Some(size)) => (true, size),
        (None, None) => return Ok(None),
    };
    let Some(size) = std::str::from_utf8(size).ok().and_then(|size| size.parse().ok()) else {
        return reader.fail("malformed size of a binary block");
    };
    reader.at += 1;
    let start = reader.at;
    while reader.peek().is_some_and(|line| !line.is_empty()) {
        reader.at += 1;
    }
    let block = binary::decode(is_delta, size, &reader.lines[start..reader.at]).or_else(|why| reader.fail(&why))?;
    reader.at += 1;
    Ok(Some(block))
}
