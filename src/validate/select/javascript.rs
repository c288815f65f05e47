//! JavaScript: which files hold tests, and which tests a snapshot belongs to.

use std::{collections::BTreeSet, sync::LazyLock};

use regex::bytes::Regex;

use super::{Tree, file_name, users_of};
use crate::record::{
    candidate::{Candidate, Role},
    environment::Runner,
};

const ENDINGS: [&str; 8] = ["js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"];
const DIRECTORIES: [&str; 7] = ["test", "tests", "__tests__", "__test__", "spec", "specs", "t"];

/// See [`super::test_files`].
pub fn test_files(tree: &Tree, candidate: &Candidate, runner: Runner) -> Vec<String> {
    let is_module =
        |path: &str| is_script_of_tests(path) && (tree.read)(path).is_some_and(|text| holds_tests(&text, runner));
    let modules: Vec<&str> = tree.paths.iter().map(String::as_str).filter(|path| is_module(path)).collect();
    let mut selected = BTreeSet::new();
    for change in candidate.changes_of(Role::Test).filter(|change| change.new.is_some()) {
        let path = change.path.escaped();
        let tested = snapshot_of(&path);
        if modules.contains(&path.as_str()) {
            selected.insert(path);
        } else if let Some(owner) = tested.iter().find(|owner| modules.contains(&owner.as_str())) {
            selected.insert(owner.clone());
        } else {
            selected.extend(users_of(tree, &modules, &path).into_iter().map(str::to_owned));
        }
    }
    selected.into_iter().collect()
}

/// Says whether a path looks like a test's: by its name, or below a directory for tests.
fn is_script_of_tests(path: &str) -> bool {
    let name = file_name(path);
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    if !ENDINGS.contains(&ending) || [".d", ".test-d"].iter().any(|end| stem.ends_with(end)) {
        return false;
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    if parts.contains(&"node_modules") {
        return false;
    }
    let marked = [".test", ".tests", ".spec", "-test", "_test", "-spec", "_spec"];
    marked.iter().any(|end| stem.ends_with(end))
        || matches!(stem, "test" | "tests" | "spec")
        || stem.starts_with("test-")
        || parts.iter().any(|part| DIRECTORIES.contains(part))
}

/// Says whether a text uses the runner's way to define tests; fixtures and helpers beside tests do not.
fn holds_tests(text: &[u8], runner: Runner) -> bool {
    static TAP: LazyLock<Regex> = LazyLock::new(|| expression(r#"['"](?:tap|@tapjs/[\w/-]+)['"]"#));
    static AVA: LazyLock<Regex> = LazyLock::new(|| expression(r#"['"]ava['"]"#));
    static NODE: LazyLock<Regex> = LazyLock::new(|| expression(r#"['"]node:test['"]"#));
    static GLOBAL: LazyLock<Regex> =
        LazyLock::new(|| expression(r"\b(?:describe|context|suite|it|test|specify)(?:\.\w+)*\s*[(`]"));
    match runner {
        Runner::Tap => TAP.is_match(text),
        Runner::Ava => AVA.is_match(text),
        Runner::NodeTest => NODE.is_match(text),
        _ => GLOBAL.is_match(text),
    }
}

fn expression(text: &str) -> Regex {
    Regex::new(text).expect("a valid expression")
}

/// Returns the test files that a snapshot's path stands for, best first.
fn snapshot_of(path: &str) -> Vec<String> {
    let name = file_name(path);
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    // tap: `tap-snapshots/test/a.js.test.cjs`; with a dash before, in older versions.
    if let Some(rest) = path.strip_prefix("tap-snapshots/") {
        let stem = rest.trim_end_matches(".cjs").trim_end_matches(".js").trim_end_matches(".test");
        return vec![stem.to_owned(), stem.trim_end_matches("-TAP").replacen("test-", "test/", 1)];
    }
    // jest and vitest: `__snapshots__/a.test.js.snap`; ava: `snapshots/a.js.snap` and `.md`.
    let Some(stem) = name.strip_suffix(".snap").or_else(|| name.strip_suffix(".md")) else { return Vec::new() };
    let above = ["__snapshots__", "snapshots"].iter().find_map(|last| directory.strip_suffix(last));
    above.map(|above| vec![format!("{above}{stem}"), format!("{directory}/{stem}")]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixtures_and_declarations_are_no_tests() {
        assert!(is_script_of_tests("test/fixtures/a.js") && !holds_tests(b"module.exports = []", Runner::Tap));
        assert!(!is_script_of_tests("test/a.test-d.ts") && !is_script_of_tests("test/cases.json"));
        assert!(is_script_of_tests("src/a.test.tsx") && holds_tests(b"it.each`x`", Runner::Vitest));
        assert!(holds_tests(b"import test from 'ava';", Runner::Ava) && !holds_tests(b"test('x')", Runner::Ava));
    }

    #[test]
    fn a_snapshot_belongs_to_its_test() {
        assert_eq!(snapshot_of("tap-snapshots/test/bin/a.js.test.cjs")[0], "test/bin/a.js");
        assert_eq!(snapshot_of("src/__snapshots__/a.test.ts.snap")[0], "src/a.test.ts");
        assert_eq!(snapshot_of("test/snapshots/a.js.md")[0], "test/a.js");
        assert_eq!(snapshot_of("readme.md"), Vec::<String>::new());
    }
}
