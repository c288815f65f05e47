//! A persistent shell in one sandbox: commands run one after another, background processes live on between them.
//!
//! Inside, a small shell loop is process 1, which nothing inside can kill. It reads numbers from its standard input,
//! runs the text of `N.cmd` with its output going to the pipe `N.out`, both in a private directory of the host that
//! is shown read-only, and answers `N code`. It keeps no state: every command starts in the same directory with the
//! same environment. What a command's own processes do to the loop costs that command at most; the next one gets a
//! new sandbox over the same files.

use std::{
    ffi::OsString,
    fs,
    io::Write,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::{
    event::PollFlags,
    fs::{CWD, FileType, Mode, OFlags},
};

use super::{
    Backend, Exit, Output, Spec, blame_memory,
    launch::{self, Launched},
};
use crate::{
    interrupt,
    process::{self, Capture, Pumped, Recorder},
};

/// The loop that runs inside, as process 1.
///
/// `eval` takes texts of any length, where an argument ends at 128 KiB, and keeps them out of the process list, where
/// a command's own `pkill -f` would find itself. An answer starts on a line of its own whatever stands before it.
const SERVER: &str = r#"
echo '0 0'
while IFS= read -r n; do
    "$BASH" -c "eval \"\$(</session/$n.cmd)\"" bash </dev/null >"/session/$n.out" 2>&1
    printf '\n%s %s\n' "$n" "$?"
done
"#;

/// How long a sandbox may take to be set up.
const MAX_START: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(50);
/// Kept of what the loop and the set-up print about themselves.
const MAX_COMPLAINT_BYTES: usize = 4 << 10;

/// An open sandbox with a shell server in it. Dropping it kills everything inside.
#[derive(Debug)]
pub struct Session<'a> {
    spec: &'a Spec<'a>,
    /// `None` after a sandbox was lost or killed, until the next command.
    server: Option<Server>,
    n_commands: u64,
}

impl<'a> Session<'a> {
    /// Opens a sandbox over the workspace of `spec`; its wall limit is not used, each command has its own.
    ///
    /// # Errors
    /// The backend cannot be started, or `spec` has no workspace.
    pub fn open(backend: Backend, spec: &'a Spec<'a>) -> Result<Session<'a>> {
        let Backend::Bubblewrap = backend;
        Ok(Session { spec, server: Some(Server::start(spec)?), n_commands: 0 })
    }

    /// Runs `bash -c command` in [`super::TREE`] with empty standard input; standard error goes to `Output::stdout`
    /// with standard output, in order.
    ///
    /// Returns soon after the shell exits even if background processes hold its output. On a time-out the whole
    /// sandbox is killed and, for the next command, opened anew over the same workspace: files stay, background
    /// processes are gone. `Output::stderr` holds the set-up's complaint where the sandbox was lost.
    ///
    /// # Errors
    /// The sandbox cannot be reopened. A sandbox that vanishes under a command gives `Exit::Lost`.
    pub fn exec(&mut self, command: &str, wall: Duration) -> Result<Output> {
        let mut server = match self.server.take() {
            Some(server) => server,
            None => Server::start(self.spec)?,
        };
        self.n_commands += 1;
        let started = Instant::now();
        let pipe = OutputPipe::create(&server.directory, self.n_commands)?;
        let mut recorder = Recorder::new(self.spec.limits.output_bytes);
        let kills = server.sandbox.out_of_memory_kills();
        server.request(self.n_commands, command)?;
        let end = server.wait(self.n_commands, Some((&pipe, &mut recorder)), wall)?;
        let wall = started.elapsed();
        let kills = server.sandbox.out_of_memory_kills() - kills;
        let mut stderr = Capture::default();
        let exit = match end {
            End::Answered(code) => {
                self.server = Some(server);
                blame_memory(launch::exit_of(code), kills)
            }
            End::Stopped(exit) => {
                drop(server);
                exit
            }
            End::Vanished => {
                stderr = server.complaint()?;
                drop(server);
                blame_memory(Exit::Lost, kills)
            }
        };
        pipe.finish(&mut recorder)?;
        Ok(Output { exit, stdout: recorder.finish(), stderr, wall })
    }
}

/// How the wait for a command ended.
enum End {
    /// The loop says so, with the exit code.
    Answered(i32),
    /// By the clock or the user.
    Stopped(Exit),
    /// The sandbox is gone.
    Vanished,
}

/// One sandbox with the loop in it.
#[derive(Debug)]
struct Server {
    // Dropped first: nobody uses the directory when it is removed.
    sandbox: Launched,
    directory: tempfile::TempDir,
    /// The beginning of an answer.
    answer: Vec<u8>,
    /// Whether the loop can still answer.
    can_answer: bool,
    complaint: Recorder,
}

