//! What the scripted agent reads out of observations, and the patches that it makes of what it read. Pure.

use std::collections::BTreeMap;

use super::unified::{FilePatch, Hunk, Kind, Line};
use crate::record::episode::{Message, Speaker};

/// A `def` or `class` line that a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    pub path: String,
    pub line: usize,
    pub text: String,
}

pub fn issue_text(history: &[Message]) -> &str {
    let user = history.iter().find(|message| message.role == Speaker::User).map_or("", |message| &message.content);
    let inner = user.split_once("<issue>").and_then(|(_, rest)| rest.rsplit_once("</issue>"));
    inner.map_or(user, |(issue, _)| issue)
}

pub fn last_observation(history: &[Message]) -> &str {
    history.iter().rfind(|message| message.role == Speaker::Tool).map_or("", |message| &message.content)
}

pub fn is_refused(observation: &str) -> bool {
    observation.starts_with("error:")
}

pub fn shows_failures(observation: &str) -> bool {
    let counts = observation.lines().next().unwrap_or_default();
    ["failed", "error", "collected", "crashed", "timed out", "could not"].iter().any(|word| counts.contains(word))
}

/// Reads what `view` shows into lines by number.
pub fn lines_in(observation: &str) -> BTreeMap<usize, String> {
    observation
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .filter_map(|(number, text)| Some((number.trim().parse().ok()?, text.to_owned())))
        .collect()
}

/// Reads what `search` shows.
pub fn all_matches(observation: &str) -> impl Iterator<Item = Definition> {
    observation.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (path, number, text) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Definition { path: path.to_owned(), line: number.parse().ok()?, text: text.trim_end().to_owned() })
    })
}

pub fn all_definitions(observation: &str) -> Vec<Definition> {
    all_matches(observation).collect()
}

pub fn definitions_in(observation: &str, path: &str) -> Vec<Definition> {
    all_matches(observation).filter(|definition| definition.path == path).collect()
}

/// Returns a parameter of a one-line `def` that a value can be compared with.
pub fn parameter(signature: &str) -> Option<String> {
    let inside = signature.split_once('(')?.1;
    inside
        .split(',')
        .map(|part| part.split([':', '=', ')']).next().unwrap_or_default().trim())
        .find(|name| {
            let is_name = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            is_name && !matches!(*name, "self" | "cls")
        })
        .map(str::to_owned)
}

pub fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

pub fn is_plain_source(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_test = name.starts_with("test") || name.ends_with("_test.py") || name == "conftest.py";
    let in_tests =
        path.split('/').any(|part| matches!(part, "tests" | "test" | "testing" | "docs" | "doc" | "examples"));
    path.ends_with(".py") && !is_test && !in_tests && !matches!(name, "setup.py" | "conf.py" | "noxfile.py")
}

/// Returns the lines of a view within `margin` lines of `line` as a hunk of context.
pub fn context(view: &BTreeMap<usize, String>, line: usize, margin: usize) -> Hunk {
    let range = line.saturating_sub(margin)..=line + margin;
    let lines: Vec<(usize, Line)> = view
        .range(range)
        .map(|(number, text)| (*number, Line { kind: Kind::Context, text: text.clone(), newline: true }))
        .collect();
    Hunk {
        old_start: lines.first().map_or(1, |(number, _)| *number),
        lines: lines.into_iter().map(|(_, l)| l).collect(),
    }
}

/// Returns a patch that inserts lines before a line of a view.
pub fn insertion(path: &str, view: &BTreeMap<usize, String>, before: usize, new: &[String]) -> String {
    let mut hunk = context(view, before, 3);
    let at = before.saturating_sub(hunk.old_start).min(hunk.lines.len());
    for text in new.iter().rev() {
        hunk.lines.insert(at, Line { kind: Kind::Added, text: text.clone(), newline: true });
    }
    patch_of(path, hunk)
}

pub fn patch_of(path: &str, hunk: Hunk) -> String {
    let file = FilePatch { old_path: Some(path.to_owned()), new_path: Some(path.to_owned()), ..FilePatch::default() };
    file.render(&[hunk])
}

/// Returns an assertion of one line made empty.
pub fn weakened(line: &str) -> Option<String> {
    let text = line.trim();
    let n_open = text.matches(['(', '[', '{']).count();
    let n_closed = text.matches([')', ']', '}']).count();
    if n_open != n_closed || text.ends_with(['\\', ',']) || text.matches("\"\"\"").count() == 1 {
        return None;
    }
    if text.starts_with("assert ") && text != "assert True" {
        Some(format!("{}assert True", indent(line)))
    } else if text.starts_with("self.assert") {
        Some(format!("{}self.assertTrue(True)", indent(line)))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEW: &str = "     4\t\n     5\tdef f(self, value=1):\n     6\t    return value\n[lines 4-6 of 9]\n";

    #[test]
    fn a_view_and_a_search_read_back() {
        let view = lines_in(VIEW);
        assert_eq!(view.keys().copied().collect::<Vec<_>>(), [4, 5, 6]);
        assert_eq!(view[&6], "    return value");
        let found = definitions_in("a.py:5:def f(self, value=1):\nb.py:1:def g():\nno matches\n", "a.py");
        assert_eq!(found, [Definition { path: "a.py".into(), line: 5, text: "def f(self, value=1):".into() }]);
        assert_eq!(parameter(&found[0].text).as_deref(), Some("value"));
        assert_eq!(parameter("def g(self, *args, **kwargs):"), None);
    }

    #[test]
    fn an_insertion_fits_the_file_that_was_viewed() {
        let patch = insertion("a.py", &lines_in(VIEW), 6, &["    value += 1".to_owned()]);
        let file = super::super::unified::parse(&patch).unwrap().remove(0);
        let content = b"1\n2\n3\n\ndef f(self, value=1):\n    return value\n7\n8\n9\n";
        let after = super::super::unified::apply(content, &file.hunks).unwrap();
        assert_eq!(after, b"1\n2\n3\n\ndef f(self, value=1):\n    value += 1\n    return value\n7\n8\n9\n");
    }

    #[test]
    fn assertions_of_one_line_are_weakened() {
        assert_eq!(weakened("    assert f(1) == 2").as_deref(), Some("    assert True"));
        assert_eq!(weakened("    self.assertEqual(f(1), 2)").as_deref(), Some("    self.assertTrue(True)"));
        assert_eq!(weakened("    assert f("), None);
        assert_eq!(weakened("    x = 1"), None);
    }
}
