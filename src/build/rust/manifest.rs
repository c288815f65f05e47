//! The manifests of a tree → a workspace without code: what decides which dependencies are compiled, and nothing else.
//!
//! Commits that differ in code, versions, descriptions or lints have equal workspaces, and so share an environment.
//! Pure: reads the tree through a function.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use toml::{Table, Value};

use super::features;
use crate::record::cargo::Workspace;

/// A tree to look into: its paths, and a way to read one.
pub struct Tree<'a> {
    pub paths: &'a BTreeSet<String>,
    pub read: &'a dyn Fn(&str) -> Option<String>,
}

/// What the manifests of a tree say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Project {
    pub workspace: Workspace,
    /// Version by name of the tree's own packages, where it is written down.
    pub versions: BTreeMap<String, String>,
    /// The newest edition and Rust version that a package asks for, with its name.
    pub edition: Option<(String, String)>,
    pub rust_version: Option<(String, String)>,
}

/// Dependency tables, with the old spellings.
const DEPENDENCIES: [&str; 5] =
    ["dependencies", "dev-dependencies", "build-dependencies", "dev_dependencies", "build_dependencies"];
const MASKED_VERSION: &str = "0.0.0";

/// Reads the workspace whose manifest is nearest to the top of the tree.
///
/// # Errors
/// The text says what is missing or cannot be read.
pub fn read(tree: &Tree) -> Result<Project, String> {
    let manifests = tree.paths.iter().filter(|path| file_name(path) == "Cargo.toml");
    let root = manifests.min_by_key(|path| path.matches('/').count()).ok_or("there is no `Cargo.toml`")?;
    let directory = directory_of(root).to_owned();
    let root_table = parse(tree, root)?;
    let members = members(tree, &root_table, &directory);
    let tables = reachable(tree, root, root_table.clone(), &members)?;
    // A patch must have the version that it stands for.
    let masks = !root_table.contains_key("patch") && !root_table.contains_key("replace");
    let reducer = Reducer { root: &root_table, masks };
    let mut project = Project::default();
    for (path, table) in &tables {
        let mut reduced = reducer.reduce(table, path == root, &mut project);
        if path == root
            && let Some(Value::Table(workspace)) = reduced.get_mut("workspace")
        {
            let listed = members.iter().map(|member| Value::String(below(&directory, member)));
            workspace.insert("members".to_owned(), Value::Array(listed.collect()));
        }
        let text = toml::to_string(&reduced).map_err(|error| format!("`{path}`: {error}"))?;
        project.workspace.manifests.insert(path.clone(), text);
    }
    if project.versions.is_empty() {
        return Err(format!("`{root}` leads to no package"));
    }
    let chosen = features::choose(tree, &tables.values().collect::<Vec<_>>());
    project.workspace.features = chosen.features;
    project.workspace.all_features = chosen.all;
    project.workspace.rustflags = features::rustflags(tree, &directory);
    project.workspace.directory = directory;
    Ok(project)
}

fn parse(tree: &Tree, path: &str) -> Result<Table, String> {
    let text = (tree.read)(path).ok_or_else(|| format!("`{path}` is not there"))?;
    text.parse().map_err(|error: toml::de::Error| format!("`{path}`: {}", error.message()))
}

/// Returns the directories of the root's listed members that are there.
fn members(tree: &Tree, root: &Table, directory: &str) -> Vec<String> {
    let workspace = root.get("workspace").and_then(Value::as_table);
    let list = |key: &str| -> Vec<String> {
        let items = workspace.and_then(|table| table.get(key)?.as_array()).into_iter().flatten();
        items.filter_map(|item| Some(join(directory, item.as_str()?))).collect()
    };
    let (patterns, excluded) = (list("members"), list("exclude"));
    let mut found = BTreeSet::new();
    for pattern in patterns {
        // A pattern that is no expression matches nothing.
        let Ok(expression) = Regex::new(&glob(&pattern)) else { continue };
        for path in tree.paths.iter().filter(|path| file_name(path) == "Cargo.toml") {
            let place = directory_of(path);
            let is_excluded = excluded.iter().any(|other| place == other || place.starts_with(&format!("{other}/")));
            if place == pattern || (expression.is_match(place) && !is_excluded) {
                found.insert(place.to_owned());
            }
        }
    }
    found.into_iter().collect()
}

