//! Starts one sandbox and makes sure of its end.
//!
//! The chain is `sh` (joins the control groups) → `setarch -R` (fixed addresses) → `unshare` and `mount` (the overlay,
//! in a mount namespace of its own) → `bwrap` → `prlimit` → the command. Each step replaces the one before, so our
//! child is bubblewrap itself, nothing is ever mounted on the host, and nothing is left if we are killed. Where a
//! preloaded process is to enter, `nsenter` puts the chain below its user namespace, and its client starts the command.

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    io::{self, PipeReader, Read, Seek, Write},
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::fs::PermissionsExt,
    },
    path::{Path, PathBuf},
    sync::OnceLock,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::{
    event::PollFlags,
    fs::MemfdFlags,
    process::{Pid, PidfdFlags, Resource},
};
use serde_json::Value;

use super::{
    Exit, Limits, Mount, Spec,
    bwrap::{self, Host, Rights, View},
    cgroup::Group,
    overlay::Workspace,
    preload::{CLIENT, Preloaded},
};
use crate::process::{self, Running};

/// Joins the control groups named before `--`, then becomes the rest.
const JOIN: &str = r#"while [ "$1" != -- ]; do echo 0 >"$1/cgroup.procs" || exit 1; shift; done; shift; exec "$@""#;

/// Mounts the overlay that lies in each directory named before `--`, then becomes the rest.
///
/// The kernel makes `work/work` unreadable, which would keep a user who is not root from removing it.
pub(super) const MOUNT: &str = "while [ \"$1\" != -- ]; do (cd \"$1\" && mount -n -i -t overlay overlay \
     -o lowerdir=lower,upperdir=upper,workdir=work,userxattr merged && chmod 700 work/work) || exit 1; shift; done; \
     shift; exec \"$@\"";

/// How long the end of all processes inside may take once the first one is dead.
const MAX_END: Duration = Duration::from_secs(5);

/// A started sandbox. Dropping it kills everything inside.
#[derive(Debug)]
pub(super) struct Launched {
    /// `None` once it has ended.
    running: Option<Running>,
    group: Option<Group>,
    status: Status,
}

/// Starts `argv` in a sandbox; `session` is a private host directory to show at [`bwrap::SESSION`].
pub(super) fn launch(spec: &Spec, session: Option<&Path>, argv: &[OsString]) -> Result<Launched> {
    let group = Group::create(&spec.limits);
    let groups = group.as_ref().map_or(&[][..], Group::directories);
    let entrance = spec.preloaded.map(|process| entrance(process, groups)).transpose()?.flatten();
    let mut files = files()?;
    let (status, status_end) = io::pipe().context("create a pipe")?;
    files.status = Some(status_end.as_raw_fd());
    files.inherit.push(status_end.into());
    let mut chain: Vec<OsString> = ["sh", "-c", JOIN, "curate"].map(OsString::from).to_vec();
    chain.extend(groups.iter().map(OsString::from));
    chain.push("--".into());
    chain.extend(fixed_addresses());
    let workspaces = spec.workspace.into_iter().chain(spec.overlaid.iter().map(|overlaid| overlaid.workspace));
    let overlays: Vec<&Path> = workspaces.filter_map(Workspace::overlay).collect();
    match &entrance {
        Some(entrance) => chain.extend_from_slice(&entrance.isolation),
        None if overlays.is_empty() => {}
        None => chain.extend(UNSHARE.map(OsString::from)),
    }
    if !overlays.is_empty() {
        chain.extend(["sh", "-c", MOUNT, "curate"].map(OsString::from));
        chain.extend(overlays.iter().map(OsString::from));
        chain.push("--".into());
    }
    chain.extend(confined(spec, session, &files, Rights::Confined));
    chain.extend(resource_limits(&spec.limits));
    if let Some(entrance) = entrance {
        chain.extend(entrance.client);
        files.inherit.extend(entrance.descriptors);
    }
    chain.extend_from_slice(argv);
    let running = process::start(&chain, &host_environment(), None, files.inherit)?;
    process::set_nonblocking(&status)?;
    Ok(Launched { running: Some(running), group, status: Status { pipe: status, text: Vec::new() } })
}

/// How a sandbox is made so that a preloaded process can enter it.
struct Entrance {
    /// Puts what follows below the process's user namespace, in a mount namespace of its own.
    isolation: Vec<OsString>,
    /// Starts the client in front of the command.
    client: Vec<OsString>,
    /// Used by both under their numbers.
    descriptors: Vec<OwnedFd>,
}

