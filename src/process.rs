//! The only place that starts processes: argv, cleared environment, time limit, group kill, bounded capture.
//!
//! A child leads its own process group and dies with us, even if we are killed. Its output is read while it runs and
//! only a bounded head and tail are kept. What isolation is, this module does not know: a descendant that leaves the
//! process group survives a time-out here; only a sandbox kills those too.

use std::{
    ffi::OsString,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ExitStatus, Stdio},
    sync::{Mutex, OnceLock, mpsc},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::OFlags,
    io::{Errno, FdFlags},
    process::{Pid, PidfdFlags, Signal},
};

use crate::interrupt;

mod capture;

pub use capture::Capture;
pub(crate) use capture::Recorder;

/// How long a call waits at most before it looks at the clock and the interrupt flag again.
const TICK: Duration = Duration::from_millis(50);
/// Time between TERM and KILL.
const GRACE: Duration = Duration::from_millis(500);
/// How long streams are read after the child's end while somebody else still holds them.
const DRAIN: Duration = Duration::from_millis(200);

/// What to run. The environment is cleared, then set.
#[derive(Clone, Debug)]
pub struct Command {
    pub argv: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub cwd: Option<PathBuf>,
    pub stdin: Vec<u8>,
    /// Killed with all its process group when this has passed.
    pub wall: Duration,
    /// Bytes kept of each stream: half of it from the head, half from the tail.
    pub max_output_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    TimedOut,
    /// Killed because of Ctrl-C.
    Interrupted,
}

#[derive(Clone, Debug)]
pub struct Finished {
    pub exit: Exit,
    pub stdout: Capture,
    pub stderr: Capture,
    pub wall: Duration,
}

/// Runs a command to its end, its time limit, or an interrupt; whatever is left of its process group is then killed.
///
/// A background process that holds the streams open does not hold the call open.
///
/// # Errors
/// The program cannot be started.
pub fn run(command: &Command) -> Result<Finished> {
    let running = start(&command.argv, &command.env, command.cwd.as_deref(), Vec::new())?;
    let bounds = Bounds { wall: command.wall, grace: GRACE, max_output_bytes: command.max_output_bytes };
    running.finish(&command.stdin, bounds)
}

/// What ends a running process, and what is kept of its output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub wall: Duration,
    /// Time between TERM and KILL; zero kills at once.
    pub grace: Duration,
    pub max_output_bytes: usize,
}

/// A started process. Dropping it kills its process group.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    pid: Pid,
    /// Readable once the process has ended.
    exit_event: OwnedFd,
    pub stdin: Option<ChildStdin>,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// Starts a process with three pipes, ours non-blocking; it keeps the descriptors `inherit` under their numbers.
pub(crate) fn start(
    argv: &[OsString],
    env: &[(OsString, OsString)],
    cwd: Option<&Path>,
    inherit: Vec<OwnedFd>,
) -> Result<Running> {
    let (program, arguments) = argv.split_first().context("start a process: its command line is empty")?;
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    let mut command = std::process::Command::new(program);
    command.args(arguments).env_clear().envs(env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    if let Some(cwd) = cwd {
        command.current_dir(cwd);
    }
    die_with_us(&mut command, inherit);
    let mut child = spawn(command).with_context(|| format!("start `{}`", program.display()))?;
    let pid = Pid::from_child(&child);
    let stdin = child.stdin.take();
    let stdout = OwnedFd::from(child.stdout.take().expect("standard output is a pipe"));
    let stderr = OwnedFd::from(child.stderr.take().expect("standard error is a pipe"));
    let exit_event = rustix::process::pidfd_open(pid, PidfdFlags::empty()).context("watch a process")?;
    let running = Running { child, pid, exit_event, stdin, stdout, stderr };
    set_nonblocking(&running.stdout)?;
    set_nonblocking(&running.stderr)?;
    if let Some(stdin) = &running.stdin {
        set_nonblocking(stdin)?;
    }
    Ok(running)
}

pub(crate) fn set_nonblocking(descriptor: impl AsFd) -> Result<()> {
    rustix::fs::fcntl_setfl(descriptor, OFlags::NONBLOCK).context("make a pipe non-blocking")
}

/// Makes the kernel kill the child when we die, and leaves it the descriptors `inherit`.
fn die_with_us(command: &mut std::process::Command, inherit: Vec<OwnedFd>) {
    let parent = rustix::process::getpid();
    let prepare = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // We may have died before the line above took effect.
        if rustix::process::getppid() != Some(parent) {
            return Err(Errno::SRCH.into());
        }
        for descriptor in &inherit {
            rustix::io::fcntl_setfd(descriptor, FdFlags::empty())?;
        }
        Ok(())
    };
    #[expect(unsafe_code, reason = "runs between fork and exec: it makes system calls only and never allocates")]
    unsafe {
        command.pre_exec(prepare);
    }
}

