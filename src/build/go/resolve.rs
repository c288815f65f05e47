//! Asks the go command, in a sandbox with a network, what a module's packages and tests need.
//!
//! The digests start from nothing, so that the lock holds what is needed and not what was needed once; they must agree
//! with those of the commit's `go.sum`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use jiff::Timestamp;
use serde::Deserialize;

use super::lock::{self, Resolution};
use crate::{
    environments::{
        self,
        go::{self as tools, Job},
    },
    lab::Lab,
    lang::go::MODULES,
    record::{
        environment::{Environment, Recipe, Toolchain},
        failure::{Blame, Failure, Phase},
    },
    sandbox::{ENVIRONMENT, Mount, TREE, overlay::Workspace},
};

const OUT: &str = "/opt/out";
/// Times that pinning a missing requirement may bring up another one.
const MAX_ROUNDS: usize = 6;
/// Releases of one module whose dates are looked at, newest first.
const MAX_RELEASES: usize = 100;
/// Language version of modules that say none: the last that is told apart by `go.mod` for nothing but modules.
const OLD_GO: &str = "1.16";

const INIT: &str = r#"cd "$0" && go mod init "$1" >&2 && cat go.mod"#;
const LOAD: &str = r#"cd "$0" && { test -f go.mod || cp /opt/out/go.mod .; } && exec go list -e -mod=mod \
-modfile=/opt/out/go.mod -deps -test -json=ImportPath,Dir,Module,Error,DepsErrors ./..."#;
const VERSIONS: &str = r#"cd /opt/out && exec go list -m -versions -json "$0""#;
const COMPILE: &str = r#"cd "$0" && exec go test -run='^$' -exec=/bin/true -vet=off "$@""#;

/// What to resolve.
pub struct Order<'a> {
    pub lab: &'a Lab,
    pub toolchain: &'a Toolchain,
    pub workspace: &'a Workspace,
    /// Directory of the module, relative to the tree.
    pub module: &'a str,
    pub manifest: Option<String>,
    /// The commit's `go.sum`.
    pub sums: String,
    /// The module brings its requirements along.
    pub vendored: bool,
    /// Where there is no `go.mod`.
    pub import_path: String,
    /// Directories relative to the module whose packages must resolve.
    pub packages: BTreeSet<String>,
    pub base_time: i64,
    pub wall: Duration,
}

