//! What every sandbox backend promises, run on each one that works here.
//!
//! Each check gets a fresh place with a small template; its name is the promise.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use curate::sandbox::{self, Backend, Exit, Limits, Output, Spec, overlay::Workspace};
use tempfile::TempDir;

use crate::support::{backends, plant};

/// A template and a scratch directory of one check.
struct Place {
    backend: Backend,
    template: TempDir,
    scratch: TempDir,
}

const TEMPLATE: [(&str, &str); 7] = [
    ("README", "read me\n"),
    ("run.sh", "#!/bin/sh\necho ran\n"),
    ("src/a.py", "a = 1\n"),
    ("src/b.py", "b = 2\n"),
    ("src/deep/c.py", "c = 3\n"),
    ("link", "-> src"),
    (".git/HEAD", "ref: refs/heads/main\n"),
];

fn each(check: impl Fn(&Place)) {
    for backend in backends() {
        let place = Place { backend, template: TempDir::new().unwrap(), scratch: TempDir::new().unwrap() };
        plant(place.template.path(), &TEMPLATE);
        check(&place);
        let left: Vec<_> = fs::read_dir(place.scratch.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

impl Place {
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
}

fn spec(workspace: &Workspace) -> Spec<'_> {
    Spec {
        workspace: Some(workspace),
        mounts: Vec::new(),
        env: Vec::new(),
        network: false,
        limits: Limits { wall: Duration::from_secs(30), ..Limits::default() },
    }
}

/// Asserts a command's standard output, showing everything if it is something else.
#[track_caller]
fn assert_prints(output: &Output, wanted: &str) {
    assert_eq!(output.stdout.text(), wanted, "{:?}\n{}", output.exit, output.stderr.text());
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
