//! One control group per sandbox: memory and processes of all of it together.
//!
//! Resource limits hold per process, and the one on processes not at all for root. Both versions are used where we
//! may; where we may not, the resource limits are all there is, and [`Support`] says so.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{Limits, launch};

const PREFIX: &str = "curate-";
/// Bubblewrap's own processes in the group.
const OVERHEAD: u64 = 2;
/// How long a group may take to become empty after its processes were killed.
const MAX_EMPTYING: Duration = Duration::from_secs(2);

/// Where groups can be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Support {
    /// Parent of the groups that bound memory.
    pub memory: Option<Parent>,
    /// Parent of the groups that bound the number of processes.
    pub processes: Option<Parent>,
}

/// A directory to make groups in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    pub directory: PathBuf,
    pub version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

/// Returns what this process may use, found by trying; removes groups that dead processes of ours left.
pub fn support() -> &'static Support {
    static SUPPORT: OnceLock<Support> = OnceLock::new();
    SUPPORT.get_or_init(|| {
        let support = Support { memory: usable_parent("memory"), processes: usable_parent("pids") };
        for parent in [&support.memory, &support.processes].into_iter().flatten() {
            sweep(&parent.directory);
        }
        support
    })
}

/// A sandbox's groups; removed with [`Group::remove`] or on drop.
#[derive(Debug)]
pub(super) struct Group {
    directories: Vec<PathBuf>,
    memory: Option<Parent>,
    name: String,
}

impl Group {
    /// Creates the groups with their limits set; `None` where there is no support.
    pub(super) fn create(limits: &Limits) -> Option<Group> {
        let support = support();
        let mut group = Group { directories: Vec::new(), memory: None, name: unique_name() };
        if let Some(parent) = &support.processes {
            let directory = group.enter(parent)?;
            write(&directory, "pids.max", limits.processes + OVERHEAD)?;
        }
        if let Some(parent) = &support.memory {
            let directory = group.enter(parent)?;
            bound_memory(&directory, parent.version, limits.memory_bytes)?;
            group.memory = Some(Parent { directory, version: parent.version });
        }
        (!group.directories.is_empty()).then_some(group)
    }

    fn enter(&mut self, parent: &Parent) -> Option<PathBuf> {
        let directory = parent.directory.join(&self.name);
        if !self.directories.contains(&directory) {
            fs::create_dir(&directory).ok()?;
            self.directories.push(directory.clone());
        }
        Some(directory)
    }

    pub(super) fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    pub(super) fn out_of_memory_kills(&self) -> u64 {
        let Some(Parent { directory, version }) = &self.memory else { return 0 };
        let file = match version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        let text = fs::read_to_string(directory.join(file)).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")).and_then(|n| n.trim().parse().ok()).unwrap_or(0)
    }

