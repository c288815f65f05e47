//! What `package.json` files declare, cut to what npm reads. Pure.

use serde_json::{Map, Value, json};

use super::{Tree, locks::Pins};

/// Sections of dependencies, and the other fields that decide what npm installs.
const SECTIONS: [&str; 4] = ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"];
const OTHERS: [&str; 4] = ["peerDependenciesMeta", "overrides", "workspaces", "bundleDependencies"];
/// Development dependencies whose outcome says nothing of what the code does, or words that start their names; they
/// bring hundreds of packages. What a script of the repository names all the same stays.
const TOOLS: [&str; 30] = [
    "@commitlint/",
    "@npmcli/eslint-config",
    "@npmcli/template-oss",
    "@semantic-release/",
    "@size-limit/",
    "@typescript-eslint/",
    "@release-it/",
    "auto-changelog",
    "benchmark",
    "bundlesize",
    "commitizen",
    "commitlint",
    "conventional-changelog",
    "coveralls",
    "cz-conventional-changelog",
    "eslint",
    "gh-pages",
    "husky",
    "jsdoc",
    "lint-staged",
    "markdownlint",
    "np",
    "prettier",
    "release-it",
    "semantic-release",
    "size-limit",
    "standard",
    "standard-version",
    "typedoc",
    "xo",
];
/// Stands in for the project's name, so that projects with equal dependencies share environments.
const NAME: &str = "curate-environment";

/// A project as far as its environment is concerned.
#[derive(Clone, Debug, PartialEq)]
pub struct Project {
    /// `package.json` files by path, the project's own and those of its workspaces.
    pub files: Map<String, Value>,
    pub scripts: Map<String, Value>,
    pub engines: Option<String>,
    /// Whether the project's own npm settings ignore conflicts of peer dependencies.
    pub legacy_peers: bool,
}

/// Reads the manifests of a tree; `None` without a usable `package.json` at the top.
pub fn read(tree: &Tree, is_named: &dyn Fn(&str) -> bool) -> Option<Project> {
    let top = object(tree, "package.json")?;
    let mut files = Map::new();
    let mut own = cut(&top);
    let needed = |name: &str| {
        ["dependencies", "peerDependencies"].iter().any(|section| {
            top.get(*section).and_then(Value::as_object).is_some_and(|entries| entries.contains_key(name))
        })
    };
    let is_extension_of_eslint = needed("eslint");
    if let Some(entries) = own.get_mut("devDependencies").and_then(Value::as_object_mut) {
        entries.retain(|name, _| !is_tool(name) || is_extension_of_eslint || needed(name) || is_named(name));
    }
    let patterns = workspaces(&top);
    if own.get("workspaces").is_some() {
        own["workspaces"] = json!(patterns);
    }
    own["name"] = json!(NAME);
    files.insert("package.json".to_owned(), own);
    for path in tree.texts.keys().filter(|path| path.ends_with("/package.json")) {
        let directory = path.trim_end_matches("/package.json");
        if patterns.iter().any(|pattern| matches(pattern, directory))
            && let Some(package) = object(tree, path)
        {
            let mut manifest = cut(&package);
            for field in ["name", "version", "bin"] {
                if let Some(value) = package.get(field) {
                    manifest[field] = value.clone();
                }
            }
            files.insert(path.clone(), manifest);
        }
    }
    let npmrc = tree.texts.get(".npmrc").map(String::as_str).unwrap_or_default();
    let is_legacy = |line: &str| line.split_whitespace().collect::<String>() == "legacy-peer-deps=true";
    Some(Project {
        files,
        scripts: top.get("scripts").and_then(Value::as_object).cloned().unwrap_or_default(),
        engines: top.get("engines").and_then(|engines| engines.get("node")?.as_str().map(str::to_owned)),
        legacy_peers: npmrc.lines().any(is_legacy),
    })
}

fn is_tool(name: &str) -> bool {
    let starts = |tool: &str| match tool.ends_with('/') {
        true => name.starts_with(tool),
        false => name == tool || (tool != "np" && tool != "xo" && name.starts_with(&format!("{tool}-"))),
    };
    TOOLS.iter().any(|tool| starts(tool))
}

fn object(tree: &Tree, path: &str) -> Option<Map<String, Value>> {
    let value: Value = serde_json::from_str(tree.texts.get(path)?.trim_start_matches('\u{feff}')).ok()?;
    value.as_object().cloned()
}

/// Returns the fields that decide what npm installs.
fn cut(package: &Map<String, Value>) -> Value {
    let mut kept = Map::new();
    kept.insert("private".to_owned(), json!(true));
    for field in SECTIONS.iter().chain(&OTHERS) {
        if let Some(value) = package.get(*field) {
            kept.insert((*field).to_owned(), value.clone());
        }
    }
    Value::Object(kept)
}

/// Returns the patterns of workspaces, in whichever of the two forms they stand.
fn workspaces(package: &Map<String, Value>) -> Vec<String> {
    let field = package.get("workspaces");
    let list = field.and_then(|field| field.as_array().or_else(|| field.get("packages")?.as_array()));
    let names = list.into_iter().flatten().filter_map(Value::as_str);
    names.map(|name| name.trim_start_matches("./").trim_end_matches('/').to_owned()).collect()
}

