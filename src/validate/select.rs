//! Which test files show what a change does. Pure: reads the tree through a function.

mod javascript;

use std::collections::BTreeSet;

use configparser::ini::Ini;

use crate::record::{
    candidate::Candidate,
    environment::{Language, Runner},
};

/// A tree to look into: its paths, and a way to read one.
pub struct Tree<'a> {
    pub paths: &'a [String],
    pub read: &'a dyn Fn(&str) -> Option<Vec<u8>>,
}

/// Returns the test modules that a candidate's test changes touch, sorted.
///
/// A changed test module stands for itself; a changed support file (fixture, data, helper, `conftest.py`) stands for
/// the test modules that name it, else for those below its directory, unless one of them changes too: then that one
/// shows what the support file is changed for.
pub fn test_files(tree: &Tree, candidate: &Candidate, runner: Runner) -> Vec<String> {
    if runner == Runner::Go {
        return go_test_files(tree, candidate);
    }
    if runner == Runner::Cargo {
        return rust_files(tree, candidate);
    }
    if runner.language() == Language::Javascript {
        return javascript::test_files(tree, candidate, runner);
    }
    let patterns = module_patterns(tree, runner);
    let modules: Vec<&str> = tree.paths.iter().map(String::as_str).filter(|path| is_module(path, &patterns)).collect();
    let changed = candidate.changes.iter().filter(|change| change.changes_tests() && change.new.is_some());
    let (touched, support): (BTreeSet<String>, BTreeSet<String>) =
        changed.map(|change| change.path.escaped()).partition(|path| is_module(path, &patterns));
    let mut selected = touched.clone();
    for path in support {
        let users = users_of(tree, &modules, &path);
        if !users.iter().any(|user| touched.contains(*user)) {
            selected.extend(users.into_iter().map(str::to_owned));
        }
    }
    selected.into_iter().collect()
}

/// Returns the same for Go: a `_test.go` file without tests, or a support file, stands for those of its package's test
/// files that name it, else for all of them; the package of a file in `testdata` is the nearest one above.
fn go_test_files(tree: &Tree, candidate: &Candidate) -> Vec<String> {
    let is_test = |path: &str| path.ends_with("_test.go");
    let has_tests = |path: &str| {
        let text = (tree.read)(path).unwrap_or_default();
        let starts = [&b"func Test"[..], b"func Fuzz", b"func Example"];
        text.split(|byte| *byte == b'\n')
            .any(|line| !line.starts_with(b"func TestMain(") && starts.iter().any(|start| line.starts_with(start)))
    };
    let files_of = |directory: &str| -> Vec<&str> {
        let is_in = |path: &&str| path.rsplit_once('/').map_or("", |(parent, _)| parent) == directory;
        tree.paths.iter().map(String::as_str).filter(|path| is_test(path)).filter(is_in).collect()
    };
    let mut selected = BTreeSet::new();
    for change in candidate.changes.iter().filter(|change| change.changes_tests() && change.new.is_some()) {
        let path = change.path.escaped();
        if is_test(&path) && has_tests(&path) {
            selected.insert(path);
            continue;
        }
        let mut directory = path.as_str();
        let mut files = Vec::new();
        while let (true, Some((parent, _))) = (files.is_empty(), directory.rsplit_once('/')) {
            directory = parent;
            files = files_of(directory);
        }
        if files.is_empty() {
            files = files_of("");
        }
        let names =
            |file: &&&str| (tree.read)(file).is_some_and(|text| contains_word(&text, file_name(&path).as_bytes()));
        let naming: Vec<&str> = files.iter().filter(names).copied().collect();
        selected.extend(if naming.is_empty() { files } else { naming }.into_iter().map(str::to_owned));
    }
    selected.into_iter().collect()
}

/// Returns the changed test files of a Rust tree.
///
/// Rust files stand for themselves: which targets they are compiled into, Cargo's metadata tell. A data file stands for
/// the files of tests and programs that name it, else for itself, which means all tests of its package.
fn rust_files(tree: &Tree, candidate: &Candidate) -> Vec<String> {
    let is_rust = |path: &str| path.ends_with(".rs");
    let modules: Vec<&str> = tree.paths.iter().map(String::as_str).filter(|path| is_rust(path)).collect();
    let mut selected = BTreeSet::new();
    for change in candidate.changes.iter().filter(|change| change.changes_tests() && change.new.is_some()) {
        let path = change.path.escaped();
        let name = file_name(&path).as_bytes();
        let users =
            |module: &&&str| !is_rust(&path) && (tree.read)(module).is_some_and(|text| contains_word(&text, name));
        let naming: Vec<&str> = modules.iter().filter(users).copied().collect();
        match naming.is_empty() {
            true => drop(selected.insert(path)),
            false => selected.extend(naming.into_iter().map(str::to_owned)),
        }
    }
    selected.into_iter().collect()
}

