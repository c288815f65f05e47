//! Applying a parsed patch to a tree: every part fits and changes something, or nothing is done.
//!
//! A hunk goes where its header says, shifted by what the hunks before it had to be shifted; else to the only place
//! of the file where all its old lines stand; two such places, or none, are an error. No fuzz, no reversal, no
//! partial result.

use std::collections::{BTreeMap, BTreeSet};

use git2::{ObjectType, Oid};

use super::{
    PLAIN, Repo, SYMLINK,
    patch::{self, Action, Body, FilePatch, Hunk},
    tree::Node,
};
use crate::record::{
    bytes::ByteText,
    patch::{Edit, FileContent},
};

/// Applies a patch to a tree; see [`Repo::apply`].
pub fn apply(repo: &Repo, root: Oid, patch: &[u8]) -> Result<Vec<Edit>, String> {
    let files = patch::parse(patch)?;
    let mut state = State { repo, root, removed: BTreeSet::new(), written: BTreeMap::new(), vacated: vacated(&files) };
    for file in &files {
        state.part(file).map_err(|why| format!("patch line {}: {why}", file.patch_line))?;
    }
    state.check_directories()?;
    let edits = state.edits();
    let tree = super::tree::edited(repo, root, &edits).map_err(|error| format!("{error:#}"))?;
    if edits.is_empty() || tree != root { Ok(edits) } else { Err("the patch changes nothing".to_owned()) }
}

/// Paths that the patch removes somewhere, so that another part may create them anew.
fn vacated(files: &[FilePatch]) -> BTreeSet<Vec<u8>> {
    files
        .iter()
        .filter(|file| matches!(file.action, Action::Delete | Action::Rename))
        .map(|file| file.old_path.clone())
        .collect()
}

struct State<'a> {
    repo: &'a Repo,
    root: Oid,
    removed: BTreeSet<Vec<u8>>,
    written: BTreeMap<Vec<u8>, FileContent>,
    vacated: BTreeSet<Vec<u8>>,
}

impl State<'_> {
    fn part(&mut self, file: &FilePatch) -> Result<(), String> {
        let old = self.old_content(file)?;
        let mode = match (file.new_mode, &old) {
            (Some(mode), _) => mode,
            (None, Some(old)) => old.mode,
            (None, None) => PLAIN,
        };
        if let Some(old) = &old {
            let kinds = [file.old_mode, Some(mode).filter(|_| file.action != Action::Delete)];
            if kinds.into_iter().flatten().any(|mode| (mode == SYMLINK) != (old.mode == SYMLINK)) {
                return Err(format!("`{}` is another kind of file than the patch says", shown(&file.old_path)));
            }
        }
        let before = old.as_ref().map(|content| content.bytes.as_bytes()).unwrap_or_default();
        let bytes = new_bytes(file, before)?;
        match file.action {
            Action::Delete if !bytes.is_empty() => {
                return Err(format!("removing `{}` leaves content behind", shown(&file.old_path)));
            }
            Action::Delete => {
                self.removed.insert(file.old_path.clone());
                return Ok(());
            }
            Action::Rename => {
                self.removed.insert(file.old_path.clone());
            }
            Action::Modify if bytes == before && old.as_ref().is_some_and(|old| old.mode == mode) => {
                return Err(format!("this part changes nothing in `{}`", shown(&file.new_path)));
            }
            Action::Modify | Action::Create | Action::Copy => {}
        }
        self.written.insert(file.new_path.clone(), FileContent { mode, bytes: ByteText(bytes) });
        Ok(())
    }

    /// Returns what the part starts from, having checked that its paths are as it expects them.
    fn old_content(&self, file: &FilePatch) -> Result<Option<FileContent>, String> {
        let path = &file.old_path;
        if file.action != Action::Modify {
            self.check_free(file)?;
        }
        if file.action == Action::Create {
            return Ok(None);
        }
        if file.action == Action::Modify
            && let Some(content) = self.written.get(path)
        {
            return Ok(Some(content.clone()));
        }
        if matches!(file.action, Action::Delete | Action::Modify)
            && (self.removed.contains(path) || self.written.contains_key(path))
        {
            return Err(format!("`{}` is removed or written by an earlier part", shown(path)));
        }
        match self.lookup(path)? {
            Some(node) if node.is_file() => {
                let bytes = self.repo.content(node.oid).map_err(|error| error.to_string())?;
                Ok(Some(FileContent { mode: node.mode, bytes: ByteText(bytes) }))
            }
            Some(node) if node.is_gitlink() => Err(format!("`{}` is a submodule", shown(path))),
            Some(_) => Err(format!("`{}` is a directory", shown(path))),
            None => Err(format!("there is no file `{}`{}", shown(path), self.obstacle(path)?)),
        }
    }

    /// Checks that nothing is where a created, copied or renamed file goes.
    fn check_free(&self, file: &FilePatch) -> Result<(), String> {
        let path = &file.new_path;
        let creates = file.action != Action::Delete;
        let exists = || Ok::<bool, String>(self.lookup(path)?.is_some_and(|node| !node.is_directory()));
        if creates && (self.written.contains_key(path) || (!self.vacated.contains(path) && exists()?)) {
            return Err(format!("`{}` exists already", shown(path)));
        }
        Ok(())
    }

    fn lookup(&self, path: &[u8]) -> Result<Option<Node>, String> {
        self.repo.lookup(self.root, path).map_err(|error| error.to_string())
    }

    /// Returns ` (…)` naming the link, submodule or file of the base tree that stands in a path's way, or nothing.
    fn obstacle(&self, path: &[u8]) -> Result<String, String> {
        for parent in parents(path) {
            let kind = match self.lookup(parent)? {
                Some(node) if node.is_symlink() => "symbolic link",
                Some(node) if node.is_gitlink() => "submodule",
                Some(node) if node.is_file() => "file",
                Some(_) => continue,
                None => break,
            };
            return Ok(format!(" (the path passes through the {kind} `{}`)", shown(parent)));
        }
        Ok(String::new())
    }

    /// Checks that no written path lies below something that is not a directory, nor replaces a directory in use.
    fn check_directories(&self) -> Result<(), String> {
        for path in self.written.keys() {
            for parent in parents(path) {
                if self.written.contains_key(parent) {
                    return Err(format!(
                        "`{}` passes through `{}`, which the patch writes",
                        shown(path),
                        shown(parent)
                    ));
                }
                if !self.removed.contains(parent) && self.lookup(parent)?.is_some_and(|node| !node.is_directory()) {
                    return Err(format!("cannot write `{}`{}", shown(path), self.obstacle(path)?));
                }
            }
            if let Some(node) = self.lookup(path)?.filter(|node| node.is_directory()) {
                let inside = self.repo.listing(node.oid).map_err(|error| error.to_string())?;
                let is_left = |name: &[u8]| !self.removed.contains(&[path, b"/".as_slice(), name].concat());
                if inside.iter().any(|(name, _)| is_left(name)) {
                    return Err(format!("`{}` is a directory", shown(path)));
                }
            }
        }
        Ok(())
    }

    fn edits(self) -> Vec<Edit> {
        let removals = self
            .removed
            .into_iter()
            .filter(|path| !self.written.contains_key(path))
            .map(|path| Edit { path: ByteText(path), content: None });
        let mut edits: Vec<Edit> = removals.collect();
        edits.extend(
            self.written.into_iter().map(|(path, content)| Edit { path: ByteText(path), content: Some(content) }),
        );
        edits
    }
}

