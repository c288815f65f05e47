//! What every sandbox backend promises, run on each one that works here.
//!
//! Each check gets a fresh place with a small template; its name is the promise. Checks on our own death, memory and
//! signals run this test binary again: see [`helper`].

mod helper;
mod isolation;
mod limits;
mod session;
mod workspace;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use curate::sandbox::{self, Backend, Exit, Limits, Mount, Output, Spec, overlay::Workspace};
use tempfile::TempDir;

use crate::support::{backends, plant};

/// A template and a scratch directory of one check.
struct Place {
    backend: Backend,
    template: TempDir,
    scratch: TempDir,
}

const TEMPLATE: [(&str, &str); 8] = [
    ("README", "read me\n"),
    ("run.sh", "#!/bin/sh\necho ran\n"),
    ("src/a.py", "a = 1\n"),
    ("src/b.py", "b = 2\n"),
    ("src/deep/c.py", "c = 3\n"),
    ("src/deep/d.py", "d = 4\n"),
    ("link", "-> src"),
    (".git/HEAD", "ref: refs/heads/main\n"),
];

/// Runs a check on every backend; nothing may be left in the scratch directory afterwards.
fn each(check: impl Fn(&Place)) {
    for backend in backends() {
        let place = Place::new(backend);
        check(&place);
        let left: Vec<_> = fs::read_dir(place.scratch.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

impl Place {
    fn new(backend: Backend) -> Place {
        let place = Place { backend, template: TempDir::new().unwrap(), scratch: TempDir::new().unwrap() };
        plant(place.template.path(), &TEMPLATE);
        place
    }

    fn workspace(&self) -> Workspace {
        Workspace::create(self.template.path(), self.scratch.path(), &[]).unwrap()
    }

    fn run(&self, spec: &Spec, script: &str) -> Output {
        sandbox::run(self.backend, spec, &["bash", "-c", script].map(str::to_owned)).unwrap()
    }

    /// Runs a script in a fresh workspace.
    fn sh(&self, script: &str) -> Output {
        self.run(&spec(&self.workspace()), script)
    }

    /// Runs a Python script in a fresh workspace.
    fn python(&self, script: &str) -> Output {
        let argv = ["/usr/bin/python3", "-c", script].map(str::to_owned);
        sandbox::run(self.backend, &spec(&self.workspace()), &argv).unwrap()
    }
}

fn spec(workspace: &Workspace) -> Spec<'_> {
    Spec {
        workspace: Some(workspace),
        limits: Limits { wall: Duration::from_secs(30), ..Limits::default() },
        ..Spec::default()
    }
}

fn limits(wall_s: u64) -> Limits {
    Limits { wall: Duration::from_secs(wall_s), ..Limits::default() }
}

/// Asserts a command's standard output, showing everything if it is something else.
#[track_caller]
fn assert_prints(output: &Output, wanted: &str) {
    assert_eq!(output.stdout.text(), wanted, "{:?}\n{}", output.exit, output.stderr.text());
}

/// A word that occurs in no other command line of this machine.
pub fn marker() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("marker-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the host's processes with `marker` in their command line.
fn processes_with(marker: &str) -> Vec<PathBuf> {
    let has_marker = |path: &PathBuf| {
        let command_line = fs::read(path.join("cmdline")).unwrap_or_default();
        command_line.windows(marker.len()).any(|window| window == marker.as_bytes())
    };
    fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path()).filter(has_marker).collect()
}

/// Waits until no process of the host has `marker` in its command line.
#[track_caller]
pub fn assert_dead(marker: &str, within: Duration) {
    let since = Instant::now();
    while !processes_with(marker).is_empty() {
        assert!(since.elapsed() < within, "alive: {:?}", processes_with(marker));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A grandchild that leaves the process group and session and ignores TERM.
fn stubborn(marker: &str) -> String {
    format!("setsid -f sh -c 'trap \"\" TERM INT HUP; while :; do sleep 1; done' {marker}")
}

fn shown(host: &Path, inside: &str, writable: bool) -> Mount {
    Mount { host: host.to_owned(), inside: inside.into(), writable }
}

#[test]
fn tree_is_seen_and_written_in_the_workspace_only() {
    each(|place| {
        let output = place.sh("pwd; id -un; cat README; sh run.sh; echo x > new; rm README; ls");
        assert_prints(&output, "/testbed\nagent\nread me\nran\nlink\nnew\nrun.sh\nsrc\n");
        assert_eq!(output.exit, Exit::Code(0));
        assert!(place.template.path().join("README").exists());
        assert!(!place.template.path().join("new").exists());
    });
}

#[test]
fn exit_codes_and_signals_come_through() {
    each(|place| {
        assert_eq!(place.sh("exit 7").exit, Exit::Code(7));
        assert_eq!(place.sh("kill -SEGV $$").exit, Exit::Signal(11));
        let missing = sandbox::run(place.backend, &spec(&place.workspace()), &["no-such-program".to_owned()]).unwrap();
        assert_eq!(missing.exit, Exit::Code(127), "{}", missing.stderr.text());
    });
}
