//! A commit's tree as a directory, with a repository that knows this one state and nothing of what came after.
//!
//! Files are written from blobs as they are: no filter, no line-end conversion, no `export-ignore`. Symbolic links are
//! created after everything else, so that nothing is ever written through one. File times derive from blob ids, which
//! makes caches keyed on (time, size) content-addressed. The repository's only objects are those reachable from the
//! tree, and one commit.

use std::{
    ffi::OsStr,
    fs,
    io::Write as _,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink},
    },
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow, bail};
use git2::{Index, IndexEntry, IndexTime, ObjectType, Oid, Repository};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use super::{EXECUTABLE, ReadError, Repo, object, object::canonical_mode, read_object, tree::Node};

/// Earliest file time, and the time of directories, seconds since 1970.
const FIRST_TIME: i64 = 1_000_000_000;
/// File times lie in this many seconds after [`FIRST_TIME`].
const TIME_SPAN: u64 = 900_000_000;

/// File times and sizes tell whether a file has changed: inodes and change times differ between copies of a template.
const CONFIG: &str = "[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
\tautocrlf = false
\tcheckStat = minimal
\ttrustctime = false
";

/// Overrides the tree's own attributes, so that git shows and stores the bytes of the files.
const ATTRIBUTES: &str = "* -text -ident -filter !eol !working-tree-encoding\n";

/// Writes a commit's tree and its synthetic repository; see [`Repo::write_template`].
pub fn write(repo: &Repo, commit: &str, dir: &Path) -> Result<()> {
    let id = Oid::from_str(&repo.resolve(commit)?)?;
    let base = repo.commit(id)?;
    if fs::read_dir(dir)?.next().is_some() {
        bail!("directory `{}` is not empty", dir.display());
    }
    let mut content = Content::default();
    collect(repo, base.tree, &mut Vec::new(), &mut content)?;
    write_files(repo, &content, dir)?;
    let git_dir = dir.join(".git");
    write_repository(repo, base.tree, base.time.unwrap_or(0), &content, &git_dir)?;
    write_index(&content, dir, &git_dir)?;
    settle_directories(&content, dir)
}

/// Everything below a tree.
#[derive(Default)]
struct Content {
    /// In the order of the walk: parents before what is in them.
    directories: Vec<Vec<u8>>,
    files: Vec<(Vec<u8>, Node)>,
    /// Ids of all trees, with repetitions.
    trees: Vec<Oid>,
}

fn collect(repo: &Repo, tree: Oid, prefix: &mut Vec<u8>, content: &mut Content) -> Result<()> {
    let odb = repo.odb()?;
    content.trees.push(tree);
    let object = read_object(&odb, tree, ObjectType::Tree)?;
    for entry in object::entries(object.data()) {
        let entry = entry.map_err(|why| ReadError::Corrupt(tree, why))?;
        check_path(entry.name).map_err(|why| anyhow!("{why}"))?;
        if entry.name.contains(&b'/') {
            bail!("the name `{}` holds a slash", String::from_utf8_lossy(entry.name));
        }
        let length = prefix.len();
        if length > 0 {
            prefix.push(b'/');
        }
        prefix.extend_from_slice(entry.name);
        let node = Node { mode: canonical_mode(entry.raw_mode), oid: entry.oid };
        if node.is_directory() {
            content.directories.push(prefix.clone());
            collect(repo, node.oid, prefix, content)?;
        } else {
            content.files.push((prefix.clone(), node));
        }
        prefix.truncate(length);
    }
    Ok(())
}

/// Checks that a path stays inside a tree and away from `.git`, in every spelling that some file system folds to it.
///
/// # Errors
/// The text names the offending component.
pub fn check_path(path: &[u8]) -> Result<(), String> {
    let shown = || String::from_utf8_lossy(path).into_owned();
    if path.contains(&0) {
        return Err(format!("path `{}` holds a NUL", shown()));
    }
    for component in path.split(|&byte| byte == b'/') {
        match component {
            b"" if path.starts_with(b"/") => return Err(format!("absolute path `{}`", shown())),
            b"" => return Err(format!("path `{}` has an empty component", shown())),
            b"." | b".." => return Err(format!("path `{}` leaves the tree", shown())),
            _ if is_git_directory(component) => return Err(format!("path `{}` lies within `.git`", shown())),
            _ => {}
        }
    }
    Ok(())
}