type SpawnRequest = (std::process::Command, mpsc::Sender<io::Result<Child>>);

/// Spawns from a thread that lives as long as we do.
///
/// The kernel's parent-death signal follows the thread that forked, not the process.
fn spawn(command: std::process::Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Mutex<mpsc::Sender<SpawnRequest>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        keep_foreign_descriptors_out();
        let (sender, requests) = mpsc::channel::<SpawnRequest>();
        thread::spawn(move || {
            for (mut command, reply) in requests {
                // The other side waits for it.
                let _ = reply.send(command.spawn());
            }
        });
        Mutex::new(sender)
    });
    let (reply, child) = mpsc::channel();
    let sender = spawner.lock().expect("no holder panics").clone();
    sender.send((command, reply)).expect("the spawner lives as long as the process");
    child.recv().expect("the spawner answers every request")
}

/// Marks descriptors that we were started with, other than the three streams, as not for our children.
///
/// Ours are marked when they are opened; a stray one of the caller's could lead out of a sandbox.
fn keep_foreign_descriptors_out() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers: Vec<i32> = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        #[expect(unsafe_code, reason = "only a flag is set, which harms nobody if the number has changed hands")]
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        // The listing's own descriptor is closed by now.
        let _ = rustix::io::fcntl_setfd(descriptor, FdFlags::CLOEXEC);
    }
}

impl Running {
    /// Feeds `input`, reads the output, and waits for the end, the time limit or an interrupt.
    pub(crate) fn finish(mut self, input: &[u8], bounds: Bounds) -> Result<Finished> {
        let started = Instant::now();
        let mut stdout = Recorder::new(bounds.max_output_bytes);
        let mut stderr = Recorder::new(bounds.max_output_bytes);
        let mut input = Some(input);
        let mut streams = Streams { stdout: true, stderr: true };
        let mut stopped: Option<(Exit, Instant)> = None;
        loop {
            self.feed(&mut input);
            streams.stdout = streams.stdout && pump(&self.stdout, &mut stdout)? == Pumped::Open;
            streams.stderr = streams.stderr && pump(&self.stderr, &mut stderr)? == Pumped::Open;
            if self.has_ended()? {
                break;
            }
            match stopped {
                Some((_, since)) if since.elapsed() >= bounds.grace => self.signal_group(Signal::KILL),
                Some(_) => {}
                None => {
                    stopped = reason_to_stop(started, bounds.wall).map(|reason| (reason, Instant::now()));
                    if stopped.is_some() {
                        self.signal_group(if bounds.grace.is_zero() { Signal::KILL } else { Signal::TERM });
                    }
                }
            }
            let left = if stopped.is_some() { TICK } else { bounds.wall.saturating_sub(started.elapsed()) };
            self.wait_for_events(streams, input.is_some(), left)?;
        }
        let wall = started.elapsed();
        let status = self.reap()?;
        self.drain(streams, &mut stdout, &mut stderr)?;
        let exit = stopped.map_or_else(|| exit_of(status), |(reason, _)| reason);
        Ok(Finished { exit, stdout: stdout.finish(), stderr: stderr.finish(), wall })
    }

