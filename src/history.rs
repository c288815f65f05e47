//! Readable text → a git repository: the bundled demo and the tests keep their histories as directories of files.
//!
//! `history.toml` lists the commits, oldest first:
//!
//! ```toml
//! branch = "main"                    # optional: the branch that ends at the last commit
//!
//! [[commit]]
//! id = "fix-ratio"                   # a name for `parents`
//! parents = ["base"]                 # default: the commit before; [] for a root
//! dir = "03-fix-ratio"               # files laid over the first parent's tree; default: the id, if there is such a directory
//! delete = ["old.py"]                # files or directories removed from it
//! executable = ["run.sh"]            # files that get the executable bit
//! submodules = { vendored = "1111111111111111111111111111111111111111" }
//! message = "Fix the ratio"          # gets a final newline
//! date = "2024-03-01T12:00:00Z"
//! author = "Ada Example <ada@example.org>"
//! ```
//!
//! A file name's ending `.in` is dropped, so that no tool takes a stored manifest for one of its own. Author and
//! committer are the same, dates are fixed: the same directory gives the same commit ids everywhere.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{
    git::{
        EXECUTABLE, GITLINK, Oid, PLAIN, SYMLINK,
        create::{CommitText, Files, NewRepo},
    },
    record::id::Digest,
};

/// Part of [`digest`]; raised whenever the same text would give other commits.
const VERSION: &[u8] = b"1";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct History {
    #[serde(default = "main_branch")]
    branch: String,
    commit: Vec<Step>,
}

fn main_branch() -> String {
    "main".to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    id: String,
    parents: Option<Vec<String>>,
    dir: Option<String>,
    #[serde(default)]
    delete: Vec<String>,
    #[serde(default)]
    executable: Vec<String>,
    #[serde(default)]
    submodules: BTreeMap<String, String>,
    message: String,
    date: String,
    #[serde(default = "nobody")]
    author: String,
}

fn nobody() -> String {
    "Nobody <nobody@example.org>".to_owned()
}

/// Builds a bare repository in an empty directory and returns the commits' ids by name.
///
/// # Errors
/// The history is malformed (the message names the commit), or a file cannot be read or written.
pub fn rebuild(history: &Path, target: &Path) -> Result<HashMap<String, String>> {
    let History { branch, commit: steps } = read_history(history)?;
    let repo = NewRepo::create(target)?;
    let mut trees: HashMap<&str, (Oid, Files)> = HashMap::new();
    let mut last: Option<&str> = None;
    for step in &steps {
        let built = build(&repo, history, step, last, &trees).with_context(|| format!("build commit `{}`", step.id))?;
        if trees.insert(&step.id, built).is_some() {
            bail!("two commits are called `{}`", step.id);
        }
        last = Some(&step.id);
    }
    let tip = last.map(|id| trees[id].0).context("the history has no commit")?;
    repo.finish(&branch, tip)?;
    Ok(trees.into_iter().map(|(id, (oid, _))| (id.to_owned(), oid.to_string())).collect())
}