/// Says whether a name is `.git` once case, trailing dots and blanks, streams (`:`), the short name `git~1`, and the
/// characters that HFS+ ignores are taken away.
fn is_git_directory(name: &[u8]) -> bool {
    let folded: String = String::from_utf8_lossy(name)
        .chars()
        .filter(|letter| !matches!(u32::from(*letter), 0x200c..=0x200f | 0x202a..=0x202e | 0x206a..=0x206f | 0xfeff))
        .collect::<String>()
        .to_lowercase();
    let stem = folded.split([':', '\\']).next().unwrap_or_default().trim_end_matches(['.', ' ']);
    stem == ".git" || stem == "git~1"
}

fn write_files(repo: &Repo, content: &Content, dir: &Path) -> Result<()> {
    for path in &content.directories {
        create_directory(&at(dir, path))?;
    }
    for (path, node) in content.files.iter().filter(|(_, node)| !node.is_symlink()) {
        let target = at(dir, path);
        if node.is_gitlink() {
            create_directory(&target)?;
        } else {
            write_file(&target, &repo.content(node.oid)?, node.mode)?;
            set_time(&target, blob_time(node.oid))?;
        }
    }
    for (path, node) in content.files.iter().filter(|(_, node)| node.is_symlink()) {
        let target = at(dir, path);
        let text = repo.content(node.oid)?;
        symlink(OsStr::from_bytes(&text), &target).with_context(|| format!("create link `{}`", target.display()))?;
        set_time(&target, blob_time(node.oid))?;
    }
    Ok(())
}

fn at(dir: &Path, path: &[u8]) -> PathBuf {
    dir.join(OsStr::from_bytes(path))
}

fn create_directory(path: &Path) -> Result<()> {
    let create = || format!("create directory `{}`", path.display());
    fs::create_dir(path).with_context(create)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).with_context(create)
}

fn write_file(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let write = || format!("write file `{}`", path.display());
    let permissions = if mode == EXECUTABLE { 0o755 } else { 0o644 };
    let mut file =
        fs::OpenOptions::new().write(true).create_new(true).mode(permissions).open(path).with_context(write)?;
    file.write_all(bytes).with_context(write)?;
    file.set_permissions(fs::Permissions::from_mode(permissions)).with_context(write)
}

/// Returns the time that files with this content get in every template, seconds since 1970.
///
/// # Errors
/// The content is larger than git's objects can be.
pub fn content_time(content: &[u8]) -> Result<i64> {
    Ok(blob_time(Oid::hash_object(ObjectType::Blob, content)?))
}

fn blob_time(id: Oid) -> i64 {
    let rest = id.as_bytes().iter().fold(0, |rest, byte| (rest * 256 + u64::from(*byte)) % TIME_SPAN);
    FIRST_TIME + rest.cast_signed()
}

/// Sets a file's time, a link's own where it is one.
fn set_time(path: &Path, seconds: i64) -> Result<()> {
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
        .with_context(|| format!("set the time of `{}`", path.display()))
}

/// Gives all directories the same time, innermost first.
fn settle_directories(content: &Content, dir: &Path) -> Result<()> {
    let links = content.files.iter().filter(|(_, node)| node.is_gitlink()).map(|(path, _)| path);
    for path in links.chain(content.directories.iter().rev()) {
        set_time(&at(dir, path), FIRST_TIME)?;
    }
    set_time(dir, FIRST_TIME)
}

