//! Cargo with a network, in a sandbox: resolving and downloading. Nothing of a repository or a dependency executes here.
//!
//! The caller's Cargo settings for sources, registries and HTTP reach it, credentials do not.

use std::{env, fs, path::PathBuf, time::Duration};

use anyhow::{Context, Result, anyhow, bail};
use toml::{Table, Value};

use crate::{
    lab::Lab,
    online::{self, Dialect},
    record::{
        environment::Toolchain,
        failure::{Blame, Failure, Phase},
    },
    sandbox::{self, Exit, Limits, Mount, Output, Spec, TREE},
    uv,
};

const HOME_INSIDE: &str = "/opt/cargo-home";
const INDEX_CACHE_INSIDE: &str = "/opt/index-cache";
const SCRIPTS_INSIDE: &str = "/opt/index-scripts";
const DATED_INDEX: &str = include_str!("dated_index.py");
/// What [`DATED_INDEX`] exits with when it does not reach the index.
const UNREACHABLE: i32 = 96;
/// Tables of Cargo's configuration that say how to reach a registry.
const TABLES: [&str; 5] = ["source", "registries", "registry", "http", "net"];

/// Where crates come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// As it is now.
    Now,
    /// As it was at an instant, seconds since 1970.
    Before(i64),
}

/// One call of Cargo in [`TREE`].
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    pub toolchain: &'a Toolchain,
    /// Shown at [`TREE`], writable.
    pub tree: &'a std::path::Path,
    /// Directory of the workspace in the tree.
    pub directory: &'a str,
    pub mounts: &'a [Mount],
    pub index: Index,
    /// What follows `cargo`.
    pub arguments: &'a [&'a str],
    pub wall: Duration,
}

/// Runs Cargo with a network.
///
/// # Errors
/// A [`Failure`] inside the error: of the given `kind` where the command failed by the repository's doing,
/// `no_network`, `disk_full` or `sandbox_lost` where the machine failed; `index_without_history` where the configured
/// index cannot be read as of a day. `Interrupted` on Ctrl-C.
pub fn run(lab: &Lab, kind: &str, job: Job) -> Result<Output> {
    let scratch = lab.cache.scratch()?;
    let settings = Settings::of_caller()?;
    let config = scratch.path().join("config.toml");
    fs::write(&config, settings.tables.to_string()).with_context(|| format!("write `{}`", config.display()))?;
    let script = scratch.path().join("dated_index.py");
    fs::write(&script, DATED_INDEX).with_context(|| format!("write `{}`", script.display()))?;
    let mount = |host: PathBuf, inside: &str, writable| Mount { host, inside: inside.into(), writable };
    let mut mounts = vec![
        mount(job.tree.to_owned(), TREE, true),
        mount(lab.cache.dir("cargo")?, HOME_INSIDE, true),
        mount(config, &format!("{HOME_INSIDE}/config.toml"), false),
        mount(lab.cache.dir("cargo-index")?, INDEX_CACHE_INSIDE, true),
        mount(scratch.path().to_owned(), SCRIPTS_INSIDE, false),
    ];
    mounts.extend(settings.paths.iter().map(|path| Mount {
        host: path.clone(),
        inside: path.clone(),
        writable: false,
    }));
    mounts.extend(uv::mount_of(job.toolchain));
    let mut environment = online::variables(&[]);
    environment.extend(online::certificates(&mut mounts));
    environment.extend(env::vars().filter(|(name, _)| is_registry_setting(name)));
    environment.push(("CARGO_HOME".to_owned(), HOME_INSIDE.to_owned()));
    environment.push(("CARGO_TERM_COLOR".to_owned(), "never".to_owned()));
    mounts.extend(job.mounts.iter().cloned());
    let limits = Limits { wall: job.wall, address_space_bytes: 16 << 30, file_bytes: 8 << 30, ..Limits::default() };
    let spec = Spec { mounts, env: environment, network: true, limits, ..Spec::default() };
    let output = sandbox::run(lab.backend, &spec, &argv(&job, &settings)?)?;
    check(kind, &output)?;
    Ok(output)
}

/// Says whether a variable of the caller's tells Cargo how to reach a registry. Tokens are not among them.
fn is_registry_setting(name: &str) -> bool {
    let is_address = name.starts_with("CARGO_REGISTRIES_") && (name.ends_with("_INDEX") || name.ends_with("_PROTOCOL"));
    name.starts_with("CARGO_HTTP_") || name.starts_with("CARGO_NET_") || is_address
}

fn argv(job: &Job, settings: &Settings) -> Result<Vec<String>> {
    let enter = r#"cd "$0" && exec "$@""#;
    let mut argv: Vec<String> = ["sh", "-c", enter].map(String::from).to_vec();
    argv.push(if job.directory.is_empty() { TREE.to_owned() } else { format!("{TREE}/{}", job.directory) });
    if let Index::Before(cutoff) = job.index {
        let Some(index) = &settings.index else {
            let detail = "the configured replacement of crates.io is no sparse index";
            return Err(anyhow!(Failure::new(Phase::Build, "index_without_history", Blame::Repo, detail)));
        };
        let script = format!("{SCRIPTS_INSIDE}/dated_index.py");
        argv.extend(["/usr/bin/python3", &script, &cutoff.to_string(), index, INDEX_CACHE_INSIDE].map(String::from));
    }
    argv.push(job.toolchain.path.display().to_string());
    argv.extend(job.arguments.iter().map(|argument| (*argument).to_owned()));
    Ok(argv)
}

