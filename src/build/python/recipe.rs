//! What a repository's tests need, gathered from everything it declares. Pure; no resolver, no model.

use std::{collections::BTreeSet, sync::LazyLock};

use pep508_rs::Requirement;
use regex::Regex;

use super::{
    manifest::{Manifest, Tree, ini::under_factors},
    requirement::{Wanted, named, normalise, parse, with_extras},
};
use crate::record::environment::Runner;

/// Where requirements come from, in the order in which the ladder gives them up (last first).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The test runner, and what every virtual environment of the time held.
    Base,
    /// What a user of the tool asks for instead; never given up.
    Override,
    /// The project's own requirements.
    Runtime,
    /// Extras and dependency groups for tests or development.
    Extra,
    /// Requirements files, tox, `tests_require`, CI.
    File,
}

/// Requirements of one origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub kind: Kind,
    /// For people: `extra tests`, `requirements-dev.txt`.
    pub label: String,
    pub requirements: Vec<Requirement>,
}

/// All that goes to the resolver besides dates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub sources: Vec<Source>,
    /// Lines of constraint files.
    pub constraints: Vec<String>,
}

/// The project's built metadata, as far as requirements go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    pub name: String,
    /// `Requires-Dist` lines.
    pub requires: Vec<String>,
    /// `Provides-Extra`, normalised.
    pub extras: Vec<String>,
}

/// Tools that take no part in running tests, and pull in much or conflict.
fn is_denied(name: &str) -> bool {
    static DENIED: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(concat!(
            r"^(?:sphinx.*|.*-sphinx-theme|.*sphinxcontrib.*|furo|mkdocs.*|myst-parser|recommonmark|pallets-sphinx-themes",
            r"|readthedocs.*|numpydoc|doc8|pydoctor|mypy|.*-mypy|types-.*|.*-stubs|pyright|basedpyright|pytype|ty",
            r"|black|blacken-docs|isort|flake8.*|.*-flake8|pep8-naming|pycodestyle|pyflakes|pylint.*|.*-pylint|ruff|bandit",
            r"|pydocstyle|autopep8|yapf|pyupgrade|codespell|interrogate|vulture|radon|safety|pip-audit|gitlint",
            r"|pytest-(?:black|isort|pep8|ruff|codestyle|pycodestyle|pydocstyle|checkdocs|enabler|perf)",
            r"|tox.*|detox|nox|virtualenv|pre-commit.*|codecov|coveralls|python-coveralls|codacy-coverage|twine|keyring",
            r"|check-manifest|check-wheel-contents|bumpversion|bump2version|bump-my-version|towncrier|zest-releaser|releases",
            r"|commitizen|python-semantic-release|cibuildwheel|build|hatch|poetry|pdm|uv|flit|pip-tools|pipenv|pip|wheel",
            r"|setuptools|devpi.*|invoke|cogapp|ipython|ipdb|pdbpp|jupyter.*|notebook|jupyterlab|asv|pyperformance)$",
        ))
        .expect("a valid expression")
    });
    DENIED.is_match(name)
}

fn is_test_like(name: &str) -> bool {
    static TEST: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(?:tests?|testing|unit-?tests?|pytest|(?:tests?|testing)-[a-z0-9-]+|[a-z0-9]+-tests?)$")
            .expect("a valid expression")
    });
    static OTHER: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"doc|lint|mypy|typing|bench|style|integration|e2e|nightly|min").expect("valid"));
    TEST.is_match(name) && !OTHER.is_match(name)
}

fn is_dev_like(name: &str) -> bool {
    matches!(name, "dev" | "devel" | "develop" | "development" | "all-dev" | "dev-dependencies")
}

/// Returns the test-like names, or where there are none the development-like ones.
fn chosen<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let tests: Vec<String> = names.clone().filter(|name| is_test_like(name)).map(String::from).collect();
    if tests.is_empty() { names.filter(|name| is_dev_like(name)).map(String::from).collect() } else { tests }
}

