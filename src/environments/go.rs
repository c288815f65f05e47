//! Go: modules by version and digest → a module cache, and the packages of those modules that are needed, compiled.
//!
//! Also owns the toolchain and how the go command runs with a network. A lock has one fact a line, sorted:
//!
//! ```text
//! go.mod PATH VERSION h1:…         a go.mod that the module graph consists of
//! module PATH VERSION h1:…         a module whose packages are needed
//! package IMPORT/PATH              one of these packages
//! replace PATH VERSION PATH2 VERSION2   as the main module says
//! ```

use std::{env, fs, path::Path, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};

use crate::{
    lab::Lab,
    lang::go::{ADDRESS_SPACE_BYTES, COMPILED, MODULES, variables},
    online::{self, Dialect},
    process,
    record::{
        environment::{Environment, Language, Toolchain},
        failure::{Blame, DISK_FULL, Failure, Phase},
    },
    sandbox::{self, ENVIRONMENT, Limits, Mount, Output, Spec, overlay::Workspace},
    uv,
};

/// The oldest toolchain that is used: earlier ones cannot say which fields `go list -json` is to print.
const OLDEST: (u32, u32) = (1, 19);
const INSTALL_WALL: Duration = Duration::from_mins(15);
/// Where every module that was ever downloaded is kept, below the cache.
const DOWNLOADS: &str = "go";
const DOWNLOADS_INSIDE: &str = "/opt/go-downloads";
const LOCK_INSIDE: &str = "/opt/lock";
const DEFAULT_PROXY: &str = "https://proxy.golang.org,direct";

/// Variables of the caller's environment that reach the go command while it has a network.
const PASSED: [&str; 5] = ["GOPRIVATE", "GONOPROXY", "GOINSECURE", "GOSUMDB", "GONOSUMDB"];

/// Packages of the standard library that nearly every test needs; compiled where the toolchain does not bring them.
const STANDARD: &str = "bytes context encoding/json errors fmt io math net/http os os/exec reflect regexp sort strings \
                        sync testing testing/internal/testdeps text/template time";

/// Downloads modules, verifies them against `go.sum`, and compiles. A package that does not compile is its users' matter.
///
/// The times of the compiled packages lie in the far future: the go command refreshes those of what it uses, which
/// would copy each file into the sandbox's own layer, and removes what is old.
const INSTALL: &str = r#"set -e
cd /opt/lock
test ! -s modules || xargs go mod download < modules
test ! -s graph || xargs go list -m -json < graph > /dev/null
xargs go build -mod=mod < packages || true
mkdir -p /opt/env/mod/cache/download "$GOCACHE"
find "$GOCACHE" -type f -exec touch -d @4102444800 {} +
"#;

/// Returns the newest Go on this machine: that on `PATH`, Debian's, the usual place.
///
/// # Errors
/// `no_toolchain` of blame `Infra` where there is none that can be used.
pub fn toolchain() -> Result<Toolchain, Failure> {
    let on_path = env::var_os("PATH").map(|path| env::split_paths(&path).map(|dir| dir.join("go")).collect::<Vec<_>>());
    let mut programs = on_path.unwrap_or_default();
    programs.push(PathBuf::from("/usr/local/go/bin/go"));
    if let Ok(entries) = fs::read_dir("/usr/lib") {
        let versions = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("go-"));
        programs.extend(versions.map(|entry| entry.path().join("bin/go")));
    }
    let found = programs.iter().filter(|program| program.is_file()).filter_map(|program| ask(program));
    let usable = found.filter(|toolchain| numbers(&toolchain.version) >= (OLDEST.0, OLDEST.1, 0));
    usable.max_by_key(|toolchain| numbers(&toolchain.version)).ok_or_else(|| {
        let detail = format!(
            "there is no Go {}.{} or later (hint: install it, e.g. `apt-get install golang-go`)",
            OLDEST.0, OLDEST.1
        );
        Failure::new(Phase::Build, "no_toolchain", Blame::Infra, detail)
    })
}

fn ask(program: &Path) -> Option<Toolchain> {
    let settings = [("HOME", "/nonexistent"), ("GOENV", "off"), ("GOTOOLCHAIN", "local"), ("GOCACHE", "off")];
    let command = process::Command {
        argv: vec![program.into(), "env".into(), "GOROOT".into(), "GOVERSION".into()],
        env: settings.map(|(name, value)| (name.into(), value.into())).to_vec(),
        cwd: Some("/".into()),
        stdin: Vec::new(),
        wall: Duration::from_secs(20),
        max_output_bytes: 4096,
    };
    // A program that cannot be started is not a usable Go.
    let text = process::run(&command).ok()?.stdout.text();
    let mut lines = text.lines();
    let prefix = PathBuf::from(lines.next()?);
    let version = lines.next()?.strip_prefix("go")?.split(' ').next()?.to_owned();
    let path = prefix.join("bin/go").canonicalize().ok()?;
    Some(Toolchain { language: Language::Go, path, prefix, version })
}

