//! What a resolution found, and the lock that it makes. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use regex::Regex;

/// What the packages of a module and their tests need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolution {
    /// Lines of the lock that name modules and their digests.
    pub modules: BTreeSet<String>,
    /// Import paths outside the tree and the standard library, and replacements.
    pub packages: BTreeSet<String>,
    /// The resolved `go.mod` and `go.sum`.
    pub manifest: String,
    pub sums: String,
}

impl Resolution {
    pub fn add(&mut self, other: Resolution) {
        self.packages.extend(other.packages);
        self.modules.extend(other.modules);
    }

    /// Adds modules that need not be compiled.
    pub fn add_modules(&mut self, other: Resolution) {
        self.modules.extend(other.modules);
    }

    pub fn lock(&self) -> String {
        self.modules.iter().chain(&self.packages).fold(String::new(), |lock, line| lock + line + "\n")
    }
}

/// Returns the directory of the nearest `go.mod` at or above a file, "" for the root and where there is none.
pub fn module_of<'a>(path: &'a str, paths: &BTreeSet<String>) -> &'a str {
    let mut directory = path;
    while let Some((parent, _)) = directory.rsplit_once('/') {
        if paths.contains(&join(parent, "go.mod")) {
            return parent;
        }
        directory = parent;
    }
    ""
}

pub fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// Returns a directory relative to a module's, if it lies in it.
pub fn below(directory: &str, module: &str) -> Option<String> {
    let rest = if module.is_empty() { Some(directory) } else { directory.strip_prefix(module) };
    rest.filter(|rest| module.is_empty() || rest.is_empty() || rest.starts_with('/'))
        .map(|rest| rest.trim_start_matches('/').to_owned())
}

/// Says whether the go command counts a directory among a module's packages.
pub fn is_listed(directory: &str) -> bool {
    let is_left_out = |part: &str| part == "testdata" || part == "vendor" || part.starts_with(['_', '.']);
    !directory.split('/').any(is_left_out)
}

/// Returns the path under which the code of a tree imports itself, from its `(path, text)` pairs.
///
/// An import comment says it; else each import whose end is a directory of the tree with Go files speaks for what stands
/// before that, and each external test's import of its own package for that package's.
pub fn import_path(files: &[(String, String)]) -> Option<String> {
    static COMMENT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"(?m)^package \w+ // import "([^"\s]+)""#).expect("a valid expression"));
    static IMPORT: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"(?m)^(?:import)?\s+(?:[\w.]+ )?"([\w-]+\.[\w./~-]+)""#).expect("a valid expression")
    });
    static EXTERNAL: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?m)^package (\w+)_test\b").expect("a valid expression"));
    let parent = |path: &str| path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
    let directories: BTreeSet<String> = files.iter().map(|(path, _)| parent(path)).collect();
    let mut votes: BTreeMap<String, usize> = BTreeMap::new();
    for (path, text) in files {
        let directory = parent(path);
        let root = |import: &str| {
            let root = if directory.is_empty() { Some(import) } else { import.strip_suffix(&directory) };
            root.map(|root| root.trim_end_matches('/').to_owned()).filter(|root| !root.is_empty())
        };
        if let Some(root) = COMMENT.captures(text).and_then(|found| root(&found[1])) {
            return Some(root);
        }
        let own = EXTERNAL.captures(text).map(|found| found[1].to_owned());
        for import in IMPORT.captures_iter(text).map(|found| found[1].to_owned()) {
            let at = import.match_indices('/').map(|(at, _)| at);
            for at in at.filter(|at| directories.contains(&import[at + 1..])) {
                *votes.entry(import[..at].to_owned()).or_default() += 1;
            }
            if own.as_deref().is_some_and(|own| import.rsplit('/').next() == Some(own))
                && let Some(root) = root(&import)
            {
                *votes.entry(root).or_default() += 1;
            }
        }
    }
    votes.into_iter().max_by_key(|(root, n)| (*n, std::cmp::Reverse(root.len()))).map(|(root, _)| root)
}

/// Returns the Go version that a `go.mod` asks for.
pub fn go_version(manifest: &str) -> Option<String> {
    let mut versions = manifest.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        match (words.next()?, words.next()?) {
            ("go", version) => Some(version.to_owned()),
            _ => None,
        }
    });
    versions.next_back()
}

/// Returns the modules that a `go.mod` requires, with their versions.
pub fn requirements(manifest: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut in_block = false;
    for line in manifest.lines() {
        let line = line.split("//").next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["require", "("] => in_block = true,
            [")"] => in_block = false,
            ["require", path, version] => drop(found.insert(path.to_owned(), version.to_owned())),
            [path, version] if in_block => drop(found.insert(path.to_owned(), version.to_owned())),
            _ => {}
        }
    }
    found
}

/// Returns the digests of a `go.sum`, by module and version as written there.
pub fn digests(sums: &str) -> BTreeMap<(String, String), String> {
    let lines = sums.lines().filter_map(|line| {
        let mut words = line.split_whitespace().map(str::to_owned);
        Some(((words.next()?, words.next()?), words.next()?))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_the_nearest_module() {
        let paths: BTreeSet<String> = ["go.mod", "a/b/go.mod"].map(String::from).into();
        assert_eq!(module_of("a/b/c/x.go", &paths), "a/b");
        assert_eq!(module_of("a/x.go", &paths), "");
        assert_eq!(below("a/b/c", "a/b").as_deref(), Some("c"));
        assert_eq!(below("a/bc", "a/b"), None);
        assert_eq!(below("a", "").as_deref(), Some("a"));
        assert!(is_listed("a/b") && is_listed("") && !is_listed("a/testdata/b") && !is_listed("_examples"));
    }

    #[test]
    fn a_tree_says_how_it_is_imported() {
        let path = |files: &[(&str, &str)]| {
            let files: Vec<_> = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
            import_path(&files)
        };
        assert_eq!(path(&[("a/a.go", "package a // import \"x.example/y/a\"\n")]).as_deref(), Some("x.example/y"));
        let main = "package main\n\nimport (\n\t\"fmt\"\n\tb \"x.example/y/sub\"\n\t\"z.example/other\"\n)\n";
        assert_eq!(path(&[("main.go", main), ("sub/s.go", "package sub\n")]).as_deref(), Some("x.example/y"));
        let test = "package y_test\n\nimport \"x.example/y\"\n";
        assert_eq!(path(&[("y.go", "package y\n"), ("y_test.go", test)]).as_deref(), Some("x.example/y"));
        assert_eq!(path(&[("y.go", "package y\n\nimport \"fmt\"\n")]), None);
    }

    #[test]
    fn requirements_are_read_from_lines_and_blocks() {
        let text = "module m\ngo 1.17\nrequire a.example/x v1.0.0\nrequire (\n\tb.example/y v0.1.0 // indirect\n)\n\
                    exclude (\n\tc.example/z v1.0.0\n)\n";
        assert_eq!(go_version(text).as_deref(), Some("1.17"));
        let found: Vec<_> = requirements(text).into_iter().map(|(path, version)| path + "@" + &version).collect();
        assert_eq!(found, ["a.example/x@v1.0.0", "b.example/y@v0.1.0"]);
    }
}
