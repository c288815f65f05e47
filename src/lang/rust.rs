//! Rust: `cargo test`.

use super::Layout;

pub const NAME: &str = "curate_cargo.py";

pub fn layout() -> Layout {
    Layout::default()
}
