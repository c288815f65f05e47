//! A task as a row of `verl-rl`: a prompt and what the reward function needs, nothing of the solution.

use serde::Serialize;
use serde_json::json;

use super::TaskInput;

/// Computes the reward of a row by asking `curate grade`; shipped beside the data.
pub const REWARD_FN: &str = include_str!("reward_fn.py");

#[derive(Serialize)]
pub struct Row<'a> {
    data_source: String,
    prompt: Vec<Prompt<'a>>,
    ability: &'static str,
    reward_model: RewardModel,
    agent_name: &'a str,
    extra_info: ExtraInfo<'a>,
}

#[derive(Serialize)]
struct Prompt<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct RewardModel {
    style: &'static str,
    ground_truth: String,
}

#[derive(Serialize)]
struct ExtraInfo<'a> {
    index: usize,
    split: &'static str,
    instance_id: &'a str,
    task: String,
    need_tools_kwargs: bool,
}

/// Returns the row of a task, number `index` of the export.
pub fn row<'a>(task: &'a TaskInput, index: usize, dataset: &str, agent_name: &'a str) -> Row<'a> {
    let instance_id = &task.task.public.instance_id;
    Row {
        data_source: format!("curate/{dataset}"),
        prompt: task.prompt.iter().map(|m| Prompt { role: m.role.name(), content: &m.content }).collect(),
        ability: "coding",
        reward_model: RewardModel { style: "rule", ground_truth: ground_truth(task, dataset) },
        agent_name,
        extra_info: ExtraInfo { index, split: "train", instance_id, task: public_task(task), need_tools_kwargs: false },
    }
}

fn ground_truth(task: &TaskInput, dataset: &str) -> String {
    let (public, hidden) = (&task.task.public, &task.task.hidden);
    json!({
        "dataset": dataset,
        "instance_id": public.instance_id,
        "base_commit": public.base_commit,
        "n_fail_to_pass": hidden.fail_to_pass.len(),
        "n_pass_to_pass": hidden.pass_to_pass.len(),
        "evidence_label": hidden.label.name(),
        "mutants_killed": hidden.strength.n_killed(),
        "mutants_total": hidden.strength.n_mutants(),
        "change_kind": hidden.change_kind.name(),
        "difficulty": hidden.difficulty,
    })
    .to_string()
}

/// What an agent may know. The build is named by its key: its record holds paths of the machine that made it.
fn public_task(task: &TaskInput) -> String {
    let public = &task.task.public;
    json!({
        "instance_id": public.instance_id,
        "repo": public.repo,
        "base_commit": public.base_commit,
        "base_time": public.base_time,
        "language": public.language,
        "license": public.license,
        "runner": public.build.runner.name(),
        "interpreter": public.build.environment.toolchain.version,
        "environment": public.build.environment.key,
        "issue_writer": task.issue.writer.name(),
        "problem_statement": task.issue.text,
    })
    .to_string()
}