/// Returns `None` where the process is gone.
fn entrance(process: &Preloaded, groups: &[PathBuf]) -> Result<Option<Entrance>> {
    let Some(socket) = process.connect() else { return Ok(None) };
    let mut descriptors = vec![socket];
    for directory in groups {
        let path = directory.join("cgroup.procs");
        let group = File::options().write(true).open(&path);
        descriptors.push(group.with_context(|| format!("open `{}`", path.display()))?.into());
    }
    let numbers = descriptors.iter().map(|descriptor| descriptor.as_raw_fd().to_string());
    let client = [CLIENT.to_owned()].into_iter().chain(numbers).chain(["--".to_owned()]).map(OsString::from).collect();
    let namespace = process.user_namespace().try_clone_to_owned().context("copy a descriptor")?;
    let joined = format!("--user=/proc/self/fd/{}", namespace.as_raw_fd());
    let isolation = ["nsenter", &joined, "--preserve-credentials", "--", "unshare", "--mount", "--"];
    descriptors.push(namespace);
    Ok(Some(Entrance { isolation: isolation.map(OsString::from).to_vec(), client, descriptors }))
}

/// Starts `argv` with the right to enter sandboxes, in a user namespace of its own; it keeps the descriptor `socket`.
///
/// It may use what it likes of the machine; nothing of a subject runs in it.
pub(super) fn launch_entering(spec: &Spec, socket: OwnedFd, argv: &[OsString]) -> Result<Running> {
    let mut files = files()?;
    files.inherit.push(socket);
    let mut chain = fixed_addresses();
    chain.extend(UNSHARE.map(OsString::from));
    chain.extend(confined(spec, None, &files, Rights::Entering));
    chain.extend_from_slice(argv);
    process::start(&chain, &host_environment(), None, files.inherit)
}

/// Makes the next program root of a user namespace, with a mount namespace of its own.
const UNSHARE: [&str; 5] = ["unshare", "--user", "--map-root-user", "--mount", "--"];

/// What bubblewrap reads and writes through descriptors.
struct Files {
    /// Where it reports, if it does.
    status: Option<RawFd>,
    synthetic: Vec<(RawFd, &'static str)>,
    inherit: Vec<OwnedFd>,
}

fn files() -> Result<Files> {
    let mut files = Files { status: None, synthetic: Vec::new(), inherit: Vec::new() };
    for (path, content) in bwrap::SYNTHETIC {
        let file = memory_file(content)?;
        files.synthetic.push((file.as_raw_fd(), path));
        files.inherit.push(file.into());
    }
    Ok(files)
}

/// Returns bubblewrap's command line up to the command to run.
fn confined(spec: &Spec, session: Option<&Path>, files: &Files, rights: Rights) -> Vec<OsString> {
    let shown = spec.overlaid.iter().map(|overlaid| Mount {
        host: overlaid.workspace.visible_tree(),
        inside: overlaid.inside.clone(),
        writable: true,
    });
    let mounts: Vec<Mount> = spec.mounts.iter().cloned().chain(shown).collect();
    bwrap::arguments(&View {
        host: host(),
        rights,
        tree: spec.workspace.map(Workspace::visible_tree),
        session: session.map(Path::to_owned),
        mounts: &mounts,
        env: &spec.env,
        network: spec.network,
        limits: spec.limits,
        status: files.status,
        synthetic: files.synthetic.clone(),
        first_process: session.is_some(),
    })
}

fn fixed_addresses() -> Vec<OsString> {
    let words: &[&str] = if has_fixed_addresses() { &["setarch", "-R"] } else { &[] };
    words.iter().map(OsString::from).collect()
}

impl Launched {
    /// Returns the running process for [`Running::finish`]; call [`Launched::end`] afterwards.
    pub(super) fn take_running(&mut self) -> Running {
        self.running.take().expect("a sandbox is run once")
    }

    pub(super) fn running(&mut self) -> &mut Running {
        self.running.as_mut().expect("a session's sandbox runs until it is ended")
    }

    /// Kills what is left, waits until every process inside is gone, and returns the command's exit code if it
    /// started and ended by itself.
    pub(super) fn end(&mut self) -> Option<i32> {
        drop(self.running.take());
        self.status.read();
        if let Some(first) = self.status.number("child-pid").and_then(Pid::from_raw) {
            wait_until_gone(first);
        }
        if let Some(group) = &mut self.group {
            group.remove();
        }
        self.status.number("exit-code")
    }

