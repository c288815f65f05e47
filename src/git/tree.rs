//! Trees: looking up a path, listing, comparing two, and the id that edits would give.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap, HashSet},
};

use anyhow::{Result, bail};
use git2::{ObjectType, Odb, Oid};

use super::{
    GITLINK, ReadError, Repo, SYMLINK,
    object::{self, canonical_mode},
    read_object,
};
use crate::record::patch::Edit;

const DIRECTORY: u32 = 0o040_000;

/// What a path holds: a normalised mode and an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    pub mode: u32,
    pub oid: Oid,
}

impl Node {
    /// Says whether it has content of its own: a file or a symbolic link.
    pub fn is_file(self) -> bool {
        self.mode != DIRECTORY && self.mode != GITLINK
    }

    pub fn is_symlink(self) -> bool {
        self.mode == SYMLINK
    }

    pub fn is_gitlink(self) -> bool {
        self.mode == GITLINK
    }

    pub fn is_directory(self) -> bool {
        self.mode == DIRECTORY
    }
}

/// One path that differs between two trees. Directories never occur.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    pub path: Vec<u8>,
    pub old: Option<Node>,
    pub new: Option<Node>,
}

impl Repo {
    /// Returns what a path holds below a tree, without following links.
    pub fn lookup(&self, root: Oid, path: &[u8]) -> Result<Option<Node>, ReadError> {
        let odb = self.odb().map_err(|_| ReadError::Missing(root))?;
        let mut node = Node { mode: DIRECTORY, oid: root };
        for name in path.split(|&byte| byte == b'/') {
            if !node.is_directory() {
                return Ok(None);
            }
            let object = read_object(&odb, node.oid, ObjectType::Tree)?;
            let mut found = None;
            for entry in object::entries(object.data()) {
                let entry = entry.map_err(|why| ReadError::Corrupt(node.oid, why))?;
                if entry.name == name {
                    found = Some(Node { mode: canonical_mode(entry.raw_mode), oid: entry.oid });
                    break;
                }
            }
            match found {
                Some(next) => node = next,
                None => return Ok(None),
            }
        }
        Ok(Some(node))
    }

    /// Returns everything below a tree except directories, sorted by path.
    pub fn listing(&self, root: Oid) -> Result<Vec<(Vec<u8>, Node)>, ReadError> {
        let odb = self.odb().map_err(|_| ReadError::Missing(root))?;
        let mut found = Vec::new();
        let mut todo = vec![(Vec::new(), root)];
        while let Some((prefix, tree)) = todo.pop() {
            let object = read_object(&odb, tree, ObjectType::Tree)?;
            for entry in object::entries(object.data()) {
                let entry = entry.map_err(|why| ReadError::Corrupt(tree, why))?;
                let path = join(&prefix, entry.name);
                let node = Node { mode: canonical_mode(entry.raw_mode), oid: entry.oid };
                if node.is_directory() {
                    todo.push((path, node.oid));
                } else {
                    found.push((path, node));
                }
            }
        }
        found.sort_by(|left, right| left.0.cmp(&right.0));
        Ok(found)
    }

    /// Returns the paths that differ between two trees, sorted. Reads no blobs.
    ///
    /// # Errors
    /// A tree is missing or damaged.
    pub fn compare(&self, old: Oid, new: Oid) -> Result<Vec<Delta>, ReadError> {
        let odb = self.odb().map_err(|_| ReadError::Missing(new))?;
        let mut deltas = Vec::new();
        compare_trees(&odb, Some(old), Some(new), &mut Vec::new(), &mut deltas)?;
        deltas.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(deltas)
    }
}