/// Gathers the needs of a commit for an interpreter of a minor version.
///
/// `metadata` is absent where the project could not be built; what can be read statically stands in. `given` lines, if
/// there are any, replace all that would be inferred; the project's own requirements stay.
pub fn gather(
    manifest: &Manifest,
    metadata: Option<&Metadata>,
    runner: Runner,
    given: &[String],
    python: (u64, u64),
) -> Needs {
    let mut gatherer = Gatherer { manifest, metadata, needs: Needs::default(), extras: BTreeSet::new() };
    if given.is_empty() {
        gatherer.files(python);
        gatherer.groups();
        gatherer.chosen_extras();
    } else {
        gatherer.push(Kind::Override, "manifest", given.iter().map(String::as_str), false);
    }
    gatherer.extras();
    gatherer.ci_if_nothing_else();
    gatherer.runtime();
    gatherer.base(runner, python);
    let mut needs = gatherer.needs;
    needs.sources.retain(|source| !source.requirements.is_empty());
    needs.sources.sort_by(|a, b| (a.kind, &a.label).cmp(&(b.kind, &b.label)));
    needs
}

struct Gatherer<'a> {
    manifest: &'a Manifest,
    metadata: Option<&'a Metadata>,
    needs: Needs,
    /// Extras of the project that some source asks for.
    extras: BTreeSet<String>,
}

impl Gatherer<'_> {
    fn push<'l>(&mut self, kind: Kind, label: &str, lines: impl Iterator<Item = &'l str>, deny: bool) {
        let mut requirements = Vec::new();
        for line in lines {
            match parse(line) {
                Wanted::Package(package) if !(deny && self.leaves_out(package.name.as_ref())) => {
                    requirements.push(*package);
                }
                Wanted::Project(extras) => self.extras.extend(extras),
                Wanted::Package(_) | Wanted::File(_) | Wanted::Constraints(_) | Wanted::Nothing => {}
            }
        }
        self.needs.sources.push(Source { kind, label: label.to_owned(), requirements });
    }

    /// Coverage is not measured here, and its old releases have to be compiled; but some test suites rest on it.
    fn leaves_out(&self, name: &str) -> bool {
        is_denied(name) || (matches!(name, "coverage" | "pytest-cov") && !self.manifest.tests_use_coverage)
    }

    fn files(&mut self, python: (u64, u64)) {
        let manifest = self.manifest;
        let mut paths: BTreeSet<&str> = test_files(manifest).into_iter().collect();
        let own = format!("py{}{}", python.0, python.1);
        let factors = ["py", "py3", own.as_str(), "test", "tests"];
        let mut deps = Vec::new();
        for line in manifest.tox.deps.iter().filter_map(|line| under_factors(line, &factors)) {
            match parse(line) {
                Wanted::File(file) => {
                    let file = file.replace("{toxinidir}/", "").replace("{tox_root}/", "");
                    paths.extend(manifest.files.keys().map(String::as_str).filter(|path| *path == file));
                }
                Wanted::Package(_) | Wanted::Project(_) | Wanted::Constraints(_) | Wanted::Nothing => deps.push(line),
            }
        }
        for path in paths {
            self.push(Kind::File, path, manifest.files[path].iter().map(String::as_str), true);
        }
        self.push(Kind::File, "tox deps", deps.into_iter(), true);
        self.push(Kind::File, "tests_require", manifest.tests_require.iter().map(String::as_str), true);
        self.extras.extend(manifest.tox.extras.iter().cloned());
        self.needs.constraints.clone_from(&manifest.constraints);
    }

    fn groups(&mut self) {
        let manifest = self.manifest;
        let mut names: BTreeSet<String> = chosen(manifest.groups.keys().map(String::as_str)).into_iter().collect();
        names.extend(manifest.tox.groups.iter().filter(|name| manifest.groups.contains_key(*name)).cloned());
        for name in names {
            self.push(Kind::Extra, &format!("group {name}"), manifest.groups[&name].iter().map(String::as_str), true);
        }
    }

    fn known_extras(&self) -> BTreeSet<String> {
        match self.metadata {
            Some(metadata) => metadata.extras.iter().cloned().collect(),
            None => self.manifest.extras.keys().cloned().collect(),
        }
    }

    fn chosen_extras(&mut self) {
        self.extras.extend(chosen(self.known_extras().iter().map(String::as_str)));
        self.extras.extend(self.manifest.ci.extras.iter().filter(|name| is_test_like(name)).cloned());
    }

    /// Takes in every extra that is there and that some source asks for.
    fn extras(&mut self) {
        for name in self.extras.clone().intersection(&self.known_extras()) {
            let lines = self.lines_of_extra(name);
            self.push(Kind::Extra, &format!("extra {name}"), lines.iter().map(String::as_str), true);
        }
    }

    fn lines_of_extra(&self, name: &str) -> Vec<String> {
        match self.metadata {
            Some(metadata) => {
                let one = [name.to_owned()];
                let with = with_extras(Some(&metadata.name), &metadata.requires, &one);
                let without = with_extras(Some(&metadata.name), &metadata.requires, &[]);
                with.iter().filter(|line| !without.contains(line)).map(ToString::to_string).collect()
            }
            None => self.manifest.extras.get(name).cloned().unwrap_or_default(),
        }
    }

    /// CI's and task runners' install commands count only where the repository declares nothing for its tests.
    fn ci_if_nothing_else(&mut self) {
        if self.needs.sources.iter().all(|source| source.requirements.is_empty()) {
            let manifest = self.manifest;
            self.push(Kind::File, "install commands", manifest.ci.deps.iter().map(String::as_str), true);
        }
    }

    fn runtime(&mut self) {
        let Some(metadata) = self.metadata else {
            let manifest = self.manifest;
            self.push(Kind::Runtime, "dependencies", manifest.dependencies.iter().map(String::as_str), false);
            if let Some(lines) = manifest.files.get("requirements.txt") {
                self.push(Kind::Runtime, "requirements.txt", lines.iter().map(String::as_str), true);
            }
            return;
        };
        let requirements = with_extras(Some(&metadata.name), &metadata.requires, &[]);
        self.needs.sources.push(Source { kind: Kind::Runtime, label: String::from("project"), requirements });
    }

    fn base(&mut self, runner: Runner, python: (u64, u64)) {
        let own = self
            .metadata
            .map(|metadata| normalise(&metadata.name))
            .or_else(|| self.manifest.name.as_deref().map(normalise));
        let mut requirements = Vec::new();
        if runner == Runner::Pytest && own.as_deref() != Some("pytest") {
            requirements.push(named("pytest"));
        }
        // Until 3.12 every virtual environment came with it, and many projects import it without saying so.
        if python < (3, 12) && own.as_deref() != Some("setuptools") {
            requirements.push(named("setuptools"));
        }
        self.needs.sources.push(Source { kind: Kind::Base, label: String::from("runner"), requirements });
    }
}

