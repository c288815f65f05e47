//! What paths and messages say. Pure and table-driven; the rules are those of Python projects.

use crate::record::candidate::Role;

/// Directories whose content only tests use, compared without case.
const TEST_DIRECTORIES: [&str; 6] = ["test", "tests", "testdata", "test_data", "test-data", "unittests"];
/// Endings of such directories' names (`unit_tests`, `integration_test`).
const TEST_DIRECTORY_ENDINGS: [&str; 4] = ["_test", "_tests", "-test", "-tests"];
/// Top-level directories that are no part of the program.
const OTHER_DIRECTORIES: [&str; 10] =
    ["doc", "docs", "documentation", "example", "examples", "bench", "benchmark", "benchmarks", "changelog", ".github"];
/// Scripts that build or release the project.
const PROJECT_SCRIPTS: [&str; 9] = [
    "setup.py",
    "noxfile.py",
    "toxfile.py",
    "tasks.py",
    "fabfile.py",
    "dodo.py",
    "versioneer.py",
    "ez_setup.py",
    "conf.py",
];
/// Endings of program files: Python, its type stubs, and what extension modules are made of.
const SOURCE_ENDINGS: [&str; 11] = [".py", ".pyi", ".pyx", ".pxd", ".pxi", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp"];
/// Directories that hold other people's code.
const VENDOR_DIRECTORIES: [&str; 10] = [
    "_vendor",
    "vendor",
    "vendored",
    "_vendored",
    "third_party",
    "thirdparty",
    "_third_party",
    "extern",
    "site-packages",
    "node_modules",
];
/// Endings of files that a program wrote.
const GENERATED_ENDINGS: [&str; 7] =
    ["_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi", "_version.py", "parsetab.py", "lextab.py"];
/// Words of a message that speak of a fix.
const FIX_WORDS: [&str; 34] = [
    "fix",
    "fixes",
    "fixed",
    "fixing",
    "bugfix",
    "hotfix",
    "bug",
    "bugs",
    "issue",
    "issues",
    "close",
    "closes",
    "closed",
    "resolve",
    "resolves",
    "resolved",
    "regression",
    "regressions",
    "crash",
    "crashes",
    "crashed",
    "error",
    "errors",
    "exception",
    "wrong",
    "wrongly",
    "incorrect",
    "incorrectly",
    "broken",
    "correct",
    "corrects",
    "fail",
    "fails",
    "failure",
];

/// The facts about a tree that roles depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// A top-level directory `testing` holds tests: it is no package.
    pub testing_holds_tests: bool,
}

/// Returns the role of a path.
pub fn role(path: &[u8], layout: Layout) -> Role {
    let text = String::from_utf8_lossy(path).to_lowercase();
    let mut directories: Vec<&str> = text.split('/').collect();
    let name = directories.pop().unwrap_or_default();
    let top = directories.first().copied();
    if is_test_name(name)
        || directories.iter().any(|directory| is_test_directory(directory))
        || (layout.testing_holds_tests && top == Some("testing"))
    {
        return Role::Test;
    }
    let is_source = SOURCE_ENDINGS.iter().any(|ending| name.ends_with(ending) && name.len() > ending.len());
    let is_elsewhere = top.is_some_and(|top| OTHER_DIRECTORIES.contains(&top));
    let is_script = name == "setup.py" || (top.is_none() && PROJECT_SCRIPTS.contains(&name));
    if is_source && !is_elsewhere && !is_script { Role::Source } else { Role::Other }
}

fn is_test_name(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".py").or_else(|| name.strip_suffix(".pyi")) else { return false };
    stem.starts_with("test_") || stem.ends_with("_test") || matches!(stem, "test" | "tests" | "conftest")
}

