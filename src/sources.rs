//! PATH, URL or NAME → a repository on this machine.
//!
//! URLs are mirrored into the cache by the `git` program, which sees no configuration but ours and runs no hooks. Names
//! are manifests in `repos/` of the working directory; a manifest may carry overrides that later stages read.

use std::{
    env,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{
    cache::Cache,
    git::{Hinted, Repo},
    history,
    interrupt::Interrupted,
    process::{self, Command, Exit},
    record::{environment::Runner, id::Digest},
};

/// Directory of the manifests, below the working directory.
const MANIFESTS: &str = "repos";
/// Longest time a clone or a fetch may take.
const TRANSFER_LIMIT: Duration = Duration::from_hours(2);
/// What `git` sees of our environment: how to reach the network, and nothing that configures it.
const PASSED_ON: [&str; 20] = [
    "PATH",
    "HOME",
    "USER",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "CURL_CA_BUNDLE",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "REQUESTS_CA_BUNDLE",
    "GIT_PROXY_SSL_CAINFO",
];

/// A repository to mine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// `owner/name` where it can be told, else the directory's name.
    pub name: String,
    /// What was given: path (made absolute), URL (without credentials), or name. [`resolve`] accepts it again.
    pub given: String,
    /// Where its objects are.
    pub path: PathBuf,
    /// Overrides, where the repository was given by name.
    pub manifest: Option<Manifest>,
}

/// What a manifest says of a repository's environment, where inference needs help.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Manifest {
    /// Python version, e.g. `3.9`.
    pub python: Option<String>,
    /// Requirements instead of the inferred ones.
    pub requirements: Vec<String>,
    pub runner: Option<Runner>,
}

/// `repos/<name>.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestFile {
    repository: Origin,
    #[serde(default)]
    environment: Manifest,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Origin {
    name: String,
    url: Option<String>,
    /// A directory below `repos/`, see [`crate::history`].
    history: Option<PathBuf>,
}

/// Finds a repository: an existing path, a URL (mirrored into the cache by `git clone --mirror`, fetched again only
/// with `refresh`), or a name from `repos/<name>.toml` (a URL, or a bundled history that is rebuilt in the cache).
///
/// # Errors
/// Nothing is there, or it cannot be fetched; the message names the thing and the next step.
pub fn resolve(cache: &Cache, given: &str, refresh: bool) -> Result<Source> {
    if is_url(given) {
        return from_url(cache, given, refresh);
    }
    match fs::canonicalize(given) {
        Ok(path) => from_path(&path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => from_name(cache, Path::new(MANIFESTS), given, refresh),
        Err(error) => Err(error).with_context(|| format!("open repository `{given}`")),
    }
}

fn from_path(path: &Path) -> Result<Source> {
    let repo = Repo::open(path)?;
    let given = path.to_str().with_context(|| format!("use `{}`: its path is not UTF-8", path.display()))?.to_owned();
    let name = repo.origin_url().and_then(|url| name_in_url(&url)).unwrap_or_else(|| directory_name(path));
    Ok(Source { name, given, path: path.to_owned(), manifest: None })
}

fn from_url(cache: &Cache, given: &str, refresh: bool) -> Result<Source> {
    let path = mirror(cache, given, refresh)?;
    let url = without_credentials(given);
    let name = name_in_url(&url).unwrap_or_else(|| slug(&url));
    Ok(Source { name, given: url, path, manifest: None })
}

fn from_name(cache: &Cache, manifests: &Path, given: &str, refresh: bool) -> Result<Source> {
    let file = read_manifest(manifests, given)?;
    let path = match (&file.repository.url, &file.repository.history) {
        (Some(url), None) => mirror(cache, url, refresh)?,
        (None, Some(history)) => rebuilt(cache, &manifests.join(history), given)?,
        (Some(_), Some(_)) | (None, None) => {
            bail!("manifest `{given}` must have one of `url` and `history`")
        }
    };
    Ok(Source { name: file.repository.name, given: given.to_owned(), path, manifest: Some(file.environment) })
}

fn read_manifest(manifests: &Path, given: &str) -> Result<ManifestFile> {
    let is_name = !given.is_empty() && given.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    let path = manifests.join(format!("{given}.toml"));
    if !is_name || !path.is_file() {
        let known = known_names(manifests);
        let hint = match known.as_slice() {
            [] => "give the path or the URL of a repository".to_owned(),
            names => format!("give a path, a URL, or one of the known names: {}", names.join(", ")),
        };
        return Err(Hinted::error("there is no such path or name", hint))
            .with_context(|| format!("find repository `{given}`"));
    }
    let text = fs::read_to_string(&path).with_context(|| format!("read manifest `{}`", path.display()))?;
    toml::from_str(&text).with_context(|| format!("read manifest `{}`", path.display()))
}

fn known_names(manifests: &Path) -> Vec<String> {
    // Without the directory no name is known.
    let Ok(entries) = fs::read_dir(manifests) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str().and_then(|name| name.strip_suffix(".toml")).map(str::to_owned))
        .collect();
    names.sort();
    names
}

