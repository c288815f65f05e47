//! One change → source patch and test patch, by path. The two touch different paths, so that each applies alone and
//! both, in either order, give the fix's tree. Submodule changes are in neither: nothing could apply them.

use anyhow::Result;

use crate::{
    git::{
        diff::{self, Contents, LineCounts},
        tree::Delta,
    },
    record::{bytes::ByteText, candidate::Role, id::Digest},
};

/// A changed path with its role and both contents.
pub struct Change {
    pub delta: Delta,
    pub role: Role,
    pub contents: Contents,
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
