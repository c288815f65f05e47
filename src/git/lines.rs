//! Two texts → the hunks of their difference as line numbers, for whoever takes a change apart.

use std::ops::Range;

use anyhow::{Context, Result};
use git2::{DiffOptions, Patch};

use super::hunks::{CONTEXT_LINES, is_binary};

/// One hunk of a text's change, the same that a patch shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineHunk {
    /// `@@ -a,b +c,d @@ function`.
    pub header: String,
    /// Whole lines with their context, from 0.
    old: Range<usize>,
    new: Range<usize>,
    /// Lines of the new text that it adds, from 1.
    pub added: Vec<u32>,
    /// First and last line of the new text that it changes, from 1; where it only removes, the line before.
    pub place: (u32, u32),
}

/// Returns the hunks between two texts; `None` where one of them is binary.
///
/// # Errors
/// libgit2 cannot compare the texts.
pub fn line_hunks(old: &[u8], new: &[u8]) -> Result<Option<Vec<LineHunk>>> {
    if is_binary(old) || is_binary(new) {
        return Ok(None);
    }
    let mut options = DiffOptions::new();
    options.context_lines(CONTEXT_LINES).interhunk_lines(0).force_text(true);
    let patch = Patch::from_buffers(old, None, new, None, Some(&mut options)).context("compare two texts")?;
    (0..patch.num_hunks()).map(|n| line_hunk(&patch, n).context("read a hunk")).collect::<Result<_>>().map(Some)
}

fn line_hunk(patch: &Patch, n: usize) -> Result<LineHunk> {
    let (hunk, n_lines) = patch.hunk(n)?;
    let (mut added, mut places) = (Vec::new(), Vec::new());
    // The line of the new text that was read last.
    let mut at = hunk.new_start().saturating_sub(u32::from(hunk.new_lines() > 0));
    for index in 0..n_lines {
        let line = patch.line_in_hunk(n, index)?;
        at = line.new_lineno().unwrap_or(at);
        match line.origin() {
            '+' => {
                added.push(at);
                places.push(at);
            }
            '-' => places.push(at.max(1)),
            _ => {}
        }
    }
    let place = match added.as_slice() {
        [] => (places.first().copied().unwrap_or(1), places.last().copied().unwrap_or(1)),
        [first, ..] => (*first, added[added.len() - 1]),
    };
    Ok(LineHunk {
        header: String::from_utf8_lossy(hunk.header()).trim_end().to_owned(),
        old: lines(hunk.old_start(), hunk.old_lines()),
        new: lines(hunk.new_start(), hunk.new_lines()),
        added,
        place,
    })
}

/// Returns a range of lines from 0; an empty one is named by the line before it.
fn lines(start: u32, count: u32) -> Range<usize> {
    let first = start as usize - usize::from(count > 0 && start > 0);
    first..first + count as usize
}

impl LineHunk {
    /// Returns the new text with the old lines in this hunk's place.
    pub fn undo(&self, old: &[u8], new: &[u8]) -> Vec<u8> {
        let split = |text| -> Vec<&[u8]> { <[u8]>::split_inclusive(text, |&byte| byte == b'\n').collect() };
        let (old, new) = (split(old), split(new));
        [&new[..self.new.start], &old[self.old.clone()], &new[self.new.end..]].concat().concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(n: usize) -> Vec<String> {
        (1..=n).map(|line| if line == 20 { "def f():\n".to_owned() } else { format!("    line {line}\n") }).collect()
    }

    #[test]
    fn each_hunk_can_be_undone_alone_and_says_where_it_is() {
        let old = numbered(60);
        let mut new = old.clone();
        new[55] = "    changed 56\n".to_owned();
        new.splice(29..31, ["    new 30\n".to_owned()]);
        new.remove(9);
        new.insert(0, "first\n".to_owned());
        let (before, after) = (old.concat(), new.concat());
        let hunks = line_hunks(before.as_bytes(), after.as_bytes()).unwrap().unwrap();
        let seen: Vec<(&str, (u32, u32), &[u32])> =
            hunks.iter().map(|hunk| (hunk.header.as_str(), hunk.place, hunk.added.as_slice())).collect();
        assert_eq!(
            seen,
            [
                ("@@ -1,3 +1,4 @@", (1, 1), [1].as_slice()),
                ("@@ -7,7 +8,6 @@", (10, 10), &[]),
                ("@@ -27,8 +27,7 @@ def f():", (30, 30), &[30]),
                ("@@ -53,7 +52,7 @@ def f():", (55, 55), &[55]),
            ]
        );
        let undone = |n: usize| String::from_utf8(hunks[n].undo(before.as_bytes(), after.as_bytes())).unwrap();
        assert_eq!(undone(0), after.strip_prefix("first\n").unwrap());
        assert_eq!(undone(1), after.replace("    line 11\n", "    line 10\n    line 11\n"));
        assert_eq!(undone(2), after.replace("    new 30\n", "    line 30\n    line 31\n"));
        assert_eq!(undone(3), after.replace("changed", "line"));
    }

    #[test]
    fn whole_texts_missing_newlines_and_binary_contents() {
        let undone = |old: &str, new: &str| {
            let hunks = line_hunks(old.as_bytes(), new.as_bytes()).unwrap().unwrap();
            assert_eq!(hunks.len(), 1);
            String::from_utf8(hunks[0].undo(old.as_bytes(), new.as_bytes())).unwrap()
        };
        assert_eq!(undone("", "a\nb\n"), "");
        assert_eq!(undone("a\nb\n", ""), "a\nb\n");
        assert_eq!(undone("a\nb", "a\nc\n"), "a\nb");
        assert_eq!(line_hunks(b"a\n", b"a\n").unwrap(), Some(vec![]));
        assert_eq!(line_hunks(b"a\0", b"a").unwrap(), None);
    }
}
