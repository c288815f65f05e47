//! `pyproject.toml` in the dialects of the standard, Poetry, PDM, Hatch, uv and tox; `Pipfile`; `tox.toml`.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::{Manifest, ini};
use crate::build::python::requirement::normalise;

pub fn read(text: &str, manifest: &mut Manifest) {
    let Ok(document) = text.parse::<Table>() else { return };
    let document = Value::Table(document);
    manifest.buildable |= at(&document, "build-system").is_some() || at(&document, "project").is_some();
    read_project(&document, manifest);
    read_groups(&document, manifest);
    read_poetry(&document, manifest);
    read_tools(&document, manifest);
    let package_dir =
        at(&document, "tool.setuptools.package-dir").and_then(|dirs| dirs.get("")).and_then(Value::as_str);
    let find = strings(at(&document, "tool.setuptools.packages.find.where"));
    let root = package_dir.map(String::from).or_else(|| find.into_iter().next());
    manifest.package_root = manifest.package_root.take().or(root.filter(|root| !root.is_empty() && root != "."));
}

fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| value.get(key))
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let array = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    array.iter().filter_map(Value::as_str).map(String::from).collect()
}

fn table(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_table).into_iter().flat_map(Table::iter)
}

fn read_project(document: &Value, manifest: &mut Manifest) {
    if let Some(name) = at(document, "project.name").and_then(Value::as_str) {
        manifest.name = Some(name.to_owned());
    }
    let python = at(document, "project.requires-python").and_then(Value::as_str);
    manifest.requires_python.extend(python.map(String::from));
    for classifier in strings(at(document, "project.classifiers")) {
        manifest.classify(&classifier);
    }
    manifest.dependencies.extend(strings(at(document, "project.dependencies")));
    for (extra, requirements) in table(at(document, "project.optional-dependencies")) {
        manifest.extras.entry(normalise(extra)).or_default().extend(strings(Some(requirements)));
    }
}

/// Reads `[dependency-groups]` (PEP 735) with its includes.
fn read_groups(document: &Value, manifest: &mut Manifest) {
    let groups: BTreeMap<String, &Value> =
        table(at(document, "dependency-groups")).map(|(name, group)| (normalise(name), group)).collect();
    for name in groups.keys() {
        let mut requirements = Vec::new();
        include(&groups, name, &mut Vec::new(), &mut requirements);
        manifest.groups.entry(name.clone()).or_default().extend(requirements);
    }
}

fn include(groups: &BTreeMap<String, &Value>, name: &str, seen: &mut Vec<String>, into: &mut Vec<String>) {
    if seen.iter().any(|known| known == name) {
        return;
    }
    seen.push(name.to_owned());
    for entry in groups.get(name).and_then(|group| group.as_array()).into_iter().flatten() {
        match entry {
            Value::String(requirement) => into.push(requirement.clone()),
            other => {
                if let Some(included) = other.get("include-group").and_then(Value::as_str) {
                    include(groups, &normalise(included), seen, into);
                }
            }
        }
    }
}

fn read_poetry(document: &Value, manifest: &mut Manifest) {
    let Some(poetry) = at(document, "tool.poetry") else { return };
    if let Some(name) = poetry.get("name").and_then(Value::as_str) {
        manifest.name.get_or_insert_with(|| name.to_owned());
    }
    for classifier in strings(poetry.get("classifiers")) {
        manifest.classify(&classifier);
    }
    for (name, wanted) in table(poetry.get("dependencies")) {
        if name == "python" {
            manifest.requires_python.extend(wanted.as_str().map(specifiers));
        } else if wanted.get("optional").and_then(Value::as_bool) != Some(true) {
            manifest.dependencies.extend(poetry_requirements(name, wanted));
        }
    }
    for (extra, names) in table(poetry.get("extras")) {
        let requirements = strings(Some(names)).into_iter().flat_map(|name| {
            at(poetry, "dependencies")
                .and_then(|all| all.get(&name))
                .map_or_else(Vec::new, |wanted| poetry_requirements(&name, wanted))
        });
        manifest.extras.entry(normalise(extra)).or_default().extend(requirements);
    }
    let legacy = table(poetry.get("dev-dependencies")).map(|dependency| ("dev", dependency));
    let grouped = table(poetry.get("group"))
        .flat_map(|(group, value)| table(value.get("dependencies")).map(move |entry| (group.as_str(), entry)));
    for (group, (name, wanted)) in legacy.chain(grouped).collect::<Vec<_>>() {
        manifest.groups.entry(normalise(group)).or_default().extend(poetry_requirements(name, wanted));
    }
}

