//! The metadata of a project that declares all of it in `pyproject.toml`, written without running its build.
//!
//! PEP 621 says that such metadata must come out of a build as it stands there. Anything that a build could add to it
//! (a `setup.py`, a hook, a plugin, a compiled module, a dynamic field) leaves the project to [`super::project`].

use pep508_rs::{ExtraName, MarkerExpression, MarkerTree, Requirement};
use toml::{Table, Value};

use super::{manifest::Tree, project::Project, recipe::Metadata, requirement::normalise};
use crate::record::environment::LayerFile;

/// Build systems, with the tables of theirs that make a build do more than copy files.
const BACKENDS: [(&str, &[&str]); 6] = [
    (
        "setuptools.build_meta",
        &["setuptools.ext-modules", "setuptools.cmdclass", "setuptools_scm", "setuptools.dynamic"],
    ),
    ("flit_core.buildapi", &[]),
    ("hatchling.build", &["hatch.build", "hatch.metadata", "hatch.version"]),
    ("poetry.core.masonry.api", &["poetry"]),
    ("pdm.backend", &["pdm.build", "pdm.version"]),
    ("uv_build", &[]),
];

/// Returns what building the project would tell, where its declaration says it all.
pub fn read(tree: &Tree) -> Option<Project> {
    if tree.has("setup.py") || tree.has("setup.cfg") || tree.has("hatch_build.py") {
        return None;
    }
    let document: Value = Value::Table(tree.text("pyproject.toml")?.parse::<Table>().ok()?);
    let backend = at(&document, "build-system.build-backend")?.as_str()?;
    let (_, tables) = BACKENDS.iter().find(|(name, _)| *name == backend)?;
    let tool = document.get("tool");
    if at(&document, "build-system.backend-path").is_some()
        || tables.iter().any(|path| tool.is_some_and(|tool| at(tool, path).is_some()))
        || strings(at(&document, "build-system.requires"))?.iter().any(|line| is_plugin(line))
    {
        return None;
    }
    project(document.get("project")?)
}

/// Says whether a build requirement is more than a build system: a plugin that generates a version or modules.
fn is_plugin(line: &str) -> bool {
    const PLAIN: [&str; 7] =
        ["setuptools", "wheel", "flit-core", "hatchling", "poetry-core", "pdm-backend", "uv-build"];
    let name: String = line.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).collect();
    !PLAIN.contains(&normalise(&name).as_str())
}

fn project(project: &Value) -> Option<Project> {
    if project.get("dynamic").is_some_and(|dynamic| dynamic.as_array().is_none_or(|fields| !fields.is_empty())) {
        return None;
    }
    let name = project.get("name")?.as_str()?;
    let version = project.get("version")?.as_str()?.parse::<pep440_rs::Version>().ok()?.to_string();
    let mut requires = strings(project.get("dependencies").or(Some(&Value::Array(Vec::new()))))?;
    let mut extras = Vec::new();
    for (extra, lines) in project.get("optional-dependencies").and_then(Value::as_table).into_iter().flatten() {
        extras.push(normalise(extra));
        for line in strings(Some(lines))? {
            requires.push(of_extra(&line, extra)?);
        }
    }
    let metadata = Metadata { name: name.to_owned(), requires, extras };
    let folder = format!("{}-{version}.dist-info", normalise(name).replace('-', "_"));
    let files = [
        ("METADATA", headers(project, &metadata, &version)?),
        ("RECORD", format!("{folder}/METADATA,,\n{folder}/RECORD,,\n{folder}/WHEEL,,\n{folder}/entry_points.txt,,\n")),
        ("WHEEL", "Wheel-Version: 1.0\nGenerator: curate\nRoot-Is-Purelib: true\nTag: py3-none-any\n".to_owned()),
        ("entry_points.txt", entry_points(project)),
    ];
    let dist_info = files
        .map(|(file, text)| LayerFile {
            path: format!("{folder}/{file}").as_str().into(),
            content: text.as_str().into(),
            executable: false,
        })
        .to_vec();
    Some(Project { metadata, dist_info, ..Project::default() })
}

/// Returns a requirement of an extra as core metadata writes it: with `extra == 'name'` in its marker.
fn of_extra(line: &str, extra: &str) -> Option<String> {
    let mut requirement: Requirement = line.parse().ok()?;
    let extra: ExtraName = extra.parse().ok()?;
    let mut marker = MarkerTree::expression(MarkerExpression::Extra {
        operator: pep508_rs::ExtraOperator::Equal,
        name: pep508_rs::MarkerValueExtra::Extra(extra),
    });
    marker.and(requirement.marker);
    requirement.marker = marker;
    Some(requirement.to_string())
}

