//! Unified diffs as text: parsing, and strict application to one file's bytes. Pure.
//!
//! Context and removed lines must match byte for byte. A hunk may have moved, but only to the one place where it fits;
//! nothing is guessed, and what does not fit is refused with the lines that are really there.

use std::fmt::Write as _;

/// What a line of a hunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Context,
    Removed,
    Added,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub kind: Kind,
    pub text: String,
    /// Whether a line feed follows; false after `\ No newline at end of file`.
    pub newline: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// First line in the old file, counted from 1; 0 for an empty old side.
    pub old_start: usize,
    pub lines: Vec<Line>,
}

impl Hunk {
    /// Returns the text that must be there (`Kind::Added` left out) or that results (`Kind::Removed` left out).
    pub fn side(&self, left_out: Kind) -> String {
        let mut text = String::new();
        for line in self.lines.iter().filter(|line| line.kind != left_out) {
            text.push_str(&line.text);
            if line.newline {
                text.push('\n');
            }
        }
        text
    }

    pub fn n_old(&self) -> usize {
        self.lines.iter().filter(|line| line.kind != Kind::Added).count()
    }

    pub fn n_new(&self) -> usize {
        self.lines.iter().filter(|line| line.kind != Kind::Removed).count()
    }

    /// Returns the hunk as diff text, for a place `shift` lines below its old one.
    pub fn render(&self, shift: isize) -> String {
        let new_start = self.old_start.saturating_add_signed(shift);
        let mut text = format!("@@ -{},{} +{new_start},{} @@\n", self.old_start, self.n_old(), self.n_new());
        for line in &self.lines {
            text.push(match line.kind {
                Kind::Context => ' ',
                Kind::Removed => '-',
                Kind::Added => '+',
            });
            text.push_str(&line.text);
            text.push('\n');
            if !line.newline {
                text.push_str("\\ No newline at end of file\n");
            }
        }
        text
    }
}

/// The changes to one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePatch {
    /// `None`: the file is new.
    pub old_path: Option<String>,
    /// `None`: the file is removed.
    pub new_path: Option<String>,
    pub hunks: Vec<Hunk>,
    /// Names of what this reader does not apply (`binary data`, `a rename`, `a mode change`).
    pub unsupported: Option<&'static str>,
    /// This file's part of the diff as it was written.
    pub raw: String,
}

impl FilePatch {
    pub fn path(&self) -> &str {
        self.new_path.as_deref().or(self.old_path.as_deref()).unwrap_or_default()
    }

    /// Returns a plain diff with only the given hunks.
    pub fn render(&self, hunks: &[Hunk]) -> String {
        let side = |prefix: &str, path: &Option<String>| match path {
            Some(path) => format!("{prefix}/{path}"),
            None => "/dev/null".to_owned(),
        };
        let mut text = format!("--- {}\n+++ {}\n", side("a", &self.old_path), side("b", &self.new_path));
        let mut shift = 0_isize;
        for hunk in hunks {
            text.push_str(&hunk.render(shift));
            shift += hunk.n_new().cast_signed() - hunk.n_old().cast_signed();
        }
        text
    }
}

/// Reads a unified diff of any number of files, with or without git's extended headers.
///
/// # Errors
/// What is wrong and in which line, for the one who wrote it.
pub fn parse(diff: &str) -> Result<Vec<FilePatch>, String> {
    let mut files = Vec::new();
    let lines: Vec<&str> = diff.split('\n').collect();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        if line.starts_with("diff --git ") || line.starts_with("--- ") {
            let (file, next) = parse_file(&lines, at)?;
            files.push(file);
            at = next;
        } else if line.starts_with("@@ ") {
            return Err(format!("line {}: a hunk without a `--- a/path` and `+++ b/path` header before it", at + 1));
        } else {
            at += 1;
        }
    }
    if files.is_empty() {
        return Err("no file header (`--- a/path` followed by `+++ b/path`) found".to_owned());
    }
    Ok(files)
}

