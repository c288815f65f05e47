//! `setup.py`, by pattern. It is never run on the host; what it computes is only seen by building it in a sandbox.

use std::sync::LazyLock;

use regex::Regex;

use super::Manifest;
use crate::build::python::requirement::normalise;

static STRING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#""((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'"#).expect("a valid expression"));
static KEYWORD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"\b([A-Za-z_][A-Za-z0-9_]*)['"]?\]?\s*[=:]\s*"#).expect("a valid expression"));
static EXTRA: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"["']([A-Za-z0-9._-]+)["']\s*:\s*"#).expect("a valid expression"));

pub fn read(text: &str, manifest: &mut Manifest) {
    if let Some(name) = value(text, "name").and_then(|value| strings(value).into_iter().next()) {
        manifest.name = Some(name);
    }
    if let Some(spec) = value(text, "python_requires").and_then(|value| strings(value).into_iter().next()) {
        manifest.requires_python.push(spec);
    }
    for string in strings(text) {
        manifest.classify(&string);
    }
    manifest.dependencies.extend(list(text, "install_requires"));
    manifest.tests_require.extend(list(text, "tests_require"));
    for (extra, requirements) in extras(text) {
        manifest.extras.entry(extra).or_default().extend(requirements);
    }
    let root = value(text, "package_dir").filter(|value| value.starts_with('{')).and_then(|value| {
        EXTRA_ROOT.captures(value).and_then(|found| found.get(1)).map(|root| root.as_str().to_owned())
    });
    manifest.package_root = root.filter(|root| !root.is_empty() && root != ".");
}

static EXTRA_ROOT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"["']["']\s*:\s*["']([A-Za-z0-9_/.-]+)["']"#).expect("a valid expression"));

/// Returns the expression that a keyword or name is given, brackets balanced; one line where there are none.
fn value<'a>(text: &'a str, keyword: &str) -> Option<&'a str> {
    let found = KEYWORD.captures_iter(text).filter(|found| &found[1] == keyword);
    let values = found.map(|found| expression(&text[found.get(0).map_or(0, |whole| whole.end())..]));
    // The last one that is a literal: constants stand above the call that uses them.
    let mut last = None;
    for value in values {
        let literal = value.starts_with(['[', '(', '{', '"', '\'']);
        last = if literal || last.is_none() { Some(value) } else { last };
    }
    last
}

fn expression(text: &str) -> &str {
    let mut depth = 0_usize;
    let mut quote: Option<char> = None;
    let mut escaped = false;
    for (index, character) in text.char_indices() {
        if let Some(open) = quote {
            if escaped {
                escaped = false;
            } else if character == '\\' {
                escaped = true;
            } else if character == open || character == '\n' {
                quote = None;
            }
            continue;
        }
        match character {
            '"' | '\'' => quote = Some(character),
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' if depth <= 1 => return &text[..=index],
            ']' | ')' | '}' => depth -= 1,
            '\n' | ',' if depth == 0 => return &text[..index],
            _ => {}
        }
    }
    text
}

/// Returns the strings of a list given to a keyword, directly or through one name.
fn list(text: &str, keyword: &str) -> Vec<String> {
    let Some(given) = value(text, keyword) else { return Vec::new() };
    if given.starts_with(['[', '(', '{', '"', '\'']) {
        return strings(given);
    }
    let name = given.trim();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name || name == keyword {
        return Vec::new();
    }
    value(text, name).filter(|value| value.starts_with(['[', '('])).map(strings).unwrap_or_default()
}

fn extras(text: &str) -> Vec<(String, Vec<String>)> {
    let mut given = value(text, "extras_require");
    if let Some(name) = given.filter(|value| !value.starts_with('{')) {
        given = value(text, name.trim());
    }
    let Some(table) = given.filter(|value| value.starts_with('{')) else { return Vec::new() };
    EXTRA
        .captures_iter(table)
        .map(|found| {
            let rest = &table[found.get(0).map_or(0, |whole| whole.end())..];
            let requirements = if rest.starts_with(['[', '(']) { strings(expression(rest)) } else { Vec::new() };
            (normalise(&found[1]), requirements)
        })
        .collect()
}

/// Returns every string literal on one line, outside comments as far as lines tell.
fn strings(text: &str) -> Vec<String> {
    let code: String = text
        .lines()
        .map(|line| if line.trim_start().starts_with('#') { "" } else { line })
        .collect::<Vec<_>>()
        .join("\n");
    STRING
        .captures_iter(&code)
        .filter_map(|found| found.get(1).or_else(|| found.get(2)).map(|text| text.as_str().to_owned()))
        .filter(|text| !text.trim().is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_read_directly_and_through_names() {
        let text = r#"
import os
EXTRAS_REQUIRE = {
    "tests": ["pytest", 'mock>=2 ; python_version < "3"'],
    "lint": [
        # "gone",
        "flake8==3.7.4",
    ],
}
TESTS = ("pytest>=3",
         'six')
setup(name='demo_pkg', version=find("x"), package_dir={"": "src"}, extras_require=EXTRAS_REQUIRE,
      tests_require=TESTS, install_requires=['attrs', "py[a,b]>=1"],
      python_requires=">=2.7,!=3.0.*",
      classifiers=['Programming Language :: Python :: 3.7', "Programming Language :: Python :: 2 :: Only"])
"#;
        let mut manifest = Manifest::default();
        read(text, &mut manifest);
        assert_eq!(manifest.name.as_deref(), Some("demo_pkg"));
        assert_eq!(manifest.requires_python, [">=2.7,!=3.0.*"]);
        assert_eq!(manifest.dependencies, ["attrs", "py[a,b]>=1"]);
        assert_eq!(manifest.tests_require, ["pytest>=3", "six"]);
        assert_eq!(manifest.extras["lint"], ["flake8==3.7.4"]);
        assert_eq!(manifest.extras["tests"], ["pytest", "mock>=2 ; python_version < \"3\""]);
        assert_eq!(manifest.package_root.as_deref(), Some("src"));
        assert!(manifest.classifiers.contains(&(3, 7)) && manifest.python2_only);
    }

    #[test]
    fn computed_values_are_left_alone() {
        let mut manifest = Manifest::default();
        read("setup(name=NAME, install_requires=read('requirements.txt'), tests_require=tests_require)", &mut manifest);
        assert_eq!(manifest.tests_require, Vec::<String>::new());
        assert_eq!(manifest.name, None);
        assert_eq!(manifest.dependencies, Vec::<String>::new());
    }
}
