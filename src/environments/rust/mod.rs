//! Rust: a `Cargo.lock` and a workspace without code → vendored sources and a target directory with every dependency
//! compiled.
//!
//! The workspace's own packages are not in it: they stand in as empty libraries while the dependencies are compiled, and
//! everything that belongs to them is removed afterwards. Cargo judges a package of the tree by file times, and the times
//! of our trees say nothing, so that one that looks compiled must not exist. Dependencies are judged by version and flags.

mod registry;
pub mod toolchain;

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use serde_json::json;

use crate::{
    lab::Lab,
    lang::rust::{TARGET, variables},
    record::{
        cargo::Workspace,
        environment::{Environment, Toolchain},
        failure::{Blame, Failure, Phase},
    },
    sandbox::{self, ENVIRONMENT, Limits, Mount, Spec, TREE},
    uv,
};
pub use registry::Index;

/// Limit for downloading one environment.
const DOWNLOAD_WALL: Duration = Duration::from_mins(15);
/// Limit for compiling the dependencies of one environment.
const COMPILE_WALL: Duration = Duration::from_mins(30);
/// Workspaces up to this size get their dependencies compiled for each package alone as well: selecting one package
/// may select other features of what they share.
const MAX_SINGLE_MEMBERS: usize = 12;
const LOCK: &str = "Cargo.lock";
/// Nobody debugs dependencies here: without debug information they take half the room and link faster.
const PROFILES: &str = "
[profile.dev.package.\"*\"]
debug = false
[profile.test.package.\"*\"]
debug = false
";

/// How a lock is to be found.
#[derive(Clone, Copy, Debug)]
pub struct Resolution<'a> {
    pub index: Index,
    /// A lock to start from; it is kept to as far as it goes.
    pub lock: Option<&'a str>,
    pub wall: Duration,
}

/// Resolves a workspace's dependencies; returns the environment's lock.
///
/// # Errors
/// `resolve_failed` with Cargo's last lines, and those of the machine, as [`Failure`]s inside the error.
pub fn resolve(lab: &Lab, toolchain: &Toolchain, workspace: &Workspace, resolution: Resolution) -> Result<String> {
    let scratch = lab.cache.scratch()?;
    let lock = scratch.path().join(&workspace.directory).join(LOCK);
    write_stubs(scratch.path(), workspace)?;
    if let Some(text) = resolution.lock {
        write(&lock, text)?;
    }
    let arguments: &[&str] =
        if resolution.lock.is_some() { &["update", "--workspace"] } else { &["generate-lockfile"] };
    let job = registry::Job {
        toolchain,
        tree: scratch.path(),
        directory: &workspace.directory,
        mounts: &[],
        index: resolution.index,
        arguments,
        wall: resolution.wall,
    };
    registry::run(lab, "resolve_failed", job)?;
    let text = fs::read_to_string(&lock).with_context(|| format!("read `{}`", lock.display()))?;
    Ok(workspace.lock(&text))
}

/// Installs a lock: downloads the sources, compiles the dependencies.
///
/// # Errors
/// `download_failed`, `dependency_build_failed` with Cargo's last lines, `no_toolchain`; and those of [`super::ensure`].
pub fn install(lab: &Lab, environment: &Environment, dir: &Path) -> Result<()> {
    let toolchain = here(&environment.toolchain)?;
    let (workspace, lock) = Workspace::of_lock(&environment.lock).context("read the environment's lock")?;
    let tree = lab.cache.scratch()?;
    write_stubs(tree.path(), &workspace)?;
    write(&tree.path().join(&workspace.directory).join(LOCK), lock)?;
    let settings = json!({
        "directory": workspace.directory,
        "all_features": workspace.all_features,
        "features": workspace.features,
    });
    write(&dir.join("settings.json"), &settings.to_string())?;
    write(&dir.join(LOCK), lock)?;
    for name in ["vendor", "cargo", TARGET.0] {
        let path = dir.join(name);
        fs::create_dir(&path).with_context(|| format!("create `{}`", path.display()))?;
    }
    let workshop = Workshop { lab, toolchain: &toolchain, workspace: &workspace, tree: tree.path(), dir };
    workshop.vendor()?;
    workshop.compile(environment)?;
    remove_members(&dir.join(TARGET.0), &workspace)
}

/// Returns the toolchain itself, or the same version elsewhere on this machine.
fn here(wanted: &Toolchain) -> Result<Toolchain> {
    if wanted.path.exists() {
        return Ok(wanted.clone());
    }
    toolchain::find().filter(|found| found.version == wanted.version).ok_or_else(|| {
        let detail = format!("Rust {} is not on this machine (hint: `rustup toolchain install {0}`)", wanted.version);
        anyhow!(Failure::new(Phase::Build, "no_toolchain", Blame::Infra, detail))
    })
}

/// Writes a workspace's manifests, and empty code for each.
fn write_stubs(tree: &Path, workspace: &Workspace) -> Result<()> {
    for (path, text) in &workspace.manifests {
        let manifest = tree.join(path);
        write(&manifest, text)?;
        let parent = manifest.parent().expect("it is below the tree");
        write(&parent.join("stub_lib.rs"), "")?;
        write(&parent.join("stub_build.rs"), "fn main() {}\n")?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    let parent = path.parent().expect("it is below a directory");
    fs::create_dir_all(parent).with_context(|| format!("create `{}`", parent.display()))?;
    fs::write(path, text).with_context(|| format!("write `{}`", path.display()))
}

/// One installation under way.
struct Workshop<'a> {
    lab: &'a Lab,
    toolchain: &'a Toolchain,
    workspace: &'a Workspace,
    /// Host directory of the workspace without code.
    tree: &'a Path,
    /// Host directory that becomes the environment.
    dir: &'a Path,
}

impl Workshop<'_> {
    fn vendor(&self) -> Result<()> {
        let vendor = format!("{ENVIRONMENT}/vendor");
        let environment = [Mount { host: self.dir.to_owned(), inside: ENVIRONMENT.into(), writable: true }];
        let job = registry::Job {
            toolchain: self.toolchain,
            tree: self.tree,
            directory: &self.workspace.directory,
            mounts: &environment,
            index: Index::Now,
            arguments: &["vendor", "--quiet", "--locked", "--versioned-dirs", &vendor],
            wall: DOWNLOAD_WALL,
        };
        let output = registry::run(self.lab, "download_failed", job)?;
        // Without any dependency there is nothing to say where they are, and nothing at all must be looked up.
        let mut config = output.stdout.text();
        if !config.contains("[source.crates-io]") {
            config.push_str(&format!(
                "\n[source.crates-io]\nreplace-with = \"vendored-sources\"\n[source.vendored-sources]\n\
                 directory = \"{vendor}\"\n"
            ));
        }
        config.push_str(PROFILES);
        write(&self.dir.join("cargo/config.toml"), &config)
    }

    fn compile(&self, environment: &Environment) -> Result<()> {
        let names = self.member_names();
        let mut selections = vec![vec!["--workspace".to_owned()]];
        if names.len() > 1 && names.len() <= MAX_SINGLE_MEMBERS {
            selections.extend(names.iter().map(|name| vec!["-p".to_owned(), name.clone()]));
        }
        for selection in selections {
            let mut argv: Vec<String> = ["sh", "-c", r#"cd "$0" && exec "$@""#].map(String::from).to_vec();
            argv.push(format!("{TREE}/{}", self.workspace.directory));
            argv.push(self.toolchain.path.display().to_string());
            argv.extend(["build", "--tests", "--profile", "test", "--offline"].map(String::from));
            if self.workspace.all_features {
                argv.push("--all-features".to_owned());
            } else {
                let is_selected = |feature: &&String| {
                    let package = feature.split('/').next().unwrap_or_default();
                    selection.len() == 1 || selection[1] == package
                };
                let features: Vec<&str> =
                    self.workspace.features.iter().filter(is_selected).map(String::as_str).collect();
                argv.extend((!features.is_empty()).then(|| format!("--features={}", features.join(","))));
            }
            argv.extend(selection);
            let output = sandbox::run(self.lab.backend, &self.spec(environment), &argv)?;
            registry::check("dependency_build_failed", &output)?;
        }
        Ok(())
    }

    /// Dependencies' build scripts run here: no network.
    fn spec(&self, environment: &Environment) -> Spec<'static> {
        let mount = |host: PathBuf, inside: &str, writable| Mount { host, inside: inside.into(), writable };
        let mut mounts = vec![
            mount(self.tree.to_owned(), TREE, true),
            mount(self.dir.to_owned(), ENVIRONMENT, false),
            mount(self.dir.join(TARGET.0), TARGET.1, true),
        ];
        mounts.extend(uv::mount_of(self.toolchain));
        let limits =
            Limits { wall: COMPILE_WALL, memory_bytes: 8 << 30, address_space_bytes: 64 << 30, ..Limits::default() };
        let env = variables(&self.toolchain.prefix.display().to_string(), &environment.lock);
        Spec { mounts, env, limits, ..Spec::default() }
    }

    fn member_names(&self) -> BTreeSet<String> {
        names(self.workspace)
    }
}