fn headers(project: &Value, metadata: &Metadata, version: &str) -> Option<String> {
    let mut text = format!("Metadata-Version: 2.1\nName: {}\nVersion: {version}\n", metadata.name);
    let mut put = |header: &str, value: &str| text.push_str(&format!("{header}: {}\n", value.replace('\n', " ")));
    for (key, header) in [("description", "Summary"), ("requires-python", "Requires-Python")] {
        if let Some(value) = project.get(key) {
            put(header, value.as_str()?);
        }
    }
    for (field, header) in [("keywords", "Keywords"), ("classifiers", "Classifier")] {
        let values = project.get(field).map_or_else(|| Some(Vec::new()), |values| strings(Some(values)))?;
        match header {
            "Keywords" if values.is_empty() => {}
            "Keywords" => put(header, &values.join(",")),
            _ => values.iter().for_each(|value| put(header, value)),
        }
    }
    for (label, url) in project.get("urls").and_then(Value::as_table).into_iter().flatten() {
        put("Project-URL", &format!("{label}, {}", url.as_str()?));
    }
    metadata.requires.iter().for_each(|line| put("Requires-Dist", line));
    metadata.extras.iter().for_each(|extra| put("Provides-Extra", extra));
    Some(text)
}

fn entry_points(project: &Value) -> String {
    let mut text = String::new();
    let table = |value: Option<&Value>| value.and_then(Value::as_table).cloned().unwrap_or_default();
    let mut groups = vec![
        ("console_scripts".to_owned(), table(project.get("scripts"))),
        ("gui_scripts".to_owned(), table(project.get("gui-scripts"))),
    ];
    for (group, entries) in table(project.get("entry-points")) {
        groups.push((group, table(Some(&entries))));
    }
    for (group, entries) in groups.into_iter().filter(|(_, entries)| !entries.is_empty()) {
        text.push_str(&format!("[{group}]\n"));
        for (name, target) in &entries {
            text.push_str(&format!("{name} = {}\n", target.as_str().unwrap_or_default()));
        }
        text.push('\n');
    }
    text
}

fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| value.get(key))
}

fn strings(value: Option<&Value>) -> Option<Vec<String>> {
    value?.as_array()?.iter().map(|entry| entry.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(pyproject: &str, others: &[&str]) -> Tree {
        let mut tree = Tree::default();
        tree.texts.insert("pyproject.toml".to_owned(), pyproject.to_owned());
        tree.paths = others.iter().map(|path| (*path).to_owned()).collect();
        tree
    }

    const DECLARED: &str = r#"
        [build-system]
        requires = ["flit_core>=3"]
        build-backend = "flit_core.buildapi"
        [project]
        name = "My.Demo"
        version = "1.0-rc1"
        requires-python = ">=3.8"
        classifiers = ["A :: B"]
        dependencies = ["six"]
        [project.optional-dependencies]
        Test_x = ["attrs>=20 ; python_version < '3.9'", "pytest"]
        [project.scripts]
        demo = "demo:main"
        [project.entry-points.pytest11]
        demo = "demo.plugin"
    "#;

    #[test]
    fn a_declared_project_needs_no_build() {
        let project = read(&tree(DECLARED, &[])).unwrap();
        assert_eq!(project.metadata.name, "My.Demo");
        assert_eq!(project.metadata.extras, ["test-x"]);
        assert_eq!(
            project.metadata.requires,
            ["six", "attrs>=20 ; python_full_version < '3.9' and extra == 'test-x'", "pytest ; extra == 'test-x'"]
        );
        let text = |name: &str| {
            let path = format!("my_demo-1.0rc1.dist-info/{name}");
            project.dist_info.iter().find(|file| file.path.lossy() == path).unwrap().content.lossy()
        };
        assert!(text("METADATA").starts_with("Metadata-Version: 2.1\nName: My.Demo\nVersion: 1.0rc1\n"));
        assert!(text("METADATA").contains("\nRequires-Dist: pytest ; extra == 'test-x'\n"));
        assert_eq!(
            text("entry_points.txt"),
            "[console_scripts]\ndemo = demo:main\n\n[pytest11]\ndemo = demo.plugin\n\n"
        );
    }

    #[test]
    fn what_a_build_could_add_to_is_left_to_the_build() {
        assert!(read(&tree(DECLARED, &["setup.py"])).is_none());
        for (from, to) in [
            ("version = \"1.0-rc1\"", "dynamic = [\"version\"]"),
            ("\"flit_core.buildapi\"", "\"mesonpy\""),
            ("[\"flit_core>=3\"]", "[\"flit_core\", \"setuptools_scm[toml]>=6\"]"),
            ("\"flit_core.buildapi\"", "\"flit_core.buildapi\"\nbackend-path = [\".\"]"),
            ("\"six\"", "6"),
        ] {
            assert!(read(&tree(&DECLARED.replace(from, to), &[])).is_none(), "{to}");
        }
        let hooks = DECLARED.replace("flit_core.buildapi", "hatchling.build") + "\n[tool.hatch.build.hooks.vcs]\nx = 1";
        assert!(read(&tree(&hooks, &[])).is_none());
    }
}
