//! An episode as a row of `trl`.

use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    schema::SCHEMA_VERSION,
    select::{Chosen, is_trained},
};
use crate::record::{
    episode::{Message, Speaker, ToolCall},
    task::Difficulty,
};

#[derive(Serialize)]
pub struct Row<'a> {
    messages: Vec<Turn<'a>>,
    tools: &'a Value,
    episode_id: &'a str,
    instance_id: &'a str,
    repo: &'a str,
    base_commit: &'a str,
    license: Option<&'a str>,
    language: &'a str,
    policy: &'static str,
    script: Option<&'a str>,
    /// Seeds are unsigned; the two halves of their range share the column's.
    seed: i64,
    sample: u32,
    issue_writer: &'static str,
    evidence_label: &'static str,
    mutants_killed: usize,
    mutants_total: usize,
    change_kind: &'static str,
    difficulty: Difficulty,
    resolved: bool,
    reward: Option<f64>,
    reward_valid: bool,
    label: &'static str,
    stop_reason: &'static str,
    n_steps: u32,
    n_tokens: u64,
    model_patch: String,
    flags: &'a [String],
    schema_version: i32,
}

/// Absent keys are left out, so that a template's `is defined` holds in JSON Lines too.
#[derive(Serialize)]
struct Turn<'a> {
    role: &'static str,
    content: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<Vec<Call<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    train: Option<bool>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a Map<String, Value>,
}

/// Returns the row of a chosen episode.
pub fn row<'a>(chosen: &'a Chosen, tools: &'a Value) -> Row<'a> {
    let (task, episode, grade) = (&chosen.task.task, chosen.episode, chosen.grade);
    Row {
        messages: chosen.messages.iter().map(turn).collect(),
        tools,
        episode_id: &episode.episode_id,
        instance_id: &episode.instance_id,
        repo: &task.public.repo,
        base_commit: &task.public.base_commit,
        license: task.public.license.as_deref(),
        language: &task.public.language,
        policy: episode.policy.name(),
        script: episode.script.as_deref(),
        seed: episode.seed.cast_signed(),
        sample: episode.sample,
        issue_writer: chosen.task.issue.writer.name(),
        evidence_label: task.hidden.label.name(),
        mutants_killed: task.hidden.strength.n_killed(),
        mutants_total: task.hidden.strength.n_mutants(),
        change_kind: task.hidden.change_kind.name(),
        difficulty: task.hidden.difficulty,
        resolved: grade.resolved(),
        reward: grade.reward,
        reward_valid: grade.reward_valid(),
        label: grade.label.name(),
        stop_reason: episode.stop.name(),
        n_steps: episode.n_steps,
        n_tokens: episode.n_tokens,
        model_patch: episode.patch.escaped(),
        flags: &chosen.flags,
        schema_version: SCHEMA_VERSION,
    }
}

fn turn(message: &Message) -> Turn<'_> {
    let calls: Vec<Call> = message.tool_calls.iter().map(call).collect();
    Turn {
        role: message.role.name(),
        content: &message.content,
        tool_calls: (!calls.is_empty()).then_some(calls),
        tool_call_id: message.tool_call_id.as_deref(),
        name: message.name.as_deref(),
        train: (message.role == Speaker::Assistant).then(|| is_trained(message)),
    }
}

fn call(call: &ToolCall) -> Call<'_> {
    Call { id: &call.id, r#type: "function", function: Function { name: &call.name, arguments: &call.arguments } }
}