/// Returns the names of a workspace's own packages.
fn names(workspace: &Workspace) -> BTreeSet<String> {
    let tables = workspace.manifests.values().filter_map(|text| text.parse::<toml::Table>().ok());
    tables.filter_map(|table| Some(table.get("package")?.get("name")?.as_str()?.to_owned())).collect()
}

/// Removes what was compiled of the workspace's own packages, and of others of the same names, which costs only time.
fn remove_members(target: &Path, workspace: &Workspace) -> Result<()> {
    let names: BTreeSet<String> = names(workspace);
    let profile = target.join("debug");
    let libraries: BTreeSet<String> =
        names.iter().map(|name| name.replace('-', "_")).chain(["stub_lib".to_owned()]).collect();
    remove(&profile.join(".fingerprint"), |stem| names.contains(stem))?;
    remove(&profile.join("build"), |stem| names.contains(stem))?;
    remove(&profile.join("deps"), |stem| {
        libraries.contains(stem) || stem.strip_prefix("lib").is_some_and(|stem| libraries.contains(stem))
    })?;
    for name in ["incremental", "examples"] {
        let path = profile.join(name);
        if path.exists() {
            fs::remove_dir_all(&path).with_context(|| format!("remove `{}`", path.display()))?;
        }
    }
    // Programs and libraries that Cargo links into the directory itself.
    for entry in entries(&profile)? {
        if entry.file_type()?.is_file() && entry.file_name() != ".cargo-lock" {
            fs::remove_file(entry.path()).with_context(|| format!("remove `{}`", entry.path().display()))?;
        }
    }
    Ok(())
}

/// Removes the entries `<stem>-<hash>[.ending]` of a directory.
fn remove(directory: &Path, is_own: impl Fn(&str) -> bool) -> Result<()> {
    for entry in entries(directory)? {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((stem, _)) = name.rsplit_once('-') else { continue };
        if is_own(stem) {
            let path = entry.path();
            let removed = if entry.file_type()?.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.with_context(|| format!("remove `{}`", path.display()))?;
        }
    }
    Ok(())
}

fn entries(directory: &Path) -> Result<Vec<fs::DirEntry>> {
    match fs::read_dir(directory) {
        Ok(entries) => entries.collect::<io::Result<_>>().with_context(|| format!("list `{}`", directory.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("list `{}`", directory.display())),
    }
}
