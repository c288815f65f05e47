//! What a resolution found, and the lock that it makes. Pure.

use std::collections::{BTreeMap, BTreeSet};

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

/// Returns the Go version that a `go.mod` asks for.
pub fn go_version(manifest: &str) -> Option<String> {
    let versions = manifest.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        match (words.next()?, words.next()?) {
            ("go", version) => Some(version.to_owned()),
            _ => None,
        }
    });
    versions.last()
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
    fn requirements_are_read_from_lines_and_blocks() {
        let text = "module m\ngo 1.17\nrequire a.example/x v1.0.0\nrequire (\n\tb.example/y v0.1.0 // indirect\n)\n\
                    exclude (\n\tc.example/z v1.0.0\n)\n";
        assert_eq!(go_version(text).as_deref(), Some("1.17"));
        let found: Vec<_> = requirements(text).into_iter().map(|(path, version)| path + "@" + &version).collect();
        assert_eq!(found, ["a.example/x@v1.0.0", "b.example/y@v0.1.0"]);
    }
}
