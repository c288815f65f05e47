//! Small repositories for tests, made object by object.

use std::path::Path;

pub use git2::ObjectType;
use git2::{Oid, Repository};
use tempfile::TempDir;

use super::Repo;

/// A bare repository that tests write into.
pub struct Fixture {
    pub dir: TempDir,
    repo: Repository,
}

/// One entry of a flat tree.
pub type File<'a> = (&'a [u8], u32, &'a [u8]);

impl Fixture {
    pub fn new() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(dir.path()).unwrap();
        Fixture { dir, repo }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn open(&self) -> Repo {
        Repo::open(self.path()).unwrap()
    }

    pub fn object(&self, kind: ObjectType, data: &[u8]) -> Oid {
        self.repo.odb().unwrap().write(kind, data).unwrap()
    }

    /// Writes nested trees from paths; a gitlink's content is the hexadecimal id it points to.
    pub fn tree(&self, files: &[File<'_>]) -> Oid {
        let mut names: Vec<&[u8]> = Vec::new();
        for (path, _, _) in files {
            let name = path.split(|&byte| byte == b'/').next().unwrap();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let mut entries: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for name in names {
            let inner: Vec<File<'_>> = files
                .iter()
                .filter_map(|(path, mode, data)| Some((path.strip_prefix(name)?.strip_prefix(b"/")?, *mode, *data)))
                .collect();
            let (mode, id, key) = match files.iter().find(|(path, _, _)| *path == name) {
                Some((_, super::GITLINK, hex)) => {
                    (super::GITLINK, Oid::from_str(std::str::from_utf8(hex).unwrap()).unwrap(), name.to_vec())
                }
                Some((_, mode, data)) => (*mode, self.object(ObjectType::Blob, data), name.to_vec()),
                None => (0o040_000, self.tree(&inner), [name, b"/"].concat()),
            };
            let entry = [format!("{mode:o} ").as_bytes(), name, b"\0", id.as_bytes()].concat();
            entries.push((key, entry));
        }
        entries.sort();
        let data: Vec<u8> = entries.into_iter().flat_map(|(_, entry)| entry).collect();
        self.object(ObjectType::Tree, &data)
    }

    pub fn commit(&self, tree: Oid, parents: &[Oid], time: i64, message: &str) -> Oid {
        let person = format!("A <a@example.org> {time} +0000");
        self.raw_commit(tree, parents, &format!("author {person}\ncommitter {person}"), message.as_bytes())
    }

    pub fn raw_commit(&self, tree: Oid, parents: &[Oid], people: &str, message: &[u8]) -> Oid {
        let mut data = format!("tree {tree}\n").into_bytes();
        for parent in parents {
            data.extend(format!("parent {parent}\n").bytes());
        }
        data.extend(format!("{people}\n\n").bytes());
        data.extend(message);
        self.object(ObjectType::Commit, &data)
    }

    /// Points a branch, and `HEAD`, at a commit.
    pub fn branch(&self, name: &str, id: Oid) {
        std::fs::write(self.path().join("refs/heads").join(name), format!("{id}\n")).unwrap();
        std::fs::write(self.path().join("HEAD"), format!("ref: refs/heads/{name}\n")).unwrap();
    }
}
