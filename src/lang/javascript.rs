//! JavaScript and TypeScript: node:test, jest, vitest, mocha, ava, tap.

use super::Layout;

pub const NAME: &str = "curate_node.py";

pub fn layout() -> Layout {
    Layout::default()
}

/// Returns the file of a test id, relative to the tree.
pub fn file_of(test_id: &str) -> Option<&str> {
    test_id.split_once("::").map(|(file, _)| file)
}