/// Returns the expression for a member pattern: `*` and `?` stay within a directory, `**` does not.
fn glob(pattern: &str) -> String {
    let escaped = regex::escape(pattern);
    let inner = escaped.replace(r"\*\*", ".*").replace(r"\*", "[^/]*").replace(r"\?", "[^/]");
    format!("^{inner}$")
}

/// Returns the manifests of the root, its members, and all that they reach by path.
fn reachable(
    tree: &Tree,
    root: &str,
    root_table: Table,
    members: &[String],
) -> Result<BTreeMap<String, Table>, String> {
    let mut tables = BTreeMap::from([(root.to_owned(), root_table)]);
    let mut queue: Vec<String> = members.iter().map(|member| join(member, "Cargo.toml")).collect();
    queue.extend(paths_in(root, &tables[root]));
    while let Some(path) = queue.pop() {
        // What is missing here is missing to Cargo as well, which says so better.
        if tables.contains_key(&path) || !tree.paths.contains(&path) {
            continue;
        }
        let table = parse(tree, &path)?;
        queue.extend(paths_in(&path, &table));
        tables.insert(path, table);
    }
    Ok(tables)
}

/// Returns the manifests that one names by path.
fn paths_in(manifest: &str, table: &Table) -> Vec<String> {
    let mut tables: Vec<&Table> = dependency_tables(table).collect();
    tables.extend(table.get("workspace").and_then(|workspace| workspace.get("dependencies")?.as_table()));
    let patches = table.get("patch").and_then(Value::as_table).into_iter().flat_map(|patch| patch.values());
    tables.extend(patches.chain(table.get("replace")).filter_map(Value::as_table));
    let named = tables.into_iter().flat_map(|table| table.values()).filter_map(|it| it.get("path")?.as_str());
    named.map(|path| join(&join(directory_of(manifest), path), "Cargo.toml")).collect()
}

fn dependency_tables(table: &Table) -> impl Iterator<Item = &Table> {
    let targets = table.get("target").and_then(Value::as_table).into_iter().flat_map(|targets| targets.values());
    let holders = std::iter::once(table).chain(targets.filter_map(Value::as_table));
    holders.flat_map(|holder| DEPENDENCIES.iter().filter_map(|name| holder.get(*name)?.as_table()))
}

/// Takes out of manifests what decides nothing about dependencies.
struct Reducer<'a> {
    root: &'a Table,
    masks: bool,
}

