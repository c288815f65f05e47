//! What a sandbox for a subject shows and sets besides the tree.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::{Subject, clock};
use crate::{
    environments,
    lab::Lab,
    lang::{self, Layout, RESULTS, RUNNERS},
    record::{
        environment::{Build, LayerFile},
        failure::{Blame, Failure, Phase},
    },
    sandbox::{ENVIRONMENT, Limits, METADATA, Mount, Overlaid, Spec, overlay::Workspace, preload},
};

/// What a sandbox for this subject shows and sets besides the workspace: interpreter, environment, metadata, our
/// runner files, a results directory.
#[derive(Debug)]
pub struct Surroundings {
    pub mounts: Vec<Mount>,
    pub env: Vec<(String, String)>,
    /// Directories of the environment that are written to, with where they are shown.
    overlaid: Vec<(Workspace, PathBuf)>,
    address_space_bytes: Option<u64>,
    /// Host side of the results directory and of the metadata; removed on drop.
    pub scratch: tempfile::TempDir,
}

impl Surroundings {
    /// Returns the host side of the results directory.
    pub(super) fn results(&self) -> PathBuf {
        self.scratch.path().join("results")
    }

    /// Returns a sandbox without a network over the workspace, with these surroundings. One at a time may run.
    pub fn spec<'a>(&'a self, workspace: &'a Workspace, limits: Limits) -> Spec<'a> {
        let overlaid = self.overlaid.iter();
        Spec {
            workspace: Some(workspace),
            mounts: self.mounts.clone(),
            overlaid: overlaid.map(|(workspace, inside)| Overlaid { workspace, inside: inside.clone() }).collect(),
            env: self.env.clone(),
            network: false,
            limits: Limits {
                address_space_bytes: self.address_space_bytes.unwrap_or(limits.address_space_bytes),
                ..limits
            },
            preloaded: None,
        }
    }
}

/// Lays out the surroundings of a subject's sandboxes; those of one value share a results directory.
///
/// # Errors
/// The environment cannot be rebuilt from its lock (a [`Failure`] of that), or `scratch_unwritable` of blame `Infra`.
pub fn surroundings(lab: &Lab, subject: Subject) -> Result<Surroundings, Failure> {
    let build = subject.build;
    let environment = environments::ensure(lab, &build.environment)?;
    lay_out(lab, build, environment)
        .map_err(|error| Failure::new(Phase::Validate, "scratch_unwritable", Blame::Infra, format!("{error:#}")))
}

fn lay_out(lab: &Lab, build: &Build, environment: PathBuf) -> Result<Surroundings> {
    let scratch = lab.cache.scratch()?;
    let place = |name: &str| -> Result<PathBuf> {
        let path = scratch.path().join(name);
        fs::create_dir(&path).with_context(|| format!("create `{}`", path.display()))?;
        Ok(path)
    };
    let (runners, metadata, results) = (place("runners")?, place("metadata")?, place("results")?);
    for (name, text) in lang::scripts() {
        write(&runners.join(name), text.as_bytes())?;
    }
    write(&runners.join(clock::LIBRARY_NAME), clock::LIBRARY)?;
    let client = runners.join(Path::new(preload::CLIENT).file_name().expect("a file's path"));
    write(&client, preload::CLIENT_PROGRAM)?;
    fs::set_permissions(&client, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("make `{}` executable", client.display()))?;
    for file in &build.metadata {
        write_layer_file(&metadata, file)?;
    }
    let layout = lang::layout(build);
    let mut mounts = Vec::new();
    mounts.extend(layout.shown.iter().map(|(part, inside)| mount(environment.join(part), inside, false)));
    let mut overlaid = Vec::new();
    for (part, inside) in layout.overlaid {
        overlaid.push((Workspace::create(&environment.join(part), scratch.path(), &[])?, PathBuf::from(inside)));
    }
    mounts.extend([
        mount(environment, ENVIRONMENT, false),
        mount(metadata, METADATA, false),
        mount(runners, RUNNERS, false),
        mount(results, RESULTS, true),
    ]);
    let prefix = &build.environment.toolchain.prefix;
    if !prefix.starts_with("/usr") {
        mounts.push(Mount { host: prefix.clone(), inside: prefix.clone(), writable: false });
    }
    let Layout { variables: env, address_space_bytes, .. } = layout;
    Ok(Surroundings { mounts, env, overlaid, address_space_bytes, scratch })
}