    /// Counts how many processes the memory limit has killed.
    pub(super) fn out_of_memory_kills(&self) -> u64 {
        self.group.as_ref().map_or(0, Group::out_of_memory_kills)
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        self.end();
    }
}

/// A process namespace dies with its first process: that one's end is seen only after all others'.
fn wait_until_gone(first: Pid) {
    let Ok(event) = rustix::process::pidfd_open(first, PidfdFlags::empty()) else { return };
    let since = Instant::now();
    while since.elapsed() < MAX_END && matches!(process::has_event(&event), Ok(false)) {
        if process::wait_for(&[(std::os::fd::AsFd::as_fd(&event), PollFlags::IN)], MAX_END).is_err() {
            return;
        }
    }
}

/// What bubblewrap reports: one JSON object when the first process runs, one when the command has ended.
#[derive(Debug)]
struct Status {
    pipe: PipeReader,
    text: Vec<u8>,
}

impl Status {
    fn read(&mut self) {
        // Ends at the pipe's end or where a read would block; both mean that there is no more now.
        let _ = self.pipe.read_to_end(&mut self.text);
    }

    fn number(&self, key: &str) -> Option<i32> {
        serde_json::Deserializer::from_slice(&self.text)
            .into_iter::<Value>()
            .map_while(std::result::Result::ok)
            .find_map(|object| object.get(key).and_then(Value::as_i64))
            .and_then(|number| i32::try_from(number).ok())
    }
}

/// Reads a shell's exit code: 128 + n stands for signal n.
///
/// A command that itself exits with such a code cannot be told apart.
pub(super) fn exit_of(code: i32) -> Exit {
    match code {
        129..=192 => Exit::Signal(code - 128),
        code => Exit::Code(code),
    }
}

fn memory_file(content: &str) -> Result<File> {
    let descriptor = rustix::fs::memfd_create("curate", MemfdFlags::CLOEXEC).context("create a file in memory")?;
    let mut file = File::from(descriptor);
    file.write_all(content.as_bytes()).and_then(|()| file.rewind()).context("write a file in memory")?;
    Ok(file)
}

/// The environment of the programs outside the sandbox that set it up.
pub(super) fn host_environment() -> Vec<(OsString, OsString)> {
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".into());
    vec![("PATH".into(), path), ("LC_ALL".into(), "C".into())]
}

/// `prlimit` with the limits that hold for each process; a limit of the host that is lower stays.
fn resource_limits(limits: &Limits) -> Vec<OsString> {
    let allowed =
        |resource, wanted: u64| rustix::process::getrlimit(resource).maximum.map_or(wanted, |max| max.min(wanted));
    [
        "/usr/bin/prlimit".to_owned(),
        format!("--as={}", allowed(Resource::As, limits.address_space_bytes)),
        format!("--fsize={}", allowed(Resource::Fsize, limits.file_bytes)),
        format!("--nproc={}", allowed(Resource::Nproc, limits.processes)),
        format!("--nofile={}:{}", allowed(Resource::Nofile, 1 << 10), allowed(Resource::Nofile, 1 << 16)),
        "--core=0".to_owned(),
        "--".to_owned(),
    ]
    .map(OsString::from)
    .to_vec()
}

/// Says whether address-space randomisation can be switched off, so that a run repeats byte for byte.
pub(super) fn has_fixed_addresses() -> bool {
    static FIXED: OnceLock<bool> = OnceLock::new();
    *FIXED.get_or_init(|| succeeds(&["setarch", "-R", "true"], None))
}

/// Says whether a set-up command works on this host.
pub(super) fn succeeds(argv: &[&str], cwd: Option<PathBuf>) -> bool {
    let command = process::Command {
        argv: argv.iter().map(OsString::from).collect(),
        env: host_environment(),
        cwd,
        stdin: Vec::new(),
        wall: Duration::from_secs(20),
        max_output_bytes: 1 << 10,
    };
    matches!(process::run(&command), Ok(finished) if finished.exit == process::Exit::Code(0))
}

fn host() -> &'static Host {
    static HOST: OnceLock<Host> = OnceLock::new();
    HOST.get_or_init(|| {
        let existing =
            |names: &[&str]| names.iter().map(PathBuf::from).filter(|path| path.exists()).collect::<Vec<_>>();
        let roots = existing(&["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"]);
        Host {
            roots: roots.into_iter().map(|path| (path.clone(), fs::read_link(path).ok())).collect(),
            etc: existing(&[&bwrap::ETC[..], &bwrap::ETC_NETWORK].concat()),
            kernel: kernel_files(),
        }
    })
}

/// Returns the directories and writable files of `/proc` that are not a process's.
fn kernel_files() -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir("/proc") else { return vec!["/proc/sys".into(), "/proc/sysrq-trigger".into()] };
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| !entry.file_name().as_encoded_bytes()[0].is_ascii_digit())
        .filter(|entry| {
            // Links lead to a process's own directory.
            let metadata = fs::symlink_metadata(entry.path());
            metadata.is_ok_and(|it| it.is_dir() || (it.is_file() && it.permissions().mode() & 0o222 != 0))
        })
        .map(|entry| entry.path())
        .collect();
    paths.sort_unstable();
    paths
}
