//! Which parts of an agent's change take part in grading.
//!
//! Tests and whatever steers their runner come from the task, never from the agent: by path, whatever the agent did to
//! them. What is dropped is recorded. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    lang::paths,
    record::{
        bytes::ByteText,
        candidate::{FileChange, Role},
        patch::Edit,
    },
};

/// Why a path of a patch is not carried over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// A test, or a file that only tests use.
    Test,
    /// A file by which the runner is configured.
    Config,
    /// A file that the interpreter or the runner loads of itself.
    Startup,
    /// A file that git reads for itself.
    Git,
}

/// An agent's change, sorted out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Split {
    pub carried: Vec<Edit>,
    pub dropped: Vec<(ByteText, Protection)>,
    /// What the fix makes of files that steer the runner, put in because the agent changed something that may rest on
    /// it. With it the fix itself is graded on exactly its own tree.
    pub restored: Vec<Edit>,
}

/// What decides over a path.
pub struct Rules<'a> {
    /// Every file of the base commit.
    pub base: &'a BTreeSet<ByteText>,
    /// The fix's changes with their roles.
    pub changes: &'a [FileChange],
    /// What the fix's source patch makes of the tree.
    pub fix: &'a [Edit],
    /// Directories on the import path, relative to the tree.
    pub import_roots: &'a [String],
}

/// Sorts out an agent's edits.
///
/// What steers the runner and is changed by the fix as part of its source (a `pyproject.toml` with a new option, say) is
/// taken from the fix as soon as the agent changed anything but tests. A patch that is empty or changes tests only
/// is graded on the base's configuration, so that doing nothing can never gain by it.
pub fn split(edits: &[Edit], rules: &Rules) -> Split {
    let mut split = Split::default();
    let mut has_work = false;
    for edit in edits {
        match protection(edit, rules) {
            None => {
                has_work = true;
                split.carried.push(edit.clone());
            }
            Some(protection) => {
                has_work |= protection != Protection::Test && is_part_of_fix(&edit.path, rules);
                split.dropped.push((edit.path.clone(), protection));
            }
        }
    }
    if has_work {
        let is_steering = |edit: &&Edit| by_name(edit.path.as_bytes()).is_some_and(|why| why != Protection::Test);
        split.restored = rules.fix.iter().filter(is_steering).cloned().collect();
    }
    split
}

fn is_part_of_fix(path: &ByteText, rules: &Rules) -> bool {
    rules.fix.iter().any(|edit| edit.path == *path)
}

fn protection(edit: &Edit, rules: &Rules) -> Option<Protection> {
    let path = edit.path.as_bytes();
    let role = rules.changes.iter().find(|change| change.path == edit.path).map(|change| change.role);
    if role == Some(Role::Test) {
        return Some(Protection::Test);
    }
    match by_name(path) {
        // The fix shows that mining did not take this file for a test, whatever its name.
        None | Some(Protection::Test) if role.is_some() => return None,
        Some(protection) => return Some(protection),
        None => {}
    }
    if !rules.base.contains(&edit.path) && shadows_runner(path, rules.import_roots) {
        return Some(Protection::Startup);
    }
    // A link or file in place of a directory of tests, or below the name of a test file.
    let tests = rules.base.iter().chain(rules.changes.iter().map(|change| &change.path));
    let is_test = |path: &&ByteText| {
        by_name(path.as_bytes()).is_some()
            || rules.changes.iter().any(|change| change.path == **path && change.role == Role::Test)
    };
    let collides = |other: &ByteText| is_below(path, other.as_bytes()) || is_below(other.as_bytes(), path);
    tests.filter(is_test).any(collides).then_some(Protection::Test)
}

/// Says whether `path` lies below the directory `above`.
fn is_below(path: &[u8], above: &[u8]) -> bool {
    path.len() > above.len() && path.starts_with(above) && path[above.len()] == b'/'
}