/// Returns a version's first three numbers; `1.21rc2` counts as `1.21`.
pub fn numbers(version: &str) -> (u32, u32, u32) {
    let mut parts = version.split('.').map(|part| {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        part[..digits].parse().unwrap_or(0)
    });
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

/// Installs a lock into a module cache and a build cache.
///
/// # Errors
/// `no_toolchain`, and those of [`super::ensure`].
pub fn install(lab: &Lab, environment: &Environment, dir: &Path) -> Result<()> {
    let toolchain = here(&environment.toolchain)?;
    let place = lab.cache.scratch()?;
    for (name, text) in files(&environment.lock) {
        let path = place.path().join(name);
        fs::write(&path, text).with_context(|| format!("write `{}`", path.display()))?;
    }
    let job = Job {
        toolchain: &toolchain,
        workspace: None,
        mounts: vec![
            Mount { host: dir.to_owned(), inside: ENVIRONMENT.into(), writable: true },
            Mount { host: place.path().to_owned(), inside: LOCK_INSIDE.into(), writable: true },
        ],
        env: vec![
            ("GOMODCACHE".to_owned(), MODULES.to_owned()),
            ("GOCACHE".to_owned(), format!("{ENVIRONMENT}/{COMPILED}")),
        ],
        argv: ["sh", "-c", INSTALL].map(String::from).to_vec(),
        // Nothing to fetch, nothing to be offline for.
        network: environment.lock.lines().any(|line| !line.is_empty()),
        wall: INSTALL_WALL,
    };
    run(lab, "install_failed", &job).map(drop)
}

/// Returns the toolchain itself, or the same version elsewhere on this machine.
fn here(wanted: &Toolchain) -> Result<Toolchain> {
    if wanted.path.exists() {
        return Ok(wanted.clone());
    }
    let found = toolchain()?;
    if found.version != wanted.version {
        let detail = format!("Go {} is not on this machine, only {}", wanted.version, found.version);
        bail!(Failure::new(Phase::Build, "no_toolchain", Blame::Infra, detail));
    }
    Ok(found)
}

/// Returns the files that the installation works from, by name.
fn files(lock: &str) -> [(&'static str, String); 5] {
    let mut main = String::from("module curate.invalid/lock\n\ngo 1.16\n\n");
    let (mut sums, mut modules, mut graph) = (String::new(), String::new(), String::new());
    let mut packages = STANDARD.to_owned();
    let lines: Vec<Vec<&str>> = lock.lines().map(|line| line.split(' ').collect()).collect();
    let stands_in = |path: &str| lines.iter().any(|line| line.len() == 5 && line[3] == path);
    for line in &lines {
        match line[..] {
            ["module", path, version, sum] => {
                sums += &format!("{path} {version} {sum}\n");
                modules += &format!("{path}@{version}\n");
                // What stands in for another module goes by that one's name.
                if !stands_in(path) {
                    main += &format!("require {path} {version}\n");
                }
            }
            ["go.mod", path, version, sum] => {
                sums += &format!("{path} {version}/go.mod {sum}\n");
                graph += &format!("{path}@{version}\n");
            }
            ["replace", path, version, other, other_version] => {
                main += &format!("require {path} {version}\nreplace {path} => {other} {other_version}\n");
            }
            ["package", path] => packages += &format!("\n{path}"),
            _ => {}
        }
    }
    [("go.mod", main), ("go.sum", sums), ("modules", modules), ("graph", graph), ("packages", packages)]
}

/// One call of the go command, or of a script that calls it.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    pub toolchain: &'a Toolchain,
    /// Mounted at [`sandbox::TREE`].
    pub workspace: Option<&'a Workspace>,
    pub mounts: Vec<Mount>,
    /// Wins over [`variables`].
    pub env: Vec<(String, String)>,
    pub argv: Vec<String>,
    pub network: bool,
    pub wall: Duration,
}

/// Returns the mount of all modules ever downloaded as a module cache of its own, and the setting that makes it one.
///
/// # Errors
/// The cache cannot be written.
pub fn shared_modules(lab: &Lab) -> Result<(Mount, (String, String))> {
    let mount = Mount { host: lab.cache.dir(DOWNLOADS)?, inside: DOWNLOADS_INSIDE.into(), writable: true };
    Ok((mount, ("GOMODCACHE".to_owned(), DOWNLOADS_INSIDE.to_owned())))
}

/// Runs the go command in a sandbox, with a network if the job says so.
///
/// # Errors
/// A [`Failure`] inside the error: the `kind` given where the command failed by the repository's doing, `no_network`,
/// `disk_full` or `sandbox_lost` where the machine failed. `Interrupted` on Ctrl-C.
pub fn run(lab: &Lab, kind: &str, job: &Job) -> Result<Output> {
    let mut mounts = Vec::new();
    let mut environment = variables(job.toolchain);
    environment.push(("GOFLAGS".to_owned(), "-buildvcs=false -modcacherw".to_owned()));
    environment.push(("GOCACHE".to_owned(), "/tmp/go-build".to_owned()));
    if job.network {
        let (shared, _) = shared_modules(lab)?;
        environment.extend(passed_on(&mut mounts));
        // Asked first for exact versions only: it knows no release that was not downloaded once.
        if job.mounts.iter().all(|mount| mount.inside != shared.inside) {
            mounts.push(Mount { writable: false, ..shared });
            for (_, value) in environment.iter_mut().filter(|(name, _)| name == "GOPROXY") {
                *value = format!("file://{DOWNLOADS_INSIDE}/cache/download,{value}");
            }
        }
    }
    mounts.extend(uv::mount_of(job.toolchain));
    mounts.extend(job.mounts.iter().cloned());
    environment.extend(job.env.iter().cloned());
    let limits = Limits {
        wall: job.wall,
        address_space_bytes: ADDRESS_SPACE_BYTES,
        output_bytes: 64 << 20,
        ..Limits::default()
    };
    let spec =
        Spec { workspace: job.workspace, mounts, env: environment, network: job.network, limits, ..Spec::default() };
    let output = sandbox::run(lab.backend, &spec, &job.argv)?;
    check(kind, &output)?;
    Ok(output)
}

/// Returns the proxy and certificate settings of the caller, and shows what they name on this machine.
fn passed_on(mounts: &mut Vec<Mount>) -> Vec<(String, String)> {
    let mut passed = online::variables(&PASSED);
    let proxy = online::set("GOPROXY").unwrap_or_else(|| DEFAULT_PROXY.to_owned());
    for directory in proxy.split([',', '|']).filter_map(|one| one.strip_prefix("file://")).map(PathBuf::from) {
        if directory.is_dir() {
            mounts.push(Mount { host: directory.clone(), inside: directory, writable: false });
        }
    }
    passed.push(("GOPROXY".to_owned(), proxy));
    passed.extend(online::certificates(mounts));
    passed
}

fn check(kind: &str, output: &Output) -> Result<()> {
    online::check(&Dialect { trouble_of_the_machine, tail: online::tail }, kind, output)
}

/// Returns the failure that the go command's words speak of: the machine's, or of a given kind.
pub fn failure(kind: &str, text: &str) -> Failure {
    match trouble_of_the_machine(text) {
        Some(machine) => Failure::new(Phase::Build, machine, Blame::Infra, online::tail(text)),
        None => Failure::new(Phase::Build, kind, Blame::Repo, online::tail(text)),
    }
}

/// Says by the go command's words whether the network or the disk failed, rather than the repository.
fn trouble_of_the_machine(text: &str) -> Option<&'static str> {
    const NETWORK: [&str; 8] = [
        "no such host",
        "server misbehaving",
        "connection refused",
        "connection reset",
        "i/o timeout",
        "TLS handshake timeout",
        "network is unreachable",
        "Could not resolve host",
    ];
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    // A status above 500 speaks of the proxy itself; 404 and 410 of what was asked for.
    if has(&NETWORK) || has(&[": 500 ", ": 502 ", ": 503 ", ": 504 ", ": 429 "]) {
        return Some("no_network");
    }
    has(&["no space left on device", "disk quota exceeded"]).then_some(DISK_FULL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_gives_the_files_to_install_from() {
        let lock = "go.mod a.example/x v1.0.0 h1:m=\nmodule a.example/x v1.0.0 h1:z=\npackage a.example/x/sub\n\
                    module c.example/z v1.1.0 h1:c=\nreplace b.example/y v1.0.0 c.example/z v1.1.0\n";
        let [(_, main), (_, sums), (_, modules), (_, graph), (_, packages)] = files(lock);
        let wanted =
            "require a.example/x v1.0.0\nrequire b.example/y v1.0.0\nreplace b.example/y => c.example/z v1.1.0\n";
        assert!(main.ends_with(wanted), "{main}");
        assert_eq!(sums, "a.example/x v1.0.0/go.mod h1:m=\na.example/x v1.0.0 h1:z=\nc.example/z v1.1.0 h1:c=\n");
        assert_eq!(
            (modules.as_str(), graph.as_str()),
            ("a.example/x@v1.0.0\nc.example/z@v1.1.0\n", "a.example/x@v1.0.0\n")
        );
        assert!(packages.ends_with("\na.example/x/sub"));
    }

    #[test]
    fn the_machine_is_blamed_for_network_and_disk_only() {
        let kind = |text: &str| failure("resolve_failed", text).kind;
        assert_eq!(kind("dial tcp: lookup proxy.golang.org: no such host"), "no_network");
        assert_eq!(kind("reading https://x/@v/list: 503 Service Unavailable"), "no_network");
        assert_eq!(kind("reading https://x/@v/v1.mod: 404 Not Found"), "resolve_failed");
        assert_eq!(kind("write: no space left on device"), "disk_full");
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(numbers("1.9.7") < numbers("1.19.8") && numbers("1.21rc2") == (1, 21, 0));
    }
}
