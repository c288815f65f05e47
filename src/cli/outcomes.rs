//! `outcomes.json`: what a dataset's records say, in a form that two machines can compare: without times and sizes, and
//! without the tests that draw lots, whose quarantine may differ from run to run.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{
    files,
    record::{
        candidate::RejectReason,
        episode::{Label, StopReason},
        task::EvidenceLabel,
    },
};

use super::dataset::Records;

/// Everything that must not differ between two runs of the same configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcomes {
    /// Reason by commit; `candidate` where there is none.
    commits: BTreeMap<String, String>,
    /// Failure kind by candidate; `built` where there is none.
    environments: BTreeMap<String, String>,
    /// By candidate with an environment.
    tasks: BTreeMap<String, TaskOutcome>,
    /// `written`, or why there is no text, by task.
    issues: BTreeMap<String, String>,
    episodes: BTreeMap<String, EpisodeOutcome>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskOutcome {
    /// `task`, or why it is none.
    verdict: String,
    label: Option<EvidenceLabel>,
    fail_to_pass: Vec<String>,
    pass_to_pass: Vec<String>,
    whole_suite: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EpisodeOutcome {
    script: Option<String>,
    stop: StopReason,
    label: Label,
    reward: Option<f64>,
}

impl Outcomes {
    pub fn of(records: &Records) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for verdict in &records.commits {
            let reason = verdict.reason.map_or_else(|| "candidate".to_owned(), RejectReason::name);
            outcomes.commits.insert(verdict.commit.clone(), reason);
        }
        for (id, build) in &records.builds {
            let kind = build.as_ref().err().map_or("built", |failure| &failure.kind);
            outcomes.environments.insert(id.clone(), kind.to_owned());
        }
        for (id, validation) in &records.validations {
            let hidden = validation.verdict.as_ref().ok().map(|task| &task.hidden);
            let verdict = validation.verdict.as_ref().err().map_or("task", |failure| &failure.kind).to_owned();
            let outcome = TaskOutcome {
                verdict,
                label: hidden.map(|hidden| hidden.label),
                fail_to_pass: hidden.map(|hidden| hidden.fail_to_pass.clone()).unwrap_or_default(),
                pass_to_pass: hidden.map(|hidden| hidden.pass_to_pass.clone()).unwrap_or_default(),
                whole_suite: hidden.is_some_and(|hidden| hidden.whole_suite),
            };
            outcomes.tasks.insert(id.clone(), outcome);
        }
        for (id, issue) in &records.issues {
            outcomes.issues.insert(id.clone(), issue.as_ref().err().map_or("written", |f| &f.kind).to_owned());
        }
        for (episode, grade) in &records.episodes {
            let outcome = EpisodeOutcome {
                script: episode.script.clone(),
                stop: episode.stop,
                label: grade.label,
                reward: grade.reward,
            };
            outcomes.episodes.insert(episode.episode_id.clone(), outcome);
        }
        outcomes
    }

    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, dataset: &Path) -> Result<()> {
        let path = dataset.join("outcomes.json");
        let json = serde_json::to_string_pretty(self).context("encode outcomes")? + "\n";
        files::write(&path, json.as_bytes())
    }

    /// # Errors
    /// There is no readable `outcomes.json` in the dataset.
    pub fn read(dataset: &Path) -> Result<Outcomes> {
        let path = dataset.join("outcomes.json");
        let text =
            fs::read_to_string(&path).with_context(|| format!("read outcomes to compare with `{}`", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("understand `{}`", path.display()))
    }

    /// Returns one line per difference, sorted.
    pub fn differences(&self, expected: &Outcomes) -> Vec<String> {
        let mut lines = Vec::new();
        compare("commit", &expected.commits, &self.commits, &mut lines);
        compare("environment", &expected.environments, &self.environments, &mut lines);
        compare("task", &expected.tasks, &self.tasks, &mut lines);
        compare("issue", &expected.issues, &self.issues, &mut lines);
        compare("episode", &expected.episodes, &self.episodes, &mut lines);
        lines
    }
}

fn compare<T: PartialEq + Serialize>(
    what: &str,
    expected: &BTreeMap<String, T>,
    found: &BTreeMap<String, T>,
    lines: &mut Vec<String>,
) {
    let json = |value: Option<&T>| value.map_or("nothing".to_owned(), |value| serde_json::json!(value).to_string());
    let mut ids: Vec<&String> = expected.keys().chain(found.keys()).collect();
    ids.sort();
    ids.dedup();
    for id in ids.into_iter().filter(|id| expected.get(*id) != found.get(*id)) {
        lines.push(format!("{what} {id}: expected {}, found {}", json(expected.get(id)), json(found.get(id))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_differing_a_missing_and_an_added_entry_each_make_a_line() {
        let commits = |pairs: &[(&str, &str)]| Outcomes {
            commits: pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            ..Outcomes::default()
        };
        let expected = commits(&[("a", "candidate"), ("b", "no_change")]);
        assert_eq!(expected.differences(&expected), [""; 0]);
        assert_eq!(
            commits(&[("a", "no_change"), ("c", "candidate")]).differences(&expected),
            [
                r#"commit a: expected "candidate", found "no_change""#,
                r#"commit b: expected "no_change", found nothing"#,
                r#"commit c: expected nothing, found "candidate""#
            ]
        );
    }
}
