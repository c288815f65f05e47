//! What several areas' tests need.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use curate::{
    record::{
        bytes::ByteText,
        patch::{Edit, FileContent},
    },
    sandbox::Backend,
};

/// Says whether a check that needs `name` can run here; prints the reason if not.
///
/// # Panics
/// It cannot, and `CURATE_REQUIRE` (a comma list) names it.
pub fn require(name: &str, available: bool) -> bool {
    let required = env::var("CURATE_REQUIRE").unwrap_or_default();
    assert!(available || required.split(',').all(|it| it != name), "`{name}` is required and not to be had here");
    if !available {
        eprintln!("skipped: `{name}` is not to be had here");
    }
    available
}

/// Returns the backends that work here, and why the others do not, on standard error.
pub fn backends() -> Vec<Backend> {
    static PROBED: OnceLock<Option<Backend>> = OnceLock::new();
    let backend = PROBED.get_or_init(|| Backend::probe().map_err(|error| eprintln!("{error:#}")).ok());
    require("bwrap", backend.is_some());
    backend.iter().copied().collect()
}

/// An edit that writes a file with mode 644.
pub fn write(path: &str, text: impl Into<Vec<u8>>) -> Edit {
    with_mode(path, 0o100_644, text)
}

/// An edit that writes a file or link with a git mode.
pub fn with_mode(path: &str, mode: u32, bytes: impl Into<Vec<u8>>) -> Edit {
    Edit { path: ByteText::from(path), content: Some(FileContent { mode, bytes: ByteText::new(bytes) }) }
}

/// An edit that removes a path.
pub fn remove(path: &str) -> Edit {
    Edit { path: ByteText::from(path), content: None }
}

/// Creates a directory tree from `(path, text)` pairs; a text that starts with `-> ` is a link's target.
pub fn plant(root: &Path, files: &[(&str, &str)]) -> PathBuf {
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("it is below the root")).unwrap();
        match text.strip_prefix("-> ") {
            Some(target) => std::os::unix::fs::symlink(target, &path).unwrap(),
            None => fs::write(&path, text).unwrap(),
        }
    }
    root.to_owned()
}
