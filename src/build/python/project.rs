//! Builds the project itself, in a sandbox, for what only a build tells: its metadata and the files it generates.
//!
//! Of the modules only compiled ones leave the build: tests import all others from the tree. Nor does the description,
//! which often is the change log and would tell of the fix.

use std::{
    collections::BTreeSet,
    io::{Cursor, Read},
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result};

use super::{manifest::Tree, native, recipe::Metadata, requirement::normalise};
use crate::{
    git::Repo,
    lab::Lab,
    record::{
        bytes::ByteText,
        candidate::{Candidate, Role},
        environment::{LayerFile, Toolchain},
        patch::{Edit, FileContent},
    },
    sandbox::{Mount, TREE, overlay::Workspace},
    uv,
};

/// Generated files above this size are left out, bytes.
const MAX_GENERATED_BYTES: usize = 256 << 10;
/// What a build may write into the tree at all, bytes.
const MAX_CHANGES_BYTES: u64 = 512 << 20;
const OUT: &str = "/out";

/// What building told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Project {
    pub metadata: Metadata,
    /// The `*.dist-info` directory.
    pub dist_info: Vec<LayerFile>,
    pub generated: Vec<LayerFile>,
    /// Compiled modules, by their paths in the wheel.
    pub modules: Vec<LayerFile>,
}

/// What to build, and with what.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    pub candidate: &'a Candidate,
    pub tree: &'a Tree,
    /// Statically read name, for version plugins.
    pub name: Option<&'a str>,
    pub interpreter: &'a Toolchain,
    /// uv's options that cut by date.
    pub dates: &'a [String],
    pub wall: Duration,
}

/// Builds a wheel of the fixed commit and reads it.
///
/// # Errors
/// `metadata_failed` with the build's last lines (as a [`crate::record::failure::Failure`]), or the machine's own.
pub fn build(lab: &Lab, repo: &Repo, order: Order) -> Result<Project> {
    let candidate = order.candidate;
    let tree = repo.tree(&candidate.base_commit)?;
    let template = lab.cache.publish("trees", &tree, |dir| repo.write_template(&candidate.base_commit, dir))?;
    let scratch = lab.cache.scratch()?;
    let workspace = Workspace::create(&template, scratch.path(), &edits_to_fix(repo, candidate)?)?;
    let out = lab.cache.scratch()?;
    let mut arguments: Vec<String> = ["build", "--wheel", "--no-sources", "--python"].map(String::from).to_vec();
    arguments.push(order.interpreter.path.display().to_string());
    arguments.extend(order.dates.iter().cloned());
    arguments.extend(["--out-dir", OUT, TREE].map(String::from));
    let job = uv::Job {
        interpreter: order.interpreter,
        workspace: Some(&workspace),
        mounts: vec![Mount { host: out.path().to_owned(), inside: OUT.into(), writable: true }],
        env: variables(repo, order),
        arguments,
        wall: order.wall,
    };
    uv::run(lab, "metadata_failed", &job)?;
    let generated = generated(&workspace, repo, order)?;
    Ok(Project { generated, ..read_wheel(out.path())? })
}

/// Returns what turns the base commit's tree into the fix's: removals first.
fn edits_to_fix(repo: &Repo, candidate: &Candidate) -> Result<Vec<Edit>> {
    let mut edits = Vec::new();
    for change in candidate.changes.iter().filter(|change| change.new.is_none()) {
        edits.push(Edit { path: change.path.clone(), content: None });
    }
    for change in &candidate.changes {
        if let Some(side) = &change.new {
            let content = FileContent { mode: side.mode, bytes: ByteText(repo.blob(&side.oid)?) };
            edits.push(Edit { path: change.path.clone(), content: Some(content) });
        }
    }
    Ok(edits)
}

