//! What several areas' tests need.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use curate::{
    git::{Oid, Repo},
    process::{Command, Exit, Finished, run},
    record::{
        bytes::ByteText,
        candidate::{Candidate, Unit},
        environment::Language,
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

/// Returns a candidate between two commits of a repository, without changes.
pub fn candidate(repository: &Path, language: Language, base: &str, fix: &str) -> Candidate {
    let repo = Repo::open(repository).unwrap();
    let time = |id: &str| repo.commit(Oid::from_str(id).unwrap()).unwrap().time.unwrap();
    Candidate {
        instance_id: "demo-1".to_owned(),
        repo: "demo".to_owned(),
        repo_source: repository.display().to_string(),
        base_commit: base.to_owned(),
        fix_commit: fix.to_owned(),
        unit: Unit::Commit,
        language,
        base_time: time(base),
        fix_time: time(fix),
        message: ByteText::default(),
        changes: Vec::new(),
        source_patch: ByteText::default(),
        test_patch: ByteText::default(),
        n_source_files: 1,
        n_source_lines: 2,
        tier: 1,
        mentions_fix: true,
    }
}