/// What the caller's Cargo configuration says of registries.
#[derive(Debug, Default)]
struct Settings {
    tables: Table,
    /// Files and directories that the settings name.
    paths: Vec<PathBuf>,
    /// The sparse index that stands for crates.io.
    index: Option<String>,
}

impl Settings {
    fn of_caller() -> Result<Settings> {
        let home = env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
        let files = home.iter().flat_map(|home| [home.join("config.toml"), home.join("config")]);
        let Some(file) = files.into_iter().find(|file| file.is_file()) else { return Ok(Settings::read("")) };
        let text = fs::read_to_string(&file).with_context(|| format!("read `{}`", file.display()))?;
        Ok(Settings::read(&text))
    }

    /// Reads a configuration; one that is no TOML says nothing.
    fn read(text: &str) -> Settings {
        let table: Table = text.parse().unwrap_or_default();
        let tables: Table = table.into_iter().filter(|(name, _)| TABLES.contains(&name.as_str())).collect();
        let mut paths = Vec::new();
        collect_paths(&Value::Table(tables.clone()), &mut paths);
        let source = |name: &str| tables.get("source").and_then(|sources| sources.get(name)?.as_table());
        let replacement = source("crates-io").and_then(|table| table.get("replace-with")?.as_str());
        let index = match replacement {
            None => Some("https://index.crates.io".to_owned()),
            Some(name) => {
                let registry = source(name).and_then(|table| table.get("registry")?.as_str());
                registry.and_then(|url| url.strip_prefix("sparse+")).map(str::to_owned)
            }
        };
        Settings { tables, paths, index }
    }
}

/// Finds existing absolute paths: certificates, local registries.
fn collect_paths(value: &Value, paths: &mut Vec<PathBuf>) {
    match value {
        Value::Table(table) => table.values().for_each(|value| collect_paths(value, paths)),
        Value::String(text) if text.starts_with('/') => {
            let path = PathBuf::from(text);
            if path.exists() && !paths.contains(&path) {
                paths.push(path);
            }
        }
        _ => {}
    }
}

/// Turns anything but success into an error that carries a [`Failure`] or `Interrupted`.
///
/// # Errors
/// As [`online::check`], and `no_network` where the index could not be reached.
pub fn check(kind: &str, output: &Output) -> Result<()> {
    if output.exit == Exit::Code(UNREACHABLE) {
        let text = format!("{}\n{}", output.stdout.text(), output.stderr.text());
        bail!(Failure::new(Phase::Build, "no_network", Blame::Infra, online::tail(&text)));
    }
    online::check(&Dialect { trouble_of_the_machine, tail: online::tail }, kind, output)
}

/// Says by Cargo's messages whether the network or the disk failed, rather than the repository.
fn trouble_of_the_machine(text: &str) -> Option<&'static str> {
    const NETWORK: [&str; 8] = [
        "ould not resolve host",
        "ould not connect to server",
        "Couldn't connect to server",
        "failed to connect to",
        "onnection reset",
        "peration timed out",
        "SSL connect error",
        "Timeout was reached",
    ];
    let of_cargo = ["failed to download", "download of", "failed to get", "failed to fetch", "spurious network error"];
    let is_download = of_cargo.iter().any(|word| text.contains(word));
    if is_download && NETWORK.iter().any(|word| text.contains(word)) {
        return Some("no_network");
    }
    text.contains("No space left on device").then_some("disk_full")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callers_registries_are_passed_on_and_nothing_else() {
        let settings = Settings::read(
            "[source.crates-io]\nreplace-with = 'mirror'\n[source.mirror]\nregistry = 'sparse+https://m.example/index/'\n\
             [http]\ncainfo = '/etc/passwd'\n[build]\nrustflags = ['-C', 'x']\n",
        );
        assert_eq!(settings.index.as_deref(), Some("https://m.example/index/"));
        assert_eq!(settings.paths, [PathBuf::from("/etc/passwd")]);
        assert!(!settings.tables.contains_key("build"));
        assert_eq!(Settings::read("").index.as_deref(), Some("https://index.crates.io"));
        let local = "[source.crates-io]\nreplace-with = 'l'\n[source.l]\ndirectory = '/nowhere'\n";
        assert_eq!(Settings::read(local).index, None);
    }

    #[test]
    fn the_machine_is_blamed_for_network_and_disk_only() {
        let refused = "error: failed to get `serde` as a dependency\nCaused by:\n  [7] Could not connect to server";
        assert_eq!(trouble_of_the_machine(refused), Some("no_network"));
        assert_eq!(trouble_of_the_machine("error: failed to select a version for `serde`"), None);
        assert_eq!(trouble_of_the_machine("No space left on device (os error 28)"), Some("disk_full"));
    }

    #[test]
    fn tokens_stay_with_the_caller() {
        assert!(is_registry_setting("CARGO_REGISTRIES_MINE_INDEX") && is_registry_setting("CARGO_HTTP_CAINFO"));
        assert!(!is_registry_setting("CARGO_REGISTRIES_MINE_TOKEN") && !is_registry_setting("CARGO_REGISTRY_TOKEN"));
    }
}