/// Returns a version for plugins that would ask git for one, and a fixed clock.
fn variables(repo: &Repo, order: Order) -> Vec<(String, String)> {
    const PLUGINS: [&str; 8] =
        ["scm", "vcs", "pbr", "versioningit", "dunamai", "dynamic-versioning", "versioneer", "git"];
    let mut variables = vec![
        (String::from("SOURCE_DATE_EPOCH"), order.candidate.base_time.max(315_532_800).to_string()),
        (String::from("UV_CONCURRENT_BUILDS"), String::from("1")),
    ];
    let asks_git = order.tree.texts.iter().any(|(path, text)| {
        ["pyproject.toml", "setup.py", "setup.cfg"].contains(&path.as_str())
            && PLUGINS.iter().any(|plugin| text.contains(plugin))
    });
    if asks_git {
        let tag = repo.nearest_tag(&order.candidate.base_commit);
        let version = tag.as_deref().and_then(version_of_tag).unwrap_or_else(|| String::from("0.0.1"));
        let names = [
            "SETUPTOOLS_SCM_PRETEND_VERSION",
            "PBR_VERSION",
            "PDM_BUILD_SCM_VERSION",
            "POETRY_DYNAMIC_VERSIONING_BYPASS",
            "VERSIONINGIT_PRETEND_VERSION",
            "UV_DYNAMIC_VERSIONING_BYPASS",
        ];
        variables.extend(names.map(|name| (name.to_owned(), version.clone())));
        if let Some(name) = order.name {
            let name = normalise(name).replace('-', "_").to_uppercase();
            variables.push((format!("SETUPTOOLS_SCM_PRETEND_VERSION_FOR_{name}"), version));
        }
    }
    variables
}

/// Returns the version in a tag's name: `v1.2`, `release-1.2`, `name/1.2`.
fn version_of_tag(tag: &str) -> Option<String> {
    let start = tag.find(|c: char| c.is_ascii_digit())?;
    let text = tag[start..].replace('_', ".");
    text.parse::<pep440_rs::Version>().ok().map(|version| version.to_string())
}

/// Reads the only wheel of a directory: its metadata, `*.dist-info` files and compiled modules.
fn read_wheel(dir: &Path) -> Result<Project> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("read `{}`", dir.display()))?;
    let wheel = entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .context("find the wheel that was built")?;
    let bytes = std::fs::read(&wheel).with_context(|| format!("read `{}`", wheel.display()))?;
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).context("open the wheel that was built")?;
    let mut project = Project::default();
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).context("read the wheel that was built")?;
        let name = file.name().context("read the wheel that was built")?.into_owned();
        let of_metadata = name.split_once('/').filter(|(folder, _)| folder.ends_with(".dist-info"));
        if of_metadata.is_none() && !native::is_module(&name) {
            continue;
        }
        let mut content = Vec::new();
        file.read_to_end(&mut content).context("read the wheel that was built")?;
        match of_metadata {
            Some((_, "METADATA")) => {
                content = without_description(&content);
                project.metadata = parse_metadata(&String::from_utf8_lossy(&content));
            }
            Some((folder, "RECORD")) => content = trimmed_record(&content, folder),
            _ => {}
        }
        let files = if of_metadata.is_some() { &mut project.dist_info } else { &mut project.modules };
        files.push(LayerFile { path: name.as_str().into(), content: ByteText(content), executable: false });
    }
    project.dist_info.sort_by(|a, b| a.path.cmp(&b.path));
    project.modules.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(project)
}

