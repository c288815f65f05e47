//! Changes to a tree as data.

use serde::{Deserialize, Serialize};

use super::bytes::ByteText;

/// What a path holds after an edit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileContent {
    /// Git mode: `0o100644`, `0o100755` or `0o120000` (symbolic link; the bytes are its target).
    pub mode: u32,
    pub bytes: ByteText,
}

/// One path to write or remove. A set of edits names each path once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// Relative to the tree, `/`-separated, no `.` or `..` components.
    pub path: ByteText,
    /// `None` removes the path.
    pub content: Option<FileContent>,
}
