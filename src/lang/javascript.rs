//! JavaScript and TypeScript: node:test, jest, vitest, mocha, ava, tap.
//!
//! Ids are `path/of/test.js::suite > subsuite > name`; of tests that share a name, the second is `name#2`. The points
//! of tap's output are tests of their own, subtests included.
//!
//! The driver starts runners as child processes. The first module that a child loads is ours: it takes a key out of a
//! file that it removes, and seals what the runner's own events say. So a test that prints events, to whatever stream,
//! changes nothing. By runner these are: a reporter's events (mocha, jest, vitest, `node:test`), the messages of
//! workers to ava's main process, and what tap itself writes to its standard output, told from what others write there
//! by the immediate caller. Points of tap that do not add up with its numbers and plans make the file's tests fail.
//!
//! A test that never returns to the event loop is known by name but under tap, where the time-out is that of the last test
//! it has spoken of, and under `node:test`, where it is the file's.
//!
//! Linters before and after the tests do not run and coverage thresholds are off. What else the repository's scripts
//! run before its tests (`pretest`, the commands before the runner in `test`, and `build` where the package's `main`
//! is missing) runs in the sandbox first; its failure decides nothing, the tests do.

use super::Layout;
use crate::{record::environment::Build, sandbox::TREE};

pub const NAME: &str = "curate_node.py";
pub const SCRIPT: &str = include_str!("python/curate_node.py");

/// What the script imports, and what child processes load, by name.
pub const MODULES: [(&str, &str); 12] = [
    ("curate_node_package.py", include_str!("python/curate_node_package.py")),
    ("curate_node_tap.py", include_str!("python/curate_node_tap.py")),
    ("curate_channel.cjs", include_str!("javascript/curate_channel.cjs")),
    ("curate_mocha.cjs", include_str!("javascript/curate_mocha.cjs")),
    ("curate_jest.cjs", include_str!("javascript/curate_jest.cjs")),
    ("curate_jest_order.cjs", include_str!("javascript/curate_jest_order.cjs")),
    ("curate_vitest.cjs", include_str!("javascript/curate_vitest.cjs")),
    ("curate_vitest.mjs", include_str!("javascript/curate_vitest.mjs")),
    ("curate_node_test.cjs", include_str!("javascript/curate_node_test.cjs")),
    ("curate_tap.cjs", include_str!("javascript/curate_tap.cjs")),
    ("curate_ava.cjs", include_str!("javascript/curate_ava.cjs")),
    ("curate_probe.cjs", include_str!("javascript/curate_probe.cjs")),
];

/// Where the packages are shown.
const PACKAGES: &str = "/testbed/node_modules";
/// Node reserves address space for code and heap of each thread that it never uses; memory itself is bounded.
const ADDRESS_SPACE_BYTES: u64 = 256 << 30;

pub fn layout(build: &Build) -> Layout {
    // vitest and what it bundles with write next to the packages and cannot be told otherwise.
    let prefix = build.environment.toolchain.prefix.display();
    let variables = [
        ("PATH", format!("{TREE}/node_modules/.bin:{prefix}/bin:/usr/local/bin:/usr/bin:/bin")),
        ("npm_config_cache", "/tmp/npm".to_owned()),
        ("npm_config_offline", "true".to_owned()),
        ("npm_config_update_notifier", "false".to_owned()),
    ];
    Layout {
        shown: &[],
        overlaid: &[("node_modules", PACKAGES)],
        variables: variables.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        address_space_bytes: Some(ADDRESS_SPACE_BYTES),
    }
}

/// Returns the file of a test id, relative to the tree.
pub fn file_of(test_id: &str) -> Option<&str> {
    test_id.split_once("::").map(|(file, _)| file)
}