/// Keeps the headers, and of those not the description.
fn without_description(metadata: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(metadata);
    let mut kept = String::new();
    let mut skipping = false;
    for line in text.lines().take_while(|line| !line.is_empty()) {
        let continues = line.starts_with([' ', '\t']);
        skipping = if continues { skipping } else { line.starts_with("Description:") };
        if !skipping {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept.into_bytes()
}

/// Keeps the entries of the folder itself, without hashes: modules are elsewhere.
fn trimmed_record(record: &[u8], folder: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(record);
    let own = text.lines().filter_map(|line| line.split(',').next()).filter(|path| path.starts_with(folder));
    own.fold(String::new(), |record, path| record + path + ",,\n").into_bytes()
}

fn parse_metadata(text: &str) -> Metadata {
    let values = |header: &str| -> Vec<String> {
        let values = text.lines().filter_map(|line| line.strip_prefix(header)?.strip_prefix(": "));
        values.map(|value| value.trim().to_owned()).collect()
    };
    Metadata {
        name: values("Name").into_iter().next().unwrap_or_default(),
        requires: values("Requires-Dist"),
        extras: values("Provides-Extra").iter().map(|extra| normalise(extra)).collect(),
    }
}

/// Returns the small new text files that the build left in the tree.
///
/// A copy of a source file that the fix changes is left out: it would carry the fix into every state.
fn generated(workspace: &Workspace, repo: &Repo, order: Order) -> Result<Vec<LayerFile>> {
    let tracked: BTreeSet<&str> = order.tree.paths.iter().map(String::as_str).collect();
    let fixed = order.candidate.changes_of(Role::Source).filter_map(|change| change.new.as_ref());
    let fixed: Vec<Vec<u8>> = fixed.map(|side| repo.blob(&side.oid)).collect::<Result<_>>()?;
    let files = workspace.changes(MAX_CHANGES_BYTES)?.into_iter().filter_map(|edit| {
        let content = edit.content?;
        let path = std::str::from_utf8(edit.path.as_bytes()).ok()?.to_owned();
        let bytes = content.bytes.as_bytes();
        let is_text = std::str::from_utf8(bytes).is_ok_and(|text| !text.contains('\0'));
        let is_file = content.mode & 0o170_000 == 0o100_000;
        let keeps = is_file
            && is_text
            && bytes.len() <= MAX_GENERATED_BYTES
            && !tracked.contains(path.as_str())
            && !is_by_product(&path)
            && !fixed.iter().any(|source| source.as_slice() == bytes);
        keeps.then(|| LayerFile {
            path: path.as_str().into(),
            content: content.bytes.clone(),
            executable: content.mode & 0o111 != 0,
        })
    });
    Ok(files.collect())
}

fn is_by_product(path: &str) -> bool {
    let mut folders = path.split('/').collect::<Vec<_>>();
    let name = folders.pop().unwrap_or_default();
    let by_folder = folders.iter().enumerate().any(|(depth, folder)| {
        folder.ends_with(".egg-info")
            || folder.ends_with(".dist-info")
            || ["__pycache__", ".eggs", ".git", "node_modules"].contains(folder)
            || (depth == 0 && ["build", "dist", ".venv", ".hatch", ".pdm-build"].contains(folder))
    });
    let by_name = [".pyc", ".so", ".o", ".c", ".cpp", ".egg", ".whl"].iter().any(|end| name.ends_with(end));
    by_folder || by_name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_tell_versions() {
        for (tag, version) in [
            ("v1.2.3", "1.2.3"),
            ("release-2.0", "2.0"),
            ("19.1.0", "19.1.0"),
            ("demo/v3.1rc1", "3.1rc1"),
            ("REL_1_4", "1.4"),
        ] {
            assert_eq!(version_of_tag(tag).as_deref(), Some(version), "{tag}");
        }
        assert_eq!(version_of_tag("latest"), None);
    }

    #[test]
    fn metadata_keeps_no_description() {
        let text = b"Metadata-Version: 2.1\nName: demo\nDescription: one\n        fixes x\nRequires-Dist: six\nProvides-Extra: Test_x\n\nChange log: fixes x\n";
        let kept = without_description(text);
        assert!(!String::from_utf8_lossy(&kept).contains("fixes x"));
        let metadata = parse_metadata(&String::from_utf8_lossy(&kept));
        assert_eq!((metadata.name.as_str(), metadata.requires.as_slice()), ("demo", &[String::from("six")][..]));
        assert_eq!(metadata.extras, ["test-x"]);
    }

    #[test]
    fn by_products_are_no_generated_files() {
        for path in ["build/lib/x.py", "src/x.egg-info/PKG-INFO", "a/__pycache__/x.pyc", "x.so", "dist/x.whl"] {
            assert!(is_by_product(path), "{path}");
        }
        assert!(!is_by_product("src/demo/_version.py") && !is_by_product("src/demo/build/x.py"));
    }

    #[test]
    fn records_list_only_the_folder() {
        let record = b"demo/__init__.py,sha256=x,1\ndemo-1.dist-info/METADATA,sha256=y,2\n";
        assert_eq!(trimmed_record(record, "demo-1.dist-info"), b"demo-1.dist-info/METADATA,,\n");
    }
}
