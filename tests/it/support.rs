//! What the checks share.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use curate::process::{Command, Exit, Finished, run};

/// Says whether a check may go on: prints the reason where this machine lacks something, and fails where
/// `CURATE_REQUIRE` (a list with commas) names it.
pub fn require(name: &str, available: bool) -> bool {
    if available {
        return true;
    }
    let required = std::env::var("CURATE_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|item| item.trim() == name), "`{name}` is required and not available here");
    eprintln!("skipped: `{name}` is not available on this machine");
    false
}

/// Runs a program with this process's environment and some more variables.
pub fn spawn(argv: &[&str], more_env: &[(&str, &Path)], wall_s: u64) -> anyhow::Result<Finished> {
    let mut env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    env.extend(more_env.iter().map(|(name, value)| (OsString::from(name), value.as_os_str().to_owned())));
    run(&Command {
        argv: argv.iter().map(OsString::from).collect(),
        env,
        cwd: None,
        stdin: Vec::new(),
        wall: Duration::from_secs(wall_s),
        max_output_bytes: 64 << 20,
    })
}

/// Runs a program that must succeed and returns its standard output.
pub fn output(argv: &[&str], more_env: &[(&str, &Path)], wall_s: u64) -> String {
    let finished = spawn(argv, more_env, wall_s).unwrap();
    assert_eq!(finished.exit, Exit::Code(0), "{argv:?}\n{}\n{}", finished.stdout.text(), finished.stderr.text());
    finished.stdout.text()
}

/// Returns a Python with the libraries that read our exports, `None` where it cannot be made.
pub fn readers_python() -> Option<&'static Path> {
    static PYTHON: OnceLock<Option<PathBuf>> = OnceLock::new();
    PYTHON.get_or_init(make_readers_python).as_deref()
}

const READERS: [&str; 4] = ["pyarrow==26.0.1", "datasets==5.2.0", "jinja2==3.1.6", "transformers==5.24.0"];

fn make_readers_python() -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readers-python");
    let python = dir.join("bin/python");
    let marker = dir.join("installed");
    if std::fs::read_to_string(&marker).is_ok_and(|text| text == READERS.join(" ")) {
        return Some(python);
    }
    let text = |path: &Path| path.to_str().expect("the target directory is text").to_owned();
    let succeeds = |argv: &[&str]| matches!(spawn(argv, &[], 600), Ok(done) if done.exit == Exit::Code(0));
    let made = succeeds(&["python3", "-m", "venv", "--clear", &text(&dir)])
        && succeeds(&[&[text(&python).as_str(), "-m", "pip", "install", "--quiet"][..], &READERS[..]].concat());
    if made {
        std::fs::write(&marker, READERS.join(" ")).unwrap();
    }
    made.then_some(python)
}