/// Returns the file name patterns of test modules: the repository's `python_files`, else the runner's own.
fn module_patterns(tree: &Tree, runner: Runner) -> Vec<String> {
    let own: &[&str] = match runner {
        Runner::Pytest => &["test_*.py", "*_test.py", "tests.py"],
        Runner::Unittest => &["test*.py", "*_test.py", "*_tests.py"],
        _ => &[],
    };
    configured_patterns(tree).unwrap_or_else(|| own.iter().map(|pattern| (*pattern).to_owned()).collect())
}

fn configured_patterns(tree: &Tree) -> Option<Vec<String>> {
    let text = |path: &str| (tree.read)(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let ini = |path: &str, section: &str| {
        let mut parser = Ini::new_cs();
        parser.set_multiline(true);
        text(path).and_then(|text| parser.read(text).ok()).and_then(|_| parser.get(section, "python_files"))
    };
    let toml = || {
        let table: toml::Table = text("pyproject.toml")?.parse().ok()?;
        let value = table.get("tool")?.get("pytest")?.get("ini_options")?.get("python_files")?;
        match value.as_array() {
            Some(list) => Some(list.iter().filter_map(|item| item.as_str()).collect::<Vec<_>>().join(" ")),
            None => value.as_str().map(str::to_owned),
        }
    };
    let patterns = ini("pytest.ini", "pytest")
        .or_else(toml)
        .or_else(|| ini("tox.ini", "pytest"))
        .or_else(|| ini("setup.cfg", "tool:pytest"))?;
    let patterns: Vec<String> = patterns.split_whitespace().map(str::to_owned).collect();
    (!patterns.is_empty()).then_some(patterns)
}

fn is_module(path: &str, patterns: &[String]) -> bool {
    let name = file_name(path);
    path.ends_with(".py")
        && name != "conftest.py"
        && patterns
            .iter()
            .any(|pattern| glob(pattern.as_bytes(), if pattern.contains('/') { path } else { name }.as_bytes()))
}

/// Matches `*` and `?`; `*` also crosses `/`, as pytest's `fnmatch` does.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.first(), text.first()) {
        (None, None) => true,
        (Some(b'*'), _) => glob(&pattern[1..], text) || (!text.is_empty() && glob(pattern, &text[1..])),
        (Some(b'?'), Some(_)) => glob(&pattern[1..], &text[1..]),
        (Some(p), Some(t)) if p == t => glob(&pattern[1..], &text[1..]),
        _ => false,
    }
}

fn users_of<'a>(tree: &Tree, modules: &[&'a str], support: &str) -> Vec<&'a str> {
    let directory = support.rsplit_once('/').map_or("", |(directory, _)| directory);
    let below = |module: &&&str| directory.is_empty() || module.starts_with(&format!("{directory}/"));
    let name = file_name(support);
    if name == "conftest.py" || name == "__init__.py" {
        return modules.iter().filter(below).copied().collect();
    }
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let naming: Vec<&str> = modules
        .iter()
        .filter(|module| (tree.read)(module).is_some_and(|text| contains_word(&text, stem.as_bytes())))
        .copied()
        .collect();
    if naming.is_empty() { modules.iter().filter(below).copied().collect() } else { naming }
}

fn contains_word(text: &[u8], word: &[u8]) -> bool {
    let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    !word.is_empty()
        && text.windows(word.len()).enumerate().any(|(at, window)| {
            window == word
                && !is_word(at.checked_sub(1).and_then(|before| text.get(before)))
                && !is_word(text.get(at + word.len()))
        })
}

fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::record::{
        bytes::ByteText,
        candidate::{FileChange, Role, Side, Unit},
    };

    fn select(files: &[(&str, &str)], changed: &[&str]) -> Vec<String> {
        select_for(Runner::Pytest, files, changed)
    }

    fn select_for(runner: Runner, files: &[(&str, &str)], changed: &[&str]) -> Vec<String> {
        let files: BTreeMap<String, String> = files.iter().map(|(p, t)| ((*p).to_owned(), (*t).to_owned())).collect();
        let paths: Vec<String> = files.keys().cloned().collect();
        let read = |path: &str| files.get(path).map(|text| text.clone().into_bytes());
        let changes = changed.iter().map(|path| FileChange {
            path: ByteText::from(*path),
            role: Role::Test,
            old: None,
            new: Some(Side { mode: 0o100_644, oid: String::new() }),
            added_lines: 1,
            removed_lines: 0,
            with_new_tests: None,
        });
        let candidate = Candidate {
            instance_id: String::new(),
            repo: String::new(),
            repo_source: String::new(),
            base_commit: String::new(),
            fix_commit: String::new(),
            unit: Unit::Commit,
            language: crate::record::environment::Language::Python,
            base_time: 0,
            fix_time: 0,
            message: ByteText::default(),
            changes: changes.collect(),
            source_patch: ByteText::default(),
            test_patch: ByteText::default(),
            n_source_files: 0,
            n_source_lines: 0,
            tier: 1,
            mentions_fix: false,
        };
        test_files(&Tree { paths: &paths, read: &read }, &candidate, runner)
    }

    #[test]
    fn a_support_file_of_go_stands_for_its_package() {
        let files = [
            ("a/x_test.go", "func TestX(t *testing.T) {}\n"),
            ("a/y_test.go", "func TestY(t *testing.T) { read(\"golden.txt\") }\n"),
            ("a/main_test.go", "func TestMain(m *testing.M) {}\n"),
            ("a/testdata/deep/golden.txt", ""),
            ("a/testdata/deep/other.txt", ""),
            ("root_test.go", "func ExampleX() {}\n"),
            ("fixtures/f.json", ""),
        ];
        let all = ["a/main_test.go", "a/x_test.go", "a/y_test.go"];
        let select = |changed: &str| select_for(Runner::Go, &files, &[changed]);
        assert_eq!(select("a/x_test.go"), ["a/x_test.go"]);
        assert_eq!(select("a/main_test.go"), all);
        assert_eq!(select("a/testdata/deep/golden.txt"), ["a/y_test.go"]);
        assert_eq!(select("a/testdata/deep/other.txt"), all);
        assert_eq!(select("fixtures/f.json"), ["root_test.go"]);
    }

    #[test]
    fn rust_files_stand_for_themselves_and_data_for_those_that_name_it() {
        let files = [
            ("tests/a.rs", "include_str!(\"data/cases.txt\")"),
            ("tests/common/mod.rs", ""),
            ("tests/data/cases.txt", ""),
            ("tests/data/lonely.txt", ""),
        ];
        let select = |changed: &[&str]| select_for(Runner::Cargo, &files, changed);
        assert_eq!(select(&["tests/common/mod.rs", "tests/a.rs"]), ["tests/a.rs", "tests/common/mod.rs"]);
        assert_eq!(select(&["tests/data/cases.txt"]), ["tests/a.rs"]);
        assert_eq!(select(&["tests/data/lonely.txt"]), ["tests/data/lonely.txt"]);
    }

    #[test]
    fn a_support_file_stands_for_the_modules_that_name_it() {
        let files = [
            ("tests/test_a.py", "load('cases.json')"),
            ("tests/test_b.py", "showcases = 1"),
            ("tests/cases.json", "{}"),
            ("tests/sub/test_c.py", ""),
            ("tests/sub/conftest.py", ""),
            ("tests/sub/lonely.txt", ""),
        ];
        assert_eq!(select(&files, &["tests/cases.json"]), ["tests/test_a.py"]);
        assert_eq!(select(&files, &["tests/sub/conftest.py"]), ["tests/sub/test_c.py"]);
        assert_eq!(select(&files, &["tests/sub/lonely.txt"]), ["tests/sub/test_c.py"]);
        let shared =
            [("tests/base.py", ""), ("tests/test_a.py", "from tests.base import x"), ("tests/test_b.py", "base")];
        assert_eq!(select(&shared, &["tests/base.py"]), ["tests/test_a.py", "tests/test_b.py"]);
        assert_eq!(select(&shared, &["tests/base.py", "tests/test_a.py"]), ["tests/test_a.py"]);
    }

    #[test]
    fn the_repository_says_what_a_test_module_is() {
        let files =
            [("setup.cfg", "[tool:pytest]\npython_files =\n    check_*.py\n    tests.py\n"), ("t/check_a.py", "")];
        assert_eq!(select(&files, &["t/check_a.py", "t/typing_example.py"]), ["t/check_a.py"]);
    }
}