/// An entry of `go list -json`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    import_path: String,
    #[serde(default)]
    dir: String,
    module: Option<Module>,
    error: Option<Trouble>,
    #[serde(default)]
    deps_errors: Option<Vec<Trouble>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Module {
    path: String,
    version: Option<String>,
    replace: Option<Box<Module>>,
    time: Option<String>,
    #[serde(default)]
    versions: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Trouble {
    #[serde(default)]
    import_stack: Option<Vec<String>>,
    #[serde(default)]
    err: String,
}

/// What one load of all packages gave.
struct Loaded {
    manifest: String,
    sums: String,
    packages: Vec<Listed>,
}

/// Resolves a module.
///
/// # Errors
/// `resolve_failed` where a package that the change touches cannot be loaded, `checksum_mismatch`, and the machine's own.
pub fn resolve(order: &Order, recipe: &mut Recipe) -> Result<Resolution> {
    if order.vendored {
        "vendored".clone_into(&mut recipe.rung);
        return Ok(Resolution::default());
    }
    let (mut manifest, rung) = match &order.manifest {
        Some(manifest) => (manifest.clone(), "go_mod"),
        None => (init(order)?, "go_mod_init"),
    };
    rung.clone_into(&mut recipe.rung);
    recipe.sources = vec![lock::join(order.module, "go.mod")];
    for _ in 0..MAX_ROUNDS {
        let loaded = load(order, &manifest)?;
        let missing = missing(order, &manifest, &loaded.manifest);
        if missing.is_empty() {
            check_packages(order, &loaded)?;
            return finish(order, loaded);
        }
        recipe.rung = format!("{rung}_dated");
        for (path, newest) in missing {
            let version = dated(order, &path)?.unwrap_or_else(|| {
                recipe.exceptions.push(format!("{path}={newest}"));
                newest
            });
            recipe.requirements.push(format!("{path} {version}"));
            manifest += &format!("\nrequire {path} {version}\n");
        }
    }
    let detail = format!("requirements that `go.mod` lacks brought up others {MAX_ROUNDS} times: {manifest}");
    Err(anyhow!(Failure::new(Phase::Build, "resolve_failed", Blame::Repo, detail)))
}

/// Returns the `go.mod` that the go command makes, which takes over the lock files of older tools.
fn init(order: &Order) -> Result<String> {
    let output = run(order, None, &[INIT, &directory(order.module), &order.import_path])?;
    let lines = output.lines().filter(|line| !line.starts_with("go "));
    Ok(lines.fold(String::new(), |text, line| text + line + "\n") + "\ngo " + OLD_GO + "\n")
}

fn load(order: &Order, manifest: &str) -> Result<Loaded> {
    let out = order.lab.cache.scratch()?;
    let path = |name: &str| out.path().join(name);
    fs::write(path("go.mod"), manifest).with_context(|| format!("write `{}`", path("go.mod").display()))?;
    let output = run(order, Some(out.path()), &[LOAD, &directory(order.module)])?;
    let packages = documents::<Listed>(&output)?;
    let manifest = fs::read_to_string(path("go.mod")).context("read the resolved go.mod")?;
    // There is none where nothing is required.
    let sums = fs::read_to_string(path("go.sum")).unwrap_or_default();
    Ok(Loaded { manifest, sums, packages })
}

fn documents<'a, T: Deserialize<'a>>(text: &'a str) -> Result<Vec<T>> {
    serde_json::Deserializer::from_str(text).into_iter().collect::<Result<_, _>>().context("read what `go list` prints")
}

/// Returns the requirements that the go command added by taking the newest release, with those.
fn missing(order: &Order, before: &str, after: &str) -> BTreeMap<String, String> {
    let known = lock::requirements(before);
    // From Go 1.17 on, indirect requirements are written out, at versions that others ask for.
    let dates_all = order.manifest.is_none();
    let direct = |path: &str| {
        let is_of = |line: &&str| line.split_whitespace().any(|word| word == path);
        !after.lines().find(is_of).is_some_and(|line| line.ends_with("// indirect"))
    };
    let added = lock::requirements(after).into_iter().filter(|(path, _)| !known.contains_key(path));
    added.filter(|(path, _)| dates_all || direct(path)).collect()
}

/// Returns the newest release of a module on the base commit's date.
fn dated(order: &Order, path: &str) -> Result<Option<String>> {
    let out = order.lab.cache.scratch()?;
    let manifest = out.path().join("go.mod");
    fs::write(&manifest, "module curate.invalid/dates\n").with_context(|| format!("write `{}`", manifest.display()))?;
    let output = run(order, Some(out.path()), &[VERSIONS, path])?;
    let versions = documents::<Module>(&output)?.into_iter().next().and_then(|module| module.versions);
    let releases: Vec<String> =
        versions.unwrap_or_default().into_iter().filter(|version| !version.contains('-')).collect();
    let newest = releases.iter().rev().take(MAX_RELEASES).map(|version| format!("{path}@{version}"));
    let script = String::from(r#"cd /opt/out && exec go list -m -json "$@""#);
    let arguments: Vec<String> = [script, String::from("go")].into_iter().chain(newest).collect();
    if arguments.len() == 2 {
        return Ok(None);
    }
    let output = run(order, Some(out.path()), &arguments.iter().map(String::as_str).collect::<Vec<_>>())?;
    let is_old_enough = |module: &Module| {
        let time = module.time.as_deref().and_then(|time| time.parse::<Timestamp>().ok());
        time.is_some_and(|time| time.as_second() <= order.base_time)
    };
    Ok(documents::<Module>(&output)?.into_iter().find(is_old_enough).and_then(|module| module.version))
}

fn check_packages(order: &Order, loaded: &Loaded) -> Result<()> {
    let name = |path: &str| path.split(' ').next().unwrap_or_default().to_owned();
    let directories: BTreeSet<String> =
        order.packages.iter().map(|package| lock::join(&directory(order.module), package)).collect();
    let touched: BTreeSet<String> = loaded
        .packages
        .iter()
        .filter(|listed| directories.contains(listed.dir.trim_end_matches('/')))
        .map(|listed| name(&listed.import_path))
        .collect();
    let mut errors = BTreeSet::new();
    for listed in &loaded.packages {
        for trouble in listed.error.iter().chain(listed.deps_errors.iter().flatten()) {
            if let failure @ Failure { blame: Blame::Infra, .. } = tools::failure("resolve_failed", &trouble.err) {
                return Err(anyhow!(failure));
            }
            let stack = trouble.import_stack.iter().flatten();
            let is_touched = |path: &String| {
                let path = name(path);
                touched.contains(&path) || touched.contains(path.trim_end_matches("_test").trim_end_matches(".test"))
            };
            if is_touched(&listed.import_path) || stack.into_iter().any(is_touched) {
                errors.insert(trouble.err.clone());
            }
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    let detail = errors.into_iter().collect::<Vec<_>>().join("\n");
    Err(anyhow!(Failure::new(Phase::Build, "resolve_failed", Blame::Repo, detail)))
}

fn finish(order: &Order, loaded: Loaded) -> Result<Resolution> {
    let digests = lock::digests(&loaded.sums);
    let known = lock::digests(&order.sums);
    let mut resolution = Resolution { manifest: loaded.manifest, sums: loaded.sums, ..Resolution::default() };
    for ((path, version), digest) in &digests {
        if let Some(wanted) = known.get(&(path.clone(), version.clone())).filter(|wanted| *wanted != digest) {
            let detail = format!("{path} {version} has the digest {digest}; go.sum says {wanted}");
            return Err(anyhow!(Failure::new(Phase::Build, "checksum_mismatch", Blame::Repo, detail)));
        }
        if let Some(version) = version.strip_suffix("/go.mod") {
            resolution.modules.insert(format!("go.mod {path} {version} {digest}"));
        }
    }
    for Listed { import_path, module, .. } in loaded.packages {
        let Some(Module { path, version: Some(version), replace, .. }) = module else { continue };
        let (source, source_version) = match replace.map(|module| *module) {
            None => (path.clone(), version.clone()),
            Some(Module { path: source, version: Some(source_version), .. }) => {
                resolution.packages.insert(format!("replace {path} {version} {source} {source_version}"));
                (source, source_version)
            }
            // A directory of the tree
            Some(Module { version: None, .. }) => continue,
        };
        if let Some(digest) = digests.get(&(source.clone(), source_version.clone())) {
            resolution.modules.insert(format!("module {source} {source_version} {digest}"));
        }
        if !import_path.contains(' ') && !import_path.ends_with(".test") {
            resolution.packages.insert(format!("package {import_path}"));
        }
    }
    Ok(resolution)
}

fn directory(module: &str) -> String {
    if module.is_empty() { TREE.to_owned() } else { format!("{TREE}/{module}") }
}

/// Runs a script that is followed by its arguments, the first of which is `$0`, and returns what it prints.
fn run(order: &Order, out: Option<&Path>, script: &[&str]) -> Result<String> {
    let (shared, setting) = tools::shared_modules(order.lab)?;
    let mut mounts = vec![shared];
    mounts.extend(out.map(|host| Mount { host: host.to_owned(), inside: OUT.into(), writable: true }));
    let job = Job {
        toolchain: order.toolchain,
        workspace: Some(order.workspace),
        mounts,
        env: vec![setting],
        argv: ["sh", "-c"].iter().chain(script).map(|word| (*word).to_owned()).collect(),
        network: true,
        wall: order.wall,
    };
    Ok(tools::run(order.lab, "resolve_failed", &job)?.stdout.text())
}

/// Compiles packages and their tests without running any of it.
///
/// # Errors
/// `compile_failed`, and the machine's own.
pub fn compile(
    lab: &Lab,
    environment: &Environment,
    workspace: &Workspace,
    module: &str,
    packages: &BTreeSet<String>,
    wall: Duration,
) -> Result<()> {
    let host = environments::ensure(lab, environment).map_err(|failure| anyhow!(failure))?;
    let mut argv = ["sh", "-c", COMPILE, &directory(module)].map(String::from).to_vec();
    let vendored = environment.lock.is_empty();
    argv.extend((!vendored).then(|| "-mod=mod".to_owned()));
    argv.extend(packages.iter().map(|package| format!("./{package}")));
    let job = Job {
        toolchain: &environment.toolchain,
        workspace: Some(workspace),
        mounts: vec![Mount { host, inside: ENVIRONMENT.into(), writable: false }],
        env: vec![("GOMODCACHE".to_owned(), MODULES.to_owned())],
        argv,
        network: false,
        wall,
    };
    tools::run(lab, "compile_failed", &job).map(drop)
}
