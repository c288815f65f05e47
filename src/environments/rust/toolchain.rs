//! The Rust toolchain of this machine: rustup's default, or whatever `cargo` on `PATH` is.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    process,
    record::environment::{Language, Toolchain},
};

/// Returns the toolchain, `None` where there is none.
pub fn find() -> Option<Toolchain> {
    let sysroot = PathBuf::from(ask(&["rustc", "--print", "sysroot"])?).canonicalize().ok()?;
    let path = sysroot.join("bin/cargo");
    // Distributions keep the compiler's files in `/usr`, and Cargo beside it.
    let path = path.exists().then_some(path).or_else(|| on_path("cargo"))?;
    let version = ask(&["rustc", "--version"])?.split_whitespace().nth(1)?.to_owned();
    Some(Toolchain { language: Language::Rust, path, prefix: sysroot, version })
}

fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|dir| dir.join(name)).find(|path| path.is_file())?.canonicalize().ok()
}

fn ask(argv: &[&str]) -> Option<String> {
    let keep =
        |(name, _): &(OsString, OsString)| ["PATH", "HOME", "RUSTUP_HOME", "CARGO_HOME"].iter().any(|it| name == it);
    let command = process::Command {
        argv: argv.iter().map(OsString::from).collect(),
        env: env::vars_os().filter(keep).collect(),
        // Away from any `rust-toolchain` file.
        cwd: Some(Path::new("/").to_owned()),
        stdin: Vec::new(),
        wall: Duration::from_secs(30),
        max_output_bytes: 16 << 10,
    };
    // What cannot be started is not there.
    let finished = process::run(&command).ok().filter(|finished| finished.exit == process::Exit::Code(0))?;
    Some(finished.stdout.text().trim().to_owned())
}