fn join(prefix: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(prefix.len() + 1 + name.len());
    path.extend_from_slice(prefix);
    if !prefix.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

fn compare_trees(
    odb: &Odb<'_>,
    old: Option<Oid>,
    new: Option<Oid>,
    prefix: &mut Vec<u8>,
    deltas: &mut Vec<Delta>,
) -> Result<(), ReadError> {
    if old == new {
        return Ok(());
    }
    let read = |id: Option<Oid>| id.map(|id| read_object(odb, id, ObjectType::Tree)).transpose();
    let (old_object, new_object) = (read(old)?, read(new)?);
    let old_entries = sorted_entries(old, old_object.as_ref().map(git2::OdbObject::data))?;
    let new_entries = sorted_entries(new, new_object.as_ref().map(git2::OdbObject::data))?;
    let (mut left, mut right) = (old_entries.iter().peekable(), new_entries.iter().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => old.name.cmp(new.name),
        };
        let old = if order == Ordering::Greater { None } else { left.next() };
        let new = if order == Ordering::Less { None } else { right.next() };
        if let (Some(old), Some(new)) = (old, new)
            && old.oid == new.oid
            && old.raw_mode == new.raw_mode
        {
            continue;
        }
        compare_entries(odb, old, new, prefix, deltas)?;
    }
}

fn compare_entries(
    odb: &Odb<'_>,
    old: Option<&object::Entry<'_>>,
    new: Option<&object::Entry<'_>>,
    prefix: &mut Vec<u8>,
    deltas: &mut Vec<Delta>,
) -> Result<(), ReadError> {
    let Some(name) = old.or(new).map(|entry| entry.name) else { return Ok(()) };
    let node = |entry: &object::Entry<'_>| Node { mode: canonical_mode(entry.raw_mode), oid: entry.oid };
    let (old, new) = (old.map(node), new.map(node));
    let length = prefix.len();
    if length > 0 {
        prefix.push(b'/');
    }
    prefix.extend_from_slice(name);
    let file = |node: Option<Node>| node.filter(|node| !node.is_directory());
    let directory = |node: Option<Node>| node.filter(|node| node.is_directory()).map(|node| node.oid);
    if file(old) != file(new) {
        deltas.push(Delta { path: prefix.clone(), old: file(old), new: file(new) });
    }
    if directory(old) != directory(new) {
        compare_trees(odb, directory(old), directory(new), prefix, deltas)?;
    }
    prefix.truncate(length);
    Ok(())
}

/// Git sorts a directory as if its name ended in `/`; comparing by plain name pairs a file with a directory.
fn sorted_entries(id: Option<Oid>, data: Option<&[u8]>) -> Result<Vec<object::Entry<'_>>, ReadError> {
    let (Some(id), Some(data)) = (id, data) else { return Ok(Vec::new()) };
    let entries: Result<Vec<_>, String> = object::entries(data).collect();
    let mut entries = entries.map_err(|why| ReadError::Corrupt(id, why))?;
    if !entries.is_sorted_by(|left, right| left.name < right.name) {
        entries.sort_by(|left, right| left.name.cmp(right.name));
    }
    Ok(entries)
}

/// Returns the id of a tree after edits, without writing an object.
///
/// # Errors
/// An edit removes what is not there, or puts something below a file or a link; an object is missing.
pub fn edited(repo: &Repo, root: Oid, edits: &[Edit]) -> Result<Oid> {
    let mut changes = Vec::with_capacity(edits.len());
    for edit in edits {
        let node = match &edit.content {
            Some(content) => {
                let oid = Oid::hash_object(ObjectType::Blob, content.bytes.as_bytes())?;
                Some(Node { mode: content.mode, oid })
            }
            None => None,
        };
        changes.push((edit.path.as_bytes(), node));
    }
    // Removals first: a file may give way to a directory of its name.
    changes.sort_by_key(|(_, node)| node.is_some());
    let odb = repo.odb()?;
    let tree = edited_tree(&odb, Some(root), &changes)?;
    match tree {
        Some(id) => Ok(id),
        None => Ok(Oid::hash_object(ObjectType::Tree, b"")?),
    }
}

/// A path and what it holds afterwards.
type Change<'a> = (&'a [u8], Option<Node>);