/// Matches a workspace pattern: `*` within a part of the path, `**` over parts.
fn matches(pattern: &str, directory: &str) -> bool {
    let escaped = regex::escape(pattern).replace(r"\*\*", ".*").replace(r"\*", "[^/]*");
    regex::Regex::new(&format!("^{escaped}$")).is_ok_and(|expression| expression.is_match(directory))
}

impl Project {
    /// Returns the direct dependencies as `name@range`, sorted.
    pub fn requirements(&self) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for section in SECTIONS {
            let entries = self.files.get("package.json").and_then(|file| file.get(section)?.as_object());
            let named = entries.into_iter().flatten();
            found.extend(named.map(|(name, range)| format!("{name}@{}", range.as_str().unwrap_or_default())));
        }
        found.sort();
        found.dedup();
        found
    }

    /// Says whether any section names a package.
    pub fn depends_on(&self, package: &str) -> bool {
        let file = self.files.get("package.json");
        SECTIONS.iter().any(|section| file.and_then(|file| file.get(section)?.get(package)).is_some())
    }

    /// Returns the files with the versions of direct dependencies that a lock file pins.
    pub fn pinned(&self, pins: &Pins) -> Map<String, Value> {
        let mut files = self.files.clone();
        for file in files.values_mut() {
            for section in SECTIONS.iter().filter(|section| **section != "peerDependencies") {
                let Some(entries) = file.get_mut(*section).and_then(Value::as_object_mut) else { continue };
                for (name, range) in entries {
                    let Some(text) = range.as_str() else { continue };
                    let pin = pins.get(&(name.clone(), text.to_owned()));
                    if let Some(version) = pin.or_else(|| pins.get(&(name.clone(), String::new()))) {
                        *range = json!(version);
                    }
                }
            }
        }
        files
    }
}

/// Returns a lock file without what depends on the registry that it was made with, or on the project's name.
pub fn without_origins(mut lock: Value) -> Value {
    if let Some(lock) = lock.as_object_mut() {
        lock.insert("name".to_owned(), json!(NAME));
        lock.remove("version");
    }
    let own = lock.get_mut("packages").and_then(|packages| packages.get_mut("")?.as_object_mut());
    if let Some(own) = own {
        own.insert("name".to_owned(), json!(NAME));
        for field in ["version", "license", "engines", "bin"] {
            own.remove(field);
        }
    }
    lock
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let texts = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        Tree { paths: files.iter().map(|(path, _)| (*path).to_owned()).collect(), texts: texts.collect() }
    }

    #[test]
    fn versions_and_scripts_make_no_other_environment() {
        let one = r#"{"name": "a", "version": "1.0.0", "scripts": {"test": "tap"}, "devDependencies": {"tap": "^16"}}"#;
        let other =
            r#"{"name": "a", "version": "1.1.0", "scripts": {"test": "tap -R"}, "devDependencies": {"tap": "^16"}}"#;
        let files = |text| read(&tree(&[("package.json", text)]), &|_| false).unwrap().files;
        assert_eq!(files(one), files(other));
    }

    #[test]
    fn workspaces_are_part_of_a_project() {
        let files = [
            ("package.json", r#"{"workspaces": {"packages": ["packages/*"]}}"#),
            ("packages/a/package.json", r#"{"name": "a", "version": "2.0.0", "dependencies": {"b": "1"}}"#),
            ("packages/a/fixture/package.json", "{}"),
        ];
        let project = read(&tree(&files), &|_| false).unwrap();
        assert_eq!(project.files.keys().collect::<Vec<_>>(), ["package.json", "packages/a/package.json"]);
        assert_eq!(project.files["packages/a/package.json"]["version"], "2.0.0");
    }

    #[test]
    fn pins_replace_ranges() {
        let text = r#"{"devDependencies": {"a": "^1.0.0", "b": "^2.0.0"}, "peerDependencies": {"a": "^1.0.0"}}"#;
        let project = read(&tree(&[("package.json", text)]), &|_| false).unwrap();
        let pins = Pins::from([(("a".to_owned(), "^1.0.0".to_owned()), "1.4.0".to_owned())]);
        let files = project.pinned(&pins);
        let file = &files["package.json"];
        assert_eq!(file["devDependencies"], json!({"a": "1.4.0", "b": "^2.0.0"}));
        assert_eq!(file["peerDependencies"], json!({"a": "^1.0.0"}));
    }

    #[test]
    fn linters_are_left_out_unless_a_script_names_them() {
        let text = r#"{"devDependencies": {"eslint": "8", "eslint-plugin-x": "1", "tap": "16", "xo": "1"}}"#;
        let dev = |tree: &Tree, named: &dyn Fn(&str) -> bool| {
            read(tree, named).unwrap().files["package.json"]["devDependencies"].clone()
        };
        let tree = tree(&[("package.json", text)]);
        assert_eq!(dev(&tree, &|_| false), json!({"tap": "16"}));
        assert_eq!(dev(&tree, &|name| name == "xo"), json!({"tap": "16", "xo": "1"}));
    }

    #[test]
    fn there_is_no_project_without_a_manifest() {
        assert_eq!(read(&tree(&[("package.json", "[]")]), &|_| false), None);
        assert_eq!(read(&tree(&[]), &|_| false), None);
    }
}
