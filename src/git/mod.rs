//! The only use of git2: objects, history, trees, patches.
//!
//! Foreign repositories never execute anything on the host and are never written to: libgit2 runs no hooks, filters
//! or drivers, no attribute file is consulted, and nothing here creates an object in a repository that was opened.
//! Commit and tree objects are read by our own tolerant parser ([`object`]), so that one malformed commit costs that
//! commit only. Patches are written and applied on bytes ([`diff`], [`apply`]), because libgit2's patch parser stops at
//! blanks in names and its diffs obey the repository's attributes.
//!
//! | module | owns |
//! |---|---|
//! | [`object`] | commit and tree bytes → values |
//! | [`walk`] | which commits there are, in which order |
//! | [`tree`] | path lookup, listing, comparison, editing of trees |
//! | [`diff`], [`hunks`] | contents → unified git diff |
//! | [`lines`] | two texts → hunks as line numbers |
//! | [`patch`], [`binary`] | unified git diff → values |
//! | [`apply`] | values + base tree → edits |
//! | [`template`] | commit → directory with a synthetic repository |

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

pub mod apply;
mod binary;
pub mod create;
pub mod diff;
mod error;
pub mod hunks;
pub mod lines;
pub mod object;
mod patch;
mod quote;
mod template;
pub mod tree;
pub mod walk;

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow};
pub use git2::Oid;
use git2::{ErrorCode, ObjectType, Odb, OdbObject};

use self::{
    diff::Version,
    error::{open_error, read_error},
    object::Commit,
};
pub use self::{
    error::{Hinted, ReadError},
    template::content_time,
};
use crate::record::{
    bytes::ByteText,
    patch::{Edit, FileContent},
};

/// Git mode of a submodule entry.
pub const GITLINK: u32 = 0o160_000;
/// Git mode of a symbolic link.
pub const SYMLINK: u32 = 0o120_000;
/// Git mode of an executable file.
pub const EXECUTABLE: u32 = 0o100_755;
/// Git mode of a plain file.
pub const PLAIN: u32 = 0o100_644;

/// An open repository; one per thread.
pub struct Repo {
    inner: git2::Repository,
    /// Commits whose parents a shallow clone cut off.
    shallow: HashSet<Oid>,
    /// Whether objects may be absent because a remote promised to deliver them later.
    pub is_partial: bool,
}

impl Repo {
    /// # Errors
    /// Not a repository, owned by someone else, or of an unsupported format; the message says which and what to do.
    pub fn open(path: &Path) -> Result<Repo> {
        let open = || format!("open repository `{}`", path.display());
        // Half of the time of a large run went into hashing every object read; zlib's checksum covers damage.
        git2::opts::strict_hash_verification(false);
        if path.is_file() {
            return Err(Hinted::error("it is a file", error::GIVE_REPOSITORY)).with_context(open);
        }
        fs::read_dir(path).with_context(open)?;
        for part in [".git", "objects", ".git/objects"] {
            if let Err(error) = fs::read_dir(path.join(part))
                && error.kind() == std::io::ErrorKind::PermissionDenied
            {
                return Err(error).with_context(|| format!("read `{}`", path.join(part).display())).with_context(open);
            }
        }
        let inner = git2::Repository::open(path).map_err(|error| open_error(path, &error)).with_context(open)?;
        let shallow = shallow_commits(inner.commondir()).with_context(open)?;
        let is_partial = is_partial(&inner);
        Ok(Repo { inner, shallow, is_partial })
    }

    /// Returns the commits at which a shallow clone ends, sorted.
    pub fn boundary(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.shallow.iter().map(Oid::to_string).collect();
        ids.sort();
        ids
    }

    /// Returns the full id of a commit named by id, prefix, branch or tag.
    pub fn resolve(&self, revision: &str) -> Result<String> {
        let id = self.resolve_oid(revision).with_context(|| format!("find commit `{revision}`"))?;
        Ok(id.to_string())
    }

    fn resolve_oid(&self, revision: &str) -> Result<Oid> {
        if let Some(id) = self.named(revision)? {
            return Ok(id);
        }
        let is_hex = (4..=40).contains(&revision.len()) && revision.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex {
            return self.revparse(revision);
        }
        let prefix = Oid::from_str(revision)?;
        match self.odb()?.exists_prefix(prefix, revision.len()) {
            Ok(id) => self.peel(id),
            Err(error) if error.code() == ErrorCode::Ambiguous => {
                Err(Hinted::error("several objects begin with this prefix", "give more digits of the id"))
            }
            Err(_) => Err(Hinted::error(
                format!("no commit of `{}` has this id", self.inner.path().display()),
                "fetch the missing history, or check the id",
            )),
        }
    }

    /// Evaluates git's revision syntax (`v1.0~2`), which only well-formed commits support.
    fn revparse(&self, revision: &str) -> Result<Oid> {
        let object = self.inner.revparse_single(revision).map_err(|_| {
            Hinted::error(
                format!("no branch, tag or commit of `{}` has this name", self.inner.path().display()),
                "list them with `git branch --all` and `git tag`",
            )
        })?;
        self.peel(object.id())
    }

