//! Compiles the two helpers of ours that run in sandboxes; the program carries them as bytes.

use std::{env, path::PathBuf};

/// Source, result, and the flags that make it one.
const HELPERS: [(&str, &str, &[&str]); 2] = [
    // Shifts the clock of a run's processes.
    ("src/harness/clock.c", "clock.so", &["-shared", "-fPIC"]),
    // Has a preloaded process run a command.
    ("src/sandbox/enter.c", "enter", &[]),
];

fn main() {
    let directory = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for (source, result, flags) in HELPERS {
        println!("cargo::rerun-if-changed={source}");
        let mut command = cc::Build::new().std("gnu11").warnings(true).get_compiler().to_command();
        command.arg("-O2").args(flags).arg("-o").arg(directory.join(result)).arg(source);
        let status = command.status().unwrap_or_else(|error| panic!("start the C compiler: {error}"));
        assert!(status.success(), "compile {source}: {status}");
    }
}
