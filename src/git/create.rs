//! A new bare repository of our own, written commit by commit with nothing left to chance: same input, same ids.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};
use git2::{ObjectType, Oid, Repository, RepositoryInitOptions};

use super::template;

/// A bare repository being written.
pub struct NewRepo {
    inner: Repository,
}

/// Every file of a tree: path → mode and content; a submodule's content is its commit's id in hexadecimal digits.
pub type Files = BTreeMap<Vec<u8>, (u32, Vec<u8>)>;

/// Who, when and why.
#[derive(Clone, Copy, Debug)]
pub struct CommitText<'a> {
    /// `Name <e-mail>`, author and committer.
    pub person: &'a str,
    /// Seconds since 1970 (UTC).
    pub time: i64,
    pub message: &'a str,
}

impl NewRepo {
    /// # Errors
    /// The directory cannot be written.
    pub fn create(dir: &Path) -> Result<NewRepo> {
        let mut options = RepositoryInitOptions::new();
        options.bare(true).external_template(false).initial_head("main");
        let inner = Repository::init_opts(dir, &options)
            .with_context(|| format!("create a repository in `{}`", dir.display()))?;
        Ok(NewRepo { inner })
    }

    /// Writes a commit and returns its id.
    ///
    /// # Errors
    /// A path is not allowed in a tree, or the object cannot be written.
    pub fn commit(&self, files: &Files, parents: &[Oid], text: CommitText<'_>) -> Result<Oid> {
        let flat: Vec<(&[u8], u32, &[u8])> =
            files.iter().map(|(path, (mode, bytes))| (path.as_slice(), *mode, bytes.as_slice())).collect();
        let tree = self.tree(&flat)?;
        let parents: String = parents.iter().map(|parent| ["parent ", &parent.to_string(), "\n"].concat()).collect();
        let CommitText { person, time, message } = text;
        let object =
            format!("tree {tree}\n{parents}author {person} {time} +0000\ncommitter {person} {time} +0000\n\n{message}");
        self.write(ObjectType::Commit, object.as_bytes())
    }

    /// Makes `branch` the repository's branch, pointing at a commit.
    ///
    /// # Errors
    /// The reference cannot be written.
    pub fn finish(&self, branch: &str, tip: Oid) -> Result<()> {
        let name = format!("refs/heads/{branch}");
        self.inner.reference(&name, tip, true, "").with_context(|| format!("write branch `{branch}`"))?;
        fs::write(self.inner.path().join("HEAD"), format!("ref: {name}\n")).context("write HEAD")
    }

    fn write(&self, kind: ObjectType, data: &[u8]) -> Result<Oid> {
        self.inner.odb()?.write(kind, data).with_context(|| format!("write a {kind}"))
    }

    fn tree(&self, files: &[(&[u8], u32, &[u8])]) -> Result<Oid> {
        let mut entries: BTreeMap<Vec<u8>, (u32, Oid, &[u8])> = BTreeMap::new();
        let mut rest = files;
        while let Some(&(path, mode, bytes)) = rest.first() {
            template::check_path(path).map_err(anyhow::Error::msg)?;
            let Some(at) = path.iter().position(|&byte| byte == b'/') else {
                entries.insert(path.to_vec(), (mode, self.leaf(mode, bytes)?, path));
                rest = &rest[1..];
                continue;
            };
            // Paths are sorted, so that everything below one directory stands together.
            let name = &path[..=at];
            let n_inside = rest.iter().take_while(|(path, _, _)| path.starts_with(name)).count();
            let inside: Vec<_> =
                rest[..n_inside].iter().map(|(path, mode, bytes)| (&path[at + 1..], *mode, *bytes)).collect();
            entries.insert(name.to_vec(), (0o040_000, self.tree(&inside)?, &path[..at]));
            rest = &rest[n_inside..];
        }
        let mut data = Vec::new();
        for (mode, id, name) in entries.into_values() {
            data.extend_from_slice(format!("{mode:o} ").as_bytes());
            data.extend_from_slice(name);
            data.push(0);
            data.extend_from_slice(id.as_bytes());
        }
        self.write(ObjectType::Tree, &data)
    }

    fn leaf(&self, mode: u32, bytes: &[u8]) -> Result<Oid> {
        if mode == super::GITLINK {
            let hex = std::str::from_utf8(bytes).context("read a submodule's commit id")?;
            return Oid::from_str(hex.trim()).context("read a submodule's commit id");
        }
        self.write(ObjectType::Blob, bytes)
    }
}
