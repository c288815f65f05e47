//! Two contents → hunks, or a binary block: libgit2 at work on buffers without a repository.
//!
//! Most files are long and most changes short, so that equal lines at both ends are left out of the comparison, except
//! for a margin in which a group of changed lines may slide; line numbers and the function named beside them are then
//! put right.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use git2::{DiffOptions, Patch};

/// Lines of unchanged text around each change.
pub(super) const CONTEXT_LINES: u32 = 3;
/// Equal lines kept at each end of what is compared.
const MARGIN_LINES: usize = 64;
/// Git takes a file with a NUL in this many first bytes for binary.
const BINARY_CHECK_BYTES: usize = 8000;
/// Longest text beside a hunk's line numbers, bytes, as in git.
const MAX_FUNCTION_BYTES: usize = 80;

/// Added and removed lines; zero for binary files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    pub added: u32,
    pub removed: u32,
}

/// Which lines two contents do not share, each from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedLines {
    /// Groups of changed lines without an unchanged line between them.
    pub n_hunks: u32,
    /// In the old content.
    pub removed: BTreeSet<u32>,
    /// In the new content.
    pub added: BTreeSet<u32>,
    /// In the old content, the lines after which lines are only added.
    pub anchors: BTreeSet<u32>,
}

/// Returns the lines that differ; none for binary contents.
///
/// # Errors
/// libgit2 cannot compare the contents.
pub fn changed_lines(old: &[u8], new: &[u8]) -> Result<ChangedLines> {
    let mut lines = ChangedLines::default();
    if is_binary(old) || is_binary(new) {
        return Ok(lines);
    }
    let context = "compare two contents";
    let mut options = DiffOptions::new();
    options.context_lines(0).interhunk_lines(0).force_text(true);
    let patch = Patch::from_buffers(old, None, new, None, Some(&mut options)).context(context)?;
    for hunk in 0..patch.num_hunks() {
        lines.n_hunks += 1;
        let (header, n_lines) = patch.hunk(hunk).context(context)?;
        if header.old_lines() == 0 {
            lines.anchors.insert(header.old_start());
        }
        for line in 0..n_lines {
            let line = patch.line_in_hunk(hunk, line).context(context)?;
            match line.origin() {
                '+' => lines.added.extend(line.new_lineno()),
                '-' => lines.removed.extend(line.old_lineno()),
                _ => {}
            }
        }
    }
    Ok(lines)
}

/// Returns hunks or a binary block (empty where both sides are empty) and the number of changed lines.
///
/// # Errors
/// libgit2 cannot compare the contents.
pub fn body(old: &[u8], new: &[u8]) -> Result<(Vec<u8>, LineCounts)> {
    if is_binary(old) || is_binary(new) {
        return compare(old, new, false);
    }
    let ends = equal_ends(old, new);
    let middle = |whole: &'_ [u8]| ends.head..whole.len() - ends.tail;
    let (text, counts) = compare(&old[middle(old)], &new[middle(new)], true)?;
    if ends.head == 0 {
        return Ok((text, counts));
    }
    Ok((renumber(&text, &old[..ends.head]), counts))
}

pub(super) fn is_binary(bytes: &[u8]) -> bool {
    bytes[..bytes.len().min(BINARY_CHECK_BYTES)].contains(&0)
}

fn compare(old: &[u8], new: &[u8], is_text: bool) -> Result<(Vec<u8>, LineCounts)> {
    let mut options = DiffOptions::new();
    options.context_lines(CONTEXT_LINES).interhunk_lines(0).show_binary(true).id_abbrev(40).force_text(is_text);
    let mut patch = Patch::from_buffers(old, None, new, None, Some(&mut options)).context("compare two contents")?;
    let (_, added, removed) = patch.line_stats().context("count changed lines")?;
    let count = |lines: usize| u32::try_from(lines).unwrap_or(u32::MAX);
    let counts = LineCounts { added: count(added), removed: count(removed) };
    let whole = patch.to_buf().context("write a patch")?;
    // libgit2's own header ends where the first hunk or the binary block begins; its file is named `file`.
    let starts = [b"@@ ".as_slice(), b"GIT binary patch\n"];
    let mut at = 0;
    while at < whole.len() {
        if starts.iter().any(|start| whole[at..].starts_with(start)) {
            return Ok((whole[at..].to_vec(), counts));
        }
        at += whole[at..].iter().position(|&byte| byte == b'\n').map_or(whole.len(), |end| end + 1);
    }
    Ok((Vec::new(), counts))
}

/// Bytes of whole equal lines that are left out at the beginning and at the end.
struct Ends {
    head: usize,
    tail: usize,
}

fn equal_ends(old: &[u8], new: &[u8]) -> Ends {
    let common = equal_prefix(old, new);
    let head = nth_newline_back(&old[..common], MARGIN_LINES).unwrap_or(0);
    let common = equal_suffix(&old[head..], &new[head..]);
    let suffix = &old[old.len() - common..];
    let kept = suffix.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(MARGIN_LINES);
    Ends { head, tail: kept.map_or(0, |(at, _)| common - at - 1) }
}

/// Bytes compared at once; the compiler has an instruction for it.
const BLOCK: usize = 64;

/// Returns how many first bytes are equal.
pub fn equal_prefix(left: &[u8], right: &[u8]) -> usize {
    let blocks = left.chunks_exact(BLOCK).zip(right.chunks_exact(BLOCK)).take_while(|(left, right)| left == right);
    let start = blocks.count() * BLOCK;
    start + left[start..].iter().zip(&right[start..]).take_while(|(left, right)| left == right).count()
}

