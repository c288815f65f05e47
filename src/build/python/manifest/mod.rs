//! What a commit's own files declare, read statically. Nothing of the repository is executed here.
//!
//! One reader per dialect; [`read`] folds them into [`Manifest`]. A file that cannot be parsed counts as absent: the
//! resolver decides later whether what was found is enough.

pub mod ci;
pub mod ini;
pub mod pyproject;
pub mod requirement_files;
pub mod setup_py;

use std::collections::{BTreeMap, BTreeSet};

/// The text files of a commit that a recipe is derived from, and the names of all others.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Every path, sorted.
    pub paths: Vec<String>,
    /// By path; only files that [`is_read`] names.
    pub texts: BTreeMap<String, String>,
}

impl Tree {
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    pub fn has(&self, path: &str) -> bool {
        self.paths.iter().any(|known| known == path)
    }
}

/// Says whether a path's text takes part in the recipe.
pub fn is_read(path: &str) -> bool {
    const NAMED: [&str; 17] = [
        "pylock.toml",
        "pyproject.toml",
        "setup.cfg",
        "setup.py",
        "tox.ini",
        "tox.toml",
        "pytest.ini",
        "Pipfile",
        "Pipfile.lock",
        "poetry.lock",
        "pdm.lock",
        "uv.lock",
        "noxfile.py",
        "Makefile",
        ".travis.yml",
        "appveyor.yml",
        "runtests.py",
    ];
    NAMED.contains(&path)
        || (path.starts_with(".github/workflows/") && (path.ends_with(".yml") || path.ends_with(".yaml")))
        || path == "conftest.py"
        || path.ends_with("/conftest.py")
        || requirement_files::is_one(path)
}

/// What `tox` or a tool of its kind installs for the default test environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestEnvironment {
    /// Raw lines; those behind a factor condition keep it (`py27: mock`).
    pub deps: Vec<String>,
    pub extras: Vec<String>,
    pub groups: Vec<String>,
}

/// Everything declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    pub name: Option<String>,
    /// Every `requires-python` found, as PEP 440 specifiers.
    pub requires_python: Vec<String>,
    /// Minor versions named by `Programming Language :: Python :: X.Y`.
    pub classifiers: BTreeSet<(u64, u64)>,
    /// The project says that it runs on Python 2 only.
    pub python2_only: bool,
    /// Whether there is something to build: a `setup.py`, a build system or a project table.
    pub buildable: bool,
    /// Statically readable runtime requirements, a fallback where the project cannot be built.
    pub dependencies: Vec<String>,
    /// By normalised name; lists may be empty where only the name could be read.
    pub extras: BTreeMap<String, Vec<String>>,
    /// Dependency groups of any tool, by normalised name, includes expanded.
    pub groups: BTreeMap<String, Vec<String>>,
    pub tests_require: Vec<String>,
    pub tox: TestEnvironment,
    /// Requirement files by path; lines with includes expanded.
    pub files: BTreeMap<String, Vec<String>>,
    /// Lines of constraint files that requirement files name.
    pub constraints: Vec<String>,
    /// Packages and extras that CI and task runners install by name.
    pub ci: TestEnvironment,
    /// A `conftest.py` or `required_plugins` names coverage.
    pub tests_use_coverage: bool,
    /// Directory that holds the packages, where it is not the tree itself (`src`).
    pub package_root: Option<String>,
}

/// Reads everything that the tree declares.
pub fn read(tree: &Tree) -> Manifest {
    let mut manifest = Manifest {
        buildable: tree.has("setup.py"),
        files: requirement_files::read(tree),
        ci: ci::read(tree),
        tests_use_coverage: tests_use_coverage(tree),
        ..Manifest::default()
    };
    manifest.constraints = requirement_files::constraints(tree, &manifest.files);
    if let Some(text) = tree.text("setup.py") {
        setup_py::read(text, &mut manifest);
    }
    if let Some(text) = tree.text("setup.cfg") {
        ini::read_setup_cfg(text, &mut manifest);
    }
    if let Some(text) = tree.text("pyproject.toml") {
        pyproject::read(text, &mut manifest);
    }
    if let Some(text) = tree.text("Pipfile") {
        pyproject::read_pipfile(text, &mut manifest);
    }
    if let Some(text) = tree.text("tox.ini") {
        ini::read_tox(text, &mut manifest);
    }
    if let Some(text) = tree.text("tox.toml") {
        pyproject::read_tox_toml(text, &mut manifest);
    }
    manifest
}

fn tests_use_coverage(tree: &Tree) -> bool {
    tree.texts.iter().any(|(path, text)| {
        let lines = || text.lines().filter(|line| line.contains("cov"));
        let is_conftest = path == "conftest.py" || path.ends_with("/conftest.py");
        (is_conftest && lines().next().is_some()) || lines().any(|line| line.contains("required_plugins"))
    })
}

impl Manifest {
    /// Takes in one trove classifier.
    fn classify(&mut self, classifier: &str) {
        let Some(rest) = classifier.trim().strip_prefix("Programming Language :: Python :: ") else { return };
        self.python2_only |= rest.trim() == "2 :: Only";
        if let Some((major, minor)) = rest.trim().split_once('.')
            && let (Ok(major), Ok(minor)) = (major.parse(), minor.parse())
        {
            self.classifiers.insert((major, minor));
        }
    }
}
