//! `npm`, run in a sandbox that has a network.
//!
//! Of the caller's settings the registry, proxies and certificates reach it, credentials in files do not. What is
//! resolved or installed, this module does not know.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};

use super::toolchain::npm_of;
use crate::{
    lab::Lab,
    online::{self, Dialect},
    record::environment::Toolchain,
    sandbox::{self, Limits, Mount, Spec, TREE},
};

/// Variables of the caller's environment that npm may need to reach a registry, and nothing else.
const PASSED: [&str; 6] = [
    "NPM_CONFIG_REGISTRY",
    "npm_config_registry",
    "NPM_CONFIG_STRICT_SSL",
    "npm_config_strict_ssl",
    "NPM_CONFIG_FETCH_RETRIES",
    "npm_config_fetch_retries",
];
/// Packages that would download programs of hundreds of megabytes that no test without a network uses.
const SETTINGS: [(&str, &str); 10] = [
    ("npm_config_cache", CACHE_INSIDE),
    ("npm_config_update_notifier", "false"),
    ("npm_config_audit", "false"),
    ("npm_config_fund", "false"),
    ("npm_config_loglevel", "error"),
    ("npm_config_progress", "false"),
    ("PUPPETEER_SKIP_DOWNLOAD", "1"),
    ("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1"),
    ("CYPRESS_INSTALL_BINARY", "0"),
    ("HUSKY", "0"),
];
const CACHE_INSIDE: &str = "/opt/npm-cache";
const MAX_DETAIL_BYTES: usize = 2_000;

/// One call of npm.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    pub toolchain: &'a Toolchain,
    /// Host directory with the `package.json`; shown where the tree is when tests run.
    pub dir: &'a Path,
    /// What follows `npm`.
    pub arguments: Vec<String>,
    pub wall: Duration,
}

/// Runs npm with a network, its cache writable.
///
/// # Errors
/// A `Failure` inside the error: the `kind` given where the command failed by the repository's doing, `no_network`,
/// `disk_full` or `sandbox_lost` where the machine failed. `Interrupted` on Ctrl-C.
pub fn run(lab: &Lab, kind: &str, job: &Job) -> Result<()> {
    let npm = npm_of(job.toolchain).context("find npm beside Node.js")?;
    let mut mounts = vec![
        Mount { host: job.dir.to_owned(), inside: TREE.into(), writable: true },
        Mount { host: lab.cache.dir("npm")?, inside: CACHE_INSIDE.into(), writable: true },
    ];
    let prefix = &job.toolchain.prefix;
    if !prefix.starts_with("/usr") {
        mounts.push(Mount { host: prefix.clone(), inside: prefix.clone(), writable: false });
    }
    let mut environment = passed_on(&mut mounts);
    environment.extend(SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())));
    environment.push(("PATH".to_owned(), format!("{}/bin:/usr/local/bin:/usr/bin:/bin", prefix.display())));
    let limits = Limits {
        wall: job.wall,
        memory_bytes: 8 << 30,
        address_space_bytes: 256 << 30,
        file_bytes: 4 << 30,
        ..Limits::default()
    };
    let spec = Spec { mounts, env: environment, network: true, limits, ..Spec::default() };
    let words = [job.toolchain.path.display().to_string(), npm.display().to_string()];
    let enter = ["sh", "-c", "cd \"$0\" && exec \"$@\"", TREE].map(str::to_owned);
    let argv: Vec<String> = enter.into_iter().chain(words).chain(job.arguments.iter().cloned()).collect();
    let output = sandbox::run(lab.backend, &spec, &argv)?;
    online::check(&Dialect { trouble_of_the_machine, tail }, kind, &output)
}

/// Returns npm's own error code in its output (`ETARGET`, `ERESOLVE`), not what install scripts print.
pub fn error_code(text: &str) -> Option<&str> {
    let codes = |line: &'_ str| -> Option<usize> {
        ["npm error code ", "npm ERR! code "].iter().find(|head| line.starts_with(**head)).map(|head| head.len())
    };
    text.lines().find_map(|line| codes(line).map(|at| line[at..].trim()))
}

