//! File contents on their way into and out of a sandbox, and the one edit that `edit` makes. Pure.

use std::fmt::Write as _;

use super::unified::numbered;

/// A file after an edit.
#[derive(Debug, PartialEq, Eq)]
pub struct Replaced {
    pub content: Vec<u8>,
    /// The changed lines and a few around them, numbered.
    pub excerpt: String,
}

const EXCERPT_CONTEXT: usize = 3;

/// Replaces the one occurrence of `old`.
///
/// # Errors
/// There is none (with the closest lines), or more than one (with their lines).
pub fn replace(content: &[u8], old: &str, new: &str) -> Result<Replaced, String> {
    if old == new {
        return Err("`old` and `new` are the same".to_owned());
    }
    let places = occurrences(content, old.as_bytes());
    let [place] = places[..] else {
        return Err(if places.is_empty() { absent(content, old) } else { ambiguous(content, &places) });
    };
    let mut changed = content[..place].to_vec();
    changed.extend_from_slice(new.as_bytes());
    changed.extend_from_slice(&content[place + old.len()..]);
    let lines: Vec<&[u8]> = changed.split_inclusive(|byte| *byte == b'\n').collect();
    let first = line_of(content, place) - 1;
    let begin = first.saturating_sub(EXCERPT_CONTEXT);
    let end = (first + new.lines().count().max(1) + EXCERPT_CONTEXT).min(lines.len());
    let excerpt = numbered(lines.get(begin..end).unwrap_or_default(), begin + 1);
    Ok(Replaced { content: changed, excerpt })
}

fn occurrences(content: &[u8], wanted: &[u8]) -> Vec<usize> {
    content.windows(wanted.len()).enumerate().filter(|(_, window)| *window == wanted).map(|(at, _)| at).collect()
}

/// Returns the line, counted from 1, that a byte lies in.
fn line_of(content: &[u8], at: usize) -> usize {
    content[..at].split(|byte| *byte == b'\n').count()
}

fn ambiguous(content: &[u8], places: &[usize]) -> String {
    let lines: Vec<String> = places.iter().take(10).map(|place| line_of(content, *place).to_string()).collect();
    let more = if places.len() > lines.len() { ", …" } else { "" };
    format!(
        "`old` occurs {} times, at lines {}{more}; give more of the lines around it, so that it is the only one",
        places.len(),
        lines.join(", ")
    )
}

fn absent(content: &[u8], old: &str) -> String {
    let wanted = old.lines().find(|line| !line.trim().is_empty()).unwrap_or(old).trim();
    let lines: Vec<&[u8]> = content.split_inclusive(|byte| *byte == b'\n').collect();
    let mut reason = "`old` does not occur in the file".to_owned();
    if content.windows(2).any(|pair| pair == b"\r\n") && !old.contains('\r') && old.contains('\n') {
        reason.push_str(" (its lines end in CR LF)");
    }
    let closest = lines
        .iter()
        .enumerate()
        .map(|(index, line)| (likeness(String::from_utf8_lossy(line).trim(), wanted), index))
        .max_by_key(|(likeness, index)| (*likeness, std::cmp::Reverse(*index)));
    if let Some((likeness, index)) = closest.filter(|(likeness, _)| *likeness > 0) {
        let begin = index.saturating_sub(2);
        let end = (index + 4).min(lines.len());
        let how = if likeness >= 1_000 { "the same line but for its blanks is" } else { "the closest line is" };
        let excerpt = numbered(&lines[begin..end], begin + 1);
        let _ = write!(reason, "; {how} line {}:\n{excerpt}", index + 1);
    }
    reason
}

/// Returns how alike two lines are: 1,000 for equal, else the share of common head and tail in thousandths, 0 below 40 %.
fn likeness(line: &str, wanted: &str) -> usize {
    if line == wanted {
        return 1_000;
    }
    let longer = line.chars().count().max(wanted.chars().count());
    let shorter = line.chars().count().min(wanted.chars().count());
    let head = line.chars().zip(wanted.chars()).take_while(|(a, b)| a == b).count();
    let tail = line.chars().rev().zip(wanted.chars().rev()).take_while(|(a, b)| a == b).count();
    let share = (head + tail).min(shorter) * 999 / longer.max(1);
    if share < 400 { 0 } else { share }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_occurrence_is_replaced() {
        let replaced = replace(b"a\nb\nc\nd\ne\nf\n", "b\nc\n", "X\n").unwrap();
        assert_eq!(replaced.content, b"a\nX\nd\ne\nf\n");
        assert_eq!(replaced.excerpt, "     1\ta\n     2\tX\n     3\td\n     4\te\n     5\tf\n");
        assert_eq!(replace(b"caf\xe9 x", "x", "y").unwrap().content, b"caf\xe9 y");
        assert_eq!(replace(b"x", "x", "").unwrap().content, b"");
    }

    #[test]
    fn none_or_several_occurrences_are_explained() {
        let error = replace(b"x = 1\ny = 2\nx = 1\n", "x = 1", "x = 3").unwrap_err();
        assert!(error.contains("occurs 2 times, at lines 1, 3"), "{error}");
        let error = replace(b"def f(a):\n    return a\n", "return a", "return a").unwrap_err();
        assert!(error.contains("the same"), "{error}");
        let error = replace(b"def f(a):\n    return a + 1\n", "return a + 2\n", "z").unwrap_err();
        assert!(error.contains("the closest line is line 2:") && error.contains("     2\t    return a + 1"), "{error}");
        let error = replace(b"\treturn a\n", "    return a\n", "z").unwrap_err();
        assert!(error.contains("but for its blanks is line 1"), "{error}");
        let error = replace(b"a\r\nb\r\n", "a\nb\n", "z").unwrap_err();
        assert!(error.contains("CR LF"), "{error}");
        assert_eq!(replace(b"", "zzz", "z").unwrap_err(), "`old` does not occur in the file");
    }
}