/// Turns a Poetry (or Pipenv) dependency into PEP 508 lines; several where it is a list of alternatives.
fn poetry_requirements(name: &str, wanted: &Value) -> Vec<String> {
    match wanted {
        Value::String(version) => vec![format!("{name}{}", specifiers(version))],
        Value::Array(alternatives) => alternatives.iter().flat_map(|one| poetry_requirements(name, one)).collect(),
        other => {
            let extras = strings(other.get("extras"));
            let extras = if extras.is_empty() { String::new() } else { format!("[{}]", extras.join(",")) };
            let version = other.get("version").and_then(Value::as_str).map(specifiers).unwrap_or_default();
            let python = other.get("python").and_then(Value::as_str).map(python_marker);
            let marker = other.get("markers").and_then(Value::as_str).map(String::from).or(python.flatten());
            let marker = marker.map(|marker| format!(" ; {marker}")).unwrap_or_default();
            vec![format!("{name}{extras}{version}{marker}")]
        }
    }
}

fn python_marker(constraint: &str) -> Option<String> {
    let parts = specifiers(constraint);
    let terms: Vec<String> = parts
        .split(',')
        .filter_map(|part| {
            let version = part.trim_start_matches(['<', '>', '=', '!', '~']);
            let operator = &part[..part.len() - version.len()];
            (!version.is_empty()).then(|| format!("python_version {operator} '{version}'"))
        })
        .collect();
    (!terms.is_empty()).then(|| terms.join(" and "))
}

/// Turns Poetry's `^1.2`, `~1.2`, `1.2.*`, `*`, `1.2` into PEP 440 specifiers.
pub fn specifiers(constraint: &str) -> String {
    // Alternatives (`^2.7 || ^3.6`): the last is the newest.
    let constraint = constraint.rsplit("||").next().unwrap_or_default();
    let parts = constraint.split(',').map(str::trim).filter(|part| !part.is_empty() && *part != "*");
    parts.map(specifier).collect::<Vec<_>>().join(",")
}

fn specifier(part: &str) -> String {
    let numbers = |text: &str| -> Vec<u64> { text.split('.').map_while(|number| number.trim().parse().ok()).collect() };
    let below = |mut numbers: Vec<u64>, index: usize| {
        numbers.truncate(index + 1);
        if let Some(last) = numbers.last_mut() {
            *last += 1;
        }
        numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
    };
    if let Some(version) = part.strip_prefix('^') {
        let numbers = numbers(version);
        let index = numbers.iter().position(|number| *number != 0).unwrap_or(numbers.len().saturating_sub(1));
        return format!(">={},<{}", version.trim(), below(numbers, index));
    }
    if let Some(version) = part.strip_prefix('~').filter(|version| !version.starts_with('=')) {
        let numbers = numbers(version);
        let index = numbers.len().saturating_sub(1).min(1);
        return format!(">={},<{}", version.trim(), below(numbers, index));
    }
    if part.starts_with(|c: char| c.is_ascii_digit()) {
        return format!("=={part}");
    }
    part.replace(' ', "")
}