fn rebuilt(cache: &Cache, history: &Path, given: &str) -> Result<PathBuf> {
    let rebuild = || format!("rebuild the history of `{given}`");
    let digest = history::digest(history).with_context(rebuild)?;
    let name = format!("{}-{}.git", slug(given), digest.short());
    cache.publish("mirrors", &name, |dir| history::rebuild(history, dir).map(drop)).with_context(rebuild)
}

fn mirror(cache: &Cache, url: &str, refresh: bool) -> Result<PathBuf> {
    let plain = without_credentials(url);
    let name = format!("{}-{}.git", slug(&plain), Digest::of(&[plain.as_bytes()]).short());
    let mut is_new = false;
    let path = cache.publish("mirrors", &name, |dir| {
        is_new = true;
        let target = dir.as_os_str().to_owned();
        git(&["clone", "--mirror", "--quiet", "--", url].map(OsString::from), Some(target))
            .with_context(|| format!("clone `{plain}`"))
    })?;
    if refresh && !is_new {
        let directory = [OsString::from("--git-dir"), path.as_os_str().to_owned()];
        let fetch = ["fetch", "--prune", "--quiet", "--", url, "+refs/*:refs/*"].map(OsString::from);
        git(&[directory.as_slice(), &fetch].concat(), None).with_context(|| format!("fetch `{plain}`"))?;
    }
    Ok(path)
}

/// Runs the `git` program with no configuration but ours.
fn git(arguments: &[OsString], last: Option<OsString>) -> Result<()> {
    let settings = ["core.hooksPath=/dev/null", "core.fsmonitor=false", "protocol.ext.allow=never", "gc.auto=0"];
    let mut argv = vec![OsString::from("git")];
    argv.extend(settings.iter().flat_map(|setting| [OsString::from("-c"), OsString::from(setting)]));
    argv.extend_from_slice(arguments);
    argv.extend(last);
    let mut variables: Vec<(OsString, OsString)> =
        PASSED_ON.iter().filter_map(|name| Some((OsString::from(name), env::var_os(name)?))).collect();
    let fixed = [
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_ASKPASS", "true"),
        ("GIT_SSH_COMMAND", "ssh -o BatchMode=yes"),
        ("LC_ALL", "C"),
    ];
    variables.extend(fixed.map(|(name, value)| (name.into(), value.into())));
    let finished = process::run(&Command {
        argv,
        env: variables,
        cwd: None,
        stdin: Vec::new(),
        wall: TRANSFER_LIMIT,
        max_output_bytes: 1 << 16,
    })
    .context("run `git`; it must be installed to fetch URLs")?;
    match finished.exit {
        Exit::Code(0) => Ok(()),
        Exit::Interrupted => Err(Interrupted.into()),
        Exit::TimedOut => bail!("it took longer than {} minutes", TRANSFER_LIMIT.as_secs() / 60),
        Exit::Code(_) | Exit::Signal(_) => {
            let text = finished.stderr.text();
            let says_why = |line: &&str| line.starts_with("fatal:") || line.starts_with("error:");
            let last = text.lines().rev().find(|line| !line.trim().is_empty());
            let line = text.lines().find(says_why).or(last).unwrap_or("git said nothing");
            let hint =
                "check the address and the network; a private repository must be cloned by hand and given as a path";
            Err(Hinted::error(line.trim(), hint))
        }
    }
}

/// Says whether a text is a URL or git's short form `host:path` of one.
fn is_url(given: &str) -> bool {
    if given.contains("://") {
        return true;
    }
    match given.split_once(':') {
        Some((host, path)) => !host.is_empty() && !host.contains('/') && !path.is_empty() && !Path::new(given).exists(),
        None => false,
    }
}

/// Removes `user:password@` from a URL; the user of an SSH address stays.
fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) if scheme == "ssh" => {
            let user = rest[..at].split(':').next().unwrap_or_default();
            format!("{scheme}://{user}{}", &rest[at..])
        }
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => url.to_owned(),
    }
}