/// Returns the requirements files meant for tests, else for development; with a plain `requirements.txt` only where it
/// names a runner.
fn test_files(manifest: &Manifest) -> Vec<&str> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let excluded = |path: &str| {
        let path = path.to_ascii_lowercase();
        ["doc", "lint", "constraint", "bench", "example", "min", "typing", "mypy", "integration"]
            .iter()
            .any(|word| path.contains(word))
    };
    let all = || manifest.files.keys().map(String::as_str).filter(|path| !excluded(path));
    // `x.in` beside `x.txt` is where the latter was compiled from.
    let compiled =
        |path: &str| path.strip_suffix(".in").is_some_and(|stem| manifest.files.contains_key(&format!("{stem}.txt")));
    let mut paths: Vec<&str> = all().filter(|path| path.to_ascii_lowercase().contains("test")).collect();
    if paths.is_empty() {
        paths = all().filter(|path| name(path).contains("dev") || name(path).starts_with("ci")).collect();
    }
    let names_runner = |path: &&str| {
        manifest.files[*path]
            .iter()
            .any(|line| line.contains("pytest") || line.contains("nose") || line.contains("mock"))
    };
    if paths.is_empty() {
        paths = all().filter(|path| *path == "requirements.txt").filter(names_runner).collect();
    }
    paths.retain(|path| !compiled(path));
    paths
}

/// Says which runner the repository's own commands use: pytest unless only unittest is named. Nose's suites are pytest's
/// as well.
pub fn runner(tree: &Tree) -> Runner {
    let is_lock = |path: &str| path.ends_with(".lock") || path == "pylock.toml";
    let texts = || tree.texts.iter().filter(|(path, _)| !is_lock(path)).map(|(_, text)| text);
    let names_pytest = texts().any(|text| ["pytest", "py.test", "nose"].iter().any(|name| text.contains(name)))
        || tree.paths.iter().any(|path| path == "conftest.py" || path.ends_with("/conftest.py"));
    let names_unittest = texts().any(|text| {
        text.contains("-m unittest")
            || text.contains("unittest discover")
            || text.contains("unit2 ")
            || text.contains("setup.py test")
            || text.contains("test_suite")
    });
    if names_unittest && !names_pytest { Runner::Unittest } else { Runner::Pytest }
}

