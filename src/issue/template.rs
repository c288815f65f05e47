//! The template writer: symptoms, as execution showed them, in plain sentences. Pure.

use std::{collections::BTreeSet, sync::LazyLock};

use regex::Regex;

use super::interface::{self, Interface};
use crate::record::{
    candidate::Role,
    suite::{Frame, without_addresses},
    task::{ChangeKind, FailingTest, Task, Transition},
};

/// Distinct symptoms told, at most.
const MAX_SYMPTOMS: usize = 4;
/// Names of affected functions and classes told, at most.
const MAX_AFFECTED: usize = 4;
/// Lines of one message, and bytes of one line, at most.
const MAX_LINES: usize = 8;
const MAX_LINE_BYTES: usize = 300;
/// What is expected where nothing is there yet that could fail.
const NEW_INTERFACE: &str = "What is described here is available under the names given below and works as described; \
                             everything else stays as it is.";

static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"[A-Za-z_][A-Za-z0-9_]*").expect("a valid pattern"));
/// How Python names what is defined inside a function.
static LOCAL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[A-Za-z_][A-Za-z0-9_.]*\.<locals>\.").expect("a valid pattern"));
/// A definition in a context line, an added line or the heading of a hunk.
static DEFINITION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:^[ +]\s*|@@ .*)(?:def|class)\s+([A-Za-z_][A-Za-z0-9_]*)").expect("a valid pattern")
});

/// Fills the template with what `clean` lets through; `None` where neither a symptom nor an interface is left to tell.
pub fn fill(task: &Task, mut clean: impl FnMut(&str) -> bool) -> Option<String> {
    let symptoms = symptoms(task, &mut clean);
    let told = symptoms.concat().join("\n");
    let interface = Interface::of(task, &told, &mut clean);
    if symptoms.is_empty() && interface.names.is_empty() {
        return None;
    }
    let subject = Some(subject(task)).filter(|subject| !subject.is_empty() && clean(subject));
    let headline = symptoms.first().map(|lines| lines[0].as_str()).or(subject.as_deref());
    let mut text = format!("{}\n\n", title(task, headline.unwrap_or_else(|| &interface.names[0])));
    if let Some(subject) = &subject {
        text.push_str(&format!("Context: {subject}\n\n"));
    }
    if task.hidden.change_kind == ChangeKind::Interface {
        let body = interface::body(&task.hidden, &mut clean);
        text.push_str(&if body.is_empty() { body } else { format!("{body}\n\n") });
    }
    if !symptoms.is_empty() {
        text.push_str(&what_happens(task, &symptoms, &mut clean));
    }
    text.push_str("## What should happen\n\n");
    text.push_str(if symptoms.is_empty() { NEW_INTERFACE } else { expectation(task) });
    text.push('\n');
    text.extend(interface.values.iter().map(|value| format!("{value}\n")));
    if !interface.names.is_empty() {
        text.push_str("\n## Interface\n\n");
        text.extend(interface.names.iter().map(|name| format!("- {name}\n")));
    }
    // Of a commit's subject, or of what a test printed.
    Some(text.replace(|c: char| c.is_control() && !matches!(c, '\n' | '\t'), ""))
}

/// Returns the distinct symptoms, the lines of each as far as `clean` allows.
fn symptoms(task: &Task, clean: &mut impl FnMut(&str) -> bool) -> Vec<Vec<String>> {
    let mut told = BTreeSet::new();
    let mut symptoms = Vec::new();
    for failing in &task.hidden.failing {
        let symptom = symptom(task, failing);
        if symptoms.len() < MAX_SYMPTOMS && told.insert(symptom.clone()) {
            let lines: Vec<String> = symptom.into_iter().filter(|line| clean(line)).collect();
            if !lines.is_empty() {
                symptoms.push(lines);
            }
        }
    }
    symptoms
}