/// Returns `owner/name` of a URL on any host; nothing where the URL is a path of this machine.
fn name_in_url(url: &str) -> Option<String> {
    let path = match url.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => rest.split_once('/')?.1,
        None => match url.split_once(':') {
            Some((host, path)) if !host.contains('/') => path,
            Some(_) | None => return None,
        },
    };
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/');
    let mut parts = path.rsplit('/');
    let (name, owner) = (parts.next()?, parts.next()?);
    (!name.is_empty() && !owner.is_empty()).then(|| format!("{owner}/{name}"))
}

fn directory_name(path: &Path) -> String {
    let named = if path.file_name().is_some_and(|name| name == ".git") { path.parent().unwrap_or(path) } else { path };
    let name = named.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.strip_suffix(".git").filter(|stem| !stem.is_empty()).map_or(name.clone(), str::to_owned)
}

/// Returns the readable part of a mirror's directory name.
fn slug(url: &str) -> String {
    let name = name_in_url(url).unwrap_or_else(|| directory_name(Path::new(url)));
    let slug: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).take(80).collect();
    if slug.is_empty() { "repository".to_owned() } else { slug }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_urls_of_any_host() {
        for (url, expected) in [
            ("https://github.com/mahmoud/boltons", Some("mahmoud/boltons")),
            ("https://gitlab.example.org/group/sub/name.git/", Some("sub/name")),
            ("git@github.com:owner/name.git", Some("owner/name")),
            ("ssh://git@host:22/owner/name", Some("owner/name")),
            ("https://host/name", None),
            ("file:///srv/owner/name", None),
            ("/srv/owner/name", None),
            ("../name", None),
        ] {
            assert_eq!(name_in_url(url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn credentials_are_not_kept() {
        assert_eq!(without_credentials("https://me:secret@host/o/n"), "https://host/o/n");
        assert_eq!(without_credentials("https://token@host/o/n@v"), "https://host/o/n@v");
        assert_eq!(without_credentials("ssh://git:x@host/o/n"), "ssh://git@host/o/n");
        assert_eq!(without_credentials("https://host/o/n"), "https://host/o/n");
        assert_eq!(without_credentials("git@host:o/n"), "git@host:o/n");
    }

    #[test]
    fn urls_are_told_from_paths_and_names() {
        for url in ["https://h/o/n", "file:///x", "git@h:o/n", "h:o/n"] {
            assert!(is_url(url), "{url}");
        }
        for other in ["/x/y", "./a:b", "demo", "owner/name", ":x", "x:"] {
            assert!(!is_url(other), "{other}");
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("demo.toml"), "").unwrap();
        let cache = Cache::at(&dir.path().join("cache")).unwrap();
        for given in ["dmeo", "owner/name", "../demo", ""] {
            let error = from_name(&cache, dir.path(), given, false).unwrap_err();
            assert!(format!("{error:#}").contains("no such path or name"), "{error:#}");
            assert!(error.downcast_ref::<Hinted>().unwrap().hint.contains("demo"));
        }
    }

    #[test]
    fn a_bundled_history_is_rebuilt_once() {
        let dir = tempfile::tempdir().unwrap();
        let manifest = "[repository]\nname = \"example/demo\"\nhistory = \"demo\"\n\
            [environment]\npython = \"3.11\"\nrunner = \"pytest\"\n";
        let history = "[[commit]]\nid = \"a\"\nmessage = \"A\"\ndate = \"2024-03-01T12:00:00Z\"\n";
        fs::create_dir_all(dir.path().join("demo/a")).unwrap();
        fs::write(dir.path().join("demo.toml"), manifest).unwrap();
        fs::write(dir.path().join("demo/history.toml"), history).unwrap();
        fs::write(dir.path().join("demo/a/x.py"), "x\n").unwrap();
        let cache = Cache::at(&dir.path().join("cache")).unwrap();
        let first = from_name(&cache, dir.path(), "demo", false).unwrap();
        assert_eq!(first, from_name(&cache, dir.path(), "demo", true).unwrap());
        assert_eq!((first.name.as_str(), first.given.as_str()), ("example/demo", "demo"));
        assert_eq!(first.manifest.as_ref().unwrap().python.as_deref(), Some("3.11"));
        fs::write(dir.path().join("demo/a/x.py"), "y\n").unwrap();
        assert_ne!(first.path, from_name(&cache, dir.path(), "demo", false).unwrap().path);
        fs::write(dir.path().join("demo.toml"), manifest.replace("python", "pyhton")).unwrap();
        let error = from_name(&cache, dir.path(), "demo", false).unwrap_err();
        assert!(format!("{error:#}").contains("pyhton"));
    }
}