fn parse_file(lines: &[&str], start: usize) -> Result<(FilePatch, usize), String> {
    let mut file = FilePatch::default();
    let mut at = start;
    if let Some(names) = lines[at].strip_prefix("diff --git ") {
        (file.old_path, file.new_path) = git_header_paths(names);
        at += 1;
        while at < lines.len() && !starts_file(lines[at]) && !lines[at].starts_with("@@ ") {
            extended_header(&mut file, lines[at]);
            at += 1;
        }
    }
    let has_names = lines.get(at).is_some_and(|line| line.starts_with("--- "));
    if has_names {
        let new = lines.get(at + 1).and_then(|line| line.strip_prefix("+++ "));
        let Some(new) = new else {
            return Err(format!("line {}: `--- …` is not followed by `+++ …`", at + 1));
        };
        file.old_path = header_path(&lines[at][4..], "a/")?;
        file.new_path = header_path(new, "b/")?;
        at += 2;
    }
    while at < lines.len() && lines[at].starts_with("@@ ") {
        let (hunk, next) = parse_hunk(lines, at)?;
        file.hunks.push(hunk);
        at = next;
    }
    if has_names && file.hunks.is_empty() {
        return Err(format!("line {}: no hunk (`@@ -start,count +start,count @@`) after the file header", at.max(1)));
    }
    if file.path().is_empty() {
        return Err(format!("line {}: no path in the file header", start + 1));
    }
    file.raw = lines[start..at].join("\n") + "\n";
    Ok((file, at))
}

/// Says whether a line begins a file: in git's form, or with names only.
fn starts_file(line: &str) -> bool {
    line.starts_with("diff --git ") || line.starts_with("--- ")
}

fn extended_header(file: &mut FilePatch, line: &str) {
    if line.starts_with("new file mode ") {
        file.old_path = None;
        if !line.ends_with("100644") {
            file.unsupported = Some("a file mode");
        }
    } else if line.starts_with("deleted file mode ") {
        file.new_path = None;
    } else if line.starts_with("old mode ") || line.starts_with("new mode ") {
        file.unsupported = Some("a mode change");
    } else if line.starts_with("rename ") || line.starts_with("copy ") {
        file.unsupported = Some("a rename");
    } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
        file.unsupported = Some("binary data");
    }
}

fn git_header_paths(names: &str) -> (Option<String>, Option<String>) {
    // Without renames both names are the same, so the line splits in its middle whatever blanks the name has.
    let middle = names.len() / 2;
    let path = names.get(..middle).and_then(|old| old.strip_prefix("a/")).map(str::to_owned);
    (path.clone(), path)
}

fn header_path(text: &str, prefix: &str) -> Result<Option<String>, String> {
    let text = text.split('\t').next().unwrap_or_default().trim_end_matches('\r');
    if text == "/dev/null" {
        return Ok(None);
    }
    if text.starts_with('"') {
        return Err(format!("the quoted file name {text} is not supported"));
    }
    Ok(Some(text.strip_prefix(prefix).unwrap_or(text).to_owned()))
}

fn parse_hunk(lines: &[&str], start: usize) -> Result<(Hunk, usize), String> {
    let Some((old_start, mut n_old, mut n_new)) = hunk_header(lines[start]) else {
        return Err(format!("line {}: malformed hunk header `{}`", start + 1, lines[start]));
    };
    let mut hunk = Hunk { old_start, lines: Vec::new() };
    let mut at = start + 1;
    while n_old > 0 || n_new > 0 {
        let Some(&line) = lines.get(at) else {
            return Err(format!("line {at}: the hunk ends early, {n_old} old and {n_new} new lines are missing"));
        };
        let (kind, text) = match line.as_bytes().first() {
            Some(b' ') => (Kind::Context, &line[1..]),
            Some(b'-') => (Kind::Removed, &line[1..]),
            Some(b'+') => (Kind::Added, &line[1..]),
            // Editors strip the blank of an empty context line.
            None if at + 1 < lines.len() => (Kind::Context, line),
            _ => {
                return Err(format!(
                    "line {}: the hunk at line {} announces {n_old} more old and {n_new} more new lines, found `{line}`",
                    at + 1,
                    start + 1
                ));
            }
        };
        let takes = (usize::from(kind != Kind::Added), usize::from(kind != Kind::Removed));
        if takes.0 > n_old || takes.1 > n_new {
            return Err(format!("line {}: more lines than the hunk header at line {} announces", at + 1, start + 1));
        }
        n_old -= takes.0;
        n_new -= takes.1;
        hunk.lines.push(Line { kind, text: text.to_owned(), newline: true });
        at += 1;
        if lines.get(at).is_some_and(|line| line.starts_with('\\')) {
            if let Some(last) = hunk.lines.last_mut() {
                last.newline = false;
            }
            at += 1;
        }
    }
    Ok((hunk, at))
}

/// Reads `@@ -a,b +c,d @@` into (a, b, d).
fn hunk_header(line: &str) -> Option<(usize, usize, usize)> {
    let (ranges, _) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let range = |text: &str| -> Option<(usize, usize)> {
        match text.split_once(',') {
            Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
            None => Some((text.parse().ok()?, 1)),
        }
    };
    let (old_start, n_old) = range(old)?;
    Some((old_start, n_old, range(new)?.1))
}

