//! Processes that have loaded what many runs need, and fork themselves into those runs' sandboxes.
//!
//! Such a process lives in a user namespace of its own, with the capabilities to enter what is made below that one. A
//! sandbox that it is to enter is made there by bubblewrap as ever; in the command's place it starts a small client of
//! ours (`enter.c`), which hands over its streams, limits and environment. A fork joins the client's namespaces and
//! control groups, gives up all capabilities and goes on as the command. Nothing of a subject is in sight of the process
//! itself. Where it does not answer, the client starts the command.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::File,
    io::{IoSlice, Read},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::{Spec, launch};
use crate::process::Running;

/// Where a sandbox shows the client.
pub const CLIENT: &str = "/opt/curate/enter";
/// The client, compiled from `enter.c`.
pub const CLIENT_PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/enter"));

/// How long a process may take to load.
const MAX_START: Duration = Duration::from_secs(20);
/// Processes kept; each takes some tens of MiB.
const MAX_PROCESSES: usize = 12;

/// A process that is ready to enter sandboxes. Dropping it ends it, but no sandbox that it has entered.
#[derive(Debug)]
pub struct Preloaded {
    control: UnixStream,
    user_namespace: OwnedFd,
    _running: Running,
    _shown: tempfile::TempDir,
}

impl Preloaded {
    /// Starts `argv`, whose last words are made the number of the control socket and `place`, and waits until it is
    /// ready: it writes one byte. `shown` holds files that `spec` shows.
    ///
    /// # Errors
    /// It cannot be started or does not get ready.
    pub fn start(spec: &Spec, argv: &[String], place: &str, shown: tempfile::TempDir) -> Result<Preloaded> {
        let (mut control, theirs) = UnixStream::pair().context("create a pair of sockets")?;
        let number = theirs.as_raw_fd().to_string();
        let argv: Vec<OsString> = argv.iter().chain([&number, &place.to_owned()]).map(OsString::from).collect();
        let running = launch::launch_entering(spec, theirs.into(), &argv)?;
        control.set_read_timeout(Some(MAX_START)).context("set a time limit")?;
        control.read_exact(&mut [0]).context("wait for a preloaded process")?;
        let user_namespace = PathBuf::from(format!("/proc/{}/ns/user", running.id()));
        let user_namespace =
            File::open(&user_namespace).with_context(|| format!("open `{}`", user_namespace.display()))?.into();
        Ok(Preloaded { control, user_namespace, _running: running, _shown: shown })
    }

    pub(super) fn user_namespace(&self) -> BorrowedFd<'_> {
        self.user_namespace.as_fd()
    }

    /// Returns the client's end of a connection to a new fork; `None` where the process is gone.
    pub(super) fn connect(&self) -> Option<OwnedFd> {
        let (theirs, ours) = UnixStream::pair().ok()?;
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut descriptors = SendAncillaryBuffer::new(&mut room);
        let theirs = [theirs.as_fd()];
        descriptors.push(SendAncillaryMessage::ScmRights(&theirs)).then_some(())?;
        sendmsg(&self.control, &[IoSlice::new(b"c")], &mut descriptors, SendFlags::NOSIGNAL).ok()?;
        Some(ours.into())
    }
}

/// Preloaded processes by what they were started with. Clones share them.
#[derive(Clone, Debug)]
pub struct Pool(Option<Arc<Mutex<VecDeque<Entry>>>>);

/// Started by the first who asks; nothing where that failed.
type Started = Arc<OnceLock<Option<Arc<Preloaded>>>>;

#[derive(Debug)]
struct Entry {
    key: String,
    process: Started,
}

impl Pool {
    pub fn new() -> Pool {
        Pool(Some(Arc::default()))
    }

    /// Returns a pool that never has a process.
    pub fn off() -> Pool {
        Pool(None)
    }

    /// Returns the process with this key; started if there is none, and then perhaps in the place of the one that was
    /// not asked for the longest. `None` where it could not be started.
    pub fn get(&self, key: &str, start: impl FnOnce() -> Result<Preloaded>) -> Option<Arc<Preloaded>> {
        let process = {
            let mut entries = self.0.as_ref()?.lock().expect("no holder panics");
            let found = entries.iter().position(|entry| entry.key == key).and_then(|index| entries.remove(index));
            let entry = found.unwrap_or_else(|| Entry { key: key.to_owned(), process: Arc::default() });
            let process = Arc::clone(&entry.process);
            entries.push_back(entry);
            if entries.len() > MAX_PROCESSES {
                entries.pop_front();
            }
            process
        };
        process.get_or_init(|| start().ok().map(Arc::new)).clone()
    }
}

impl Default for Pool {
    fn default() -> Pool {
        Pool::new()
    }
}