impl Server {
    fn start(spec: &Spec) -> Result<Server> {
        let workspace = spec.workspace.context("open a session: it needs a workspace")?;
        let directory = tempfile::Builder::new().prefix("session-").tempdir_in(workspace.root());
        let directory = directory.context("create a session's directory")?;
        let argv = ["/bin/bash", "--noprofile", "--norc", "-c", SERVER].map(OsString::from);
        let sandbox = launch::launch(spec, Some(directory.path()), &argv)?;
        let complaint = Recorder::new(MAX_COMPLAINT_BYTES);
        let mut server = Server { sandbox, directory, answer: Vec::new(), can_answer: true, complaint };
        match server.wait(0, None, MAX_START)? {
            End::Answered(_) => Ok(server),
            End::Stopped(Exit::Interrupted) => Err(interrupt::Interrupted.into()),
            End::Stopped(_) | End::Vanished => {
                let complaint = server.complaint()?.text();
                anyhow::bail!("open a session: the sandbox did not start: {}", complaint.trim())
            }
        }
    }

    /// Asks for a command to be run. A loop that is gone is noticed by the wait that follows.
    fn request(&mut self, number: u64, command: &str) -> Result<()> {
        let path = self.directory.path().join(format!("{number}.cmd"));
        fs::write(&path, command).with_context(|| format!("write `{}`", path.display()))?;
        if let Some(stdin) = &mut self.sandbox.running().stdin {
            let _ = writeln!(stdin, "{number}");
        }
        Ok(())
    }

    /// Waits for the answer to a request, reading the command's output meanwhile.
    fn wait(&mut self, number: u64, mut output: Option<(&OutputPipe, &mut Recorder)>, wall: Duration) -> Result<End> {
        let started = Instant::now();
        loop {
            if let Some((pipe, recorder)) = &mut output {
                process::pump(&pipe.reader, recorder)?;
            }
            if let Some(code) = self.read_answer(number)? {
                return Ok(End::Answered(code));
            }
            let running = self.sandbox.running();
            process::pump(&running.stderr, &mut self.complaint)?;
            if !self.can_answer || running.has_ended()? {
                return Ok(End::Vanished);
            }
            if interrupt::requested() {
                return Ok(End::Stopped(Exit::Interrupted));
            }
            let left = wall.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(End::Stopped(Exit::TimedOut));
            }
            let mut descriptors = vec![(running.exit_event(), PollFlags::IN), (running.stdout.as_fd(), PollFlags::IN)];
            descriptors.extend(output.iter().map(|(pipe, _)| (pipe.reader.as_fd(), PollFlags::IN)));
            process::wait_for(&descriptors, left.clamp(Duration::from_millis(1), TICK))?;
        }
    }

    /// Reads what the loop said; answers to anything but `number` are somebody else's and dropped.
    fn read_answer(&mut self, number: u64) -> Result<Option<i32>> {
        let mut recorder = Recorder::new(MAX_COMPLAINT_BYTES);
        let pumped = process::pump(&self.sandbox.running().stdout, &mut recorder)?;
        self.can_answer = pumped == Pumped::Open;
        let said = recorder.finish();
        self.answer.extend_from_slice(&said.head);
        self.answer.extend_from_slice(&said.tail);
        let Some(end) = self.answer.iter().rposition(|byte| *byte == b'\n') else {
            let surplus = self.answer.len().saturating_sub(MAX_COMPLAINT_BYTES);
            self.answer.drain(..surplus);
            return Ok(None);
        };
        let lines: Vec<u8> = self.answer.drain(..=end).collect();
        let codes = String::from_utf8_lossy(&lines).into_owned();
        Ok(codes.lines().find_map(|line| {
            let (answered, code) = line.split_once(' ')?;
            (answered.parse() == Ok(number)).then(|| code.parse().ok()).flatten()
        }))
    }

    /// Ends the sandbox and returns what it said about itself.
    fn complaint(&mut self) -> Result<Capture> {
        process::pump(&self.sandbox.running().stderr, &mut self.complaint)?;
        Ok(std::mem::replace(&mut self.complaint, Recorder::new(MAX_COMPLAINT_BYTES)).finish())
    }
}

/// The named pipe that one command's output goes to.
#[derive(Debug)]
struct OutputPipe {
    path: PathBuf,
    reader: OwnedFd,
    /// Keeps the pipe from looking ended before the command has opened it.
    holder: OwnedFd,
}

impl OutputPipe {
    fn create(directory: &tempfile::TempDir, number: u64) -> Result<OutputPipe> {
        let path = directory.path().join(format!("{number}.out"));
        let context = || format!("create pipe `{}`", path.display());
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, mode, 0).with_context(context)?;
        let open = |access| rustix::fs::open(&path, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
        let holder = open(OFlags::RDWR).with_context(context)?;
        let reader = open(OFlags::RDONLY).with_context(context)?;
        Ok(OutputPipe { path, reader, holder })
    }

    /// Reads what is in the pipe now: all that the command itself wrote. What background processes write from here on
    /// is read and forgotten, so that they neither block nor get a signal.
    fn finish(self, recorder: &mut Recorder) -> Result<()> {
        drop(self.holder);
        let pumped = process::pump(&self.reader, recorder)?;
        // The session's directory may be gone with its sandbox.
        let _ = fs::remove_file(self.path.with_extension("cmd"));
        let _ = fs::remove_file(&self.path);
        if pumped == Pumped::Open {
            rustix::fs::fcntl_setfl(&self.reader, OFlags::empty()).context("make a pipe blocking")?;
            process::discard(self.reader);
        }
        Ok(())
    }
}