/// Says by npm's error code whether the network or the disk failed, rather than the repository.
fn trouble_of_the_machine(text: &str) -> Option<&'static str> {
    match error_code(text)? {
        "ENOTFOUND"
        | "EAI_AGAIN"
        | "ECONNREFUSED"
        | "ECONNRESET"
        | "ETIMEDOUT"
        | "ENETUNREACH"
        | "EHOSTUNREACH"
        | "ERR_SOCKET_TIMEOUT"
        | "FETCH_ERROR"
        | "E408"
        | "E425"
        | "E429"
        | "E500"
        | "E502"
        | "E503"
        | "E504"
        | "UNABLE_TO_GET_ISSUER_CERT_LOCALLY"
        | "SELF_SIGNED_CERT_IN_CHAIN" => Some("no_network"),
        "ENOSPC" | "EDQUOT" => Some("disk_full"),
        _ => None,
    }
}

/// Returns the errors that npm names, else the last lines.
fn tail(text: &str) -> String {
    let is_error = |line: &&str| line.starts_with("npm error") || line.starts_with("npm ERR!");
    let is_log = |line: &&str| line.contains("A complete log of this run");
    let mut kept: String = text.lines().filter(is_error).filter(|line| !is_log(line)).collect::<Vec<_>>().join("\n");
    if kept.is_empty() {
        return online::tail(text);
    }
    kept.truncate(kept.floor_char_boundary(MAX_DETAIL_BYTES));
    kept
}

/// Returns the registry, proxy and certificate settings of the caller; certificates are mounted where needed.
fn passed_on(mounts: &mut Vec<Mount>) -> Vec<(String, String)> {
    let mut passed = online::variables(&PASSED);
    if online::set("NPM_CONFIG_REGISTRY").or_else(|| online::set("npm_config_registry")).is_none() {
        let home = online::set("HOME").map(|home| PathBuf::from(home).join(".npmrc"));
        let file = online::set("NPM_CONFIG_USERCONFIG")
            .or_else(|| online::set("npm_config_userconfig"))
            .map(PathBuf::from)
            .or(home);
        // A file that is not there sets nothing.
        let text = file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
        passed.extend(registry_of(&text).map(|url| ("npm_config_registry".to_owned(), url)));
    }
    let certificates = ["NODE_EXTRA_CA_CERTS", "NPM_CONFIG_CAFILE", "npm_config_cafile", "SSL_CERT_FILE"];
    let host =
        certificates.iter().find_map(|name| online::set(name)).and_then(|path| Path::new(&path).canonicalize().ok());
    if let Some(host) = host {
        let inside = format!("{}/extra.pem", online::CERTIFICATES);
        passed.push(("NODE_EXTRA_CA_CERTS".to_owned(), inside.clone()));
        mounts.push(Mount { host, inside: inside.into(), writable: false });
    }
    passed
}

/// Returns the registry that an `.npmrc` names, without a user and password in it.
fn registry_of(npmrc: &str) -> Option<String> {
    let values = npmrc.lines().filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == "registry").then(|| value.trim().trim_matches('"'))
    });
    let url = values.fold(None, |_, value| Some(value)).filter(|url| url.starts_with("http"))?;
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split('/').next()?;
    let bare = host.rsplit_once('@').map_or(host, |(_, host)| host);
    Some(format!("{scheme}://{bare}{}", &rest[host.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_blamed_for_network_and_disk_only() {
        assert_eq!(trouble_of_the_machine("npm error code ENOTFOUND\nnpm error errno"), Some("no_network"));
        assert_eq!(trouble_of_the_machine("npm ERR! code ENOSPC"), Some("disk_full"));
        assert_eq!(trouble_of_the_machine("npm error code ETARGET"), None);
        assert_eq!(
            trouble_of_the_machine("npm error command failed\nnpm error code 1\nnpm error code ENOTFOUND"),
            None
        );
        assert_eq!(trouble_of_the_machine("install.js: code ENOTFOUND"), None);
    }

    #[test]
    fn credentials_of_a_file_stay_there() {
        let file = "//x.example/:_authToken=secret\nregistry = https://me:secret@x.example/npm/\n";
        assert_eq!(registry_of(file).as_deref(), Some("https://x.example/npm/"));
        assert_eq!(registry_of("@a:registry=https://y.example/"), None);
    }

    #[test]
    fn a_failure_is_told_by_what_npm_says() {
        let text = "noise\nnpm error code ETARGET\nnpm error notarget No match\nnpm error A complete log of this run";
        assert_eq!(tail(text), "npm error code ETARGET\nnpm error notarget No match");
    }
}
