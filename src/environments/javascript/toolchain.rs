//! The Node.js versions on this machine, each asked once per process what it is.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use crate::{
    process,
    record::environment::{Language, Toolchain},
};

/// Prints version and executable.
const QUESTION: &str = "console.log(process.versions.node + '\\n' + process.execPath)";

/// Returns every usable Node.js, those on `PATH` first and in its order; one per real executable.
pub fn find() -> &'static [Toolchain] {
    static FOUND: OnceLock<Vec<Toolchain>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let mut found: Vec<Toolchain> = Vec::new();
        for toolchain in executables().iter().filter_map(|path| ask(path)) {
            if !found.iter().any(|known| known.path == toolchain.path) {
                found.push(toolchain);
            }
        }
        found
    })
}

fn executables() -> Vec<PathBuf> {
    let on_path = env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = env::split_paths(&on_path).collect();
    directories.extend(["/usr/local/bin", "/usr/bin"].map(PathBuf::from));
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let managers = [".nvm/versions/node", ".local/share/fnm/node-versions", ".volta/tools/image/node"];
    for root in managers.map(|place| home.join(place)) {
        let mut versions: Vec<PathBuf> =
            fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        versions.sort();
        directories.extend(versions.iter().map(|version| version.join("bin")));
        directories.extend(versions.iter().map(|version| version.join("installation/bin")));
    }
    directories.iter().map(|directory| directory.join("node")).filter(|path| path.is_file()).collect()
}

/// Asks an executable what it is; `None` where it does not answer or has no npm.
fn ask(path: &Path) -> Option<Toolchain> {
    let command = process::Command {
        argv: vec![path.into(), "-e".into(), QUESTION.into()],
        env: Vec::new(),
        cwd: Some(PathBuf::from("/")),
        stdin: Vec::new(),
        wall: Duration::from_secs(20),
        max_output_bytes: 4096,
    };
    // An executable that cannot be started is no Node.js.
    let answer = process::run(&command).ok().filter(|finished| finished.exit == process::Exit::Code(0))?;
    let text = answer.stdout.text();
    let mut lines = text.lines();
    let (version, path) = (lines.next()?, Path::new(lines.next()?).canonicalize().ok()?);
    let prefix = path.parent()?.parent()?.to_owned();
    let toolchain = Toolchain { language: Language::Javascript, path, prefix, version: version.to_owned() };
    npm_of(&toolchain).is_some().then_some(toolchain)
}

/// Returns the script behind a toolchain's `npm`.
pub fn npm_of(toolchain: &Toolchain) -> Option<PathBuf> {
    let script = toolchain.prefix.join("lib/node_modules/npm/bin/npm-cli.js");
    if script.is_file() {
        return Some(script);
    }
    toolchain.prefix.join("bin/npm").canonicalize().ok().filter(|path| path.starts_with(&toolchain.prefix))
}
