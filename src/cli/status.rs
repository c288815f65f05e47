//! `curate status`: what is done, failed and left.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;

use crate::{
    config::Episodes,
    record::episode::{Episode, PolicyName},
    report,
    store::Store,
};

use super::{
    Session, args,
    dataset::{self, Records, SELECTION},
    exit::Exit,
    output::{self, Manifest},
};

/// What a stage has not come to.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Rest {
    stage: &'static str,
    /// Whose episodes they are.
    policy: Option<PolicyName>,
    n_left: usize,
    n_all: usize,
}

pub fn command(session: &Session, flags: &args::Status) -> Result<Exit> {
    let store = dataset::open_to_read(flags.dataset.dataset.as_deref())?;
    let records = Records::load(&store)?;
    let summary = output::report(&store, &records, None)?;
    let mut left = left_of_mining(&store, &records)?;
    let played: Vec<&Episode> = records.episodes.iter().map(|(episode, _)| episode).collect();
    left.extend(left_of_rollouts(&planned(&Manifest::read(&store)?, &records)?, &played));
    left.retain(|left| left.n_left > 0);
    let mut json = json!(summary);
    json["left"] = json!(left);
    session.result(&json, &(report::text(&summary) + &text(&left)))?;
    Ok(Exit::Done)
}

fn left_of_mining(store: &Store, records: &Records) -> Result<Vec<Rest>> {
    let has_selection = !store.entries(SELECTION)?.is_empty();
    let n_built = records.builds.values().filter(|build| build.is_ok()).count();
    let n_valid = records.validations.values().filter(|validation| validation.verdict.is_ok()).count();
    let left = |stage, n_all: usize, n_done| Rest { stage, policy: None, n_left: n_all.saturating_sub(n_done), n_all };
    Ok(vec![
        left("select", 1, usize::from(has_selection)),
        left("build", records.candidates.len(), records.builds.len()),
        left("validate", n_built, records.validations.len()),
        left("issue", n_valid, records.issues.len()),
    ])
}

/// Samples asked for, by policy, seed and task.
type Planned = BTreeMap<(PolicyName, u64, String), u32>;

/// Returns the episodes that the last `run` and the last `rollout` were to make, of the tasks that there are now.
fn planned(manifest: &Manifest, records: &Records) -> Result<Planned> {
    let mut planned = Planned::new();
    for settings in ["run", "rollout"].iter().filter_map(|command| manifest.settings.get(*command)) {
        let context = || "understand the settings in `manifest.json`";
        let episodes: Vec<Episodes> = serde_json::from_value(settings["episodes"].clone()).with_context(context)?;
        let tasks: Option<Vec<String>> = serde_json::from_value(settings["tasks"].clone()).with_context(context)?;
        for (task, _) in records.tasks() {
            let id = &task.public.instance_id;
            if tasks.as_ref().is_none_or(|tasks| tasks.contains(id)) {
                for Episodes { policy, samples, seed } in &episodes {
                    let most = planned.entry((*policy, *seed, id.clone())).or_default();
                    *most = (*most).max(*samples);
                }
            }
        }
    }
    Ok(planned)
}

/// Returns what is left by policy; an episode counts as done once it is graded.
fn left_of_rollouts(planned: &Planned, played: &[&Episode]) -> Vec<Rest> {
    let mut by_policy: BTreeMap<PolicyName, (usize, usize)> = BTreeMap::new();
    for ((policy, _, _), samples) in planned {
        by_policy.entry(*policy).or_default().1 += *samples as usize;
    }
    for episode in played {
        let key = (episode.policy, episode.seed, episode.instance_id.clone());
        if planned.get(&key).is_some_and(|samples| episode.sample < *samples) {
            by_policy.entry(episode.policy).or_default().0 += 1;
        }
    }
    let left = |(policy, (n_done, n_all)): (PolicyName, (usize, usize))| Rest {
        stage: "rollout",
        policy: Some(policy),
        n_left: n_all - n_done,
        n_all,
    };
    by_policy.into_iter().map(left).collect()
}

fn text(left: &[Rest]) -> String {
    if left.is_empty() {
        return String::from("\n  left          nothing\n");
    }
    let line = |Rest { stage, policy, n_left, n_all }: &Rest| {
        let policy = policy.map_or("", PolicyName::name);
        format!("  left          {:<17} {n_left} of {n_all}\n", format!("{stage} {policy}").trim_end())
    };
    format!("\n{}", left.iter().map(line).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rollout_has_left_is_told_by_policy() {
        let key = |policy, task: &str| (policy, 7, task.to_owned());
        let planned = Planned::from([
            (key(PolicyName::Mock, "a"), 4),
            (key(PolicyName::Mock, "b"), 4),
            (key(PolicyName::Noop, "a"), 1),
        ]);
        let left = left_of_rollouts(&planned, &[]);
        assert_eq!(left.iter().map(|left| (left.n_left, left.n_all)).collect::<Vec<_>>(), [(1, 1), (8, 8)]);
        assert_eq!(
            text(&left),
            "\n  left          rollout noop      1 of 1\n  left          rollout mock      8 of 8\n"
        );
        assert_eq!(text(&[]), "\n  left          nothing\n");
    }
}