/// Returns the directories of the tree on the import path.
pub fn import_roots(tree: &Tree, manifest: &Manifest) -> Vec<String> {
    let declared = manifest.package_root.clone().map(|root| root.trim_matches(['.', '/']).to_owned());
    let below = |root: &str| {
        let prefix = format!("{root}/");
        tree.paths.iter().any(|path| path.strip_prefix(&prefix).is_some_and(|rest| rest.ends_with(".py")))
    };
    let is_package = |root: &str| tree.has(&format!("{root}/__init__.py"));
    let root = declared.filter(|root| !root.is_empty() && below(root));
    let root = root.or_else(|| (below("src") && !is_package("src")).then(|| String::from("src")));
    root.into_iter().chain([String::new()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::python::manifest;

    fn tree(texts: &[(&str, &str)]) -> Tree {
        let texts: std::collections::BTreeMap<String, String> =
            texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        Tree { paths: texts.keys().cloned().collect(), texts }
    }

    fn needs(texts: &[(&str, &str)], metadata: Option<&Metadata>) -> Vec<(String, Vec<String>)> {
        let manifest = manifest::read(&tree(texts));
        let needs = gather(&manifest, metadata, Runner::Pytest, &[], (3, 12));
        let source = |source: Source| (source.label, source.requirements.iter().map(ToString::to_string).collect());
        needs.sources.into_iter().map(source).collect()
    }

    fn list(items: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
        items
            .iter()
            .map(|(label, all)| ((*label).to_owned(), all.iter().map(|one| (*one).to_owned()).collect()))
            .collect()
    }

    #[test]
    fn metadata_extras_groups_and_tox_are_joined_and_tools_left_out() {
        let metadata = Metadata {
            name: String::from("demo"),
            requires: ["six", "mock; extra == 'tests'", "demo[tests]; extra == 'dev'", "tox; extra == 'dev'"]
                .map(String::from)
                .to_vec(),
            extras: ["tests", "dev"].map(String::from).to_vec(),
        };
        let texts = [
            ("pyproject.toml", "[project]\nname='demo'\n[dependency-groups]\ndev=['pytest>=7','ruff']\n"),
            ("tox.ini", "[testenv]\ndeps=\n  -r{toxinidir}/reqs/ci.txt\n  py27: enum34\n  sphinx\n"),
            ("reqs/ci.txt", "hypothesis==6.0\n-e .[dev]\n"),
        ];
        let expected = list(&[
            ("runner", &["pytest"]),
            ("project", &["six"]),
            ("extra dev", &["mock"]),
            ("extra tests", &["mock"]),
            ("group dev", &["pytest>=7"]),
            ("reqs/ci.txt", &["hypothesis==6.0"]),
        ]);
        assert_eq!(needs(&texts, Some(&metadata)), expected);
    }

    #[test]
    fn test_files_win_over_development_files_and_compiled_over_sources() {
        let texts = [
            ("requirements-dev.txt", "invoke\nblack\nattrs\n"),
            ("requirements-test.txt", "pytest==7.2.0\n"),
            ("requirements-test.in", "pytest\n"),
            ("requirements-docs.txt", "sphinx\n"),
        ];
        assert_eq!(
            needs(&texts, None),
            list(&[("runner", &["pytest"]), ("requirements-test.txt", &["pytest==7.2.0"])])
        );
        assert_eq!(needs(&texts[..1], None), list(&[("runner", &["pytest"]), ("requirements-dev.txt", &["attrs"])]));
    }

    #[test]
    fn install_commands_stand_in_where_nothing_is_declared() {
        let texts = [(".travis.yml", "install:\n - pip install nose mock pip\n")];
        assert_eq!(needs(&texts, None), list(&[("runner", &["pytest"]), ("install commands", &["nose", "mock"])]));
    }

    #[test]
    fn the_runner_is_unittest_only_where_pytest_is_not_named() {
        assert_eq!(runner(&tree(&[("Makefile", "python -m unittest discover\n")])), Runner::Unittest);
        assert_eq!(runner(&tree(&[("Makefile", "python -m unittest\n"), ("conftest.py", "")])), Runner::Pytest);
        assert_eq!(runner(&tree(&[("README", "")])), Runner::Pytest);
    }

    #[test]
    fn import_roots_follow_the_layout() {
        let roots = |texts: &[(&str, &str)]| import_roots(&tree(texts), &manifest::read(&tree(texts)));
        assert_eq!(roots(&[("src/demo/__init__.py", "")]), ["src", ""]);
        assert_eq!(roots(&[("src/single.py", "")]), ["src", ""]);
        assert_eq!(roots(&[("src/__init__.py", ""), ("demo.py", "")]), [""]);
        assert_eq!(roots(&[("setup.py", "setup(package_dir={'': 'lib'})"), ("lib/demo.py", "")]), ["lib", ""]);
    }
}
