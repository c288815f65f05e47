//! `uv`: found on the machine or provisioned, pinned and verified, and run in a sandbox that has a network.
//!
//! What is resolved or installed, this module does not know. It owns the binary, its cache, the few variables of the
//! caller's environment that reach it, and the difference between a network's failure and a repository's.

use std::{
    env, fs,
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use regex::Regex;
use sha2::{Digest as _, Sha256};

use crate::{
    cache::Cache,
    lab::Lab,
    online::{self, Dialect},
    process,
    record::{
        environment::Toolchain,
        failure::{DISK_FULL, is_full_disk},
    },
    sandbox::{self, Limits, Mount, Output, Spec, overlay::Workspace},
};

/// The version that is provisioned.
const VERSION: &str = "0.13.9";
/// The oldest that is accepted from `PATH`: earlier ones have no `--exclude-newer-package`.
const OLDEST: (u64, u64) = (0, 9);

/// Wheels of [`VERSION`] by machine architecture, with their SHA-256.
const WHEELS: [(&str, &str, &str); 2] = [
    (
        "x86_64",
        "uv-0.13.9-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
    ),
    (
        "aarch64",
        "uv-0.13.9-py3-none-manylinux_2_28_aarch64.whl",
        "ecb6028d79dc96fbeafffe5c8af62a7099487ebc05a701e76714eebcffd06375",
    ),
];

/// Variables of the caller's environment that uv may need to reach an index, and nothing else.
const PASSED: [&str; 12] = [
    "UV_INDEX",
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_INDEX_STRATEGY",
    "UV_INSECURE_HOST",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
    "UV_HTTP_TIMEOUT",
    "UV_CONCURRENT_DOWNLOADS",
    "UV_HTTP_RETRIES",
];

const INSIDE: &str = "/opt/uv";
const CACHE_INSIDE: &str = "/opt/uv-cache";

/// Returns a usable uv: the real program on `PATH` if it is new enough, else the pinned one from the cache, downloaded
/// from the package index when it is not there yet.
///
/// # Errors
/// There is none and none can be downloaded; the message says what to do.
pub fn find(cache: &Cache) -> Result<PathBuf> {
    if let Some(path) = on_path() {
        return Ok(path);
    }
    let dir = cache.publish("tools", &format!("uv-{VERSION}"), |dir| -> Result<()> {
        download(dir).map_err(|error| {
            let hint = next_step(&format!("{error:#}"));
            error.context(format!("provision uv {VERSION} (hint: {hint})"))
        })
    })?;
    Ok(dir.join("uv"))
}

/// Returns what to do about a download that failed.
fn next_step(error: &str) -> &'static str {
    if is_full_disk(error) {
        "free some space on the disk of the cache, `curate cache gc` helps"
    } else {
        "install uv, or make the index reachable"
    }
}

fn on_path() -> Option<PathBuf> {
    let candidates = env::split_paths(&env::var_os("PATH")?).map(|dir| dir.join("uv")).collect::<Vec<_>>();
    let real = candidates.into_iter().filter(|path| is_program(path)).filter_map(|path| path.canonicalize().ok());
    real.into_iter().find(|path| version(path).is_some_and(|version| version >= OLDEST))
}

/// Says whether a path is a program of its own: version managers put scripts of the same name on `PATH`.
fn is_program(path: &Path) -> bool {
    let mut magic = [0; 4];
    fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}