    /// Writes as much input as fits into the pipe; closes it at the end of the input or when nobody reads.
    fn feed(&mut self, input: &mut Option<&[u8]>) {
        while let (Some(left), Some(stdin)) = (input.as_mut(), self.stdin.as_mut()) {
            match stdin.write(left) {
                Ok(n) if n < left.len() => *left = &left[n..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // All is written, or the reader is gone, which is its own affair.
                Ok(_) | Err(_) => {
                    *input = None;
                    self.stdin = None;
                }
            }
        }
    }

    /// Waits for output, room for input, the end, or a tick.
    fn wait_for_events(&self, streams: Streams, input: bool, left: Duration) -> Result<()> {
        let mut descriptors = vec![(self.exit_event(), PollFlags::IN)];
        if streams.stdout {
            descriptors.push((self.stdout.as_fd(), PollFlags::IN));
        }
        if streams.stderr {
            descriptors.push((self.stderr.as_fd(), PollFlags::IN));
        }
        if let (true, Some(stdin)) = (input, &self.stdin) {
            descriptors.push((stdin.as_fd(), PollFlags::OUT));
        }
        wait_for(&descriptors, left.clamp(Duration::from_millis(1), TICK))
    }

    pub(crate) fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    pub(crate) fn exit_event(&self) -> BorrowedFd<'_> {
        self.exit_event.as_fd()
    }

    /// Says whether the process has ended. Its id stays taken until [`Running::reap`].
    pub(crate) fn has_ended(&self) -> Result<bool> {
        has_event(&self.exit_event)
    }

    /// Kills what is left of the group and returns how its leader ended.
    pub(crate) fn reap(&mut self) -> Result<ExitStatus> {
        self.signal_group(Signal::KILL);
        self.child.wait().context("wait for a process")
    }

    fn signal_group(&self, signal: Signal) {
        // The group may be gone already, which is what we want.
        let _ = rustix::process::kill_process_group(self.pid, signal);
    }

    /// Reads on until the streams end, for a short time at most.
    fn drain(&self, mut streams: Streams, stdout: &mut Recorder, stderr: &mut Recorder) -> Result<()> {
        let since = Instant::now();
        loop {
            streams.stdout = streams.stdout && pump(&self.stdout, stdout)? == Pumped::Open;
            streams.stderr = streams.stderr && pump(&self.stderr, stderr)? == Pumped::Open;
            let left = DRAIN.saturating_sub(since.elapsed());
            if (!streams.stdout && !streams.stderr) || left.is_zero() {
                return Ok(());
            }
            let open = [(streams.stdout, &self.stdout), (streams.stderr, &self.stderr)];
            let descriptors: Vec<_> =
                open.iter().filter(|(open, _)| *open).map(|(_, fd)| (fd.as_fd(), PollFlags::IN)).collect();
            wait_for(&descriptors, left)?;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // `try_wait` remembers an earlier wait: a group id that may be somebody else's by now is left alone.
        if let Ok(None) = self.child.try_wait() {
            let _ = self.reap();
        }
    }
}

/// Which output streams have not ended.
#[derive(Clone, Copy)]
struct Streams {
    stdout: bool,
    stderr: bool,
}

fn reason_to_stop(started: Instant, wall: Duration) -> Option<Exit> {
    if interrupt::requested() { Some(Exit::Interrupted) } else { (started.elapsed() >= wall).then_some(Exit::TimedOut) }
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.expect("an ended process has a code or a signal")),
    }
}

