//! Go: `go test`.

use super::Layout;

pub const NAME: &str = "curate_go.py";

pub fn layout() -> Layout {
    Layout::default()
}
