//! What paths say: whether a file is source, a test or something else, and in which language. Pure and table-driven; a
//! path's ending says whose rules hold.

use crate::record::{candidate::Role, environment::Language};

/// Directories whose content only tests use, compared without case.
const TEST_DIRECTORIES: [&str; 11] = [
    "test",
    "tests",
    "testdata",
    "test_data",
    "test-data",
    "unittests",
    "__tests__",
    "__mocks__",
    "__snapshots__",
    "__fixtures__",
    "spec",
];
/// Endings of such directories' names (`unit_tests`, `integration_test`).
const TEST_DIRECTORY_ENDINGS: [&str; 4] = ["_test", "_tests", "-test", "-tests"];
/// Top-level directories that are no part of the program.
const OTHER_DIRECTORIES: [&str; 12] = [
    "doc",
    "docs",
    "documentation",
    "example",
    "examples",
    "bench",
    "benches",
    "benchmark",
    "benchmarks",
    "changelog",
    "website",
    ".github",
];
/// Scripts that build or release the project.
const PROJECT_SCRIPTS: [&str; 12] = [
    "build.rs",
    "gulpfile.js",
    "gruntfile.js",
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
/// Endings of program files by language; C is what Python's extension modules are made of.
const SOURCE_ENDINGS: [(Language, &[&str]); 4] = [
    (Language::Python, &[".py", ".pyi", ".pyx", ".pxd", ".pxi", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp"]),
    (Language::Javascript, &[".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".vue", ".svelte"]),
    (Language::Rust, &[".rs"]),
    (Language::Go, &[".go"]),
];
/// Directories that hold other people's code.
const VENDOR_DIRECTORIES: [&str; 11] = [
    "dist",
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
const GENERATED_ENDINGS: [&str; 10] = [
    "_pb2.py",
    "_pb2.pyi",
    "_pb2_grpc.py",
    "_pb2_grpc.pyi",
    "_version.py",
    "parsetab.py",
    "lextab.py",
    ".pb.go",
    ".min.js",
    ".bundle.js",
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
    let is_source = language(path).is_some();
    let is_elsewhere = top.is_some_and(|top| OTHER_DIRECTORIES.contains(&top));
    let is_script = name == "setup.py"
        || (top.is_none() && PROJECT_SCRIPTS.contains(&name))
        || name.starts_with('.')
        || is_declaration_or_setting(name);
    if is_source && !is_elsewhere && !is_script { Role::Source } else { Role::Other }
}

/// Returns the language of a program file, test or not, by its ending.
pub fn language(path: &[u8]) -> Option<Language> {
    let text = String::from_utf8_lossy(path).to_lowercase();
    let name = text.rsplit('/').next().unwrap_or_default();
    let has = |ending: &&str| name.ends_with(ending) && name.len() > ending.len();
    SOURCE_ENDINGS.iter().find(|(_, endings)| endings.iter().any(&has)).map(|(language, _)| *language)
}

/// Says whether a script declares types or configures a tool (`index.d.ts`, `jest.config.js`).
fn is_declaration_or_setting(name: &str) -> bool {
    [".d.ts", ".d.mts", ".d.cts", ".test-d.ts"].iter().any(|ending| name.ends_with(ending)) || name.contains(".config.")
}

/// Says whether a file's name, in lower case, is one that test runners look for.
pub fn is_test_name(name: &str) -> bool {
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    match ending {
        "py" | "pyi" => {
            stem.starts_with("test_") || stem.ends_with("_test") || matches!(stem, "test" | "tests" | "conftest")
        }
        "go" => stem.ends_with("_test"),
        "rs" => matches!(stem, "test" | "tests") || stem.ends_with("_test") || stem.ends_with("_tests"),
        "snap" => true,
        _ if language(name.as_bytes()) == Some(Language::Javascript) => {
            let is_marked =
                [".test", ".tests", ".spec", "-test", "_test", ".test-d"].iter().any(|end| stem.ends_with(end));
            is_marked || matches!(stem, "test" | "tests") || stem.starts_with("test-") || stem.starts_with("test.")
        }
        _ => false,
    }
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
            ("src/lib.rs", Role::Source),
            ("src/tests.rs", Role::Test),
            ("crates/a/tests/it.rs", Role::Test),
            ("benches/speed.rs", Role::Other),
            ("build.rs", Role::Other),
            ("version.go", Role::Source),
            ("version_test.go", Role::Test),
            ("testdata/x.json", Role::Test),
            ("index.js", Role::Source),
            ("index.d.ts", Role::Other),
            ("test.js", Role::Test),
            ("src/a.test.tsx", Role::Test),
            ("src/__tests__/a.ts", Role::Test),
            ("jest.config.js", Role::Other),
            (".eslintrc.js", Role::Other),
            ("lib/contest.js", Role::Source),
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
}
