//! Committed lock files → constraints for the resolver. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;
use toml::{Table, Value};

use super::{manifest::Tree, requirement::normalise};

/// A committed lock file as constraints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locked {
    /// Path of the lock file.
    pub file: &'static str,
    /// `name==version`, sorted; only packages that are locked to one version on every platform.
    pub constraints: Vec<String>,
}

/// Returns every name and version in a lock file's text.
type Reader = fn(&str) -> Option<Vec<(String, String)>>;

/// Reads the first lock file that there is, in the order uv, standard, Poetry, PDM, Pipenv.
pub fn read(tree: &Tree, project: Option<&str>) -> Option<Locked> {
    let readers: [(&'static str, Reader); 5] = [
        ("uv.lock", |text| packages(text, "package")),
        ("pylock.toml", |text| packages(text, "packages")),
        ("poetry.lock", |text| packages(text, "package")),
        ("pdm.lock", |text| packages(text, "package")),
        ("Pipfile.lock", pipfile),
    ];
    let own = project.map(normalise);
    readers.into_iter().find_map(|(file, reader)| {
        let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, version) in reader(tree.text(file)?)? {
            versions.entry(normalise(&name)).or_default().insert(version);
        }
        let single = versions.into_iter().filter(|(name, all)| all.len() == 1 && Some(name) != own.as_ref());
        let constraints: Vec<String> =
            single.flat_map(|(name, all)| all.into_iter().map(move |version| format!("{name}=={version}"))).collect();
        (!constraints.is_empty()).then_some(Locked { file, constraints })
    })
}

/// Reads `[[package]]` tables; packages from elsewhere than an index are left out.
fn packages(text: &str, key: &str) -> Option<Vec<(String, String)>> {
    let document: Table = text.parse().ok()?;
    let packages = document.get(key)?.as_array()?;
    let from_index = |package: &&Value| {
        let source = package.get("source");
        let elsewhere = ["editable", "virtual", "directory", "path", "git", "url"];
        let kind = source.and_then(|source| source.get("type")).and_then(Value::as_str);
        !elsewhere.iter().any(|key| source.is_some_and(|source| source.get(key).is_some()))
            && !kind.is_some_and(|kind| ["git", "url", "file", "directory"].contains(&kind))
            && package.get("git").is_none()
            && package.get("path").is_none()
    };
    let named = packages.iter().filter(from_index).filter_map(|package| {
        Some((package.get("name")?.as_str()?.to_owned(), package.get("version")?.as_str()?.to_owned()))
    });
    Some(named.collect())
}

fn pipfile(text: &str) -> Option<Vec<(String, String)>> {
    let document: Json = serde_json::from_str(text).ok()?;
    let sections = ["default", "develop"].into_iter().filter_map(|section| document.get(section)?.as_object());
    let named = sections.flatten().filter_map(|(name, package)| {
        Some((name.clone(), package.get("version")?.as_str()?.strip_prefix("==")?.to_owned()))
    });
    Some(named.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constraints(file: &str, text: &str) -> Vec<String> {
        let tree = Tree { paths: Vec::new(), texts: [(file.to_owned(), text.to_owned())].into() };
        read(&tree, Some("Demo.Pkg")).map(|locked| locked.constraints).unwrap_or_default()
    }

    #[test]
    fn one_version_per_package_and_never_the_project_itself() {
        let uv = r#"
version = 1
[[package]]
name = "demo-pkg"
version = "1.0"
source = { editable = "." }
[[package]]
name = "attrs"
version = "23.1.0"
source = { registry = "https://pypi.org/simple" }
[[package]]
name = "numpy"
version = "1.24.4"
[[package]]
name = "numpy"
version = "2.0.0"
[[package]]
name = "fork"
version = "1.0"
source = { git = "https://example.org/fork" }
"#;
        assert_eq!(constraints("uv.lock", uv), ["attrs==23.1.0"]);
        assert_eq!(constraints("poetry.lock", "[[package]]\nname='Foo_Bar'\nversion='1.0'\n"), ["foo-bar==1.0"]);
        let pipenv = r#"{"default": {"six": {"version": "==1.12"}, "x": {"git": "y"}}, "develop": {"py": {"version": "==1.8"}}}"#;
        assert_eq!(constraints("Pipfile.lock", pipenv), ["py==1.8", "six==1.12"]);
        assert_eq!(constraints("uv.lock", "not toml ["), Vec::<String>::new());
    }
}