/// Waits until something happens on one of the descriptors or the time has passed.
pub(crate) fn wait_for(descriptors: &[(BorrowedFd<'_>, PollFlags)], left: Duration) -> Result<()> {
    let mut descriptors: Vec<_> = descriptors.iter().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
    let timeout = Timespec::try_from(left).expect("a tick is short");
    match poll(&mut descriptors, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error).context("wait for a process"),
    }
}

/// Says whether a descriptor is readable now.
pub(crate) fn has_event(descriptor: impl AsFd) -> Result<bool> {
    let descriptor = descriptor.as_fd();
    let mut descriptors = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    match poll(&mut descriptors, Some(&Timespec::default())) {
        Ok(n) => Ok(n > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error).context("look at a process"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pumped {
    /// Nothing more to read now, or so much that the caller should look at the clock.
    Open,
    Ended,
}

/// Reads what is there from a non-blocking descriptor, at most a few MiB a call.
pub(crate) fn pump(descriptor: impl AsFd, recorder: &mut Recorder) -> Result<Pumped> {
    let mut buffer = vec![0; 64 << 10];
    for _ in 0..64 {
        match rustix::io::read(&descriptor, &mut buffer[..]) {
            Ok(0) => return Ok(Pumped::Ended),
            Ok(n) => recorder.push(&buffer[..n]),
            Err(Errno::AGAIN) => return Ok(Pumped::Open),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("read a process's output"),
        }
    }
    Ok(Pumped::Open)
}

/// Reads a descriptor to its end in the background and forgets what it reads.
pub(crate) fn discard(descriptor: OwnedFd) {
    thread::spawn(move || {
        let mut file = std::fs::File::from(descriptor);
        let mut buffer = vec![0; 64 << 10];
        while matches!(file.read(&mut buffer), Ok(n) if n > 0) {}
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        Command {
            argv: ["/bin/sh", "-c", script].map(OsString::from).to_vec(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            cwd: None,
            stdin: Vec::new(),
            wall: Duration::from_secs(20),
            max_output_bytes: 1 << 10,
        }
    }

    #[test]
    fn streams_code_environment_and_directory_are_the_commands() {
        let command = Command { cwd: Some("/usr".into()), ..shell("pwd; env | grep -c HOME; echo bad >&2; exit 3") };
        let finished = run(&command).unwrap();
        assert_eq!(finished.exit, Exit::Code(3));
        assert_eq!(finished.stdout.text(), "/usr\n0\n");
        assert_eq!(finished.stderr.text(), "bad\n");
        assert_eq!(run(&shell("kill -USR1 $$")).unwrap().exit, Exit::Signal(10));
    }

    #[test]
    fn input_larger_than_a_pipe_is_fed_while_output_is_read() {
        let stdin: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let finished = run(&Command { stdin: stdin.clone(), max_output_bytes: 4 << 20, ..shell("cat") }).unwrap();
        assert_eq!(finished.stdout.head, stdin);
        let ignored = run(&Command { stdin, ..shell("exec 0<&-; echo done") }).unwrap();
        assert_eq!((ignored.exit, ignored.stdout.text()), (Exit::Code(0), "done\n".to_owned()));
    }

    #[test]
    fn time_out_is_a_term_then_a_kill_and_keeps_the_output() {
        let wall = Duration::from_millis(200);
        let polite = run(&Command { wall, ..shell("trap 'echo bye; exit 0' TERM; echo hi; sleep 60 & wait") }).unwrap();
        assert_eq!((polite.exit, polite.stdout.text()), (Exit::TimedOut, "hi\nbye\n".to_owned()));
        let stubborn = run(&Command { wall, ..shell("trap '' TERM; while :; do sleep 1; done") }).unwrap();
        assert_eq!(stubborn.exit, Exit::TimedOut);
        assert!(stubborn.wall < Duration::from_secs(3), "{:?}", stubborn.wall);
    }

    #[test]
    fn b067_background_process_does_not_hold_the_call_open() {
        for script in ["sleep 30 & echo done", "setsid sleep 3 & echo done"] {
            let started = Instant::now();
            let finished = run(&shell(script)).unwrap();
            assert_eq!(finished.stdout.text(), "done\n");
            assert!(started.elapsed() < Duration::from_secs(2), "{script}: {:?}", started.elapsed());
        }
    }

    #[test]
    fn missing_program_is_an_error_that_names_it() {
        let error = run(&Command { argv: vec!["no-such-program".into()], ..shell("") }).unwrap_err();
        assert_eq!(error.to_string(), "start `no-such-program`");
    }
}
