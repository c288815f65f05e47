//! A fix taken apart: what each file is without one of its hunks.

use std::collections::HashMap;

use anyhow::Result;

use super::File;
use crate::{
    git::{SYMLINK, lines::line_hunks},
    record::patch::FileContent,
    syntax,
};

/// One part of a file's change that can be dropped.
pub struct Hunk {
    /// What the file is without it; `None`: not there.
    pub without: Option<FileContent>,
    /// First and last line, see [`HunkStrength::lines`](crate::record::strength::HunkStrength).
    pub lines: (u32, u32),
    pub header: String,
    pub is_code: bool,
    /// Lines of the fixed file that it adds, from 1.
    pub added: Vec<u32>,
}

/// Returns a file's hunks; one for a file that comes, goes, changes its mode, or is not text.
///
/// # Errors
/// libgit2 cannot compare the contents.
pub fn hunks(file: &File) -> Result<Vec<Hunk>> {
    let path = file.change.path.as_bytes();
    let (Some(old), Some(new)) = (&file.old, &file.new) else { return Ok(vec![whole_file(file)]) };
    let mut hunks = Vec::new();
    if old.mode != new.mode {
        let without = FileContent { mode: old.mode, bytes: new.bytes.clone() };
        let header = format!("mode {:06o} → {:06o}", old.mode, new.mode);
        hunks.push(Hunk { without: Some(without), lines: (1, 1), header, is_code: true, added: Vec::new() });
    }
    let is_link = old.mode == SYMLINK || new.mode == SYMLINK;
    let (before, after) = (old.bytes.as_bytes(), new.bytes.as_bytes());
    let parts = if is_link { None } else { line_hunks(before, after)? };
    let Some(parts) = parts else {
        let header = "binary".to_owned();
        return Ok(vec![Hunk { without: Some(old.clone()), lines: (1, 1), header, is_code: true, added: Vec::new() }]);
    };
    for part in parts {
        let bytes = part.undo(before, after);
        let is_code = !syntax::is_same_code(path, after, &bytes);
        let without = Some(FileContent { mode: new.mode, bytes: bytes.into() });
        hunks.push(Hunk { without, lines: part.place, header: part.header, is_code, added: part.added });
    }
    Ok(hunks)
}

fn whole_file(file: &File) -> Hunk {
    let content = file.old.as_ref().or(file.new.as_ref()).map(|content| content.bytes.as_bytes()).unwrap_or_default();
    let n_lines = u32::try_from(lines_of(content).count()).unwrap_or(u32::MAX);
    let is_added = file.old.is_none();
    Hunk {
        without: file.old.clone(),
        lines: (1, n_lines.max(1)),
        header: if is_added { "new file" } else { "deleted file" }.to_owned(),
        is_code: !syntax::is_same_code(file.change.path.as_bytes(), b"", content),
        added: if is_added { (1..=n_lines).collect() } else { Vec::new() },
    }
}

/// Gives a moved file its old content. That it was moved is no hunk: what is left is no program that anyone had.
pub fn join_moved(files: &mut Vec<File>) {
    while let Some((from, to)) = moved(files) {
        files[to].old = files[from].old.take();
        files.remove(from);
    }
}

fn moved(files: &[File]) -> Option<(usize, usize)> {
    let gone = (0..files.len()).filter(|&n| files[n].new.is_none());
    let found = gone.filter_map(|from| {
        let old = files[from].old.as_ref()?;
        let is_added = |to: &usize| files[*to].old.is_none() && files[*to].change.old.is_none();
        let to = (0..files.len()).filter(is_added).find(|&to| {
            files[to].new.as_ref().is_some_and(|new| is_similar(old.bytes.as_bytes(), new.bytes.as_bytes()))
        })?;
        Some((from, to))
    });
    found.into_iter().next()
}

