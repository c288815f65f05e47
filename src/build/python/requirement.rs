//! One requirement line → what the resolver may be given. Pure.
//!
//! Repositories write requirements in many dialects (options, hashes, links, editable installs, comments). What the
//! index can serve stays; a link becomes the bare name; a path to the repository itself becomes the extras it asks for.

use std::{str::FromStr, sync::LazyLock};

use pep508_rs::{ExtraName, PackageName, Requirement, VersionOrUrl};
use regex::Regex;

/// What a line of a requirements file, an extra or a `deps` setting asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A package of the index, as a normalised PEP 508 requirement without a link.
    Package(Box<Requirement>),
    /// The repository's own project with these extras.
    Project(Vec<String>),
    /// `-r` or `--requirement`: another file, relative to the one that names it.
    File(String),
    /// `-c` or `--constraint`.
    Constraints(String),
    /// An option, a comment, or something the index does not serve.
    Nothing,
}

/// Reads one line.
pub fn parse(line: &str) -> Wanted {
    let line = without_comment_and_hashes(line);
    if line.is_empty() {
        return Wanted::Nothing;
    }
    if let Some(file) = option(&line, &["-r", "--requirement"]) {
        return Wanted::File(file.to_owned());
    }
    if let Some(file) = option(&line, &["-c", "--constraint"]) {
        return Wanted::Constraints(file.to_owned());
    }
    let target = option(&line, &["-e", "--editable"]).unwrap_or(&line);
    if let Some(extras) = own_project(target) {
        return Wanted::Project(extras);
    }
    if target.contains("://") {
        return name_of_link(target).map_or(Wanted::Nothing, package);
    }
    if target.starts_with('-') || target.starts_with('.') || target.starts_with('/') {
        return Wanted::Nothing;
    }
    package(target)
}

/// Reads a requirement of the index; a version part that PEP 440 does not know is left out.
fn package(text: &str) -> Wanted {
    static LOOSE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?[^;]*(;.*)?$").expect("a valid expression")
    });
    let strict = Requirement::from_str(text).ok().or_else(|| {
        let parts = LOOSE.captures(text)?;
        let part = |index: usize| parts.get(index).map_or("", |found| found.as_str());
        let with_marker = format!("{}{} {}", part(1), part(2), part(3));
        Requirement::from_str(&with_marker).ok().or_else(|| Requirement::from_str(part(1)).ok())
    });
    match strict {
        Some(mut requirement) => {
            requirement.clear_url();
            Wanted::Package(Box::new(requirement))
        }
        None => Wanted::Nothing,
    }
}

fn without_comment_and_hashes(line: &str) -> String {
    let line = line.trim();
    let line = if line.starts_with('#') { "" } else { line.split(" #").next().unwrap_or_default() };
    let line = line.split(" --").next().unwrap_or_default();
    line.trim().trim_end_matches('\\').trim().to_owned()
}

fn option<'a>(line: &'a str, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| {
        let rest = line.strip_prefix(name)?;
        // `-rfile` is as good as `-r file`; `--requirements` is another word.
        let separated = rest.starts_with([' ', '=', '\t']);
        (separated || name.len() == 2).then(|| rest.trim_start_matches([' ', '=', '\t']).trim())
    })
}

/// Returns the extras of `.`, `.[a,b]`, `{toxinidir}[a]`, `file:.[a]` and the like.
fn own_project(target: &str) -> Option<Vec<String>> {
    static OWN: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"^["']?(?:file:(?://)?)?(?:\.|\./|\{toxinidir\}/?|\{tox_root\}/?|\{toxinidir\}/\.)(?:\[([^\]]*)\])?["']?$"#)
            .expect("a valid expression")
    });
    let found = OWN.captures(target)?;
    let extras = found.get(1).map_or("", |extras| extras.as_str());
    Some(extras.split(',').map(str::trim).filter(|extra| !extra.is_empty()).map(normalise).collect())
}

/// Returns the package name that a link tells: `git+https://…#egg=name` or `name @ https://…`.
fn name_of_link(target: &str) -> Option<&str> {
    if let Some((name, _)) = target.split_once('@').filter(|(name, _)| !name.contains("://")) {
        return Some(name.trim());
    }
    target.split("egg=").nth(1)?.split(['&', ' ']).next()
}

/// Returns a distribution's, extra's or group's name in its one comparable form (PEP 503).
pub fn normalise(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    for character in name.trim().chars() {
        let character = if "-_.".contains(character) { '-' } else { character.to_ascii_lowercase() };
        if !(character == '-' && normal.ends_with('-')) {
            normal.push(character);
        }
    }
    normal
}