/// Applies hunks to a file's bytes.
///
/// # Errors
/// The hunk that does not fit, why, and the file's lines at that place.
pub fn apply(content: &[u8], hunks: &[Hunk]) -> Result<Vec<u8>, String> {
    let lines = split_lines(content);
    let mut result = Vec::with_capacity(content.len());
    let mut copied = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let place = locate(&lines, hunk, copied).map_err(|reason| format!("hunk {}: {reason}", index + 1))?;
        lines[copied..place].iter().for_each(|line| result.extend_from_slice(line));
        for line in hunk.lines.iter().filter(|line| line.kind != Kind::Removed) {
            result.extend_from_slice(line.text.as_bytes());
            if line.newline {
                result.push(b'\n');
            }
        }
        copied = place + hunk.n_old();
    }
    lines[copied..].iter().for_each(|line| result.extend_from_slice(line));
    Ok(result)
}

fn split_lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Returns the index of the line at which the hunk's old side stands.
fn locate(lines: &[&[u8]], hunk: &Hunk, from: usize) -> Result<usize, String> {
    let old: Vec<Vec<u8>> = hunk
        .lines
        .iter()
        .filter(|line| line.kind != Kind::Added)
        .map(|line| {
            let mut bytes = line.text.clone().into_bytes();
            if line.newline {
                bytes.push(b'\n');
            }
            bytes
        })
        .collect();
    let stated = hunk.old_start.saturating_sub(usize::from(!old.is_empty()));
    if old.is_empty() {
        return if stated >= from && stated <= lines.len() {
            Ok(stated)
        } else {
            Err(format!("line {} is not in the file, which has {} lines", hunk.old_start, lines.len()))
        };
    }
    let fits = |place: usize| {
        place >= from && lines.len() - from >= old.len() && place <= lines.len() - old.len() && {
            lines[place..place + old.len()].iter().zip(&old).all(|(have, want)| *have == want.as_slice())
        }
    };
    if fits(stated) {
        return Ok(stated);
    }
    let places: Vec<usize> = (from..lines.len()).filter(|place| fits(*place)).collect();
    match places.as_slice() {
        [place] => Ok(*place),
        [] => Err(mismatch(lines, &old, stated)),
        _ => Err(format!(
            "its context occurs {} times, at lines {}, none of them the stated line {}",
            places.len(),
            places.iter().map(|place| (place + 1).to_string()).collect::<Vec<_>>().join(", "),
            hunk.old_start
        )),
    }
}

fn mismatch(lines: &[&[u8]], old: &[Vec<u8>], stated: usize) -> String {
    let mut text = "its context does not match the file".to_owned();
    let first = (0..old.len()).find(|i| lines.get(stated + i).is_none_or(|have| *have != old[*i].as_slice()));
    if let Some(i) = first {
        let want = String::from_utf8_lossy(&old[i]).trim_end_matches('\n').to_owned();
        let _ = match lines.get(stated + i) {
            Some(have) => write!(
                text,
                "\nline {}: the patch expects `{want}`\nline {}: the file has    `{}`",
                stated + i + 1,
                stated + i + 1,
                String::from_utf8_lossy(have).trim_end_matches('\n')
            ),
            None => write!(text, "\nline {}: the patch expects `{want}`, the file ends before it", stated + i + 1),
        };
    }
    let begin = stated.saturating_sub(2).min(lines.len());
    let end = (stated + old.len() + 2).min(lines.len());
    if begin < end {
        text.push_str("\nthe file's lines there:\n");
        text.push_str(&numbered(&lines[begin..end], begin + 1));
    }
    text
}

/// Returns lines with their numbers, the form of `view`.
pub fn numbered(lines: &[&[u8]], first: usize) -> String {
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        let line = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line));
        let _ = writeln!(text, "{:>6}\t{}", first + index, clip_line(&line));
    }
    text
}

const MAX_LINE_CHARS: usize = 1_000;