    /// Returns the commit that a reference (full or short name) points to, `None` where there is no such reference.
    fn named(&self, name: &str) -> Result<Option<Oid>> {
        // libgit2 takes the empty name for HEAD.
        if name.is_empty() {
            return Ok(None);
        }
        let Ok(reference) = self.inner.resolve_reference_from_short_name(name) else { return Ok(None) };
        match reference.resolve().ok().and_then(|reference| reference.target()) {
            Some(id) => self.peel(id).map(Some),
            None => Ok(None),
        }
    }

    /// Follows annotated tags to their commit.
    fn peel(&self, id: Oid) -> Result<Oid> {
        let odb = self.odb()?;
        let mut id = id;
        // Tags of tags exist; chains longer than this do not.
        for _ in 0..16 {
            let object = odb.read(id).map_err(|_| ReadError::Missing(id))?;
            match object.kind() {
                ObjectType::Commit => return Ok(id),
                ObjectType::Tag => {
                    let target = object::tag_target(object.data());
                    id = target.ok_or_else(|| anyhow!("tag `{id}` is damaged"))?;
                }
                other => return Err(anyhow!("`{id}` is a {other}, not a commit")),
            }
        }
        Err(anyhow!("tag `{id}` points to too many tags"))
    }

    /// Returns the commit to walk from: the named one, or `HEAD`; `None` where the repository has no commits.
    ///
    /// # Errors
    /// There is no such branch, tag or commit, or `HEAD` names a branch that does not exist while others do.
    pub fn tip(&self, branch: Option<&str>) -> Result<Option<Oid>> {
        if let Some(name) = branch {
            return self.resolve_oid(name).with_context(|| format!("find branch `{name}`")).map(Some);
        }
        if let Some(id) = self.named("HEAD").context("find the commit to start from")? {
            return Ok(Some(id));
        }
        let mut names: Vec<String> = self
            .inner
            .branches(None)?
            .flatten()
            .filter_map(|(branch, _)| branch.name_bytes().ok().map(|name| String::from_utf8_lossy(name).into_owned()))
            .collect();
        names.sort();
        if names.is_empty() {
            return Ok(None);
        }
        let hint = format!("choose one with --branch: {}", names.join(", "));
        Err(Hinted::error("HEAD names a branch that does not exist", hint).context("find the commit to start from"))
    }

    /// Returns the URL of the remote `origin`.
    pub fn origin_url(&self) -> Option<String> {
        let remote = self.inner.find_remote("origin").ok()?;
        remote.url().ok().map(str::to_owned)
    }

    /// Reads a commit by id.
    pub fn commit(&self, id: Oid) -> Result<Commit, ReadError> {
        let odb = self.odb().map_err(|_| ReadError::Missing(id))?;
        let object = read_object(&odb, id, ObjectType::Commit)?;
        object::parse_commit(id, object.data()).map_err(|why| ReadError::Corrupt(id, why))
    }

    /// Says whether a shallow clone cut this commit's parents off.
    pub fn is_boundary(&self, id: Oid) -> bool {
        self.shallow.contains(&id)
    }

    /// Returns a file's bytes at a commit, `None` where there is none.
    pub fn read(&self, commit: &str, path: &[u8]) -> Result<Option<Vec<u8>>> {
        let root = self.root(commit)?;
        match self.lookup(root, path)? {
            Some(node) if node.is_file() => Ok(Some(self.content(node.oid)?)),
            Some(_) | None => Ok(None),
        }
    }

    /// Returns a blob's bytes.
    pub fn blob(&self, oid: &str) -> Result<Vec<u8>> {
        let id = Oid::from_str(oid).with_context(|| format!("read blob `{oid}`"))?;
        Ok(self.content(id)?)
    }

    /// Returns every file of a commit's tree with its mode, sorted; submodules are left out.
    pub fn files(&self, commit: &str) -> Result<Vec<(ByteText, u32)>> {
        let entries = self.listing(self.root(commit)?)?;
        Ok(entries
            .into_iter()
            .filter(|(_, node)| node.mode != GITLINK)
            .map(|(path, node)| (ByteText(path), node.mode))
            .collect())
    }

    /// Returns the id of a commit's tree.
    pub fn tree(&self, commit: &str) -> Result<String> {
        Ok(self.root(commit)?.to_string())
    }

    /// Writes a commit's tree into an empty directory, plus a `.git` that holds one synthetic root commit with exactly
    /// this tree and nothing else. File times derive from blob ids.
    ///
    /// # Errors
    /// An object is missing, the tree holds a name that no checkout may have, or the directory cannot be written.
    pub fn write_template(&self, commit: &str, dir: &Path) -> Result<()> {
        template::write(self, commit, dir).with_context(|| format!("write the tree of commit `{commit}`"))
    }

