//! Isolated execution: what may be seen and used ([`Spec`], [`Limits`]), and the two ways to run: one command
//! ([`run`]) or a persistent shell ([`session::Session`]).
//!
//! A sandbox is a set of namespaces that bubblewrap makes and one process in it. No network but loopback, no
//! capabilities, no host but what is named; it ends by its first process being killed, which takes all others along,
//! also when we die. What runs inside, and why, this module does not know.

pub mod bwrap;
pub mod cgroup;
mod launch;
pub mod overlay;
pub mod preload;
pub mod session;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use anyhow::{Result, bail};

use crate::process::{self, Bounds, Capture};
use overlay::Workspace;
use preload::Preloaded;

/// How isolation is achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    Bubblewrap,
}

impl Backend {
    /// Starts a real process under bubblewrap and says what is wrong if that fails.
    ///
    /// # Errors
    /// Bubblewrap is missing or not usable; the message names the cause and the next step.
    pub fn probe() -> Result<Backend> {
        let spec = Spec { limits: Limits { wall: Duration::from_secs(20), ..Limits::default() }, ..Spec::default() };
        let output = match run(Backend::Bubblewrap, &spec, &["true".to_owned()]) {
            Ok(Output { exit: Exit::Code(0), .. }) => return Ok(Backend::Bubblewrap),
            Ok(output) => output,
            Err(error) => return Err(error.context("start a sandbox; refusing to run without one")),
        };
        if output.exit == Exit::Interrupted {
            return Err(crate::interrupt::Interrupted.into());
        }
        let seen = output.stderr.text();
        bail!("start a sandbox; refusing to run without one: {} ({:?}); {}", seen.trim(), output.exit, next_step(&seen))
    }
}

/// Says what to do about a sandbox that does not start, from what its set-up printed.
fn next_step(seen: &str) -> &'static str {
    if seen.contains("bwrap: not found") || seen.contains("execute bwrap") {
        "install bubblewrap (Debian, Fedora and Arch name the package `bubblewrap`)"
    } else if seen.contains("Unknown option") {
        "bubblewrap 0.8 or later is needed"
    } else if seen.contains("prlimit") {
        "install util-linux, which brings `prlimit`"
    } else {
        "unprivileged user namespaces seem to be blocked: on Ubuntu 24.04 or later set \
         `sysctl kernel.apparmor_restrict_unprivileged_userns=0` or give bwrap an AppArmor profile; in a container \
         allow them (docker: `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`)"
    }
}

/// What the host offers for a sandbox besides bubblewrap, for `doctor`.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// Overlays over the templates; otherwise they are copied.
    pub overlay: bool,
    /// Address-space randomisation can be switched off.
    pub fixed_addresses: bool,
    /// Control groups that bound whole sandboxes; otherwise there are only limits per process.
    pub control_groups: cgroup::Support,
}

/// Finds out, by trying, what the host offers for workspaces below `scratch`.
pub fn capabilities(scratch: &std::path::Path) -> Capabilities {
    Capabilities {
        overlay: overlay::is_available(scratch),
        fixed_addresses: launch::has_fixed_addresses(),
        control_groups: cgroup::support().clone(),
    }
}

/// Path of the tree inside every sandbox.
pub const TREE: &str = "/testbed";
/// Where the project's metadata is shown, read-only.
pub const METADATA: &str = "/opt/metadata";
/// Path of the environment inside every sandbox.
pub const ENVIRONMENT: &str = "/opt/env";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub wall: Duration,
    /// Memory of all processes together, where a control group can be had.
    pub memory_bytes: u64,
    /// Address space of each process; more than `memory_bytes` for programs that reserve what they never use.
    pub address_space_bytes: u64,
    /// Processes and threads of the whole sandbox.
    pub processes: u64,
    /// Size of any one file.
    pub file_bytes: u64,
    /// Kept of each output stream.
    pub output_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            wall: Duration::from_mins(10),
            memory_bytes: 4 << 30,
            address_space_bytes: 4 << 30,
            processes: 512,
            file_bytes: 1 << 30,
            output_bytes: 64 << 10,
        }
    }
}

/// A host path shown inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub host: PathBuf,
    pub inside: PathBuf,
    pub writable: bool,
}

/// A host directory shown writable, what is written there being the workspace's alone.
#[derive(Clone, Debug)]
pub struct Overlaid<'a> {
    pub workspace: &'a Workspace,
    pub inside: PathBuf,
}

/// What a sandbox shows. Everything else of the host is absent.
#[derive(Clone, Debug, Default)]
pub struct Spec<'a> {
    /// Mounted writable at [`TREE`]; also the working directory.
    pub workspace: Option<&'a Workspace>,
    pub mounts: Vec<Mount>,
    pub overlaid: Vec<Overlaid<'a>>,
    /// Added to the fixed environment (`TZ=UTC`, `LC_ALL=C.UTF-8`, `HOME`, `PATH`, …); later entries win.
    pub env: Vec<(String, String)>,
    /// Only ever true while an environment is built.
    pub network: bool,
    pub limits: Limits,
    /// Enters the sandbox and runs the command as if it had been started there; shown at [`preload::CLIENT`] must be
    /// [`preload::CLIENT_PROGRAM`]. Where it cannot, the command is started.
    pub preloaded: Option<&'a Preloaded>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    /// Seen as exit code 128 + n, as shells do; a command that exits with such a code itself looks the same.
    Signal(i32),
    TimedOut,
    /// A control group's memory limit ended it.
    OutOfMemory,
    Interrupted,
    /// The sandbox could not be set up or vanished: the machine's fault, never the subject's.
    Lost,
}

#[derive(Clone, Debug)]
pub struct Output {
    pub exit: Exit,
    pub stdout: Capture,
    pub stderr: Capture,
    pub wall: Duration,
}

/// Runs one command in a sandbox of its own; every process in it is dead when this returns.
///
/// # Errors
/// The backend cannot be started at all. A sandbox that starts but cannot be set up gives [`Exit::Lost`] with the
/// reason in `Output::stderr`.
pub fn run(backend: Backend, spec: &Spec, argv: &[String]) -> Result<Output> {
    let Backend::Bubblewrap = backend;
    let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
    let mut sandbox = launch::launch(spec, None, &argv)?;
    let bounds = Bounds { wall: spec.limits.wall, grace: Duration::ZERO, max_output_bytes: spec.limits.output_bytes };
    let finished = sandbox.take_running().finish(&[], bounds)?;
    let kills = sandbox.out_of_memory_kills();
    let exit = match (finished.exit, sandbox.end()) {
        (process::Exit::TimedOut, _) => Exit::TimedOut,
        (process::Exit::Interrupted, _) => Exit::Interrupted,
        (_, code) => blame_memory(code.map_or(Exit::Lost, launch::exit_of), kills),
    };
    Ok(Output { exit, stdout: finished.stdout, stderr: finished.stderr, wall: finished.wall })
}

/// Names the memory limit where it is what killed the command.
fn blame_memory(exit: Exit, kills: u64) -> Exit {
    match exit {
        Exit::Signal(9) | Exit::Lost if kills > 0 => Exit::OutOfMemory,
        exit => exit,
    }
}