fn edited_tree(odb: &Odb<'_>, tree: Option<Oid>, changes: &[Change<'_>]) -> Result<Option<Oid>> {
    let mut entries: BTreeMap<Vec<u8>, (u32, Oid)> = BTreeMap::new();
    if let Some(id) = tree {
        let object = read_object(odb, id, ObjectType::Tree)?;
        for entry in object::entries(object.data()) {
            let entry = entry.map_err(|why| ReadError::Corrupt(id, why))?;
            entries.insert(entry.name.to_vec(), (entry.raw_mode, entry.oid));
        }
    }
    let mut below: BTreeMap<&[u8], Vec<Change<'_>>> = BTreeMap::new();
    let mut here = Vec::new();
    for &(path, node) in changes {
        match path.iter().position(|&byte| byte == b'/') {
            Some(at) => below.entry(&path[..at]).or_default().push((&path[at + 1..], node)),
            None => here.push((path, node)),
        }
    }
    let is_directory = |entry: &(u32, Oid)| canonical_mode(entry.0) == DIRECTORY;
    for (name, _) in here.iter().filter(|(_, node)| node.is_none()) {
        if entries.get(*name).is_none_or(is_directory) {
            bail!("remove `{}`, which is not there", String::from_utf8_lossy(name));
        }
        entries.remove(*name);
    }
    for (name, inner) in below {
        let old = entries.remove(name);
        if old.as_ref().is_some_and(|entry| !is_directory(entry)) {
            bail!("change something below `{}`, which is not a directory", String::from_utf8_lossy(name));
        }
        if let Some(id) = edited_tree(odb, old.map(|(_, id)| id), &inner)? {
            entries.insert(name.to_vec(), (DIRECTORY, id));
        }
    }
    for (name, node) in here {
        let Some(node) = node else { continue };
        if entries.get(name).is_some_and(is_directory) {
            bail!("replace directory `{}` by a file", String::from_utf8_lossy(name));
        }
        entries.insert(name.to_vec(), (node.mode, node.oid));
    }
    if entries.is_empty() { Ok(None) } else { Ok(Some(tree_id(entries)?)) }
}

fn tree_id(entries: BTreeMap<Vec<u8>, (u32, Oid)>) -> Result<Oid> {
    let mut sorted: Vec<(Vec<u8>, u32, Oid)> = entries.into_iter().map(|(name, (mode, id))| (name, mode, id)).collect();
    let key = |name: &[u8], mode: u32| {
        let mut key = name.to_vec();
        if canonical_mode(mode) == DIRECTORY {
            key.push(b'/');
        }
        key
    };
    sorted.sort_by_cached_key(|(name, mode, _)| key(name, *mode));
    let mut data = Vec::new();
    for (name, mode, id) in sorted {
        data.extend_from_slice(format!("{mode:o} ").as_bytes());
        data.extend_from_slice(&name);
        data.push(0);
        data.extend_from_slice(id.as_bytes());
    }
    Ok(Oid::hash_object(ObjectType::Tree, &data)?)
}

/// Which trees were found to hold two names that differ only by case; shared by calls, as commits share trees.
#[derive(Debug, Default)]
pub struct Names(HashMap<Oid, Option<(Vec<u8>, BadName)>>);

/// Why a tree cannot be laid out on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadName {
    /// It equals another one of its directory but for case.
    Collides,
    /// It leaves the tree or stands for a repository's own files (`..`, `.git`).
    Unsafe,
}

impl Names {
    /// Returns the first path below a tree whose name is bad.
    ///
    /// # Errors
    /// A tree is missing or damaged.
    pub fn find_bad(&mut self, repo: &Repo, tree: Oid) -> Result<Option<(Vec<u8>, BadName)>, ReadError> {
        if let Some(known) = self.0.get(&tree) {
            return Ok(known.clone());
        }
        let odb = repo.odb().map_err(|_| ReadError::Missing(tree))?;
        let object = read_object(&odb, tree, ObjectType::Tree)?;
        let mut folded = HashSet::new();
        let mut found = None;
        for entry in object::entries(object.data()) {
            let entry = entry.map_err(|why| ReadError::Corrupt(tree, why))?;
            if !folded.insert(String::from_utf8_lossy(entry.name).to_lowercase()) {
                found = found.or(Some((entry.name.to_vec(), BadName::Collides)));
            }
            if super::template::check_path(entry.name).is_err() {
                found = Some((entry.name.to_vec(), BadName::Unsafe));
            }
            if canonical_mode(entry.raw_mode) == DIRECTORY {
                let inside = self.find_bad(repo, entry.oid)?;
                found = found.or(inside.map(|(path, why)| (join(entry.name, &path), why)));
            }
        }
        self.0.insert(tree, found.clone());
        Ok(found)
    }
}
