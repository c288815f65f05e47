//! Task → issue text, from what execution showed.
//!
//! The template writer sees the failing tests' exceptions, messages and frames, and the commit's subject; a mechanical
//! gate ([`leak`]) then takes out every line that gives away the fix or the hidden tests. What the hidden tests need and
//! nobody could guess, the task's fairness items, is stated ([`interface`]). What is left without any symptom or
//! interface is refused.

mod interface;
mod leak;
mod template;

use anyhow::Result;

use crate::{
    git::Repo,
    record::{
        candidate::Role,
        failure::{Blame, Failure, Phase},
        task::{Issue, Task, Writer},
    },
};
use leak::Secrets;

/// Writes a task's issue text by the template.
///
/// # Errors
/// The outer error: the repository cannot be read. The inner: `nothing_to_tell`, every symptom would leak.
pub fn write(repo: &Repo, task: &Task) -> Result<Result<Issue, Failure>> {
    let mut base_text = String::new();
    for change in task.hidden.changes.iter().filter(|change| change.role == Role::Source) {
        if let Some(text) = repo.read(&task.public.base_commit, change.path.as_bytes())? {
            base_text.push_str(&String::from_utf8_lossy(&text));
        }
    }
    let secrets = Secrets::of(task, &base_text);
    let mut findings = Vec::new();
    let clean = |line: &str| {
        let found = secrets.findings(line);
        findings.extend(found.iter().map(|finding| format!("{}: {}", finding.kind, finding.excerpt)));
        found.is_empty()
    };
    let Some(text) = template::fill(task, clean) else {
        let detail = format!("every symptom would leak: {}", findings.join("; "));
        return Ok(Err(Failure::new(Phase::Issue, "nothing_to_tell", Blame::Task, detail)));
    };
    let left = secrets.findings(&text);
    if !left.is_empty() {
        let detail = left.iter().map(|finding| format!("{}: {}", finding.kind, finding.excerpt)).collect::<Vec<_>>();
        return Ok(Err(Failure::new(Phase::Issue, "leak", Blame::Task, detail.join("; "))));
    }
    let untold = leak::lacking(&task.hidden, &text);
    findings.extend(untold.iter().map(|finding| format!("{}: {}", finding.kind, finding.excerpt)));
    findings.sort();
    findings.dedup();
    Ok(Ok(Issue { instance_id: task.public.instance_id.clone(), writer: Writer::Template, text, findings }))
}