fn equal_suffix(left: &[u8], right: &[u8]) -> usize {
    let blocks = left.rchunks_exact(BLOCK).zip(right.rchunks_exact(BLOCK)).take_while(|(left, right)| left == right);
    let end = blocks.count() * BLOCK;
    let rest = left[..left.len() - end].iter().rev().zip(right[..right.len() - end].iter().rev());
    end + rest.take_while(|(left, right)| left == right).count()
}

/// Returns the position after the newline that `count` more newlines follow.
fn nth_newline_back(text: &[u8], count: usize) -> Option<usize> {
    text.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').nth(count).map(|(at, _)| at + 1)
}

/// Corrects the headers of hunks for the lines before them that were left out.
fn renumber(text: &[u8], head: &[u8]) -> Vec<u8> {
    let n_lines = head.split(|&byte| byte == b'\n').count() - 1;
    let function = function_before(head);
    let mut out = Vec::with_capacity(text.len() + 64);
    let mut left = (0, 0);
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let header = if left == (0, 0) { Header::parse(line) } else { None };
        if let Some(header) = header {
            left = (header.old.1, header.new.1);
            header.write(&mut out, n_lines, function);
            continue;
        }
        match line.first() {
            Some(b' ') => left = (left.0.saturating_sub(1), left.1.saturating_sub(1)),
            Some(b'-') => left.0 = left.0.saturating_sub(1),
            Some(b'+') => left.1 = left.1.saturating_sub(1),
            Some(_) | None => {}
        }
        out.extend_from_slice(line);
    }
    out
}

/// `@@ -a,b +c,d @@ function`.
struct Header<'a> {
    old: (usize, usize),
    new: (usize, usize),
    function: &'a [u8],
}

impl<'a> Header<'a> {
    fn parse(line: &'a [u8]) -> Option<Header<'a>> {
        let rest = line.strip_prefix(b"@@ -")?;
        let end = rest.windows(3).position(|mark| mark == b" @@")?;
        let (old, new) = std::str::from_utf8(&rest[..end]).ok()?.split_once(" +")?;
        let range = |text: &str| match text.split_once(',') {
            Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
            None => Some((text.parse().ok()?, 1)),
        };
        let function = rest[end + 3..].strip_suffix(b"\n").unwrap_or(&rest[end + 3..]);
        Some(Header { old: range(old)?, new: range(new)?, function })
    }

    fn write(&self, out: &mut Vec<u8>, n_lines: usize, function: Option<&[u8]>) {
        let range = |(start, count): (usize, usize)| match count {
            1 => (start + n_lines).to_string(),
            _ => format!("{},{count}", start + n_lines),
        };
        out.extend_from_slice(format!("@@ -{} +{} @@", range(self.old), range(self.new)).as_bytes());
        if let (true, Some(function)) = (self.function.is_empty(), function) {
            out.push(b' ');
            out.extend_from_slice(function);
        }
        out.extend_from_slice(self.function);
        out.push(b'\n');
    }
}

/// Returns the last line that begins like a function, by git's rule for files of no known language.
fn function_before(head: &[u8]) -> Option<&[u8]> {
    let is_function =
        |line: &&[u8]| line.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_' || *byte == b'$');
    let line = head.rsplit(|&byte| byte == b'\n').find(is_function)?;
    Some(line[..line.len().min(MAX_FUNCTION_BYTES)].trim_ascii_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(n: usize) -> Vec<String> {
        (0..n)
            .map(|line| if line % 50 == 0 { format!("def f{line}():\n") } else { format!("    line {line}\n") })
            .collect()
    }

    #[test]
    fn leaving_equal_ends_out_does_not_change_the_text() {
        let old = numbered(1000);
        for (at, replacement) in [
            (0_usize, vec!["x\n"]),
            (10, vec![]),
            (500, vec!["x\n", "    line 500\n"]),
            (333, vec!["    y\n"]),
            (999, vec!["no newline"]),
            (999, vec![]),
        ] {
            for second in [None, Some(at / 2), Some(at.saturating_sub(5))] {
                let mut new = old.clone();
                new.splice(at..=at, replacement.iter().map(|line| (*line).to_owned()));
                if let Some(second) = second {
                    new.remove(second);
                }
                let (old, new) = (old.concat(), new.concat());
                let whole = compare(old.as_bytes(), new.as_bytes(), true).unwrap();
                let trimmed = body(old.as_bytes(), new.as_bytes()).unwrap();
                assert_eq!(
                    String::from_utf8_lossy(&trimmed.0),
                    String::from_utf8_lossy(&whole.0),
                    "line {at}, {replacement:?}, {second:?}"
                );
                assert_eq!(trimmed.1, whole.1);
            }
        }
    }

    #[test]
    fn a_header_inside_a_hunk_is_left_alone() {
        let mut old = numbered(300);
        old[200] = "@@ -1,2 +3,4 @@\n".to_owned();
        let mut new = old.clone();
        new[200] = "@@ -5 +6 @@ x\n".to_owned();
        let (text, _) = body(old.concat().as_bytes(), new.concat().as_bytes()).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("@@ -198,7 +198,7 @@ def f150():\n"), "{text}");
        assert!(text.contains("-@@ -1,2 +3,4 @@\n+@@ -5 +6 @@ x\n"), "{text}");
    }

    #[test]
    fn a_nul_far_into_a_text_is_text() {
        let mut old = numbered(2000).concat().into_bytes();
        old.push(0);
        let mut new = old.clone();
        new.extend(b"more\n");
        assert!(body(&old, &new).unwrap().0.starts_with(b"@@"));
        assert!(body(b"\0a", b"\0b").unwrap().0.starts_with(b"GIT binary patch\n"));
    }
}
