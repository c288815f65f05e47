//! `setup.cfg` and `tox.ini`.

use configparser::ini::{Ini, IniDefault};

use super::Manifest;
use crate::build::python::requirement::normalise;

/// Parses the dialect of Python's `configparser`: continuation lines, no inline comments.
fn parse(text: &str) -> Option<Ini> {
    let mut defaults = IniDefault::default();
    defaults.comment_symbols = vec!['#', ';'];
    defaults.enable_inline_comments = false;
    defaults.multiline = true;
    let mut ini = Ini::new_from_defaults(defaults);
    // A file in another dialect counts as absent.
    ini.read(text.to_owned()).ok()?;
    Some(ini)
}

fn lines(ini: &Ini, section: &str, key: &str) -> Vec<String> {
    let value = ini.get(section, key).unwrap_or_default();
    value.lines().map(str::trim).filter(|line| !line.is_empty()).map(String::from).collect()
}

/// Returns the values of a setting that separates them by commas, blanks or lines.
fn words(ini: &Ini, section: &str, key: &str) -> Vec<String> {
    let value = ini.get(section, key).unwrap_or_default();
    value.split([',', '\n', ' ']).map(str::trim).filter(|word| !word.is_empty()).map(normalise).collect()
}

/// Reads `setup.cfg`: metadata, options and an embedded tox configuration.
pub fn read_setup_cfg(text: &str, manifest: &mut Manifest) {
    let Some(ini) = parse(text) else { return };
    if let Some(name) = ini.get("metadata", "name").filter(|name| !name.is_empty()) {
        manifest.name = Some(name);
        manifest.buildable = true;
    }
    let classifiers = ["classifiers", "classifier"].map(|key| lines(&ini, "metadata", key)).concat();
    for classifier in &classifiers {
        manifest.classify(classifier);
    }
    let python = ini.get("options", "python_requires").or_else(|| ini.get("metadata", "requires-python"));
    manifest.requires_python.extend(python.filter(|spec| !spec.is_empty()));
    for key in ["install_requires", "requires"] {
        manifest.dependencies.extend(lines(&ini, "options", key));
    }
    manifest.tests_require.extend(lines(&ini, "options", "tests_require"));
    let extras = ini.get_map_ref().get("options.extras_require").cloned().unwrap_or_default();
    for (extra, requirements) in extras {
        let requirements = requirements.unwrap_or_default();
        let requirements = requirements.split(['\n', ';']).map(str::trim).filter(|line| !line.is_empty());
        manifest.extras.entry(normalise(&extra)).or_default().extend(requirements.map(String::from));
    }
    let package_dir = lines(&ini, "options", "package_dir");
    let root = package_dir.iter().find_map(|line| line.strip_prefix('=').map(str::trim));
    let root = root.map(String::from).or_else(|| ini.get("options.packages.find", "where"));
    manifest.package_root = manifest.package_root.take().or(root.filter(|root| !root.is_empty() && root != "."));
    read_test_environment(&ini, manifest);
}

/// Reads `tox.ini` or the same text embedded elsewhere.
pub fn read_tox(text: &str, manifest: &mut Manifest) {
    if let Some(ini) = parse(text) {
        read_test_environment(&ini, manifest);
    }
}

fn read_test_environment(ini: &Ini, manifest: &mut Manifest) {
    let mut deps = Vec::new();
    for line in lines(ini, "testenv", "deps") {
        expand(ini, &line, 0, &mut deps);
    }
    manifest.tox.deps.extend(deps);
    manifest.tox.extras.extend(words(ini, "testenv", "extras"));
    manifest.tox.groups.extend(words(ini, "testenv", "dependency_groups"));
}

/// Replaces `{[section]key}` by that setting's lines.
fn expand(ini: &Ini, line: &str, depth: usize, into: &mut Vec<String>) {
    let reference = line.strip_prefix("{[").and_then(|rest| rest.strip_suffix('}')).and_then(|r| r.split_once(']'));
    match reference {
        Some((section, key)) if depth < 5 => {
            for line in lines(ini, section, key) {
                expand(ini, &line, depth + 1, into);
            }
        }
        Some(_) => {}
        None => into.push(line.to_owned()),
    }
}

/// Returns the requirement of a `deps` line where its factor condition holds for `factors`, else `None`.
///
/// A line without a condition always holds. `a-b:` wants both, `a,b:` any, `!a:` the absence; `{a,b}` expands.
pub fn under_factors<'a>(line: &'a str, factors: &[&str]) -> Option<&'a str> {
    let Some((condition, requirement)) = line.split_once(':') else { return Some(line) };
    let is_condition = condition.chars().all(|c| c.is_ascii_alphanumeric() || "{},-!. ".contains(c));
    if !is_condition || requirement.starts_with("//") || condition.starts_with('-') {
        return Some(line);
    }
    let holds_one = |factor: &str| match factor.strip_prefix('!') {
        Some(absent) => !factors.contains(&absent),
        None => factors.contains(&factor),
    };
    let holds = braces(&condition.replace(' ', ""))
        .iter()
        .flat_map(|alternative| alternative.split(',').map(String::from).collect::<Vec<_>>())
        .any(|all| all.split('-').all(holds_one));
    holds.then(|| requirement.trim())
}

/// Expands `{a,b}-c` to `a-c` and `b-c`.
fn braces(text: &str) -> Vec<String> {
    let Some((before, rest)) = text.split_once('{') else { return vec![text.to_owned()] };
    let Some((inside, after)) = rest.split_once('}') else { return vec![text.to_owned()] };
    let tails = braces(after);
    inside.split(',').flat_map(|one| tails.iter().map(move |tail| format!("{before}{one}{tail}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setup_cfg_is_read_with_markers_and_continuations() {
        let text = "[metadata]\nname = demo\nclassifiers =\n    Programming Language :: Python :: 3.8\n    \
                    Programming Language :: Python :: 3 :: Only\n\n[options]\npackage_dir =\n    =src\n\
                    python_requires = >=3.6\ninstall_requires =\n    # why\n    six ; python_version < '3'\n\n    \
                    attrs>=19\n\n[options.extras_require]\ntest =\n    pytest\n    mock\n";
        let mut manifest = Manifest::default();
        read_setup_cfg(text, &mut manifest);
        assert_eq!(manifest.name.as_deref(), Some("demo"));
        assert_eq!(manifest.requires_python, [">=3.6"]);
        assert_eq!(manifest.dependencies, ["six ; python_version < '3'", "attrs>=19"]);
        assert_eq!(manifest.extras["test"], ["pytest", "mock"]);
        assert_eq!(manifest.package_root.as_deref(), Some("src"));
        assert!(manifest.classifiers.contains(&(3, 8)));
    }

    #[test]
    fn tox_deps_follow_references_and_factors() {
        let text = "[base]\ndeps =\n  pytest\n  -rreq/test.txt\n[testenv]\nextras = tests\ndeps =\n  {[base]deps}\n  \
                    py27: mock\n  {py311,py312}: hypothesis\n  cov: coverage\n  !lint: six\n";
        let mut manifest = Manifest::default();
        read_tox(text, &mut manifest);
        assert_eq!(manifest.tox.extras, ["tests"]);
        let held: Vec<&str> =
            manifest.tox.deps.iter().filter_map(|line| under_factors(line, &["py", "py3", "py311"])).collect();
        assert_eq!(held, ["pytest", "-rreq/test.txt", "hypothesis", "six"]);
        assert_eq!(under_factors("git+https://example.org/x", &[]), Some("git+https://example.org/x"));
    }
}