/// Returns the requirement without any version.
pub fn unpinned(requirement: &Requirement) -> Requirement {
    Requirement { version_or_url: None, ..requirement.clone() }
}

/// Says whether exactly one version is allowed.
pub fn is_pinned(requirement: &Requirement) -> bool {
    match &requirement.version_or_url {
        Some(VersionOrUrl::VersionSpecifier(specifiers)) => {
            specifiers.iter().any(|specifier| matches!(specifier.operator().to_string().as_str(), "==" | "==="))
        }
        Some(VersionOrUrl::Url(_)) | None => false,
    }
}

/// Returns what `Requires-Dist` lines ask for when these extras are wanted, following references to the project's own
/// extras (`name[other]`).
pub fn with_extras(name: Option<&str>, requires_dist: &[String], extras: &[String]) -> Vec<Requirement> {
    let own = name.map(normalise);
    let requirements: Vec<Requirement> =
        requires_dist.iter().filter_map(|line| Requirement::from_str(line).ok()).collect();
    let mut wanted: Vec<ExtraName> = extras.iter().filter_map(|extra| ExtraName::from_str(extra).ok()).collect();
    loop {
        let mut more: Vec<ExtraName> = requirements
            .iter()
            .filter(|requirement| Some(requirement.name.to_string()) == own)
            .filter(|requirement| requirement.marker.evaluate_extras(&wanted))
            .flat_map(|requirement| requirement.extras.clone())
            .filter(|extra| !wanted.contains(extra))
            .collect();
        more.dedup();
        if more.is_empty() {
            break;
        }
        wanted.append(&mut more);
    }
    requirements
        .into_iter()
        .filter(|requirement| Some(requirement.name.to_string()) != own)
        .filter(|requirement| requirement.marker.evaluate_extras(&wanted))
        .map(|mut requirement| {
            requirement.clear_url();
            requirement.marker = requirement.marker.simplify_extras(&wanted);
            requirement
        })
        .collect()
}

/// Returns the bare requirement of a package.
pub fn named(name: &str) -> Requirement {
    Requirement {
        name: PackageName::from_str(name).expect("names in the program are valid"),
        extras: Vec::new(),
        version_or_url: None,
        marker: pep508_rs::MarkerTree::default(),
        origin: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &str) -> String {
        match parse(line) {
            Wanted::Package(requirement) => requirement.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn lines_of_many_dialects_are_read() {
        let cases = [
            ("pytest >= 3.0  # runner", "pytest>=3.0"),
            ("Foo_Bar[x]==1.0 --hash=sha256:00 \\", "foo-bar[x]==1.0"),
            ("mock ; python_version < '3.3'", "mock ; python_full_version < '3.3'"),
            ("foo>=1.0.* ; sys_platform == 'linux'", "foo ; sys_platform == 'linux'"),
            ("-e git+https://example.org/a/b.git@main#egg=Some_Thing", "some-thing"),
            ("thing @ https://example.org/thing-1.0.tar.gz", "thing"),
            ("git+https://example.org/a/b.git", "Nothing"),
            ("-e .[dev,Test_X]", "Project([\"dev\", \"test-x\"])"),
            (".", "Project([])"),
            ("{toxinidir}[test]", "Project([\"test\"])"),
            ("-rrequirements/base.txt", "File(\"requirements/base.txt\")"),
            ("--requirement=base.txt", "File(\"base.txt\")"),
            ("-c constraints.txt", "Constraints(\"constraints.txt\")"),
            ("--index-url https://example.org/simple", "Nothing"),
            ("./vendored/thing", "Nothing"),
            ("# only a comment", "Nothing"),
            ("", "Nothing"),
        ];
        for (line, expected) in cases {
            assert_eq!(text(line), expected, "{line}");
        }
    }

    #[test]
    fn extras_are_followed_through_the_projects_own_references() {
        let lines = [
            "six",
            "pytest>=3; extra == 'tests'",
            "demo-pkg[tests]; extra == 'dev'",
            "sphinx; extra == 'docs'",
            "mock; python_version < '3.3' and extra == 'tests'",
        ]
        .map(String::from);
        let texts: Vec<String> =
            with_extras(Some("Demo_Pkg"), &lines, &[String::from("dev")]).iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["six", "pytest>=3", "mock ; python_full_version < '3.3'"]);
        assert_eq!(with_extras(Some("demo-pkg"), &lines, &[]).len(), 1);
    }

    #[test]
    fn names_have_one_form() {
        assert_eq!(normalise("Zope.Interface__x"), "zope-interface-x");
    }
}