    /// Kills whatever is still in the groups and removes them. What cannot be removed now is met at the next start.
    pub(super) fn remove(&mut self) {
        for directory in self.directories.drain(..) {
            remove(&directory);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.remove();
    }
}

fn bound_memory(directory: &Path, version: Version, bytes: u64) -> Option<()> {
    match version {
        Version::V1 => {
            write(directory, "memory.limit_in_bytes", bytes)?;
            // Absent where the kernel does not account for swap.
            let _ = write(directory, "memory.memsw.limit_in_bytes", bytes);
        }
        Version::V2 => {
            write(directory, "memory.max", bytes)?;
            let _ = write(directory, "memory.swap.max", 0);
        }
    }
    Some(())
}

fn write(directory: &Path, file: &str, value: u64) -> Option<()> {
    fs::write(directory.join(file), value.to_string()).ok()
}

fn unique_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{PREFIX}{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn remove(directory: &Path) {
    let since = Instant::now();
    while let Err(error) = fs::remove_dir(directory) {
        if error.kind() == io::ErrorKind::NotFound || since.elapsed() > MAX_EMPTYING {
            return;
        }
        for pid in fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default().lines() {
            if let Some(pid) = pid.parse().ok().and_then(rustix::process::Pid::from_raw) {
                // It may have ended since the list was made.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Removes groups whose maker is gone.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|name| name.split('-').next());
        if maker.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            remove(&entry.path());
        }
    }
}

/// Finds the nearest group at or above our own in which a limited group can be made and joined.
fn usable_parent(controller: &str) -> Option<Parent> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    candidates(&mounts, &groups, controller).into_iter().find(|parent| is_usable(parent, controller))
}

fn is_usable(parent: &Parent, controller: &str) -> bool {
    let directory = parent.directory.join(unique_name());
    if fs::create_dir(&directory).is_err() {
        return false;
    }
    let (limit, value) = match (controller, parent.version) {
        ("pids", _) => ("pids.max", 1 << 10),
        (_, Version::V1) => ("memory.limit_in_bytes", 1 << 30),
        (_, Version::V2) => ("memory.max", 1 << 30),
    };
    let procs = directory.join("cgroup.procs");
    let join = ["sh", "-c", r#"echo 0 >"$1""#, "curate", &procs.to_string_lossy()];
    let usable = write(&directory, limit, value).is_some() && launch::succeeds(&join, None);
    remove(&directory);
    usable
}

/// Returns the places to try, nearest first, from the texts of `mountinfo` and `cgroup` in `/proc/self`.
fn candidates(mounts: &str, groups: &str, controller: &str) -> Vec<Parent> {
    let own: BTreeMap<&str, &str> = groups
        .lines()
        .filter_map(|line| line.split_once(':')?.1.split_once(':'))
        .flat_map(|(controllers, path)| controllers.split(',').map(move |name| (name, path)))
        .collect();
    let mut parents = Vec::new();
    for line in mounts.lines() {
        let Some((place, kind)) = line.split_once(" - ") else { continue };
        let (place, kind): (Vec<&str>, Vec<&str>) = (place.split(' ').collect(), kind.split(' ').collect());
        let (&[_, _, _, root, target, ..], &[kind, .., options]) = (place.as_slice(), kind.as_slice()) else {
            continue;
        };
        let (version, path) = match kind {
            "cgroup" if options.split(',').any(|option| option == controller) => (Version::V1, own.get(controller)),
            "cgroup2" => (Version::V2, own.get("")),
            _ => continue,
        };
        // Inside a container the mount shows only a part of the hierarchy.
        let below = path.and_then(|path| Path::new(path).strip_prefix(root).ok()).unwrap_or(Path::new(""));
        let nearest: PathBuf = Path::new(target).join(below).components().collect();
        let up = nearest.ancestors().take_while(|directory| directory.starts_with(target));
        parents.extend(up.map(|directory| Parent { directory: directory.to_owned(), version }));
    }
    parents
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories(mounts: &str, groups: &str, controller: &str) -> Vec<(String, Version)> {
        let parents = candidates(mounts, groups, controller);
        parents.into_iter().map(|parent| (parent.directory.display().to_string(), parent.version)).collect()
    }

    #[test]
    fn candidates_go_from_our_own_group_upwards() {
        let mounts = "30 29 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        let groups = "0::/user.slice/session-1.scope\n";
        assert_eq!(
            directories(mounts, groups, "memory"),
            [
                ("/sys/fs/cgroup/user.slice/session-1.scope".to_owned(), Version::V2),
                ("/sys/fs/cgroup/user.slice".to_owned(), Version::V2),
                ("/sys/fs/cgroup".to_owned(), Version::V2),
            ]
        );
    }

    #[test]
    fn version_one_has_a_hierarchy_per_controller() {
        let mounts = "31 29 0:27 / /cg/memory rw shared:5 - cgroup cgroup rw,memory\n\
                      32 29 0:28 /docker/1 /cg/pids rw - cgroup cgroup rw,pids\n";
        let groups = "9:pids:/docker/1\n8:cpu,memory:/jobs\n0::/\n";
        assert_eq!(
            directories(mounts, groups, "memory"),
            [("/cg/memory/jobs".to_owned(), Version::V1), ("/cg/memory".to_owned(), Version::V1)]
        );
        assert_eq!(directories(mounts, groups, "pids"), [("/cg/pids".to_owned(), Version::V1)]);
    }
}