fn version(uv: &Path) -> Option<(u64, u64)> {
    let command = process::Command {
        argv: vec![uv.into(), "--version".into()],
        env: Vec::new(),
        cwd: None,
        stdin: Vec::new(),
        wall: Duration::from_secs(20),
        max_output_bytes: 4096,
    };
    // A program that cannot be started is not a usable uv.
    let text = process::run(&command).ok()?.stdout.text();
    let mut numbers = text.split_whitespace().nth(1)?.split('.').map_while(|part| part.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

fn download(dir: &Path) -> Result<()> {
    let (_, wheel, digest) = WHEELS
        .into_iter()
        .find(|(machine, _, _)| *machine == env::consts::ARCH)
        .with_context(|| format!("find a wheel of uv for {}", env::consts::ARCH))?;
    // Fails only if a provider was installed before, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::blocking::Client::builder()
        .timeout(Duration::from_mins(5))
        .user_agent(concat!("curate/", env!("CARGO_PKG_VERSION")))
        .build()
        .context("set up an HTTP client")?;
    let index = format!("{}/uv/", index_url().trim_end_matches('/'));
    let page = client
        .get(&index)
        .header("Accept", "application/vnd.pypi.simple.v1+json, text/html;q=0.5")
        .send()
        .and_then(reqwest::blocking::Response::error_for_status)
        .with_context(|| format!("read `{}`", without_credentials(&index)))?;
    let base = page.url().clone();
    let link = link_of(&page.text().context("read the index")?, wheel)
        .with_context(|| format!("find `{wheel}` at `{}`", without_credentials(&index)))?;
    let url = base.join(&link).with_context(|| format!("understand the link `{link}`"))?;
    let bytes = client
        .get(url.clone())
        .send()
        .and_then(reqwest::blocking::Response::error_for_status)
        .and_then(reqwest::blocking::Response::bytes)
        .with_context(|| format!("download `{}`", without_credentials(url.as_str())))?;
    let found = Sha256::digest(&bytes).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    if found != digest {
        bail!("trust `{wheel}`: its SHA-256 is {found}, not {digest}");
    }
    unpack(&bytes, &dir.join("uv"))
}

/// Returns the configured index (simple API).
fn index_url() -> String {
    let variables = ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"];
    let set = variables.into_iter().filter_map(|name| env::var(name).ok()).find(|url| !url.trim().is_empty());
    set.unwrap_or_else(|| String::from("https://pypi.org/simple"))
}

fn without_credentials(url: &str) -> String {
    static USER: LazyLock<Regex> = LazyLock::new(|| Regex::new("://[^/@]*@").expect("a valid expression"));
    USER.replace(url, "://").into_owned()
}

/// Returns the link to a file from an index page in either form, JSON (PEP 691) or HTML (PEP 503).
fn link_of(page: &str, file: &str) -> Option<String> {
    if let Ok(json) = serde_json::from_str::<serde_json::Value>(page) {
        let files = json.get("files")?.as_array()?;
        let found = files.iter().find(|entry| entry.get("filename").and_then(|name| name.as_str()) == Some(file))?;
        return found.get("url")?.as_str().map(String::from);
    }
    let anchor = format!(r##"href\s*=\s*"([^"#]*{}[^"]*)""##, regex::escape(file));
    let found = Regex::new(&anchor).ok()?.captures(page)?.get(1)?.as_str().replace("&amp;", "&");
    Some(found)
}

/// Writes the `uv` program out of its wheel.
fn unpack(wheel: &[u8], target: &Path) -> Result<()> {
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(wheel)).context("open the wheel of uv")?;
    let name = archive
        .file_names()
        .filter_map(Result::ok)
        .find(|name| name.ends_with(".data/scripts/uv"))
        .map(String::from)
        .context("find the program in the wheel of uv")?;
    let mut program = Vec::new();
    archive.by_name(&name).context("read the wheel of uv")?.read_to_end(&mut program).context("unpack uv")?;
    let mut file = fs::File::create(target).with_context(|| format!("create `{}`", target.display()))?;
    file.write_all(&program).with_context(|| format!("write `{}`", target.display()))?;
    file.set_permissions(fs::Permissions::from_mode(0o755))
        .with_context(|| format!("make `{}` executable", target.display()))
}

/// One call of uv.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    pub interpreter: &'a Toolchain,
    /// Mounted at [`sandbox::TREE`].
    pub workspace: Option<&'a Workspace>,
    pub mounts: Vec<Mount>,
    pub env: Vec<(String, String)>,
    /// What follows `uv`.
    pub arguments: Vec<String>,
    pub wall: Duration,
}

/// Runs uv in a sandbox with a network, its cache writable.
///
/// # Errors
/// A `Failure` inside the error: the `kind` given where the command failed by the repository's doing, `no_network`,
/// `disk_full` or `sandbox_lost` where the machine failed. `Interrupted` on Ctrl-C.
pub fn run(lab: &Lab, kind: &str, job: &Job) -> Result<Output> {
    let uv = find(&lab.cache)?;
    let mut mounts = vec![
        Mount { host: uv, inside: INSIDE.into(), writable: false },
        Mount { host: lab.cache.dir("uv")?, inside: CACHE_INSIDE.into(), writable: true },
    ];
    mounts.extend(mount_of(job.interpreter));
    let mut environment = passed_on(&mut mounts);
    let settings = [
        ("UV_CACHE_DIR", CACHE_INSIDE),
        ("UV_PYTHON_DOWNLOADS", "never"),
        ("UV_NO_CONFIG", "1"),
        ("UV_NO_PROGRESS", "1"),
        ("UV_LINK_MODE", "copy"),
        ("NO_COLOR", "1"),
    ];
    environment.extend(settings.map(|(name, value)| (name.to_owned(), value.to_owned())));
    environment.extend(job.env.iter().cloned());
    mounts.extend(job.mounts.iter().cloned());
    let limits = Limits {
        wall: job.wall,
        // Wheels of a gigabyte and more exist, and uv maps them.
        memory_bytes: 16 << 30,
        address_space_bytes: 16 << 30,
        file_bytes: 8 << 30,
        ..Limits::default()
    };
    let spec = Spec { workspace: job.workspace, mounts, env: environment, network: true, limits, ..Spec::default() };
    let argv: Vec<String> = std::iter::once(INSIDE.to_owned()).chain(job.arguments.iter().cloned()).collect();
    let output = sandbox::run(lab.backend, &spec, &argv)?;
    check(kind, &output)?;
    Ok(output)
}

/// Returns the mount that an interpreter needs; those below `/usr` are in every sandbox.
pub fn mount_of(interpreter: &Toolchain) -> Option<Mount> {
    let prefix = &interpreter.prefix;
    let shown = prefix.starts_with("/usr");
    (!shown).then(|| Mount { host: prefix.clone(), inside: prefix.clone(), writable: false })
}

/// Turns anything but success into an error that carries a `Failure` or `Interrupted`.
///
/// # Errors
/// As [`online::check`].
pub fn check(kind: &str, output: &Output) -> Result<()> {
    online::check(&Dialect { trouble_of_the_machine, tail: online::tail }, kind, output)
}

/// Says by uv's messages whether the network or the disk failed, rather than the repository.
fn trouble_of_the_machine(text: &str) -> Option<&'static str> {
    const NETWORK: [&str; 9] = [
        "error sending request",
        "dns error",
        "tcp connect error",
        "Connection refused",
        "Connection reset",
        "connection closed before",
        "operation timed out",
        "Failed to download distribution due to network timeout",
        "Network is unreachable",
    ];
    static SERVER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"HTTP status (?:server error \(|client error \((?:408|425|429))").expect("a valid expression")
    });
    // What a setup script downloads by itself is the repository's doing.
    let of_uv =
        text.contains("Failed to fetch") || text.contains("Failed to download") || text.contains("Request failed");
    if of_uv && (NETWORK.iter().any(|word| text.contains(word)) || SERVER.is_match(text)) {
        return Some("no_network");
    }
    is_full_disk(text).then_some(DISK_FULL)
}

