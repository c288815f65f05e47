//! Writable workspaces over read-only templates.

use std::path::Path;

use anyhow::Result;

use crate::record::patch::Edit;

/// A private writable view of a template directory; removed with all it holds on drop.
///
/// Nothing is mounted on the host: the overlay is mounted inside each sandbox's own mount namespace. Where overlays
/// are not to be had, the template is copied.
#[derive(Debug)]
pub struct Workspace {}

impl Workspace {
    /// Creates a workspace below `scratch` and writes `edits` into it.
    ///
    /// # Errors
    /// Files cannot be written.
    pub fn create(_template: &Path, _scratch: &Path, _edits: &[Edit]) -> Result<Workspace> {
        todo!()
    }

    /// Returns what differs from the template, sorted by path; `.git` at the root is left out.
    ///
    /// Reads from the host side without following links; call it only while no sandbox uses the workspace.
    ///
    /// # Errors
    /// Files cannot be read, or more than `max_bytes` differ.
    pub fn changes(&self, _max_bytes: u64) -> Result<Vec<Edit>> {
        todo!()
    }
}
