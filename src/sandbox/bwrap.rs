//! Spec → bubblewrap argv. Pure: what the host has is passed in.
//!
//! The view is built up from nothing: `/usr` read-only, the few parts of `/etc` that programs need, private `/tmp`,
//! `/dev/shm` and home, then the tree and the caller's mounts. Whatever is not named here is absent.

use std::{
    ffi::OsString,
    os::fd::RawFd,
    path::{Path, PathBuf},
};

use super::{ENVIRONMENT, Limits, Mount, TREE};

/// Home directory inside every sandbox.
pub const HOME: &str = "/home/agent";
/// Where a session's private directory is shown, read-only.
pub const SESSION: &str = "/session";

/// Parts of `/etc` that are shown where the host has them. None of them holds a secret.
pub const ETC: [&str; 16] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/debian_version",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/services",
    "/etc/shells",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
];

/// Shown besides [`ETC`] when the network is.
pub const ETC_NETWORK: [&str; 3] = ["/etc/gai.conf", "/etc/hosts", "/etc/resolv.conf"];

/// Files of `/etc` that are the same on every host.
pub const SYNTHETIC: [(&str, &str); 5] = [
    (
        "/etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/bash\n\
         nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    ),
    ("/etc/group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"),
    ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\n"),
    ("/etc/timezone", "Etc/UTC\n"),
    ("/etc/hosts", "127.0.0.1 localhost curate\n::1 localhost ip6-localhost ip6-loopback\n"),
];

const ENV: [(&str, &str); 19] = [
    ("PATH", "/opt/env/bin:/usr/local/bin:/usr/bin:/bin"),
    ("HOME", HOME),
    ("USER", "agent"),
    ("LOGNAME", "agent"),
    ("TMPDIR", "/tmp"),
    ("TZ", "UTC"),
    ("LANG", "C.UTF-8"),
    ("LC_ALL", "C.UTF-8"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("COLUMNS", "80"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("PYTHONHASHSEED", "0"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("SHELL", "/bin/bash"),
];

/// What the host has of the things that every sandbox shows.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// `/bin`, `/lib`, …: the target where it is a link, nothing where it is a directory of its own.
    pub roots: Vec<(PathBuf, Option<PathBuf>)>,
    /// Those of [`ETC`] and [`ETC_NETWORK`] that exist.
    pub etc: Vec<PathBuf>,
    /// What `/proc` holds besides processes and could be written to.
    ///
    /// Started by root, the user inside is the host's root without capabilities, and to that one the kernel still
    /// grants writing `/proc/sys/kernel/core_pattern`, which is a command that the host runs.
    pub kernel: Vec<PathBuf>,
}

/// What the command of a view may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Nothing beyond its namespaces.
    Confined,
    /// Enter sandboxes that are made below its own user namespace. Not for code of a subject.
    Entering,
}

/// Everything that one sandbox shows, with host paths and descriptors resolved.
#[derive(Clone, Debug)]
pub struct View<'a> {
    pub host: &'a Host,
    pub rights: Rights,
    /// Host path of the tree as it is to be seen.
    pub tree: Option<PathBuf>,
    /// Host path of the session's private directory.
    pub session: Option<PathBuf>,
    pub mounts: &'a [Mount],
    pub env: &'a [(String, String)],
    pub network: bool,
    pub limits: Limits,
    /// Where bubblewrap reports the start and the end of the command.
    pub status: Option<RawFd>,
    /// Descriptor to read each synthetic file from, with its path inside.
    pub synthetic: Vec<(RawFd, &'static str)>,
    /// Whether the command is process 1 of its namespace, so that nothing inside can kill it.
    pub first_process: bool,
}

/// Returns bubblewrap's command line up to the command to run.
pub fn arguments(view: &View) -> Vec<OsString> {
    let mut argv = Argv(vec!["bwrap".into()]);
    argv.extend(["--die-with-parent", "--new-session"]);
    match view.rights {
        Rights::Confined => {
            argv.extend(["--unshare-all", "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000"]);
            argv.extend(["--cap-drop", "ALL"]);
        }
        // It drops itself what it does not need: a program that is started with some capabilities of its user
        // namespace, and not all, is given random addresses.
        Rights::Entering => argv.extend(["--unshare-ipc", "--unshare-net", "--unshare-uts", "--cap-add", "ALL"]),
    }
    argv.extend(["--hostname", "curate"]);
    if view.network {
        argv.extend(["--share-net"]);
    }
    if view.first_process {
        argv.extend(["--as-pid-1"]);
    }
    if let Some(status) = view.status {
        argv.extend(["--json-status-fd", &status.to_string()]);
    }
    environment(&mut argv, view.env);
    system(&mut argv, view);
    private_places(&mut argv, view.limits.memory_bytes / 4);
    if let Some(tree) = &view.tree {
        argv.bind("--bind", tree, Path::new(TREE));
    }
    for mount in view.mounts {
        argv.bind(if mount.writable { "--bind" } else { "--ro-bind" }, &mount.host, &mount.inside);
    }
    if let Some(session) = &view.session {
        argv.bind("--ro-bind", session, Path::new(SESSION));
    }
    argv.extend(["--remount-ro", "/", "--chdir", if view.tree.is_some() { TREE } else { "/tmp" }, "--"]);
    argv.0
}

fn environment(argv: &mut Argv, env: &[(String, String)]) {
    argv.extend(["--clearenv"]);
    for (name, value) in ENV {
        argv.extend(["--setenv", name, value]);
    }
    for (name, value) in env {
        argv.extend(["--setenv", name, value]);
    }
}

fn system(argv: &mut Argv, view: &View) {
    // Made first, because bubblewrap would make it with the mode of the first file that is put there.
    argv.extend(["--perms", "0755", "--dir", "/etc"]);
    argv.bind("--ro-bind", Path::new("/usr"), Path::new("/usr"));
    for (path, target) in &view.host.roots {
        match target {
            Some(target) => argv.bind("--symlink", target, path),
            None => argv.bind("--ro-bind", path, path),
        }
    }
    for path in &view.host.etc {
        if view.network || !ETC_NETWORK.iter().any(|name| Path::new(name) == path) {
            argv.bind("--ro-bind", path, path);
        }
    }
    for (descriptor, path) in &view.synthetic {
        if !(view.network && view.host.etc.iter().any(|shown| shown == Path::new(path))) {
            argv.extend(["--perms", "0444", "--ro-bind-data", &descriptor.to_string(), path]);
        }
    }
    argv.extend(["--symlink", "/usr/share/zoneinfo/Etc/UTC", "/etc/localtime"]);
    argv.extend(["--dev", "/dev"]);
    // One that enters sandboxes has the host's processes and must not see them.
    if view.rights == Rights::Confined {
        argv.extend(["--proc", "/proc"]);
        for path in &view.host.kernel {
            argv.bind("--ro-bind", path, path);
        }
    }
}

fn private_places(argv: &mut Argv, size_bytes: u64) {
    let size = size_bytes.to_string();
    for (path, mode) in [("/tmp", "1777"), ("/dev/shm", "1777"), (HOME, "0755")] {
        argv.extend(["--perms", mode, "--size", &size, "--tmpfs", path]);
    }
    argv.extend(["--dir", "/run", "--dir", "/var", "--symlink", "/tmp", "/var/tmp"]);
    argv.extend(["--dir", ENVIRONMENT]);
}

struct Argv(Vec<OsString>);

impl Argv {
    fn extend<'a>(&mut self, words: impl IntoIterator<Item = &'a str>) {
        self.0.extend(words.into_iter().map(OsString::from));
    }

    fn bind(&mut self, option: &str, from: &Path, to: &Path) {
        self.0.extend([option.into(), from.into(), to.into()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(network: bool, env: &[(String, String)]) -> Vec<String> {
        let host = Host {
            roots: vec![("/bin".into(), Some("usr/bin".into())), ("/lib".into(), None)],
            etc: vec!["/etc/hosts".into(), "/etc/resolv.conf".into(), "/etc/services".into()],
            kernel: vec!["/proc/sys".into()],
        };
        let mounts = [
            Mount { host: "/cache/env".into(), inside: ENVIRONMENT.into(), writable: false },
            Mount { host: "/scratch/results".into(), inside: "/results".into(), writable: true },
        ];
        let view = View {
            host: &host,
            rights: Rights::Confined,
            tree: Some("/scratch/merged".into()),
            session: None,
            mounts: &mounts,
            env,
            network,
            limits: Limits::default(),
            status: Some(9),
            synthetic: vec![(7, "/etc/passwd"), (8, "/etc/hosts")],
            first_process: false,
        };
        arguments(&view).into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    fn has(words: &[String], wanted: &[&str]) -> bool {
        words.windows(wanted.len()).any(|window| window == wanted)
    }

    #[test]
    fn view_shows_what_is_named_and_nothing_else() {
        let words = words(false, &[]);
        let mut sources: Vec<&str> = words
            .windows(2)
            .filter(|pair| ["--bind", "--ro-bind"].contains(&pair[0].as_str()))
            .map(|pair| pair[1].as_str())
            .collect();
        sources.sort_unstable();
        assert_eq!(
            sources,
            ["/cache/env", "/etc/services", "/lib", "/proc/sys", "/scratch/merged", "/scratch/results", "/usr"]
        );
        assert!(has(&words, &["--symlink", "usr/bin", "/bin"]));
        assert!(has(&words, &["--ro-bind", "/cache/env", "/opt/env"]));
        assert!(has(&words, &["--bind", "/scratch/results", "/results"]));
        assert!(has(&words, &["--ro-bind-data", "8", "/etc/hosts"]));
        assert!(!words.contains(&"--share-net".to_owned()));
    }

    #[test]
    fn network_brings_the_hosts_resolver_with_it() {
        let words = words(true, &[]);
        assert!(words.contains(&"--share-net".to_owned()));
        assert!(has(&words, &["--ro-bind", "/etc/resolv.conf", "/etc/resolv.conf"]));
        assert!(has(&words, &["--ro-bind", "/etc/hosts", "/etc/hosts"]));
        assert!(!has(&words, &["--ro-bind-data", "8"]));
    }

    #[test]
    fn callers_environment_wins_over_the_fixed_one() {
        let words = words(false, &[("TZ".into(), "Asia/Tokyo".into())]);
        let zones: Vec<_> = words.windows(3).filter(|w| w[0] == "--setenv" && w[1] == "TZ").map(|w| &w[2]).collect();
        assert_eq!(zones, ["UTC", "Asia/Tokyo"]);
    }
}