fn what_happens(task: &Task, symptoms: &[Vec<String>], clean: &mut impl FnMut(&str) -> bool) -> String {
    let mut text = "## What happens\n\n".to_owned();
    for lines in symptoms {
        for (n, line) in lines.iter().enumerate() {
            text.push_str(if n == 0 { "- " } else { "  " });
            text.push_str(line);
            text.push('\n');
        }
    }
    let affected = affected(task);
    if !affected.is_empty() {
        let names = affected.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let line = format!("- Seen when using {names}.");
        if clean(&line) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    let n_more = task.hidden.failing.len().saturating_sub(symptoms.len());
    if n_more > 0 {
        let (end, fail) = if n_more == 1 { ("", "fails") } else { ("s", "fail") };
        text.push_str(&format!("- {n_more} more check{end} of the same area {fail}.\n"));
    }
    text.push('\n');
    text
}

/// Says what one failing test showed, most telling line first.
fn symptom(task: &Task, failing: &FailingTest) -> Vec<String> {
    let mut lines = match failing.transition {
        Transition::TimeoutToPass => vec!["A call does not return: it was still running at the time limit.".to_owned()],
        Transition::CrashToPass => vec!["The interpreter itself dies during a call.".to_owned()],
        Transition::FailToPass
        | Transition::ErrorToPass
        | Transition::SkipToPass
        | Transition::MissingToPass
        | Transition::PassToPass
        | Transition::PassToFail
        | Transition::PassToMissing
        | Transition::Unchanged
        | Transition::Other => message_lines(failing),
    };
    if let Some(frame) = source_frame(task, &failing.frames) {
        lines.push(format!("It comes from `{}` in module `{}`.", frame.function, module(&frame.path)));
    }
    lines
}

fn message_lines(failing: &FailingTest) -> Vec<String> {
    let exception = failing.exception.as_deref().unwrap_or("Error");
    let exception = exception.rsplit('.').next().unwrap_or(exception);
    // A function that a test defines is named after the test.
    let message = without_addresses(&LOCAL.replace_all(&failing.message, ""));
    let mut raw = message.lines().map(str::trim).filter(|line| !line.is_empty() && *line != "^");
    let first = raw.next().unwrap_or_default();
    let mut lines = vec![match (exception, comparison(first)) {
        ("AssertionError", Some((got, expected))) if cut(got) == cut(expected) => {
            format!("A result begins with `{}`, as expected, and then differs.", cut(got))
        }
        ("AssertionError", Some((got, expected))) => {
            format!("A result is `{}`, but `{}` is expected.", cut(got), cut(expected))
        }
        ("AssertionError", None) if first.is_empty() => "A condition that should hold does not.".to_owned(),
        ("AssertionError", None) => format!("This does not hold: `{}`", cut(first.trim_start_matches("assert "))),
        ("Stub", _) => format!("Something that is meant to be importable is not there: `{}`", cut(first)),
        ("Failed", _) => not_raised(first).unwrap_or_else(|| format!("`{}`", cut(first))),
        (exception, _) if first.is_empty() => format!("`{exception}` is raised."),
        (exception, _) => format!("`{exception}: {}` is raised.", cut(first)),
    }];
    let wheres = raw.filter_map(|line| line.strip_prefix('+')).map(str::trim).filter(|line| line.starts_with("where "));
    lines.extend(wheres.take(MAX_LINES).map(|line| format!("There, `{}`.", cut(line.trim_start_matches("where ")))));
    lines
}

/// Says in words what `DID NOT RAISE <class 'ValueError'>` does.
fn not_raised(line: &str) -> Option<String> {
    let classes = line.strip_prefix("DID NOT RAISE ")?.split('\'').skip(1).step_by(2);
    let names: Vec<String> = classes.map(|class| format!("`{}`", class.rsplit('.').next().unwrap_or(class))).collect();
    (!names.is_empty()).then(|| format!("No {} is raised where one should be.", names.join(" or ")))
}

/// Returns the names that both the fixed code's enclosing definitions and the hidden tests speak of: what a user calls.
///
/// Without them, a bare `assert 3 == 4` tells nobody where to look. Names that only the fix introduces are left to the
/// gate.
fn affected(task: &Task) -> Vec<String> {
    let tests = task.hidden.test_patch.lossy();
    let used: BTreeSet<&str> = WORD.find_iter(&tests).map(|word| word.as_str()).collect();
    let source = task.hidden.source_patch.lossy();
    let mut names: Vec<String> = Vec::new();
    for line in source.lines().filter(|line| !line.starts_with("+++") && !line.starts_with('-')) {
        let names_here = DEFINITION.captures_iter(line).map(|found| found[1].to_owned());
        names.extend(names_here.filter(|name| used.contains(name.as_str()) && !name.starts_with('_')));
    }
    names.sort();
    names.dedup();
    names.truncate(MAX_AFFECTED);
    names
}

/// Splits `assert GOT == EXPECTED`, where that can be done without doubt.
fn comparison(line: &str) -> Option<(&str, &str)> {
    let (got, expected) = line.strip_prefix("assert ")?.split_once(" == ")?;
    let is_whole = |side: &str| !side.contains(" == ") && !side.contains(" and ") && !side.contains(" or ");
    (is_whole(got) && is_whole(expected) && !got.starts_with("not ")).then_some((got, expected))
}

/// Returns the innermost frame outside the tests.
fn source_frame<'a>(task: &Task, frames: &'a [Frame]) -> Option<&'a Frame> {
    let is_test = |path: &str| {
        task.hidden.test_files.iter().any(|file| file == path)
            || task.hidden.changes.iter().any(|change| change.role == Role::Test && change.path.escaped() == path)
            || path.split('/').any(|part| part == "tests" || part == "test" || part == "conftest.py")
    };
    frames.iter().rev().find(|frame| !is_test(&frame.path) && !frame.function.starts_with('<'))
}

