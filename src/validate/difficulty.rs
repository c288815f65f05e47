//! How much of a program a fix touches, and how far from it the tests fail. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::change::Changed;
use crate::{
    lang::paths::{self, Layout},
    record::{
        candidate::Role,
        suite::Frame,
        task::{Difficulty, FailingTest},
    },
    syntax::entities::{Entity, entities, innermost},
};

/// One touched file as it was when its tests failed.
struct Touched<'a> {
    entities: Vec<Entity>,
    /// Functions and types of it that the fix touches.
    spans: Vec<(u32, u32)>,
    change: &'a Changed,
}

/// Measures a fix by its source changes and by what its fail-to-pass tests showed.
pub fn measure(source: &[Changed], test_files: &[String], failing: &[FailingTest]) -> Difficulty {
    let mut difficulty = Difficulty::default();
    let mut touched = BTreeMap::new();
    for change in source {
        let count = |lines: &BTreeSet<u32>| u32::try_from(lines.len()).unwrap_or(u32::MAX);
        difficulty.files += 1;
        difficulty.hunks += change.lines.n_hunks;
        difficulty.lines_added += count(&change.lines.added);
        difficulty.lines_removed += count(&change.lines.removed);
        let (file, names) = touch(change);
        difficulty.entities += u32::try_from(names.len()).unwrap_or(u32::MAX);
        touched.insert(change.path.as_str(), file);
    }
    let distances = failing.iter().filter_map(|failing| distance(&touched, test_files, &failing.frames));
    difficulty.frame_distance = distances.min();
    difficulty
}

/// Returns a file with what the fix touches of it, and the names of that on either side.
fn touch(change: &Changed) -> (Touched<'_>, BTreeSet<String>) {
    let path = change.path.as_bytes();
    let (old, new) = (entities(path, &change.old), entities(path, &change.new));
    let before: Vec<&Entity> = change.lines.removed.iter().filter_map(|line| innermost(&old, *line)).collect();
    let after = change.lines.added.iter().filter_map(|line| innermost(&new, *line));
    let names =
        before.iter().map(|entity| entity.name.clone()).chain(after.map(|entity| entity.name.clone())).collect();
    let around = change.lines.anchors.iter().filter_map(|line| innermost(&old, *line).filter(|e| *line < e.last_line));
    let spans = before.into_iter().chain(around).map(|entity| (entity.first_line, entity.last_line)).collect();
    (Touched { entities: old, spans, change }, names)
}

/// Returns how far the innermost frame outside tests is from what is touched.
fn distance(touched: &BTreeMap<&str, Touched>, test_files: &[String], frames: &[Frame]) -> Option<u8> {
    let frame = frames.iter().rev().find(|frame| !is_of_test(touched, test_files, frame))?;
    let directory = |path: &str| path.rsplit_once('/').map_or(String::new(), |(directory, _)| directory.to_owned());
    Some(match touched.get(frame.path.as_str()) {
        Some(file) if file.spans.iter().any(|(first, last)| (*first..=*last).contains(&frame.line)) => 0,
        Some(_) => 1,
        None if touched.keys().any(|path| directory(path) == directory(&frame.path)) => 2,
        None => 3,
    })
}

fn is_of_test(touched: &BTreeMap<&str, Touched>, test_files: &[String], frame: &Frame) -> bool {
    if let Some(file) = touched.get(frame.path.as_str()) {
        return innermost(&file.entities, frame.line).is_some_and(|entity| entity.is_test && file.holds_tests());
    }
    test_files.contains(&frame.path) || paths::role(frame.path.as_bytes(), Layout::default()) == Role::Test
}

impl Touched<'_> {
    /// Only Rust marks tests inside program files; elsewhere a name may begin with `test` by chance.
    fn holds_tests(&self) -> bool {
        self.change.path.ends_with(".rs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{git::diff::changed_lines, record::task::Transition};

    fn changed(path: &str, old: &str, new: &str) -> Changed {
        let lines = changed_lines(old.as_bytes(), new.as_bytes()).unwrap();
        Changed { path: path.into(), old: old.into(), new: new.into(), lines, is_new: false }
    }

    fn failing(frames: &[(&str, u32)]) -> FailingTest {
        let frame = |(path, line): &(&str, u32)| Frame { path: (*path).into(), line: *line, function: String::new() };
        FailingTest {
            test_id: "t".into(),
            transition: Transition::FailToPass,
            exception: None,
            message: String::new(),
            frames: frames.iter().map(frame).collect(),
        }
    }

    const OLD: &str = "A = 1\n\ndef f(x):\n    y = x\n    return y\n\ndef g(x):\n    return f(x)\n";

    #[test]
    fn sizes_count_what_is_touched() {
        let new = OLD.replace("A = 1", "A = 2").replace("    y = x\n", "    y = x + 1\n    y += 1\n");
        let found = measure(&[changed("lib/a.py", OLD, &new)], &[], &[]);
        let expected =
            Difficulty { files: 1, hunks: 2, lines_added: 3, lines_removed: 2, entities: 1, frame_distance: None };
        assert_eq!(found, expected);
    }

    #[test]
    fn the_nearest_failure_gives_the_distance() {
        let source = [changed("lib/a.py", OLD, &OLD.replace("    y = x\n", "    y = x\n    y += 1\n"))];
        let distance =
            |frames: &[(&str, u32)]| measure(&source, &["checks/a.py".into()], &[failing(frames)]).frame_distance;
        assert_eq!(distance(&[("checks/a.py", 3), ("lib/a.py", 8), ("lib/a.py", 5)]), Some(0));
        assert_eq!(distance(&[("checks/a.py", 3), ("lib/a.py", 8)]), Some(1));
        assert_eq!(distance(&[("lib/b.py", 8), ("tests/test_a.py", 3)]), Some(2));
        assert_eq!(distance(&[("other/b.py", 8)]), Some(3));
        assert_eq!(distance(&[("checks/a.py", 3)]), None);
        let both = measure(&source, &[], &[failing(&[("other/b.py", 8)]), failing(&[("lib/a.py", 4)])]);
        assert_eq!(both.frame_distance, Some(0));
    }

    #[test]
    fn a_test_inside_a_program_file_is_no_frame_of_the_program() {
        let old = "fn f() -> u8 {\n    1\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn g() {\n        assert_eq!(f(), 2);\n    }\n}\n";
        let source = [changed("src/lib.rs", old, &old.replace("    1\n", "    2\n"))];
        assert_eq!(measure(&source, &[], &[failing(&[("src/lib.rs", 9)])]).frame_distance, None);
        assert_eq!(measure(&source, &[], &[failing(&[("src/lib.rs", 2)])]).frame_distance, Some(0));
    }
}