    /// Applies a unified git diff to a commit's tree, strictly, and returns the edits it makes: removals first, then
    /// writes, each sorted by path, so that they can be carried out in this order.
    ///
    /// # Errors
    /// The patch does not apply or touches a path outside the tree, below `.git`, or through a link; the text says why.
    pub fn apply(&self, commit: &str, patch: &ByteText) -> Result<Vec<Edit>, String> {
        let root = self.root(commit).map_err(|error| format!("{error:#}"))?;
        apply::apply(self, root, patch.as_bytes())
    }

    /// Returns the unified git diff (full binary data, no renames) that edits make to a commit's tree.
    ///
    /// # Errors
    /// An edit removes what is not there, or an object is missing.
    pub fn diff(&self, commit: &str, edits: &[Edit]) -> Result<ByteText> {
        let root = self.root(commit)?;
        let mut sorted: Vec<&Edit> = edits.iter().collect();
        sorted.sort_by(|left, right| left.path.cmp(&right.path));
        let mut text = Vec::new();
        for edit in sorted {
            let old = match self.lookup(root, edit.path.as_bytes())? {
                Some(node) if node.is_file() => {
                    Some(FileContent { mode: node.mode, bytes: ByteText(self.content(node.oid)?) })
                }
                Some(_) | None => None,
            };
            if old.is_none() && edit.content.is_none() {
                return Err(anyhow!("remove `{}`, which commit `{commit}` does not have", edit.path));
            }
            let (old, new) = (old.as_ref().map(Version::new), edit.content.as_ref().map(Version::new));
            diff::write_file(&mut text, edit.path.as_bytes(), old, new)?;
        }
        Ok(ByteText(text))
    }

    /// Returns the id that a commit's tree has after edits.
    ///
    /// # Errors
    /// An edit removes what is not there, or puts something below a file or a link.
    pub fn tree_with(&self, commit: &str, edits: &[Edit]) -> Result<String> {
        Ok(tree::edited(self, self.root(commit)?, edits)?.to_string())
    }

    /// Returns the name of the tag nearest before a commit, or at it; `None` where there is none.
    pub fn nearest_tag(&self, commit: &str) -> Option<String> {
        let id = Oid::from_str(commit).ok()?;
        let mut options = git2::DescribeOptions::new();
        options.describe_tags();
        let commit = self.inner.find_object(id, None).ok()?;
        let description = commit.describe(&options).ok()?;
        description.format(Some(git2::DescribeFormatOptions::new().abbreviated_size(0))).ok()
    }

    /// Returns a commit's tree.
    fn root(&self, commit: &str) -> Result<Oid> {
        let id = match Oid::from_str(commit) {
            Ok(id) if commit.len() == 40 => id,
            _ => self.resolve_oid(commit).with_context(|| format!("find commit `{commit}`"))?,
        };
        Ok(self.commit(id).with_context(|| format!("read commit `{commit}`"))?.tree)
    }

    fn odb(&self) -> Result<Odb<'_>> {
        self.inner.odb().context("open the object store")
    }

    /// Returns a blob's bytes.
    pub fn content(&self, id: Oid) -> Result<Vec<u8>, ReadError> {
        let odb = self.odb().map_err(|_| ReadError::Missing(id))?;
        Ok(read_object(&odb, id, ObjectType::Blob)?.data().to_vec())
    }

    /// Returns a blob's size in bytes without reading it whole.
    pub fn size(&self, id: Oid) -> Result<u64, ReadError> {
        let odb = self.odb().map_err(|_| ReadError::Missing(id))?;
        let (size, _) = odb.read_header(id).map_err(|error| read_error(id, &error))?;
        Ok(size as u64)
    }
}

fn read_object<'odb>(odb: &'odb Odb<'_>, id: Oid, kind: ObjectType) -> Result<OdbObject<'odb>, ReadError> {
    let object = odb.read(id).map_err(|error| read_error(id, &error))?;
    if object.kind() == kind {
        return Ok(object);
    }
    Err(ReadError::Corrupt(id, format!("expected a {kind}, found a {}", object.kind())))
}

/// Reads the `shallow` file: libgit2 reports these commits as if they had no parents.
fn shallow_commits(git_dir: &Path) -> Result<HashSet<Oid>> {
    let path: PathBuf = git_dir.join("shallow");
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.lines().filter_map(|line| Oid::from_str(line.trim()).ok()).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(HashSet::new()),
        Err(error) => Err(error).with_context(|| format!("read `{}`", path.display())),
    }
}

fn is_partial(repo: &git2::Repository) -> bool {
    let Ok(config) = repo.config() else { return false };
    let Ok(entries) = config.entries(Some("remote\\..*\\.(promisor|partialclonefilter)")) else { return false };
    let mut found = false;
    // An unreadable entry cannot promise anything.
    let _ = entries.for_each(|_| found = true);
    found
}
