//! `requirements*.txt` and their kin: which there are, and their lines with includes expanded.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use regex::Regex;

use super::Tree;
use crate::build::python::requirement::{Wanted, parse};

/// Says whether a path is a requirements or constraints file, by name or by its folder's name.
pub fn is_one(path: &str) -> bool {
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)^(?:[^/]+/){0,2}(?:[a-z0-9._-]*(?:requirement|require|constraint)s?[a-z0-9._-]*|(?:test|tests|dev|ci)[-_.]?(?:deps|reqs)?|reqs?[-_.][a-z0-9._-]+)\.(?:txt|in|pip)$").expect("a valid expression")
    });
    static FOLDER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)^(?:[^/]+/)?(?:requirements?|reqs?|requires)/(?:[^/]+/)?[^/]+\.(?:txt|in|pip)$")
            .expect("a valid expression")
    });
    NAME.is_match(path) || FOLDER.is_match(path)
}

/// Returns the lines of every requirements file, with `-r` includes in place.
pub fn read(tree: &Tree) -> BTreeMap<String, Vec<String>> {
    let files = tree.texts.keys().filter(|path| is_one(path));
    files.map(|path| (path.clone(), expanded(tree, path, &mut BTreeSet::new()))).collect()
}

/// Returns the lines of the constraint files that requirements files name.
pub fn constraints(tree: &Tree, files: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, content) in files {
        for line in content {
            if let Wanted::Constraints(file) = parse(line) {
                lines.extend(expanded(tree, &beside(path, &file), &mut BTreeSet::new()));
            }
        }
    }
    lines.sort();
    lines.dedup();
    lines
}

/// Returns a file's lines, continuation lines joined and includes in place; a file is taken once.
pub fn expanded(tree: &Tree, path: &str, seen: &mut BTreeSet<String>) -> Vec<String> {
    let Some(text) = tree.text(path).filter(|_| seen.insert(path.to_owned())) else { return Vec::new() };
    let mut lines = Vec::new();
    for line in text.replace("\\\r\n", " ").replace("\\\n", " ").lines() {
        match parse(line) {
            Wanted::File(file) => lines.extend(expanded(tree, &beside(path, &file), seen)),
            Wanted::Nothing => {}
            Wanted::Package(_) | Wanted::Project(_) | Wanted::Constraints(_) => lines.push(line.trim().to_owned()),
        }
    }
    lines
}

/// Returns `file` as seen from the folder of `path`, dots resolved.
fn beside(path: &str, file: &str) -> String {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(file.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_folders_tell_requirement_files() {
        for path in [
            "requirements.txt",
            "requirements-test.txt",
            "dev-requirements.txt",
            "requirements_dev.in",
            "requirements/tests.txt",
            "tests/requirements.txt",
            "reqs/pip.txt",
            "constraints.txt",
            "test-reqs.txt",
        ] {
            assert!(is_one(path), "{path}");
        }
        for path in ["README.txt", "docs/index.txt", "tests/data/test.txt.bak", "src/latest.txt", "requirements.md"] {
            assert!(!is_one(path), "{path}");
        }
    }

    #[test]
    fn includes_are_relative_and_taken_once() {
        let texts = [
            ("requirements/test.txt", "-r base.txt\n-r ../requirements.txt\npytest \\\n  >=3 \\\n --hash=sha256:0\n"),
            ("requirements/base.txt", "-r test.txt\nsix # why\n"),
            ("requirements.txt", "-c requirements/pins.txt\nattrs\n"),
            ("requirements/pins.txt", "attrs==19.1\n"),
        ];
        let texts = texts.map(|(path, text)| (path.to_owned(), text.to_owned())).into_iter().collect();
        let tree = Tree { paths: Vec::new(), texts };
        let files = read(&tree);
        assert_eq!(files["requirements/test.txt"].len(), 4);
        assert!(files["requirements/test.txt"].iter().any(|line| line.starts_with("pytest")));
        assert_eq!(constraints(&tree, &files), ["attrs==19.1"]);
    }
}