pub(super) fn mount(host: PathBuf, inside: &str, writable: bool) -> Mount {
    Mount { host, inside: PathBuf::from(inside), writable }
}

fn write_layer_file(directory: &Path, file: &LayerFile) -> Result<()> {
    let relative = Path::new(OsStr::from_bytes(file.path.as_bytes()));
    let is_plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    ensure!(is_plain && !file.path.is_empty(), "write metadata file `{}`: it leaves its directory", file.path);
    let path = directory.join(relative);
    let parent = path.parent().expect("it is below the directory");
    fs::create_dir_all(parent).with_context(|| format!("create `{}`", parent.display()))?;
    write(&path, file.content.as_bytes())
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("write `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{
        environment::{Environment, Language, Recipe, Runner, Toolchain},
        id::Digest,
    };

    fn build(prefix: &str, import_roots: &[&str]) -> Build {
        Build {
            instance_id: "o__r-1".to_owned(),
            runner: Runner::Pytest,
            environment: Environment {
                key: Digest::of(&[]),
                toolchain: Toolchain {
                    language: Language::Python,
                    path: PathBuf::from(prefix).join("bin/python3"),
                    prefix: PathBuf::from(prefix),
                    version: "3.11.7".to_owned(),
                },
                lock: String::new(),
            },
            recipe: Recipe::default(),
            metadata: vec![LayerFile {
                path: "p-1.dist-info/METADATA".into(),
                content: "Name: p\n".into(),
                executable: false,
            }],
            generated: Vec::new(),
            import_roots: import_roots.iter().map(|root| (*root).to_owned()).collect(),
        }
    }

    fn laid_out(build: &Build) -> (tempfile::TempDir, Result<Surroundings>) {
        let directory = tempfile::tempdir().unwrap();
        let cache = crate::cache::Cache::at(directory.path()).unwrap();
        let lab = Lab::new(cache, crate::sandbox::Backend::Bubblewrap, 1);
        let surroundings = lay_out(&lab, build, PathBuf::from("/env"));
        (directory, surroundings)
    }

    #[test]
    fn the_tree_comes_before_the_metadata() {
        let (_directory, surroundings) = laid_out(&build("/opt/python", &["src", ""]));
        let surroundings = surroundings.unwrap();
        assert_eq!(surroundings.env[0].1, "/testbed/src:/testbed:/opt/metadata");
        let metadata = surroundings.mounts.iter().find(|mount| mount.inside == Path::new(METADATA)).unwrap();
        assert_eq!(fs::read_to_string(metadata.host.join("p-1.dist-info/METADATA")).unwrap(), "Name: p\n");
        let writable: Vec<_> = surroundings.mounts.iter().filter(|mount| mount.writable).collect();
        assert_eq!(writable.len(), 1);
        assert_eq!(writable[0].inside, Path::new(RESULTS));
    }

    #[test]
    fn an_interpreter_of_the_system_needs_no_mount_of_its_own() {
        let shows = |prefix: &str| {
            let (_directory, surroundings) = laid_out(&build(prefix, &[""]));
            surroundings.unwrap().mounts.iter().any(|mount| mount.inside == Path::new(prefix))
        };
        assert!(shows("/opt/python"));
        assert!(!shows("/usr"));
    }

    #[test]
    fn metadata_stays_in_its_directory() {
        for path in ["../evil", "/evil", "", "a/../../evil"] {
            let mut build = build("/usr", &[""]);
            build.metadata[0].path = path.into();
            assert!(laid_out(&build).1.is_err(), "{path}");
        }
    }
}
