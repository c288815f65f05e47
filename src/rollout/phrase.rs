//! What the scripted agent says beside its calls, and what it picks out of texts. Pure.

use std::sync::LazyLock;

use regex::Regex;

/// Occasions to say something. Each has a few wordings; a seeded number picks one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Say {
    Search,
    View,
    ViewMore,
    Edit,
    Patch,
    Stale,
    AfterStale,
    Test,
    TestAgain,
    Undo,
    Define,
    Elsewhere,
    Special,
    Narrow,
    Weaken,
    Configure,
    Half,
    Done,
    DoneUnsure,
    GiveUp,
    Nothing,
}

/// Returns one wording.
pub fn say(occasion: Say, number: u64) -> String {
    let wordings = wordings(occasion);
    wordings[usize::try_from(number % wordings.len() as u64).expect("smaller than a list's length")].to_owned()
}

fn wordings(occasion: Say) -> &'static [&'static str] {
    match occasion {
        Say::Search => &[
            "I look for the code that the issue speaks of.",
            "Next I search for the names in the issue.",
            "Let me find where this is handled.",
        ],
        Say::View => &[
            "This looks like the place. I read it.",
            "Let me read the code around it.",
            "I read the relevant part before I change anything.",
        ],
        Say::ViewMore => &["I read on.", "Let me look at another part.", "I want to see more of this code first."],
        Say::Edit => {
            &["I see the cause. I change this passage.", "Now I make the change here.", "This passage has to change."]
        }
        Say::Patch => &["I apply the change as a patch.", "I write the change as a diff.", "Now the change itself."],
        Say::Stale => &["I write the change as a patch.", "I believe I remember these lines; I patch them."],
        Say::AfterStale => &[
            "The patch was refused because the file reads differently. I look at it again.",
            "My memory of these lines was wrong. I read the file once more.",
        ],
        Say::Test => &["I run the tests.", "Let me see what the tests say.", "Now the tests."],
        Say::TestAgain => &["I run the tests again.", "Once more the tests.", "Let me check this with the tests."],
        Say::Undo => &[
            "My last edit is wrong: it breaks the file. I put it right.",
            "That was a mistake of mine. I correct the passage.",
        ],
        Say::Define => &["I list the functions of the file.", "Which functions are there?"],
        Say::Elsewhere => {
            &["I think the problem is in this file.", "The state seems to come from here, so I change this file."]
        }
        Say::Special => &[
            "I handle the reported value at the start of the function.",
            "The value from the issue gets its own branch.",
        ],
        Say::Narrow => &["I make the function robust here.", "I tidy up the argument first."],
        Say::Weaken => {
            &["These tests expect the old behaviour. I relax them.", "The tests are too strict; I adapt them."]
        }
        Say::Configure => &["I set up how the tests are reported.", "A hook for the test runner makes this pass."],
        Say::Half => &["I start to rework this passage.", "I merge my version with the present one."],
        Say::Done => &["The change is in place.", "This resolves the issue.", "Done; the cause is mended."],
        Say::DoneUnsure => &["This should do.", "I believe that is all.", "I leave it at this."],
        Say::GiveUp => &[
            "I cannot find the cause in the code that I have read. I give up.",
            "I do not see how to resolve this. I stop here.",
        ],
        Say::Nothing => &[
            "The code looks right to me as it is; I change nothing.",
            "I cannot see a fault, so nothing needs to change.",
        ],
    }
}

/// Returns the issue's first line without markup, shortened.
pub fn goal(issue: &str) -> String {
    let line = issue.lines().map(|line| line.trim().trim_start_matches('#').trim()).find(|line| !line.is_empty());
    let line = line.unwrap_or("the issue");
    let cut = line.char_indices().nth(160).map_or(line.len(), |(at, _)| at);
    if cut < line.len() { format!("{}…", &line[..cut]) } else { line.to_owned() }
}

/// Returns identifiers of the text worth searching for, best first: in backticks, then with an underscore or a capital
/// inside, then long words.
pub fn names(issue: &str) -> Vec<String> {
    static QUOTED: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"`([A-Za-z_][A-Za-z0-9_.]*)(?:\([^`]*\))?`").expect("a constant pattern"));
    static WORD: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\b[A-Za-z_][A-Za-z0-9_]{3,}\b").expect("a constant pattern"));
    let last_part = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let quoted = QUOTED.captures_iter(issue).map(|found| last_part(&found[1]));
    let words: Vec<&str> = WORD.find_iter(issue).map(|found| found.as_str()).collect();
    let is_compound = |word: &&&str| word.contains('_') || word.chars().skip(1).any(char::is_uppercase);
    let compound = words.iter().filter(is_compound).map(|word| (*word).to_owned());
    let long = words.iter().filter(|word| word.len() >= 7).map(|word| (*word).to_owned());
    let mut names: Vec<String> = Vec::new();
    for name in quoted.chain(compound).chain(long) {
        if name.len() >= 3 && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Returns Python literals of the text that a special case could test for: strings, then numbers, then words.
pub fn literals(issue: &str) -> Vec<String> {
    static STRING: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"(?:^|[^A-Za-z0-9])('[^'\\\n]{2,40}'|"[^"\\\n]{2,40}")"#).expect("a constant pattern")
    });
    static NUMBER: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?:^|[\s(=,`])(-?\d{2,9})(?:$|[\s),`])").expect("a constant pattern"));
    let strings = STRING.captures_iter(issue).map(|found| found[1].to_owned());
    let numbers = NUMBER.captures_iter(issue).map(|found| found[1].to_owned());
    let words = names(issue).into_iter().filter(|name| name.len() >= 4).map(|name| format!("'{name}'"));
    let mut literals: Vec<String> = Vec::new();
    for literal in strings.chain(numbers).chain(words) {
        if !literals.contains(&literal) {
            literals.push(literal);
        }
    }
    literals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_names_and_literals_are_picked_from_an_issue() {
        let issue =
            "# `parse_size()` rejects 'ten kB'\n\nIt returns 1024 instead of `-1`. See RangeError, pkg.sizes.\n";
        assert_eq!(goal(issue), "`parse_size()` rejects 'ten kB'");
        assert_eq!(names(issue)[..2], ["parse_size", "RangeError"]);
        assert_eq!(literals(issue)[..2], ["'ten kB'", "1024"]);
        assert_eq!(goal(""), "the issue");
        assert!(goal(&"x".repeat(500)).chars().count() < 170);
    }
}