fn is_test_directory(name: &str) -> bool {
    TEST_DIRECTORIES.contains(&name) || TEST_DIRECTORY_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Says whether a source path holds code that the project's authors did not write by hand.
pub fn is_generated_or_vendored(path: &[u8]) -> bool {
    let text = String::from_utf8_lossy(path).to_lowercase();
    let mut directories: Vec<&str> = text.split('/').collect();
    let name = directories.pop().unwrap_or_default();
    directories.iter().any(|directory| VENDOR_DIRECTORIES.contains(directory))
        || GENERATED_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Says whether content stands for a large file kept elsewhere (Git LFS), also when it is malformed.
pub fn is_lfs_pointer(content: &[u8]) -> bool {
    content.len() < 1024
        && (content.starts_with(b"version https://git-lfs.github.com/spec/")
            || content.starts_with(b"version https://hawser.github.com/spec/"))
}

/// Says whether a message speaks of a fix, by whole words.
pub fn mentions_fix(message: &[u8]) -> bool {
    let text = String::from_utf8_lossy(message).to_lowercase();
    text.split(|letter: char| !letter.is_alphanumeric()).any(|word| FIX_WORDS.contains(&word))
}

/// Returns a message's first line as readable text.
pub fn subject(message: &[u8]) -> String {
    String::from_utf8_lossy(message).lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b058_roles_go_by_whole_names() {
        let plain = Layout::default();
        for (path, expected) in [
            ("src/testing/api.py", Role::Source),
            ("contest/solve.py", Role::Source),
            ("latest.py", Role::Source),
            ("attestation/x.py", Role::Source),
            ("boltons/strutils.py", Role::Source),
            ("pkg/_speedups.c", Role::Source),
            ("pkg/types.pyi", Role::Source),
            ("pkg/tasks.py", Role::Source),
            ("pkg/docs/x.py", Role::Source),
            ("tests/data/x.json", Role::Test),
            ("pkg/Tests/x.py", Role::Test),
            ("conftest.py", Role::Test),
            ("pkg/test_x.py", Role::Test),
            ("pkg/x_test.py", Role::Test),
            ("tests.py", Role::Test),
            ("unit_tests/helper.py", Role::Test),
            ("docs/conf.py", Role::Other),
            ("docs/test_build.py", Role::Test),
            ("setup.py", Role::Other),
            ("pkg/setup.py", Role::Other),
            ("noxfile.py", Role::Other),
            ("pytest.ini", Role::Other),
            ("tox.ini", Role::Other),
            ("pyproject.toml", Role::Other),
            ("examples/run.py", Role::Other),
            ("README.md", Role::Other),
            (".py", Role::Other),
            ("testing/test_x.py", Role::Test),
            ("testing/helper.py", Role::Source),
        ] {
            assert_eq!(role(path.as_bytes(), plain), expected, "{path}");
        }
        let pytest = Layout { testing_holds_tests: true };
        assert_eq!(role(b"testing/example_scripts/x.txt", pytest), Role::Test);
        assert_eq!(role(b"src/testing/api.py", pytest), Role::Source);
    }

    #[test]
    fn vendored_and_generated_code_is_known_by_its_place() {
        for path in ["pkg/_vendor/six.py", "third_party/x.c", "pkg/api_pb2.py", "pkg/_version.py"] {
            assert!(is_generated_or_vendored(path.as_bytes()), "{path}");
        }
        for path in ["pkg/vendors.py", "pkg/version.py", "pkg/external/x.py"] {
            assert!(!is_generated_or_vendored(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn messages_are_read_word_by_word() {
        for message in ["Fix #12", "closes GH-3", "Handle wrong input", "resolved: crash"] {
            assert!(mentions_fix(message.as_bytes()), "{message}");
        }
        for message in ["Add prefix option", "Debugging aid", "Refixture", ""] {
            assert!(!mentions_fix(message.as_bytes()), "{message}");
        }
        assert_eq!(subject(b"\n\n  Title \nbody"), "Title");
        assert_eq!(subject(b"caf\xe9"), "caf\u{fffd}");
    }

    #[test]
    fn b018_pointers_are_known_by_their_text() {
        assert!(is_lfs_pointer(b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n"));
        assert!(is_lfs_pointer(b"version https://git-lfs.github.com/spec/v1"));
        assert!(!is_lfs_pointer(b"version 3\n"));
    }
}
