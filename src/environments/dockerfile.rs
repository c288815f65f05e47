//! A Dockerfile that builds an environment where there is no `curate`, with Docker or podman. Pure.
//!
//! It holds all it needs as text: the lock, the project's metadata, the files that the build generated. What it fetches is
//! the toolchain's official image, Debian's packages, the repository, and the packages of the lock, by their digests.

use std::fmt::Write as _;

use base64::prelude::{BASE64_STANDARD, Engine as _};

use super::javascript::Lock;
use crate::{
    lang,
    record::{
        cargo::Workspace,
        environment::{Build, Language, LayerFile},
        task::PublicTask,
    },
    sandbox::{ENVIRONMENT, METADATA, TREE},
};

/// Bytes of base64 in one instruction: builders refuse lines of more than 64 KiB.
const MAX_CHUNK: usize = 48 * 1024;
const LOCK_DIR: &str = "/opt/lock";

/// Returns the Dockerfile of a task's environment, with the repository at the base commit and no history.
///
/// Where the repository was mined from a directory, `--build-arg REPOSITORY=…` must say where it can be had.
pub fn dockerfile(task: &PublicTask) -> String {
    let build = &task.build;
    let toolchain = &build.environment.toolchain;
    let image = match toolchain.language {
        Language::Python => format!("python:{}-slim", toolchain.version),
        Language::Javascript => format!("node:{}-slim", toolchain.version.trim_start_matches('v')),
        Language::Rust => format!("rust:{}-slim", toolchain.version),
        Language::Go => format!("golang:{}", toolchain.version),
    };
    let mut text = format!(
        "# The environment of {}\n\
         FROM {image}\n\
         ARG REPOSITORY{}\n\
         RUN apt-get update && apt-get install -y --no-install-recommends build-essential ca-certificates git \\\n    \
         && rm -rf /var/lib/apt/lists/*\n\
         RUN git clone -q --no-checkout \"$REPOSITORY\" {TREE} && cd {TREE} && git checkout -q {} && rm -rf .git \\\n    \
         && git init -q && git add -Af \\\n    \
         && git -c user.name=curate -c user.email=curate@localhost commit -qm base\n\
         WORKDIR {TREE}\n",
        task.instance_id,
        address(&task.repo_source).map_or_else(String::new, |address| format!("={}", quoted(address))),
        task.base_commit,
    );
    install(&mut text, build);
    for (directory, files) in [(METADATA, &build.metadata), (TREE, &build.generated)] {
        for file in files {
            put_layer(&mut text, directory, file);
        }
    }
    let _ = writeln!(text, "CMD [\"/bin/sh\", \"-c\", \"{}\"]", lang::visible_command(build.runner));
    text
}

/// Returns a source that other machines can reach too; a directory's name stays here.
fn address(source: &str) -> Option<&str> {
    ["https://", "http://", "ssh://", "git@"].iter().any(|beginning| source.starts_with(beginning)).then_some(source)
}

/// Adds what installs the lock.
fn install(text: &mut String, build: &Build) {
    let lock = &build.environment.lock;
    match build.environment.toolchain.language {
        Language::Python => {
            put(text, &format!("{LOCK_DIR}/requirements.txt"), lock.as_bytes());
            let _ = writeln!(
                text,
                "RUN python -m venv {ENVIRONMENT} \\\n    \
                 && {ENVIRONMENT}/bin/pip install --no-deps --require-hashes -r {LOCK_DIR}/requirements.txt\n\
                 ENV PATH={ENVIRONMENT}/bin:$PATH"
            );
            for (name, value) in lang::layout(build).variables {
                let _ = writeln!(text, "ENV {name}={}", quoted(&value));
            }
        }
        Language::Javascript => {
            let Ok(lock) = serde_json::from_str::<Lock>(lock) else { return };
            for (path, json) in &lock.files {
                put(text, &format!("{LOCK_DIR}/{path}"), json.to_string().as_bytes());
            }
            let _ = writeln!(
                text,
                "RUN cd {LOCK_DIR} && npm ci {} && ln -s {LOCK_DIR}/node_modules {TREE}/node_modules",
                lock.options.join(" ")
            );
        }
        Language::Rust => {
            let Some((workspace, lock)) = Workspace::of_lock(lock) else { return };
            let directory = [TREE, &workspace.directory].join("/");
            put(text, &format!("{}/Cargo.lock", directory.trim_end_matches('/')), lock.as_bytes());
            let _ = writeln!(text, "RUN cd {} && cargo fetch --locked", quoted(&directory));
        }
        Language::Go => text.push_str("RUN go mod download\n"),
    }
}

fn put_layer(text: &mut String, directory: &str, file: &LayerFile) {
    let path = format!("{directory}/{}", file.path.lossy());
    put(text, &path, file.content.as_bytes());
    if file.executable {
        let _ = writeln!(text, "RUN chmod +x {}", quoted(&path));
    }
}

/// Adds what writes a file.
fn put(text: &mut String, path: &str, bytes: &[u8]) {
    let place = quoted(path);
    let encoded = BASE64_STANDARD.encode(bytes);
    let mut arrow = ">";
    // Every chunk is base64 of its own.
    for chunk in encoded.as_bytes().chunks(MAX_CHUNK) {
        let chunk = str::from_utf8(chunk).expect("base64 is ASCII");
        let _ = writeln!(text, "RUN mkdir -p \"$(dirname {place})\" && echo {chunk} | base64 -d {arrow} {place}");
        arrow = ">>";
    }
    if encoded.is_empty() {
        let _ = writeln!(text, "RUN mkdir -p \"$(dirname {place})\" && : > {place}");
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::*;
    use crate::process::{self, Command, Exit};

    #[test]
    fn files_arrive_as_they_were_whatever_they_hold() {
        let dir = tempfile::tempdir().unwrap();
        let big: Vec<u8> = (0..200_000_u32).map(|n| (n % 251).to_le_bytes()[0]).collect();
        for (name, bytes) in [("a/it's $HOME", &big[..]), ("b", b""), ("c", b"x\n")] {
            let path = dir.path().join(name);
            let mut text = String::new();
            put(&mut text, path.to_str().unwrap(), bytes);
            for line in text.lines() {
                assert!(line.len() < 65_535);
                let script = line.strip_prefix("RUN ").unwrap();
                let command = Command {
                    argv: ["/bin/sh", "-c", script].map(Into::into).to_vec(),
                    env: vec![("PATH".into(), "/usr/bin:/bin".into())],
                    cwd: None,
                    stdin: Vec::new(),
                    wall: Duration::from_secs(10),
                    max_output_bytes: 1_000,
                };
                assert_eq!(process::run(&command).unwrap().exit, Exit::Code(0));
            }
            assert_eq!(fs::read(path).unwrap(), bytes);
        }
    }
}