/// Returns what a path's name alone makes of it.
pub fn by_name(path: &[u8]) -> Option<Protection> {
    const CONFIG: [&str; 22] = [
        "conftest.py",
        "pytest.ini",
        ".pytest.ini",
        "pytest.toml",
        ".pytest.toml",
        "tox.ini",
        "setup.cfg",
        "pyproject.toml",
        "unittest.cfg",
        ".coveragerc",
        "package.json",
        ".npmrc",
        ".taprc",
        ".swcrc",
        "Cargo.toml",
        "Cargo.lock",
        "build.rs",
        "rust-toolchain",
        "rust-toolchain.toml",
        "go.mod",
        "go.sum",
        "go.work",
    ];
    /// Beginnings of the names of JavaScript's tools' files, whose endings are many.
    const CONFIG_STEMS: [&str; 10] = [
        "jest.config.",
        "jest.setup.",
        "vitest.config.",
        "vite.config.",
        "ava.config.",
        "babel.config.",
        ".mocharc",
        ".babelrc",
        ".nycrc",
        "tsconfig",
    ];
    let text = String::from_utf8_lossy(path);
    let parts: Vec<&str> = text.split('/').collect();
    let name = parts.last().copied().unwrap_or_default();
    if parts.iter().any(|part| part.to_ascii_lowercase().starts_with(".git")) {
        return Some(Protection::Git);
    }
    if CONFIG.contains(&name)
        || CONFIG_STEMS.iter().any(|stem| name.starts_with(stem))
        || parts.iter().any(|part| matches!(*part, ".cargo" | "node_modules"))
        || parts.first() == Some(&"vendor")
    {
        return Some(Protection::Config);
    }
    let is_metadata = |part: &&str| part.ends_with(".dist-info") || part.ends_with(".egg-info");
    let loads_itself = matches!(name, "sitecustomize.py" | "usercustomize.py");
    let has_suffix = |suffix: &str| name.len() > suffix.len() && name.ends_with(suffix);
    if loads_itself || has_suffix(".pth") || has_suffix(".egg-link") || parts.iter().any(is_metadata) {
        return Some(Protection::Startup);
    }
    let is_test_file = name.ends_with(".py")
        && (name.starts_with("test_") || name.ends_with("_test.py") || matches!(name, "tests.py" | "test.py"));
    let directories = &parts[..parts.len() - 1];
    let in_tests = directories.iter().any(|part| matches!(*part, "tests" | "test" | "__tests__" | "testdata"))
        || directories.first().is_some_and(|part| matches!(*part, "testing" | "t"));
    let is_test_file = is_test_file || (!name.ends_with(".py") && paths::is_test_name(&name.to_lowercase()));
    (is_test_file || in_tests).then_some(Protection::Test)
}

/// Says whether a new module would be imported in place of the runner's own.
fn shadows_runner(path: &[u8], import_roots: &[String]) -> bool {
    const RUNNER: [&str; 8] =
        ["pytest", "_pytest", "pluggy", "iniconfig", "unittest", "curate_channel", "curate_pytest", "curate_unittest"];
    let text = String::from_utf8_lossy(path);
    let roots = import_roots.iter().map(String::as_str).chain([""]);
    roots
        .filter_map(|root| {
            let root = root.trim_matches('/');
            if root.is_empty() || root == "." { Some(&*text) } else { text.strip_prefix(root)?.strip_prefix('/') }
        })
        .filter_map(|inside| inside.split(['/', '.']).next())
        .any(|module| RUNNER.contains(&module))
}

