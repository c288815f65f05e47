//! Compiles the library that shifts the clock of a run's processes; the program carries it as bytes.

use std::{env, path::PathBuf};

const SOURCE: &str = "src/harness/clock.c";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    let library = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("clock.so");
    let mut command = cc::Build::new().std("gnu11").warnings(true).get_compiler().to_command();
    command.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(SOURCE);
    let status = command.status().unwrap_or_else(|error| panic!("start the C compiler: {error}"));
    assert!(status.success(), "compile {SOURCE}: {status}");
}
