//! Rust: `cargo test`.

use super::Layout;
use crate::record::{cargo::Workspace, environment::Build};

pub const NAME: &str = "curate_cargo.py";
pub const SCRIPT: &str = include_str!("python/curate_cargo.py");

/// Where Cargo's configuration is: the sources of the dependencies.
pub const CARGO_HOME: &str = "/opt/env/cargo";
/// Directory of an environment with the compiled dependencies, and where each sandbox gets a writable view of it.
///
/// It is compiled at the same path, since Cargo remembers paths.
pub const TARGET: (&str, &str) = ("target", "/opt/target");
/// The compiler and its driver reserve far more than they use.
const ADDRESS_SPACE_BYTES: u64 = 64 << 30;

pub fn layout(build: &Build) -> Layout {
    Layout {
        overlaid: &[TARGET],
        variables: variables(&build.environment.toolchain.prefix.display().to_string(), &build.environment.lock),
        address_space_bytes: Some(ADDRESS_SPACE_BYTES),
        ..Layout::default()
    }
}

/// Returns what is set where Cargo runs; the same when dependencies are compiled, or they would be compiled again.
///
/// The toolchain is called by its own path, so that a `rust-toolchain` file asks for nothing.
pub fn variables(sysroot: &str, lock: &str) -> Vec<(String, String)> {
    let rustflags = Workspace::of_lock(lock).map(|(workspace, _)| workspace.rustflags).unwrap_or_default();
    // Old code is full of what new compilers warn of, and some of it denies warnings.
    let flags = [&["--cap-lints=allow".to_owned()], rustflags.as_slice()].concat().join("\u{1f}");
    [
        ("PATH", format!("{sysroot}/bin:/usr/local/bin:/usr/bin:/bin").as_str()),
        ("CARGO_HOME", CARGO_HOME),
        ("CARGO_TARGET_DIR", TARGET.1),
        ("CARGO_NET_OFFLINE", "true"),
        ("CARGO_INCREMENTAL", "0"),
        ("CARGO_TERM_COLOR", "never"),
        ("CARGO_ENCODED_RUSTFLAGS", &flags),
        ("CARGO_ENCODED_RUSTDOCFLAGS", "--cap-lints=allow"),
        // Lines are what a panic's frames need; the rest costs the linker's time.
        ("CARGO_PROFILE_DEV_DEBUG", "line-tables-only"),
        ("CARGO_PROFILE_TEST_DEBUG", "line-tables-only"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}