/// Puts the sets of edits over each other; later sets win, and what stands in the way of a later path goes.
pub fn overlay(sets: &[&[Edit]]) -> Vec<Edit> {
    let mut merged: BTreeMap<ByteText, Edit> = BTreeMap::new();
    for edit in sets.iter().copied().flatten() {
        if edit.content.is_some() {
            let in_the_way = |path: &ByteText| {
                is_below(path.as_bytes(), edit.path.as_bytes()) || is_below(edit.path.as_bytes(), path.as_bytes())
            };
            merged.retain(|path, other| other.content.is_none() || !in_the_way(path));
        }
        merged.insert(edit.path.clone(), edit.clone());
    }
    merged.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::patch::FileContent;

    fn write(path: &str, text: &str) -> Edit {
        Edit { path: path.into(), content: Some(FileContent { mode: 0o100_644, bytes: text.into() }) }
    }

    fn change(path: &str, role: Role) -> FileChange {
        FileChange {
            path: path.into(),
            role,
            old: None,
            new: None,
            added_lines: 1,
            removed_lines: 0,
            with_new_tests: None,
        }
    }

    fn base() -> BTreeSet<ByteText> {
        ["pkg/a.py", "tests/test_a.py", "pkg/test/base.py", "setup.cfg"].into_iter().map(ByteText::from).collect()
    }

    #[test]
    fn names_are_sorted_into_kinds() {
        for (path, expected) in [
            ("tests/test_a.py", Some(Protection::Test)),
            ("pkg/tests/data/x.json", Some(Protection::Test)),
            ("test_top.py", Some(Protection::Test)),
            ("pkg/thing_test.py", Some(Protection::Test)),
            ("testing/python/x.py", Some(Protection::Test)),
            ("conftest.py", Some(Protection::Config)),
            ("tests/conftest.py", Some(Protection::Config)),
            ("pytest.ini", Some(Protection::Config)),
            ("pyproject.toml", Some(Protection::Config)),
            ("src/sitecustomize.py", Some(Protection::Startup)),
            ("evil.pth", Some(Protection::Startup)),
            ("evil-1.dist-info/entry_points.txt", Some(Protection::Startup)),
            (".gitattributes", Some(Protection::Git)),
            ("pkg/a.py", None),
            ("pkg/testing/tools.py", None),
            ("pkg/contest.py", None),
            ("pkg/latest.py", None),
            ("pkg/attest_x.py", None),
            ("README.md", None),
        ] {
            assert_eq!(by_name(path.as_bytes()), expected, "{path}");
        }
    }

    #[test]
    fn tests_and_configuration_are_dropped_and_work_is_carried() {
        let changes = [change("pkg/a.py", Role::Source), change("tests/test_new.py", Role::Test)];
        let (base, fix) = (base(), [write("pkg/a.py", "fixed")]);
        let rules = Rules { base: &base, changes: &changes, fix: &fix, import_roots: &["src".to_owned()] };
        let edits = [
            write("conftest.py", "hook"),
            write("pkg/a.py", "mine"),
            write("pytest.py", "shadow"),
            write("src/_pytest/x.py", "shadow"),
            write("tests", "link"),
            write("tests/test_new.py", "assert True"),
        ];
        let split = split(&edits, &rules);
        assert_eq!(split.carried, [write("pkg/a.py", "mine")]);
        let dropped: Vec<(String, Protection)> = split.dropped.iter().map(|(path, why)| (path.lossy(), *why)).collect();
        assert_eq!(
            dropped,
            [
                ("conftest.py".to_owned(), Protection::Config),
                ("pytest.py".to_owned(), Protection::Startup),
                ("src/_pytest/x.py".to_owned(), Protection::Startup),
                ("tests".to_owned(), Protection::Test),
                ("tests/test_new.py".to_owned(), Protection::Test),
            ]
        );
        assert_eq!(split.restored, []);
    }

    #[test]
    fn the_fix_is_graded_on_its_own_tree_whatever_its_files_are_called() {
        let names = [
            ("pkg/test/base.py", Role::Source),
            ("test/data.json", Role::Other),
            ("setup.cfg", Role::Other),
            ("x.egg-info/PKG-INFO", Role::Other),
            (".gitattributes", Role::Other),
            ("unittest/new.py", Role::Source),
        ];
        let changes = names.map(|(path, role)| change(path, role));
        let (base, fix) = (base(), names.map(|(path, _)| write(path, "fixed")));
        let rules = Rules { base: &base, changes: &changes, fix: &fix, import_roots: &[] };
        let split = split(&fix, &rules);
        assert_eq!(overlay(&[&split.carried, &split.restored]), overlay(&[&fix]));
        assert_eq!(split.carried.len(), 3);
    }

    #[test]
    fn configuration_of_the_fix_comes_with_work_but_not_with_nothing() {
        let changes = [change("setup.cfg", Role::Other), change("pkg/a.py", Role::Source)];
        let (base, fix) = (base(), [write("pkg/a.py", "fixed"), write("setup.cfg", "[tool:pytest]")]);
        let rules = Rules { base: &base, changes: &changes, fix: &fix, import_roots: &[] };
        assert_eq!(split(&[], &rules), Split::default());
        assert_eq!(split(&[write("tests/x.py", "")], &rules).restored, []);
        assert_eq!(split(&[write("pkg/a.py", "mine")], &rules).restored, [write("setup.cfg", "[tool:pytest]")]);
        let own = split(&[write("setup.cfg", "mine")], &rules);
        assert_eq!((own.carried, own.restored), (vec![], vec![write("setup.cfg", "[tool:pytest]")]));
    }

    #[test]
    fn later_edits_win_and_clear_their_way() {
        let merged = overlay(&[
            &[write("a", "1"), write("d", "a file"), write("t/x/y", "deep")],
            &[write("a", "2"), write("d/e", "x"), write("t/x", "flat")],
        ]);
        assert_eq!(merged, [write("a", "2"), write("d/e", "x"), write("t/x", "flat")]);
    }
}