impl Reducer<'_> {
    fn reduce(&self, table: &Table, is_root: bool, project: &mut Project) -> Table {
        let mut reduced = Table::new();
        if let Some(package) = package_of(table) {
            reduced.insert("package".to_owned(), Value::Table(self.package(package, table, project)));
            reduced.insert("lib".to_owned(), Value::Table(library(table)));
            reduced.extend(table.get("features").map(|features| ("features".to_owned(), features.clone())));
            self.copy_dependencies(table, &mut reduced);
            let targets = table.get("target").and_then(Value::as_table).into_iter().flatten();
            let mut kept = Table::new();
            for (name, target) in targets {
                let mut inner = Table::new();
                target.as_table().into_iter().for_each(|target| self.copy_dependencies(target, &mut inner));
                kept.insert(name.clone(), Value::Table(inner));
            }
            reduced.insert("target".to_owned(), Value::Table(kept));
        }
        if is_root {
            for name in ["profile", "patch", "replace"] {
                reduced.extend(table.get(name).map(|value| (name.to_owned(), value.clone())));
            }
            if let Some(workspace) = table.get("workspace").and_then(Value::as_table) {
                let mut kept = Table::new();
                for name in ["resolver", "exclude"] {
                    kept.extend(workspace.get(name).map(|value| (name.to_owned(), value.clone())));
                }
                self.copy_dependencies(workspace, &mut kept);
                reduced.insert("workspace".to_owned(), Value::Table(kept));
            }
        }
        reduced
    }

    fn package(&self, package: &Table, table: &Table, project: &mut Project) -> Table {
        let text = |key: &str| self.inherited(package, key).and_then(Value::as_str).map(str::to_owned);
        let name = text("name").unwrap_or_default();
        let version = text("version").unwrap_or_else(|| MASKED_VERSION.to_owned());
        let newer = |asked: &mut Option<(String, String)>, value: Option<String>| {
            if let Some(value) = value
                && asked.as_ref().is_none_or(|(known, _)| number(known) < number(&value))
            {
                *asked = Some((value, name.clone()));
            }
        };
        newer(&mut project.edition, text("edition"));
        newer(&mut project.rust_version, text("rust-version"));
        let mut kept = Table::new();
        for key in ["name", "edition", "rust-version", "resolver"] {
            kept.extend(text(key).map(|text| (key.to_owned(), Value::String(text))));
        }
        let shown = if self.masks { MASKED_VERSION } else { version.as_str() };
        kept.insert("version".to_owned(), Value::String(shown.to_owned()));
        for key in ["autobins", "autoexamples", "autotests", "autobenches"] {
            kept.insert(key.to_owned(), Value::Boolean(false));
        }
        let has_build = ["build-dependencies", "build_dependencies"].iter().any(|key| table.contains_key(*key));
        let build = if has_build { Value::String("stub_build.rs".to_owned()) } else { Value::Boolean(false) };
        kept.insert("build".to_owned(), build);
        project.versions.insert(name, version);
        kept
    }

    /// Returns a package's key, from the workspace where it says so.
    fn inherited<'t>(&'t self, package: &'t Table, key: &str) -> Option<&'t Value> {
        let value = package.get(key)?;
        let is_inherited = value.get("workspace").and_then(Value::as_bool) == Some(true);
        if is_inherited { self.root.get("workspace")?.get("package")?.get(key) } else { Some(value) }
    }

    fn copy_dependencies(&self, from: &Table, to: &mut Table) {
        for name in DEPENDENCIES {
            let Some(table) = from.get(name).and_then(Value::as_table) else { continue };
            let mut table = table.clone();
            let dependencies = table.iter_mut().filter_map(|(_, value)| value.as_table_mut());
            // The tree's own packages have no versions here.
            for dependency in dependencies.filter(|it| self.masks && it.contains_key("path")) {
                dependency.remove("version");
            }
            to.insert(name.replace('_', "-"), Value::Table(table));
        }
    }
}

/// Returns the package table; `project` is its old name.
pub fn package_of(table: &Table) -> Option<&Table> {
    table.get("package").or_else(|| table.get("project"))?.as_table()
}

fn library(table: &Table) -> Table {
    let mut kept = Table::from_iter([("path".to_owned(), Value::String("stub_lib.rs".to_owned()))]);
    let library = table.get("lib").and_then(Value::as_table);
    let is_macro = library.and_then(|it| it.get("proc-macro").or_else(|| it.get("proc_macro"))?.as_bool());
    let is_macro = is_macro == Some(true)
        || library.and_then(|it| it.get("crate-type")?.as_array()).is_some_and(|it| it.contains(&"proc-macro".into()));
    if is_macro {
        kept.insert("proc-macro".to_owned(), Value::Boolean(true));
    }
    kept.extend(library.and_then(|it| it.get("name")).map(|name| ("name".to_owned(), name.clone())));
    kept
}

