//! Go: tests compiled per package with `go test -c`, then run one by one; `python/curate_go.py` says what a result rests on.
//!
//! Ids are `import/path::TestName` and `import/path::TestName/subtest`. The modules and their compiled packages come from
//! the environment; each sandbox adds to a build cache of its own, which goes by content and never by time. Nothing is
//! fetched: the module cache also is the proxy, so that a state whose `go.mod` lacks a requirement finds it there.

use super::Layout;
use crate::record::environment::{Build, Toolchain};

pub const NAME: &str = "curate_go.py";
pub const SCRIPT: &str = include_str!("python/curate_go.py");
/// Modules of the script.
pub const PROCESS_NAME: &str = "curate_go_process.py";
pub const PROCESS_SCRIPT: &str = include_str!("python/curate_go_process.py");
pub const SOURCE_NAME: &str = "curate_go_source.py";
pub const SOURCE_SCRIPT: &str = include_str!("python/curate_go_source.py");
/// The module cache, read-only in every sandbox that runs tests. Compiled packages hold this path.
pub const MODULES: &str = "/opt/env/mod";
/// Name of the environment's directory with the compiled packages.
pub const COMPILED: &str = "cache";
/// The build cache, of which each sandbox has its own.
const BUILD_CACHE: &str = "/opt/go-cache";
/// The programs reserve far more than they use.
pub const ADDRESS_SPACE_BYTES: u64 = 64 << 30;

pub fn layout(build: &Build) -> Layout {
    let mut variables = variables(&build.environment.toolchain);
    variables.push(("GOCACHE".to_owned(), BUILD_CACHE.to_owned()));
    Layout {
        overlaid: &[(COMPILED, BUILD_CACHE)],
        variables,
        address_space_bytes: Some(ADDRESS_SPACE_BYTES),
        ..Layout::default()
    }
}

/// Returns the settings of the go command for every sandbox; nothing of the machine's or a home's own configuration.
pub fn variables(toolchain: &Toolchain) -> Vec<(String, String)> {
    let root = toolchain.prefix.display();
    let proxy = format!("file://{MODULES}/cache/download");
    let path = format!("{root}/bin:/usr/local/bin:/usr/bin:/bin");
    [
        ("PATH", path.as_str()),
        ("GOROOT", &root.to_string()),
        ("GOMODCACHE", MODULES),
        ("GOPROXY", &proxy),
        // Digests are those of the lock.
        ("GOSUMDB", "off"),
        ("GOFLAGS", "-buildvcs=false"),
        ("GOTOOLCHAIN", "local"),
        ("GOTELEMETRY", "off"),
        ("GOENV", "off"),
        ("GOWORK", "off"),
        ("GO111MODULE", "on"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}