fn write_repository(repo: &Repo, tree: Oid, time: i64, content: &Content, git_dir: &Path) -> Result<()> {
    for name in ["", "objects", "objects/pack", "objects/info", "refs", "refs/heads", "refs/tags", "info"] {
        create_directory(&git_dir.join(name))?;
    }
    write_file(&git_dir.join("HEAD"), b"ref: refs/heads/main\n", super::PLAIN)?;
    write_file(&git_dir.join("config"), CONFIG.as_bytes(), super::PLAIN)?;
    write_file(&git_dir.join("info/attributes"), ATTRIBUTES.as_bytes(), super::PLAIN)?;
    write_pack(repo, content, &git_dir.join("objects/pack"))?;
    let person = format!("curate <curate@localhost> {time} +0000");
    let commit = format!("tree {tree}\nauthor {person}\ncommitter {person}\n\nbase\n");
    let synthetic = Repository::open(git_dir).context("open the synthetic repository")?;
    let id = synthetic.odb()?.write(ObjectType::Commit, commit.as_bytes()).context("write the synthetic commit")?;
    write_file(&git_dir.join("refs/heads/main"), format!("{id}\n").as_bytes(), super::PLAIN)
}

/// Copies the tree's objects into one pack.
fn write_pack(repo: &Repo, content: &Content, pack_dir: &Path) -> Result<()> {
    let mut builder = repo.inner.packbuilder().context("pack the tree's objects")?;
    builder.set_threads(1);
    let blobs = content.files.iter().filter(|(_, node)| node.is_file());
    let mut ids: Vec<(Oid, Option<&str>)> = content.trees.iter().map(|id| (*id, None)).collect();
    ids.extend(blobs.map(|(path, node)| (node.oid, std::str::from_utf8(path).ok())));
    let mut seen = std::collections::HashSet::new();
    for (id, name) in ids {
        if seen.insert(id) {
            builder.insert_object(id, name).with_context(|| format!("pack object `{id}`"))?;
        }
    }
    builder.write(pack_dir, 0o444).with_context(|| format!("write a pack into `{}`", pack_dir.display()))
}

fn write_index(content: &Content, dir: &Path, git_dir: &Path) -> Result<()> {
    let path = git_dir.join("index");
    let mut index = Index::open(&path).context("create the index")?;
    for (name, node) in &content.files {
        let target = at(dir, name);
        let stat = fs::symlink_metadata(&target).with_context(|| format!("read `{}`", target.display()))?;
        let time = |seconds: i64, nanoseconds: i64| {
            IndexTime::new(i32::try_from(seconds).unwrap_or(0), u32::try_from(nanoseconds).unwrap_or(0))
        };
        let entry = IndexEntry {
            ctime: time(stat.ctime(), stat.ctime_nsec()),
            mtime: time(stat.mtime(), stat.mtime_nsec()),
            dev: stat.dev() as u32,
            ino: stat.ino() as u32,
            mode: node.mode,
            uid: stat.uid(),
            gid: stat.gid(),
            file_size: if node.is_gitlink() { 0 } else { stat.len() as u32 },
            id: node.oid,
            flags: 0,
            flags_extended: 0,
            path: name.clone(),
        };
        index.add(&entry).with_context(|| format!("add `{}` to the index", String::from_utf8_lossy(name)))?;
    }
    index.write().context("write the index")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b030_every_spelling_of_dot_git_is_refused() {
        for path in [
            ".git/config",
            ".GIT/config",
            "a/.Git",
            ".git./x",
            ".git /x",
            "git~1/x",
            ".g\u{200c}it/x",
            ".git::$DATA",
            "../x",
            "a/../x",
            "/tmp/x",
            "a//x",
            "./x",
            "",
            "a/",
            "a\0b",
        ] {
            assert!(check_path(path.as_bytes()).is_err(), "{path:?}");
        }
        for path in [".gitignore", ".github/x", "a/git", "x b/y.txt", "..x/y", ".git_x", "new\nline"] {
            assert_eq!(check_path(path.as_bytes()), Ok(()), "{path:?}");
        }
    }

    #[test]
    fn times_depend_on_content_alone() {
        let id = Oid::hash_object(ObjectType::Blob, b"x").unwrap();
        let time = blob_time(id);
        assert_eq!(time, blob_time(id));
        assert!((FIRST_TIME..FIRST_TIME + TIME_SPAN.cast_signed()).contains(&time));
    }
}
