//! The Python interpreters on this machine: pyenv's, the system's, uv's.
//!
//! Each is asked once for its version and prefix; answers are kept in the cache by path and modification time.
//! Which one a commit gets, this module does not know.

use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{
    cache::Cache,
    process,
    record::environment::{Language, Toolchain},
};

/// Prints implementation, version, base prefix, prefix and executable, a line each.
const QUESTION: &str = "import platform, sys; print('\\n'.join([platform.python_implementation(), \
                        platform.python_version(), sys.base_prefix, sys.prefix, sys.executable]))";

/// What an executable answered; `None`: it is none that can be used.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    mtime: i64,
    size: u64,
    interpreter: Option<Toolchain>,
}

/// Returns every usable CPython, sorted by path; one per real executable.
///
/// # Errors
/// The cache cannot be written.
pub fn find(cache: &Cache) -> Result<Vec<Toolchain>> {
    let file = cache.dir("interpreters")?.join("answers.json");
    // A file that cannot be read is written anew.
    let known: BTreeMap<PathBuf, Answer> =
        fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let mut answers = BTreeMap::new();
    let mut asked = false;
    for path in executables() {
        let Ok(metadata) = fs::metadata(&path) else { continue };
        let fresh = known.get(&path).filter(|a| a.mtime == metadata.mtime() && a.size == metadata.len());
        asked |= fresh.is_none();
        let answer = fresh.cloned().unwrap_or_else(|| Answer {
            mtime: metadata.mtime(),
            size: metadata.len(),
            interpreter: ask(&path),
        });
        answers.insert(path, answer);
    }
    if asked || answers.len() != known.len() {
        write(cache, &file, &answers)?;
    }
    let mut found: Vec<Toolchain> = answers.into_values().filter_map(|answer| answer.interpreter).collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.dedup_by(|a, b| a.path == b.path);
    Ok(found)
}

fn write(cache: &Cache, file: &Path, answers: &BTreeMap<PathBuf, Answer>) -> Result<()> {
    let staging = cache.scratch()?;
    let written = staging.path().join("answers.json");
    let json = serde_json::to_vec_pretty(answers).context("write down the interpreters")?;
    fs::write(&written, json)
        .and_then(|()| fs::rename(&written, file))
        .with_context(|| format!("write `{}`", file.display()))
}

/// Returns the real paths of everything that looks like an interpreter of its own.
fn executables() -> Vec<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let set = |name: &str, default: PathBuf| env::var_os(name).map_or(default, PathBuf::from);
    let pyenv = set("PYENV_ROOT", home.join(".pyenv")).join("versions");
    let data = set("XDG_DATA_HOME", home.join(".local/share"));
    let managed = set("UV_PYTHON_INSTALL_DIR", data.join("uv/python"));
    let mut found = Vec::new();
    for root in [pyenv, managed] {
        for entry in fs::read_dir(root).into_iter().flatten().flatten() {
            found.extend(named_python(&entry.path().join("bin")));
        }
    }
    let on_path = env::var_os("PATH").unwrap_or_default();
    let fixed = ["/usr/bin", "/usr/local/bin"].map(PathBuf::from);
    for dir in fixed.into_iter().chain(env::split_paths(&on_path)) {
        if !dir.components().any(|part| part.as_os_str() == "shims") {
            found.extend(named_python(&dir));
        }
    }
    let mut real: Vec<PathBuf> = found.iter().filter_map(|path| path.canonicalize().ok()).collect();
    real.sort();
    real.dedup();
    real
}

/// Returns `python3.N` files of a directory.
fn named_python(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let is_python = |name: &str| {
        name.strip_prefix("python3.")
            .is_some_and(|minor| !minor.is_empty() && minor.bytes().all(|b| b.is_ascii_digit()))
    };
    entries.filter(|entry| entry.file_name().to_str().is_some_and(is_python)).map(|entry| entry.path()).collect()
}

/// Asks an executable what it is; `None` where it does not answer, is a virtual environment's, or not CPython.
fn ask(path: &Path) -> Option<Toolchain> {
    let command = process::Command {
        argv: vec![path.into(), "-I".into(), "-c".into(), QUESTION.into()],
        env: Vec::new(),
        cwd: Some(PathBuf::from("/")),
        stdin: Vec::new(),
        wall: Duration::from_secs(20),
        max_output_bytes: 16 << 10,
    };
    // An executable that cannot be started is no interpreter.
    let answer = process::run(&command).ok().filter(|finished| finished.exit == process::Exit::Code(0))?;
    let text = answer.stdout.text();
    let mut lines = text.lines();
    let (implementation, version) = (lines.next()?, lines.next()?);
    let (base_prefix, prefix, executable) = (lines.next()?, lines.next()?, lines.next()?);
    if implementation != "CPython" || prefix != base_prefix {
        return None;
    }
    Some(Toolchain {
        language: Language::Python,
        path: Path::new(executable).canonicalize().ok()?,
        prefix: PathBuf::from(base_prefix),
        version: version.to_owned(),
    })
}
