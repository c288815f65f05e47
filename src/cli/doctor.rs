//! `curate doctor`: what this machine can do, and what mends each lack.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::{
    cache::Cache,
    interpreters,
    record::failure::is_full_disk,
    sandbox::{self, Backend},
    uv,
};

use super::{Session, exit::Exit};

/// One thing looked at.
#[derive(Debug, Serialize)]
struct Finding {
    name: &'static str,
    ok: bool,
    /// Whether `curate` can work without it.
    optional: bool,
    detail: String,
    /// What mends the lack; empty where there is none.
    mend: String,
}

pub fn command(session: &Session) -> Result<Exit> {
    let findings = examine();
    let mut text = String::new();
    for finding in &findings {
        let mark = match (finding.ok, finding.optional) {
            (true, _) => "ok  ",
            (false, true) => "weak",
            (false, false) => "LACK",
        };
        text.push_str(&format!("{mark}  {:<16} {}\n", finding.name, finding.detail.replace('\n', "; ")));
        if !finding.mend.is_empty() {
            text.push_str(&format!("      {:<16} mend: {}\n", "", finding.mend));
        }
    }
    session.result(&findings, &text)?;
    Ok(if findings.iter().all(|finding| finding.ok || finding.optional) { Exit::Done } else { Exit::NothingUsable })
}

fn examine() -> Vec<Finding> {
    let cache = Cache::open();
    let mut findings = vec![finding(
        "cache",
        false,
        cache.as_ref().map(|cache| cache.root().display().to_string()),
        "set CURATE_CACHE_DIR to a directory that can be written",
    )];
    findings.push(finding(
        "bubblewrap",
        false,
        Backend::probe().map(|_| "sandboxes start".to_owned()).as_ref().map(Clone::clone),
        "apt-get install bubblewrap util-linux",
    ));
    findings.push(finding(
        "git",
        true,
        on_path("git").as_ref().map(Clone::clone),
        "apt-get install git (only URLs need it)",
    ));
    if let Ok(cache) = &cache {
        findings.extend(kernel(cache));
        findings.extend(python(cache));
    }
    for (name, program, mend) in [
        (
            "node",
            "npm",
            "install Node.js with npm for repositories in JavaScript or TypeScript (apt-get install nodejs npm)",
        ),
        ("cargo", "cargo", "install Rust from https://rustup.rs for repositories in Rust"),
        ("go", "go", "apt-get install golang-go for repositories in Go"),
    ] {
        findings.push(finding(name, true, on_path(program).as_ref().map(Clone::clone), mend));
    }
    findings
}

fn kernel(cache: &Cache) -> Vec<Finding> {
    let scratch = match cache.scratch() {
        Ok(scratch) => scratch,
        Err(error) => return vec![finding("overlay", true, Err(&error), "free some disk space")],
    };
    let found = sandbox::capabilities(scratch.path());
    let says = |name, ok: bool, yes: &str, no: &str, mend: &str| Finding {
        name,
        ok,
        optional: true,
        detail: if ok { yes } else { no }.to_owned(),
        mend: if ok { String::new() } else { mend.to_owned() },
    };
    let groups = &found.control_groups;
    vec![
        says(
            "overlay",
            found.overlay,
            "workspaces share their template",
            "workspaces are copies, slower",
            "a kernel of 5.11 or later",
        ),
        says(
            "memory limit",
            groups.memory.is_some(),
            "for a sandbox as a whole",
            "for each process only",
            "run as root or in a delegated control group",
        ),
        says(
            "process limit",
            groups.processes.is_some(),
            "for a sandbox as a whole",
            "by the user's limit only",
            "run as root or in a delegated control group",
        ),
        says(
            "fixed addresses",
            found.fixed_addresses,
            "runs repeat to the byte",
            "addresses differ from run to run",
            "allow `setarch -R` (personality) in this container",
        ),
    ]
}

fn python(cache: &Cache) -> Vec<Finding> {
    let interpreters = interpreters::find(cache).and_then(|found| match found.is_empty() {
        true => Err(anyhow::anyhow!("none found")),
        false => Ok(found.into_iter().map(|python| python.version).collect::<Vec<_>>().join(" ")),
    });
    let uv = uv::find(cache).map(|path| path.display().to_string());
    vec![
        finding(
            "python",
            false,
            interpreters.as_ref().map(Clone::clone),
            "apt-get install python3; pyenv or uv add more versions, which older commits need",
        ),
        finding("uv", false, uv.as_ref().map(Clone::clone), "install uv, or make the package index reachable"),
    ]
}

fn finding(name: &'static str, optional: bool, result: Result<String, &anyhow::Error>, mend: &str) -> Finding {
    match result {
        Ok(detail) => Finding { name, ok: true, optional, detail, mend: String::new() },
        Err(error) => {
            let detail = format!("{error:#}");
            let mend = if is_full_disk(&detail) { "free some space on that disk" } else { mend };
            Finding { name, ok: false, optional, detail, mend: mend.to_owned() }
        }
    }
}

fn on_path(program: &str) -> Result<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| Path::is_file(path));
    found.map(|path| path.display().to_string()).ok_or_else(|| anyhow::anyhow!("`{program}` is not on PATH"))
}
