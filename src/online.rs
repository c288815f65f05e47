//! What the tools that run in a sandbox with a network have in common: the caller's settings that reach them, and what
//! their ends mean. Which tool it is and what it does, this module does not know.

use std::{env, path::PathBuf};

use anyhow::{Result, bail};

use crate::{
    interrupt::Interrupted,
    record::failure::{Blame, Failure, Phase},
    sandbox::{Exit, Mount, Output},
};

/// Variables by which programs find a proxy.
const PROXIES: [&str; 8] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"];
/// Where the certificates are shown that the caller's variables name.
pub const CERTIFICATES: &str = "/opt/certificates";
const MAX_TAIL_BYTES: usize = 2_000;

/// Returns a variable of the caller's environment that is not empty.
pub fn set(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns those of the caller's variables that are named, and its proxies.
pub fn variables(names: &[&str]) -> Vec<(String, String)> {
    names.iter().chain(&PROXIES).filter_map(|name| Some(((*name).to_owned(), set(name)?))).collect()
}

/// Returns the caller's certificate settings; what they name is mounted.
pub fn certificates(mounts: &mut Vec<Mount>) -> Vec<(String, String)> {
    let mut passed = Vec::new();
    for (name, inside) in [("SSL_CERT_FILE", "file.pem"), ("SSL_CERT_DIR", "dir")] {
        if let Some(host) = set(name).map(PathBuf::from).and_then(|path| path.canonicalize().ok()) {
            let inside = format!("{CERTIFICATES}/{inside}");
            passed.push((name.to_owned(), inside.clone()));
            mounts.push(Mount { host, inside: inside.into(), writable: false });
        }
    }
    passed
}

/// How one tool's words are understood.
pub struct Dialect {
    /// The kind of a failure of the machine that a text speaks of, where it does.
    pub trouble_of_the_machine: fn(&str) -> Option<&'static str>,
    /// What of a text to keep.
    pub tail: fn(&str) -> String,
}

/// Turns anything but success into an error that carries a [`Failure`] or [`Interrupted`].
///
/// # Errors
/// The `kind` given where the command failed by the repository's doing, `sandbox_lost` or what the dialect says where the
/// machine failed.
pub fn check(dialect: &Dialect, kind: &str, output: &Output) -> Result<()> {
    let text = format!("{}\n{}", output.stdout.text(), output.stderr.text());
    let detail = (dialect.tail)(&text);
    let failure = match output.exit {
        Exit::Code(0) => return Ok(()),
        Exit::Interrupted => bail!(Interrupted),
        Exit::Lost => Failure::new(Phase::Build, "sandbox_lost", Blame::Infra, detail),
        Exit::TimedOut => {
            let detail = format!("{detail}\nstopped after {} s", output.wall.as_secs());
            Failure::new(Phase::Build, kind, Blame::Repo, detail)
        }
        Exit::Code(_) | Exit::Signal(_) | Exit::OutOfMemory => match (dialect.trouble_of_the_machine)(&text) {
            Some(machine) => Failure::new(Phase::Build, machine, Blame::Infra, detail),
            None => Failure::new(Phase::Build, kind, Blame::Repo, detail),
        },
    };
    Err(failure.into())
}

/// Returns the last 2,000 bytes, whole characters.
pub fn tail(text: &str) -> String {
    let text = text.trim();
    text[text.ceil_char_boundary(text.len().saturating_sub(MAX_TAIL_BYTES))..].to_owned()
}