/// Returns a path's parent directories, outermost first.
fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at])
}

fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

fn new_bytes(file: &FilePatch, old: &[u8]) -> Result<Vec<u8>, String> {
    match &file.body {
        Body::Empty => Ok(old.to_vec()),
        Body::Hunks(hunks) => apply_hunks(hunks, old),
        Body::Binary(block) => {
            let id = |bytes: &[u8]| Oid::hash_object(ObjectType::Blob, bytes).map(|id| id.to_string());
            let differs = |expected: &Option<String>, bytes: &[u8]| match expected {
                Some(expected) if !expected.bytes().all(|byte| byte == b'0') => {
                    id(bytes).ok().as_ref() != Some(expected)
                }
                Some(_) | None => false,
            };
            if differs(&file.old_id, old) {
                return Err(format!("binary file `{}` is not the one the patch was made for", shown(&file.old_path)));
            }
            let new = block.apply(old)?;
            if differs(&file.new_id, &new) {
                return Err(format!("binary data of `{}` is not what its index line says", shown(&file.new_path)));
            }
            Ok(new)
        }
    }
}

fn apply_hunks(hunks: &[Hunk], old: &[u8]) -> Result<Vec<u8>, String> {
    let lines: Vec<&[u8]> = old.split_inclusive(|&byte| byte == b'\n').collect();
    let mut new = Vec::with_capacity(old.len());
    let mut done = 0;
    let mut shift: isize = 0;
    for hunk in hunks {
        let stated = if hunk.old.is_empty() { hunk.old_start } else { hunk.old_start.saturating_sub(1) };
        let at = place(hunk, &lines, done, stated.saturating_add_signed(shift), stated)
            .map_err(|why| format!("hunk at patch line {}: {why}", hunk.patch_line))?;
        shift = at.cast_signed() - stated.cast_signed();
        lines[done..at].iter().for_each(|line| new.extend_from_slice(line));
        hunk.new.iter().for_each(|line| new.extend_from_slice(line));
        done = at + hunk.old.len();
    }
    lines[done..].iter().for_each(|line| new.extend_from_slice(line));
    Ok(new)
}

/// Returns the index of the line where a hunk's old lines begin.
fn place(hunk: &Hunk, lines: &[&[u8]], done: usize, expected: usize, stated: usize) -> Result<usize, String> {
    let fits = |at: usize| {
        at >= done
            && lines.get(at..at + hunk.old.len()).is_some_and(|here| here.iter().zip(&hunk.old).all(|(a, b)| a == b))
    };
    if let Some(at) = [expected, stated].into_iter().find(|&at| fits(at)) {
        return Ok(at);
    }
    if hunk.old.is_empty() {
        return Err("an insertion without context lies outside of the file".to_owned());
    }
    // As git has it: a hunk without unchanged lines at its end belongs to the end of the file, one that starts at the
    // first line to its beginning.
    let at_end = |at: usize| hunk.trailing > 0 || at + hunk.old.len() == lines.len();
    let at_start = |at: usize| hunk.old_start > 1 || at == 0;
    let mut places = (done..lines.len()).filter(|&at| fits(at) && at_end(at) && at_start(at));
    match (places.next(), places.next()) {
        (Some(at), None) => Ok(at),
        (Some(_), Some(_)) => Err("its old lines stand at several places, none of them the stated one".to_owned()),
        (None, _) => Err("its old lines are not in the file".to_owned()),
    }
}