/// Returns a version's first two numbers.
pub fn number(version: &str) -> (u32, u32) {
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

fn directory_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Returns `path` as seen from `directory`, which is above it.
fn below(directory: &str, path: &str) -> String {
    let inner = path.strip_prefix(directory).unwrap_or(path).trim_start_matches('/');
    if inner.is_empty() { ".".to_owned() } else { inner.to_owned() }
}

/// Joins two relative paths, taking `.` and `..` away; one that leaves the tree keeps its `..`.
fn join(directory: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in directory.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(files: &[(&str, &str)]) -> Result<Project, String> {
        let files: BTreeMap<String, String> = files.iter().map(|(p, t)| ((*p).to_owned(), (*t).to_owned())).collect();
        let paths = files.keys().cloned().collect();
        read(&Tree { paths: &paths, read: &|path| files.get(path).cloned() })
    }

    #[test]
    fn versions_code_and_lints_change_nothing() {
        let one = "[package]\nname = 'a'\nversion = '1.2.3'\nedition = '2021'\ndescription = 'x'\n[dependencies]\nserde = '1'\n";
        let other = "[package]\nname = 'a'\nversion = '1.3.0'\nedition = '2021'\n[lints.rust]\nunsafe_code = 'deny'\n\
                     [dependencies]\nserde = \"1\"\n[[bench]]\nname = 'b'\nharness = false\n";
        let (one, other) = (project(&[("Cargo.toml", one)]).unwrap(), project(&[("Cargo.toml", other)]).unwrap());
        assert_eq!(one.workspace, other.workspace);
        assert_eq!(other.versions["a"], "1.3.0");
        assert_eq!(one.edition, Some(("2021".to_owned(), "a".to_owned())));
    }

    #[test]
    fn members_are_found_by_pattern_and_by_path() {
        let files = [
            (
                "Cargo.toml",
                "[workspace]\nmembers = ['crates/*']\nexclude = ['crates/old']\n[workspace.package]\nedition = '2024'\n",
            ),
            (
                "crates/a/Cargo.toml",
                "[package]\nname = 'a'\nedition.workspace = true\nversion = '1.0.0'\n[dependencies]\nb = { path = '../../b', version = '1' }\n",
            ),
            ("crates/old/Cargo.toml", "this is no TOML"),
            (
                "b/Cargo.toml",
                "[project]\nname = 'b'\nversion = '1.0.0'\n[lib]\nproc-macro = true\n[build-dependencies]\ncc = '1'\n",
            ),
            ("elsewhere/Cargo.toml", "[package]\nname = 'c'\n"),
        ];
        let project = project(&files).unwrap();
        let workspace = project.workspace;
        assert_eq!(
            workspace.manifests.keys().collect::<Vec<_>>(),
            ["Cargo.toml", "b/Cargo.toml", "crates/a/Cargo.toml"]
        );
        assert!(workspace.manifests["Cargo.toml"].contains("members = [\"crates/a\"]"));
        let a: Table = workspace.manifests["crates/a/Cargo.toml"].parse().unwrap();
        assert_eq!(a["package"]["edition"].as_str(), Some("2024"));
        assert_eq!(a["dependencies"]["b"].get("version"), None);
        let b: Table = workspace.manifests["b/Cargo.toml"].parse().unwrap();
        assert_eq!(b["lib"]["proc-macro"].as_bool(), Some(true));
        assert_eq!(b["package"]["build"].as_str(), Some("stub_build.rs"));
    }

    #[test]
    fn a_patched_workspace_keeps_its_versions() {
        let manifest = "[package]\nname = 'a'\nversion = '1.2.3'\n[patch.crates-io]\na = { path = '.' }\n";
        assert!(project(&[("Cargo.toml", manifest)]).unwrap().workspace.manifests["Cargo.toml"].contains("\"1.2.3\""));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        assert_eq!(project(&[("a.rs", "")]), Err("there is no `Cargo.toml`".to_owned()));
        assert!(project(&[("Cargo.toml", "[package")]).unwrap_err().starts_with("`Cargo.toml`: "));
        assert!(project(&[("Cargo.toml", "[workspace]\n")]).unwrap_err().contains("no package"));
    }

    #[test]
    fn paths_are_joined_without_dots() {
        assert_eq!(join("crates/a", "../../b/./c"), "b/c");
        assert_eq!(join("", "../x"), "../x");
        assert_eq!((below("rust", "rust/a"), below("", "a"), below("", "")), ("a".into(), "a".into(), ".".into()));
    }
}