fn read_tools(document: &Value, manifest: &mut Manifest) {
    let groups = [
        ("dev", "tool.uv.dev-dependencies"),
        ("dev", "tool.hatch.envs.default.dependencies"),
        ("test", "tool.hatch.envs.test.dependencies"),
        ("test", "tool.hatch.envs.hatch-test.extra-dependencies"),
    ];
    for (group, path) in groups {
        let requirements = strings(at(document, path));
        if !requirements.is_empty() {
            manifest.groups.entry(group.to_owned()).or_default().extend(requirements);
        }
    }
    for (group, requirements) in table(at(document, "tool.pdm.dev-dependencies")) {
        manifest.groups.entry(normalise(group)).or_default().extend(strings(Some(requirements)));
    }
    for path in ["tool.hatch.envs.default.features", "tool.hatch.envs.test.features"] {
        manifest.tox.extras.extend(strings(at(document, path)).iter().map(|extra| normalise(extra)));
    }
    manifest.dependencies.extend(strings(at(document, "tool.flit.metadata.requires")));
    for (extra, requirements) in table(at(document, "tool.flit.metadata.requires-extra")) {
        manifest.extras.entry(normalise(extra)).or_default().extend(strings(Some(requirements)));
    }
    let flit = at(document, "tool.flit.metadata");
    manifest
        .requires_python
        .extend(flit.and_then(|flit| flit.get("requires-python")).and_then(Value::as_str).map(String::from));
    for classifier in strings(flit.and_then(|flit| flit.get("classifiers"))) {
        manifest.classify(&classifier);
    }
    if let Some(text) = at(document, "tool.tox.legacy_tox_ini").and_then(Value::as_str) {
        ini::read_tox(text, manifest);
    }
    if let Some(tox) = at(document, "tool.tox") {
        read_tox_tables(tox, manifest);
    }
}

/// Reads tox 4's own format.
pub fn read_tox_toml(text: &str, manifest: &mut Manifest) {
    if let Ok(document) = text.parse::<Table>() {
        read_tox_tables(&Value::Table(document), manifest);
    }
}

fn read_tox_tables(tox: &Value, manifest: &mut Manifest) {
    let Some(base) = tox.get("env_run_base") else { return };
    manifest.tox.deps.extend(strings(base.get("deps")));
    manifest.tox.extras.extend(strings(base.get("extras")).iter().map(|extra| normalise(extra)));
    manifest.tox.groups.extend(strings(base.get("dependency_groups")).iter().map(|group| normalise(group)));
}

/// Reads a `Pipfile`: its packages where nothing else declares any, its development packages as group `dev`.
pub fn read_pipfile(text: &str, manifest: &mut Manifest) {
    let Ok(document) = text.parse::<Table>() else { return };
    let document = Value::Table(document);
    let packages = |name: &str| -> Vec<String> {
        table(document.get(name)).flat_map(|(name, wanted)| poetry_requirements(name, wanted)).collect()
    };
    if manifest.dependencies.is_empty() {
        manifest.dependencies = packages("packages");
    }
    manifest.groups.entry(String::from("dev")).or_default().extend(packages("dev-packages"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poetry_constraints_become_specifiers() {
        for (constraint, expected) in [
            ("^1.2", ">=1.2,<2"),
            ("^0.3.1", ">=0.3.1,<0.4"),
            ("^0.0.3", ">=0.0.3,<0.0.4"),
            ("~1.2.3", ">=1.2.3,<1.3"),
            ("~3", ">=3,<4"),
            ("~=1.4", "~=1.4"),
            (">=3.6, <4.0", ">=3.6,<4.0"),
            ("^2.7 || ^3.6", ">=3.6,<4"),
            ("1.2.*", "==1.2.*"),
            ("*", ""),
        ] {
            assert_eq!(specifiers(constraint), expected, "{constraint}");
        }
    }

    #[test]
    fn standard_tables_groups_and_tools_are_read() {
        let text = r#"
[build-system]
requires = ["hatchling"]
[project]
name = "demo"
requires-python = ">=3.8"
dependencies = ["six"]
classifiers = ["Programming Language :: Python :: 3.12"]
[project.optional-dependencies]
Test_All = ["pytest"]
[dependency-groups]
tests = ["pytest>=7", {include-group = "base"}]
base = ["hypothesis", {include-group = "tests"}]
[tool.poetry.group.test.dependencies]
mock = {version = "^4.0", python = "<3.9", extras = ["build"]}
[tool.tox.env_run_base]
deps = ["freezegun"]
dependency_groups = ["tests"]
"#;
        let mut manifest = Manifest::default();
        read(text, &mut manifest);
        assert!(manifest.buildable);
        assert_eq!(manifest.name.as_deref(), Some("demo"));
        assert_eq!(manifest.extras["test-all"], ["pytest"]);
        assert_eq!(manifest.groups["tests"], ["pytest>=7", "hypothesis"]);
        assert_eq!(manifest.groups["test"], ["mock[build]>=4.0,<5 ; python_version < '3.9'"]);
        assert_eq!(manifest.tox.deps, ["freezegun"]);
        assert_eq!(manifest.tox.groups, ["tests"]);
    }
}