/// Returns the index, proxy and certificate settings of the caller; certificates are mounted where needed.
fn passed_on(mounts: &mut Vec<Mount>) -> Vec<(String, String)> {
    let mut passed = online::variables(&PASSED);
    if online::set("UV_DEFAULT_INDEX").is_none()
        && online::set("UV_INDEX_URL").is_none()
        && let Some(url) = online::set("PIP_INDEX_URL")
    {
        passed.push((String::from("UV_DEFAULT_INDEX"), url));
    }
    passed.extend(online::certificates(mounts));
    passed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_in_both_forms_of_an_index() {
        let json = r#"{"files": [{"filename": "uv-1.whl", "url": "../../f/uv-1.whl"}]}"#;
        let html = r#"<a href="https://x.example/f/uv-1.whl#sha256=00">uv-1.whl</a>"#;
        assert_eq!(link_of(json, "uv-1.whl").as_deref(), Some("../../f/uv-1.whl"));
        assert_eq!(link_of(html, "uv-1.whl").as_deref(), Some("https://x.example/f/uv-1.whl#sha256=00"));
        assert_eq!(link_of(html, "uv-2.whl"), None);
    }

    #[test]
    fn the_machine_is_blamed_for_network_and_disk_only() {
        let refused = "error: Request failed after 3 retries\n  cause: Failed to fetch: https://x/\n  cause: error sending \
                       request\n  cause: tcp connect error";
        assert_eq!(trouble_of_the_machine(refused), Some("no_network"));
        assert_eq!(
            trouble_of_the_machine("error: failed to write\n cause: No space left on device (os error 28)"),
            Some("disk_full")
        );
        assert_eq!(trouble_of_the_machine("Because there are no versions of x"), None);
        assert_eq!(trouble_of_the_machine("setup.py: Connection refused"), None);
        let missing = "Failed to fetch: `https://x/`\nHTTP status client error (404 Not Found)";
        assert_eq!(trouble_of_the_machine(missing), None);
        assert_eq!(
            trouble_of_the_machine(&missing.replace("client error (404", "server error (503")),
            Some("no_network")
        );
    }

    #[test]
    fn a_full_disk_is_not_mended_by_installing_uv() {
        assert!(next_step("write `/c/uv`: No space left on device (os error 28)").contains("free some space"));
        assert!(next_step("read `https://x/`: dns error").contains("install uv"));
    }

    #[test]
    fn credentials_are_not_shown() {
        assert_eq!(without_credentials("https://me:secret@x.example/simple/uv/"), "https://x.example/simple/uv/");
    }
}