fn clip_line(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{} […{} more bytes]", &line[..end], line.len() - end),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &[u8] = b"one\ntwo\nthree\nfour\nfive\n";

    fn hunks(body: &str) -> Vec<Hunk> {
        parse(&format!("--- a/f\n+++ b/f\n{body}")).unwrap().remove(0).hunks
    }

    #[test]
    fn a_patch_that_fits_is_applied() {
        let change = hunks("@@ -2,2 +2,3 @@\n two\n-three\n+THREE\n+3.5\n");
        assert_eq!(apply(FILE, &change).unwrap(), b"one\ntwo\nTHREE\n3.5\nfour\nfive\n");
    }

    #[test]
    fn a_moved_hunk_is_applied_only_where_it_is_unique() {
        assert_eq!(apply(FILE, &hunks("@@ -40,1 +40,1 @@\n-four\n+4\n")).unwrap(), b"one\ntwo\nthree\n4\nfive\n");
        let error = apply(b"x\ny\nx\n", &hunks("@@ -2,1 +2,1 @@\n-x\n+z\n")).unwrap_err();
        assert!(error.contains("occurs 2 times, at lines 1, 3"), "{error}");
    }

    #[test]
    fn stale_context_is_refused_with_the_real_lines() {
        let error = apply(FILE, &hunks("@@ -2,2 +2,2 @@\n two\n-THREE\n+3\n")).unwrap_err();
        assert!(error.contains("expects `THREE`") && error.contains("the file has    `three`"), "{error}");
        assert!(error.contains("     4\tfour"), "{error}");
    }

    #[test]
    fn an_empty_file_takes_no_context() {
        let error = apply(b"", &hunks("@@ -1,1 +1,1 @@\n-x\n+z\n")).unwrap_err();
        assert!(error.contains("the file ends before it"), "{error}");
    }

    #[test]
    fn files_can_be_made_removed_and_lose_their_last_line_feed() {
        let files = parse(
            "diff --git a/new.py b/new.py\nnew file mode 100644\nindex 0000..1111\n--- /dev/null\n+++ b/new.py\n\
             @@ -0,0 +1,1 @@\n+x\n\\ No newline at end of file\n\
             diff --git a/old.py b/old.py\ndeleted file mode 100644\n--- a/old.py\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-y\n",
        )
        .unwrap();
        assert_eq!((files[0].old_path.as_deref(), files[0].path()), (None, "new.py"));
        assert_eq!(apply(b"", &files[0].hunks).unwrap(), b"x");
        assert_eq!((files[1].new_path.as_deref(), files[1].path()), (None, "old.py"));
        assert_eq!(apply(b"y\n", &files[1].hunks).unwrap(), b"");
    }

    #[test]
    fn removed_lines_that_look_like_headers_stay_lines() {
        let file = parse("--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n same\n").unwrap().remove(0);
        assert_eq!(apply(b"-- old\nsame\n", &file.hunks).unwrap(), b"++ new\nsame\n");
    }

    #[test]
    fn malformed_patches_are_named_not_guessed() {
        for (diff, expected) in [
            ("", "no file header"),
            ("just words\n", "no file header"),
            ("@@ -1 +1 @@\n-a\n+b\n", "a hunk without"),
            ("--- a/f\n@@ -1 +1 @@\n", "is not followed by"),
            ("--- a/f\n+++ b/f\n", "no hunk"),
            ("--- a/f\n+++ b/f\n@@ -x +1 @@\n-a\n", "malformed hunk header"),
            ("--- a/f\n+++ b/f\n@@ -1,3 +1,1 @@\n-a\n+b\n", "announces 2 more old"),
            ("--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-a\n-b\n+c\n", "more lines than"),
        ] {
            let error = parse(diff).unwrap_err();
            assert!(error.contains(expected), "{diff:?}: {error}");
        }
    }

    #[test]
    fn what_is_rendered_reads_back() {
        let file =
            parse("--- a/f\n+++ b/f\n@@ -1,2 +1,1 @@\n one\n-two\n@@ -4,1 +3,2 @@\n+3.5\n four\n").unwrap().remove(0);
        assert_eq!(parse(&file.render(&file.hunks)).unwrap()[0].hunks, file.hunks);
        assert_eq!(apply(FILE, &file.hunks).unwrap(), b"one\nthree\n3.5\nfour\nfive\n");
    }

    #[test]
    fn binary_data_and_mode_changes_are_told_apart() {
        let binary = "diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\nliteral 3\nKcmZ\n\nliteral 0\nHcmV\n\n";
        let mode = "diff --git a/y b/y\nold mode 100644\nnew mode 100755\n";
        let files = parse(&format!("{binary}{mode}")).unwrap();
        assert_eq!(
            files.iter().map(|file| (file.path(), file.unsupported)).collect::<Vec<_>>(),
            [("x", Some("binary data")), ("y", Some("a mode change"))]
        );
        assert_eq!(files[0].raw, binary);
    }
}
