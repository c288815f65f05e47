//! One change → source patch and test patch, by path and, where a language keeps tests in its program files, inside
//! files. Each applies alone, and both, in either order, give the fix's tree. Submodule changes are in neither: nothing
//! could apply them.

use anyhow::{Context, Result};
use git2::{ObjectType, Oid};

use crate::{
    git::{
        diff::{self, Contents, LineCounts},
        tree::{Delta, Node},
    },
    record::{bytes::ByteText, candidate::Role, id::Digest},
    syntax::with_tests_of,
};

/// A changed path with its role and both contents.
pub struct Change {
    pub delta: Delta,
    pub role: Role,
    pub contents: Contents,
    pub inner: Option<Inner>,
}

/// The two halves of a change to a file that holds program and tests.
pub struct Inner {
    /// The old program with the new tests.
    pub new_tests: Vec<u8>,
    /// The new program with the old tests.
    pub new_program: Vec<u8>,
}

impl Change {
    /// Reads a change; a file with tests inside becomes what its change makes of it: tests, program, or both.
    pub fn new(delta: Delta, role: Role, contents: Contents) -> Change {
        let mut change = Change { delta, role, contents, inner: None };
        if role != Role::Source || !change.delta.path.ends_with(b".rs") {
            return change;
        }
        let (Some(old), Some(new)) = (&change.contents.old, &change.contents.new) else { return change };
        let (Some(new_tests), Some(new_program)) = (with_tests_of(old, new), with_tests_of(new, old)) else {
            return change;
        };
        if new_program == *old {
            change.role = Role::Test;
        } else if new_tests != *old {
            change.inner = Some(Inner { new_tests, new_program });
        }
        change
    }

    /// Returns the new side without its tests.
    pub fn new_program(&self) -> Option<&[u8]> {
        self.inner.as_ref().map(|inner| inner.new_program.as_slice()).or(self.contents.new.as_deref())
    }

    fn half(&self, new: &[u8]) -> Contents {
        Contents { old: self.contents.old.clone(), new: Some(new.to_vec()) }
    }

    /// Returns the delta with the id of the new content left to be computed.
    fn half_delta(&self, new: &[u8]) -> Result<Delta> {
        let oid = Oid::hash_object(ObjectType::Blob, new).context("compute a blob id")?;
        let mut delta = self.delta.clone();
        delta.new = delta.new.map(|node| Node { oid, ..node });
        Ok(delta)
    }
}

/// The two patches of a change, and the lines that each path adds and removes (in the order of the changes).
pub struct Split {
    pub source_patch: ByteText,
    pub test_patch: ByteText,
    pub counts: Vec<LineCounts>,
}

/// Makes the patches.
///
/// # Errors
/// libgit2 cannot compare two contents.
pub fn split(changes: &[Change]) -> Result<Split> {
    let (mut source, mut test) = (Vec::new(), Vec::new());
    let mut counts = Vec::with_capacity(changes.len());
    for change in changes {
        if let Some(Inner { new_tests, new_program }) = &change.inner {
            diff::write_delta(&mut test, &change.half_delta(new_tests)?, &change.half(new_tests))?;
            counts.push(diff::write_delta(&mut source, &change.half_delta(new_program)?, &change.half(new_program))?);
            continue;
        }
        let text = if change.role == Role::Test { &mut test } else { &mut source };
        let is_empty = change.contents.old.is_none() && change.contents.new.is_none();
        counts.push(if is_empty {
            LineCounts::default()
        } else {
            diff::write_delta(text, &change.delta, &change.contents)?
        });
    }
    Ok(Split { source_patch: ByteText(source), test_patch: ByteText(test), counts })
}

/// Returns an id that a change keeps when it is moved to other lines, re-indented or applied elsewhere.
pub fn patch_id(split: &Split) -> String {
    let mut parts = Vec::new();
    for line in [&split.source_patch, &split.test_patch].iter().flat_map(|patch| patch.0.split(|&byte| byte == b'\n')) {
        if line.starts_with(b"index ") || line.starts_with(b"@@ ") {
            continue;
        }
        parts.extend(line.iter().filter(|byte| !byte.is_ascii_whitespace()));
        parts.push(b'\n');
    }
    Digest::of(&[&parts]).as_str().to_owned()
}