/// Says whether at least half of the lines are the same, which git takes for a renamed file.
fn is_similar(old: &[u8], new: &[u8]) -> bool {
    let mut left: HashMap<&[u8], usize> = HashMap::new();
    for line in lines_of(old) {
        *left.entry(line).or_default() += 1;
    }
    let n_same = lines_of(new)
        .filter(|line| {
            let count = left.get_mut(line).filter(|count| **count > 0);
            count.map(|count| *count -= 1).is_some()
        })
        .count();
    let n_lines = lines_of(old).count().max(lines_of(new).count());
    n_lines > 0 && 2 * n_same >= n_lines
}

fn lines_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|&byte| byte == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::candidate::{FileChange, Role, Side};

    const TEXT: &str = "def f():\n    return 1\n\n\ndef g():\n    return 2\n\n\ndef h():\n    return 3\n";

    fn change(path: &str, is_old: bool) -> FileChange {
        let side = Side { mode: 0o100_644, oid: String::new() };
        FileChange {
            path: path.into(),
            role: Role::Source,
            old: is_old.then(|| side.clone()),
            new: Some(side),
            added_lines: 0,
            removed_lines: 0,
            with_new_tests: None,
        }
    }

    fn content(mode: u32, text: &str) -> Option<FileContent> {
        Some(FileContent { mode, bytes: text.into() })
    }

    /// Returns header, lines and kind of each hunk.
    fn shown(old: Option<FileContent>, new: Option<FileContent>) -> Vec<(String, (u32, u32), bool)> {
        let change = change("a.py", old.is_some());
        let file = File { change: &change, old, new, hunks: Vec::new() };
        hunks(&file).unwrap().into_iter().map(|hunk| (hunk.header, hunk.lines, hunk.is_code)).collect()
    }

    #[test]
    fn every_kind_of_change_comes_apart() {
        let plain = |text: &str| content(0o100_644, text);
        let one = |header: &str, lines, is_code| vec![(header.to_owned(), lines, is_code)];
        assert_eq!(shown(None, plain(TEXT)), one("new file", (1, 10), true));
        assert_eq!(shown(None, plain("")), one("new file", (1, 1), false));
        assert_eq!(shown(plain(TEXT), None), one("deleted file", (1, 10), true));
        assert_eq!(shown(plain("a\0"), plain("b\0")), one("binary", (1, 1), true));
        assert_eq!(shown(plain("a"), content(0o120_000, "b")).last().unwrap().0, "binary");
        let new = TEXT.replace("return 3", "return 4").replace("def f():\n", "def f():\n    # One.\n");
        let seen = shown(plain(TEXT), content(0o100_755, &new));
        let expected = [
            ("mode 100644 → 100755", (1, 1), true),
            ("@@ -1,4 +1,5 @@", (2, 2), false),
            ("@@ -7,4 +8,4 @@ def g():", (11, 11), true),
        ];
        assert_eq!(seen, expected.map(|(header, lines, is_code)| (header.to_owned(), lines, is_code)));
    }

    #[test]
    fn a_moved_file_is_compared_with_what_it_was() {
        let changes = ["new.py", "old.py", "other.py"].map(|path| change(path, path == "old.py"));
        let text = |text: &str| content(0o100_644, text);
        let [new, old, other] = &changes;
        let file = |change, old, new| File { change, old, new, hunks: Vec::new() };
        let mut files = vec![
            file(other, None, text("x = 1\n")),
            file(old, text(TEXT), None),
            file(new, None, text(&TEXT.replace('3', "4"))),
        ];
        join_moved(&mut files);
        assert_eq!(files.iter().map(|file| file.change.path.lossy()).collect::<Vec<_>>(), ["other.py", "new.py"]);
        let moved = hunks(&files[1]).unwrap();
        assert_eq!(moved.iter().map(|hunk| hunk.lines).collect::<Vec<_>>(), [(10, 10)]);
        assert_eq!(moved[0].without, text(TEXT));
    }
}