/// Returns a digest of everything that [`rebuild`] reads.
///
/// # Errors
/// A file cannot be read.
pub fn digest(history: &Path) -> Result<Digest> {
    let mut parts = vec![VERSION.to_vec()];
    for (path, (mode, bytes)) in files_below(history, false)? {
        parts.extend([path, mode.to_le_bytes().to_vec(), bytes]);
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    Ok(Digest::of(&parts))
}

fn read_history(dir: &Path) -> Result<History> {
    let path = dir.join("history.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("read `{}`", path.display()))?;
    toml::from_str(&text).with_context(|| format!("read `{}`", path.display()))
}

fn build(
    repo: &NewRepo,
    history: &Path,
    step: &Step,
    last: Option<&str>,
    trees: &HashMap<&str, (Oid, Files)>,
) -> Result<(Oid, Files)> {
    let parents: Vec<&str> = match &step.parents {
        Some(parents) => parents.iter().map(String::as_str).collect(),
        None => last.into_iter().collect(),
    };
    let mut ids = Vec::with_capacity(parents.len());
    let mut files = Files::new();
    for parent in parents {
        let (id, tree) = trees.get(parent).with_context(|| format!("its parent `{parent}` does not come before it"))?;
        if ids.is_empty() {
            files.clone_from(tree);
        }
        ids.push(*id);
    }
    change(&mut files, history, step)?;
    let time = step.date.parse::<jiff::Timestamp>().with_context(|| format!("read date `{}`", step.date))?;
    let message = format!("{}\n", step.message.trim_end_matches('\n'));
    let text = CommitText { person: &step.author, time: time.as_second(), message: &message };
    Ok((repo.commit(&files, &ids, text)?, files))
}

fn change(files: &mut Files, history: &Path, step: &Step) -> Result<()> {
    for name in &step.delete {
        let below = format!("{name}/");
        let before = files.len();
        files.retain(|path, _| path != name.as_bytes() && !path.starts_with(below.as_bytes()));
        if files.len() == before {
            bail!("`{name}` is not there to be deleted");
        }
    }
    let dir = history.join(step.dir.as_deref().unwrap_or(&step.id));
    if step.dir.is_some() || dir.is_dir() {
        for (path, (mode, bytes)) in files_below(&dir, true)? {
            let kept = files.get(&path).map(|(mode, _)| *mode).filter(|old| *old == EXECUTABLE && mode == PLAIN);
            files.insert(path, (kept.unwrap_or(mode), bytes));
        }
    }
    for name in &step.executable {
        let file = files.get_mut(name.as_bytes()).with_context(|| format!("there is no file `{name}`"))?;
        file.0 = EXECUTABLE;
    }
    for (name, id) in &step.submodules {
        files.insert(name.clone().into_bytes(), (GITLINK, id.clone().into_bytes()));
    }
    Ok(())
}

/// Returns every file below a directory; `disarmed` drops the ending `.in`. Executable bits are not looked at: they get
/// lost on the way to other machines.
fn files_below(dir: &Path, disarmed: bool) -> Result<Files> {
    let mut files = Files::new();
    let mut todo: Vec<PathBuf> = vec![dir.to_owned()];
    while let Some(current) = todo.pop() {
        let read = || format!("read directory `{}`", current.display());
        for entry in fs::read_dir(&current).with_context(read)? {
            let path = entry.with_context(read)?.path();
            let kind = fs::symlink_metadata(&path).with_context(|| format!("read `{}`", path.display()))?.file_type();
            if kind.is_dir() {
                todo.push(path);
                continue;
            }
            let (mode, bytes) = if kind.is_symlink() {
                (SYMLINK, fs::read_link(&path).map(|target| target.as_os_str().as_bytes().to_vec()))
            } else {
                (PLAIN, fs::read(&path))
            };
            let bytes = bytes.with_context(|| format!("read `{}`", path.display()))?;
            let name = path.strip_prefix(dir).expect("it was found below `dir`").as_os_str().as_bytes();
            let name = if disarmed { name.strip_suffix(b".in").unwrap_or(name) } else { name };
            files.insert(name.to_vec(), (mode, bytes));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::Repo;

    fn write(dir: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = dir.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    const HISTORY: &str = r#"
        [[commit]]
        id = "base"
        dir = "00-base"
        executable = ["run.sh"]
        message = "Start"
        date = "2024-03-01T12:00:00Z"
        author = "Ada Example <ada@example.org>"
        [[commit]]
        id = "side"
        delete = ["old"]
        message = "Side\n\nbody\n"
        date = "2024-03-02T12:00:00Z"
        [[commit]]
        id = "main"
        parents = ["base"]
        message = "Main"
        date = "2024-03-03T12:00:00+02:00"
        [[commit]]
        id = "merge"
        parents = ["main", "side"]
        dir = "merged"
        message = "Merge"
        date = "2024-03-04T12:00:00Z"
    "#;

    fn history() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        write(
            dir.path(),
            &[
                ("history.toml", HISTORY),
                ("00-base/run.sh", "one\n"),
                ("00-base/old/x.py", "x\n"),
                ("00-base/setup.cfg.in", "[x]\n"),
                ("side/a.py", "a\n"),
                ("main/run.sh", "two\n"),
                ("merged/a.py", "a\n"),
            ],
        );
        dir
    }

    #[test]
    fn the_same_text_gives_the_same_commits() {
        let dir = history();
        let targets = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [first, second] = targets.each_ref().map(|target| rebuild(dir.path(), target.path()).unwrap());
        assert_eq!(first, second);
        let repo = Repo::open(targets[0].path()).unwrap();
        assert_eq!(repo.tip(None).unwrap().map(|id| id.to_string()).as_ref(), Some(&first["merge"]));
        let names = |commit: &str| -> Vec<(String, u32)> {
            repo.files(commit).unwrap().into_iter().map(|(path, mode)| (path.lossy(), mode)).collect()
        };
        let file = |name: &str, mode| (name.to_owned(), mode);
        assert_eq!(
            names(&first["merge"]),
            [file("a.py", PLAIN), file("old/x.py", PLAIN), file("run.sh", EXECUTABLE), file("setup.cfg", PLAIN)]
        );
        assert_eq!(names(&first["side"]), [file("a.py", PLAIN), file("run.sh", EXECUTABLE), file("setup.cfg", PLAIN)]);
        let merge = repo.commit(Oid::from_str(&first["merge"]).unwrap()).unwrap();
        assert_eq!(merge.parents.iter().map(Oid::to_string).collect::<Vec<_>>(), [&*first["main"], &*first["side"]]);
        let side = repo.commit(Oid::from_str(&first["side"]).unwrap()).unwrap();
        assert_eq!((side.message.as_slice(), side.time), (b"Side\n\nbody\n".as_slice(), Some(1_709_380_800)));
    }

    #[test]
    fn the_digest_follows_every_file() {
        let dir = history();
        let before = digest(dir.path()).unwrap();
        assert_eq!(before, digest(dir.path()).unwrap());
        write(dir.path(), &[("side/a.py", "b\n")]);
        assert_ne!(before, digest(dir.path()).unwrap());
    }

    #[test]
    fn mistakes_are_named() {
        let dir = history();
        for (old, new, expected) in [
            (r#"parents = ["base"]"#, r#"parents = ["bsae"]"#, "`bsae`"),
            (r#"delete = ["old"]"#, r#"delete = ["odl"]"#, "`odl`"),
            ("dir = \"merged\"", "dir = \"merge\"", "merge"),
            ("id = \"side\"", "id = \"base\"", "two commits"),
            ("2024-03-04T12", "2024-13-04T12", "2024-13"),
            ("message = \"Main\"", "massage = \"Main\"", "massage"),
        ] {
            write(dir.path(), &[("history.toml", &HISTORY.replace(old, new))]);
            let error = rebuild(dir.path(), tempfile::tempdir().unwrap().path()).unwrap_err();
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        }
    }
}