fn module(path: &str) -> String {
    let path = path.strip_prefix("src/").unwrap_or(path);
    let path = path.strip_suffix(".py").unwrap_or(path);
    path.strip_suffix("/__init__").unwrap_or(path).replace('/', ".")
}

fn title(task: &Task, headline: &str) -> String {
    let headline = headline.trim_end_matches('.').replace('`', "");
    let mut title: String = headline.chars().take(90).collect();
    if title.len() < headline.len() {
        title.push('…');
    }
    format!("# {}: {title}", task.public.repo.rsplit('/').next().unwrap_or(&task.public.repo))
}

/// Returns the commit's subject without issue numbers and conventional prefixes.
fn subject(task: &Task) -> String {
    let subject = task.hidden.message.lossy();
    let subject = subject.lines().next().unwrap_or_default().trim();
    if subject.starts_with("Merge ") {
        return String::new();
    }
    let words = subject.split_whitespace().filter(|word| {
        let word = word.trim_matches(|c: char| "()[],.;:".contains(c));
        !(word.starts_with('#') && word[1..].chars().all(|c| c.is_ascii_digit()))
    });
    words.collect::<Vec<_>>().join(" ")
}

fn expectation(task: &Task) -> &'static str {
    let source = task.hidden.source_patch.lossy();
    let added: Vec<&str> = source.lines().filter(|line| line.starts_with('+')).collect();
    let is_added = |name: &str| added.iter().any(|line| WORD.find_iter(line).any(|word| word.as_str() == name));
    let adds = |failing: &FailingTest| {
        let exception = failing.exception.as_deref().unwrap_or_default();
        let missing =
            ["AttributeError", "ImportError", "ModuleNotFoundError", "NameError", "Stub"].contains(&exception);
        let first = failing.message.lines().next().unwrap_or_default();
        // The missing name stands in quotes, last: "'Stats' object has no attribute 'mode'".
        let named = first.split('\'').skip(1).step_by(2).filter(|name| !name.contains(' ')).last().unwrap_or_default();
        (missing || first.contains("unexpected keyword argument"))
            && is_added(named.rsplit('.').next().unwrap_or(named))
    };
    if task.hidden.failing.iter().all(|failing| failing.transition == Transition::TimeoutToPass) {
        "The call returns promptly with the right result."
    } else if task.hidden.failing.iter().all(adds) {
        "The interface named above is available and works as its name and the context say; everything else stays as it is."
    } else {
        "The results and behaviour named above are the expected ones; everything else stays as it is."
    }
}

/// Cuts a line at a character boundary and takes out what would end the code quotes around it.
pub fn cut(line: &str) -> String {
    let line = line.replace('`', "'");
    let mut end = line.len().min(MAX_LINE_BYTES);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    if end < line.len() { format!("{}…", &line[..end]) } else { line }
}

#[cfg(test)]
mod tests {
    use super::{super::leak::tests::task, *};

    #[test]
    fn a_text_tells_the_symptom_and_leaves_out_what_the_gate_refuses() {
        let task = task("division by zero");
        let text = fill(&task, |line| !line.contains("Fix ratio")).unwrap();
        assert!(text.starts_with("# b: ZeroDivisionError: division by zero is raised"), "{text}");
        assert!(text.contains("- `ZeroDivisionError: division by zero` is raised."), "{text}");
        assert!(!text.contains("Fix ratio"), "{text}");
        assert_eq!(fill(&task, |_| false), None);
    }

    #[test]
    fn a_bare_comparison_names_what_was_called_and_a_typo_is_no_new_interface() {
        let mut task = task("'set' object has no attribute 'issupserset'");
        task.hidden.failing[0].exception = Some("AttributeError".into());
        let text = fill(&task, |_| true).unwrap();
        assert!(text.contains("- Seen when using `ratio`."), "{text}");
        assert!(text.contains("are the expected ones"), "{text}");
        task.hidden.failing[0].message = "module 'lib' has no attribute '_safe_divide'".into();
        assert!(fill(&task, |_| true).unwrap().contains("interface named above"), "{text}");
    }

    #[test]
    fn an_assertion_becomes_got_and_expected() {
        let mut task = task("assert 3 == 4\n +  where 3 = ratio(6, 2)");
        task.hidden.failing[0].exception = Some("AssertionError".into());
        let text = fill(&task, |_| true).unwrap();
        assert!(text.contains("- A result is `3`, but `4` is expected.\n  There, `3 = ratio(6, 2)`."), "{text}");
        assert_eq!(comparison("assert (a == b) == c"), None);
        // pytest cuts the middle out, and so do we.
        task.hidden.failing[0].message = "assert [0, 1...8, 9] == [0, 1...8, 9]".into();
        let text = fill(&task, |_| true).unwrap();
        assert!(text.contains("- A result begins with `[0, 1...8, 9]`, as expected, and then differs."), "{text}");
    }

    #[test]
    fn addresses_of_objects_are_not_told() {
        let text = fill(&task("cannot read <X object at 0x7ffff61aacf0>"), |_| true).unwrap();
        assert!(text.contains("cannot read <X object at 0x…>"), "{text}");
    }

    #[test]
    fn what_is_not_raised_is_named() {
        assert_eq!(
            not_raised("DID NOT RAISE <class 'ValueError'>").unwrap(),
            "No `ValueError` is raised where one should be."
        );
        let two = not_raised("DID NOT RAISE (<class 'a.B'>, <class 'C'>)").unwrap();
        assert_eq!(two, "No `B` or `C` is raised where one should be.");
        assert_eq!(not_raised("boom"), None);
    }

    #[test]
    fn a_function_that_a_test_defines_does_not_give_the_tests_name_away() {
        let task = task("test_wraps.<locals>.f() takes 1 positional argument but 2 were given");
        let text = fill(&task, |line| !line.contains("test_wraps")).unwrap();
        assert!(text.contains("f() takes 1 positional argument"), "{text}");
    }
}
