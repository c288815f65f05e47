//! Every exported column: type, nullability, meaning. One table per consumer, from which the Arrow schema and the card's
//! table are made, so that every shard has the same schema, also one without rows.

use std::{collections::HashMap, sync::Arc};

use arrow::datatypes::{DataType, Field, Fields, Schema};
use serde_json::Value;

use super::Consumer;

/// Version of all tables below; raised when a column is added, removed or changes its type or meaning.
pub const SCHEMA_VERSION: i32 = 2;

/// Type of a column.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Text,
    /// Any JSON value, stored as text with the `arrow.json` extension: readers that know it give exact objects, in which
    /// no key of another row appears; others give the text.
    Json,
    Bool,
    Int32,
    Int64,
    Float64,
    Texts,
    Struct(&'static [Column]),
    Structs(&'static [Column]),
}

/// One column, or one field of a structure.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    pub nullable: bool,
    /// A phrase for the card.
    pub meaning: &'static str,
}

const fn required(name: &'static str, kind: Kind, meaning: &'static str) -> Column {
    Column { name, kind, nullable: false, meaning }
}

const fn optional(name: &'static str, kind: Kind, meaning: &'static str) -> Column {
    Column { name, kind, nullable: true, meaning }
}

const FUNCTION: &[Column] = &[
    required("name", Kind::Text, "tool called"),
    required("arguments", Kind::Json, "its arguments, always an object"),
];

const TOOL_CALL: &[Column] = &[
    required("id", Kind::Text, "unique within the episode"),
    required("type", Kind::Text, "always `function`"),
    required("function", Kind::Struct(FUNCTION), "the call"),
];

const MESSAGE: &[Column] = &[
    required("role", Kind::Text, "`system`, `user`, `assistant` or `tool`"),
    required("content", Kind::Text, "text, empty where there is none"),
    optional("tool_calls", Kind::Structs(TOOL_CALL), "assistant turns that call tools; null, never empty, elsewhere"),
    optional("tool_call_id", Kind::Text, "tool results: the call answered"),
    optional("name", Kind::Text, "tool results: the tool"),
    optional(
        "train",
        Kind::Bool,
        "assistant turns: false for a mistake that the episode recovers from; null elsewhere",
    ),
];

const DIFFICULTY: &[Column] = &[
    required("files", Kind::Int32, "program files that the fix touches"),
    required("hunks", Kind::Int32, "groups of changed lines in them"),
    required("lines_added", Kind::Int32, "lines it adds to them"),
    required("lines_removed", Kind::Int32, "lines it removes from them"),
    required("entities", Kind::Int32, "functions and types it touches"),
    optional(
        "frame_distance",
        Kind::Int32,
        "from where a test fails to the fix: 0 the same function, 1 file, 2 directory, 3 elsewhere; null if unknown",
    ),
];

// What rows of several consumers say of a task.
const LICENSE: Column =
    optional("license", Kind::Text, "SPDX expression found at the base commit; null where none was recognised");
const LANGUAGE: Column = required("language", Kind::Text, "of the repository's program code");
const EVIDENCE_LABEL: Column =
    required("evidence_label", Kind::Text, "how sure the fail-to-pass set is: `strong`, `resolved` or `weak`");
const MUTANTS_KILLED: Column =
    required("mutants_killed", Kind::Int32, "small faults in the changed lines that the fail-to-pass tests notice");
const MUTANTS_TOTAL: Column = required("mutants_total", Kind::Int32, "faults tried; a sample, 0 where none was");
const CHANGE_KIND: Column =
    required("change_kind", Kind::Text, "`interface`: the hidden tests use a name that only the fix adds; else `fix`");
const DIFFICULTY_COLUMN: Column = required("difficulty", Kind::Struct(DIFFICULTY), "what the fix touches");

/// Columns of `trl`.
pub const TRL: &[Column] = &[
    required("messages", Kind::Structs(MESSAGE), "the conversation, ending on a trained turn"),
    required("tools", Kind::Json, "definitions of the tools, a list"),
    required("episode_id", Kind::Text, "`<instance_id>.<policy>.<seed>.<sample>`; rows are sorted by it"),
    required("instance_id", Kind::Text, "the task"),
    required("repo", Kind::Text, "`owner/name` or the directory's name"),
    required("base_commit", Kind::Text, "the commit that the episode starts from"),
    LICENSE,
    LANGUAGE,
    required("policy", Kind::Text, "who acted; `mock` is a script, not a model"),
    optional("script", Kind::Text, "what a scripted policy set out to do"),
    required("seed", Kind::Int64, "of the policy's choices"),
    required("sample", Kind::Int32, "number of the attempt under the same seed"),
    required("issue_writer", Kind::Text, "who wrote the task's text; `template` is no model"),
    EVIDENCE_LABEL,
    MUTANTS_KILLED,
    MUTANTS_TOTAL,
    CHANGE_KIND,
    DIFFICULTY_COLUMN,
    required("resolved", Kind::Bool, "every fail-to-pass and pass-to-pass test was seen to pass"),
    optional("reward", Kind::Float64, "1.0 or 0.0; null where the machine failed"),
    required("reward_valid", Kind::Bool, "whether there is a reward"),
    required("label", Kind::Text, "`resolved` or the first failure that fits"),
    required("stop_reason", Kind::Text, "why the episode ended"),
    required("n_steps", Kind::Int32, "replies of the policy in the whole episode"),
    required("n_tokens", Kind::Int64, "tokens of the whole episode, four bytes each where the policy reports none"),
    required("model_patch", Kind::Text, "unified diff from base to what the agent left"),
    required("flags", Kind::Texts, "suspicious things seen in patch or messages, sorted"),
    required("schema_version", Kind::Int32, "version of these columns"),
];

const PROMPT: &[Column] =
    &[required("role", Kind::Text, "`system` or `user`"), required("content", Kind::Text, "text of the message")];

const REWARD_MODEL: &[Column] = &[
    required("style", Kind::Text, "always `rule`"),
    required(
        "ground_truth",
        Kind::Text,
        "JSON object for `reward_fn.py`: dataset, task, counts of its tests; no solution",
    ),
];

const EXTRA_INFO: &[Column] = &[
    required("index", Kind::Int64, "number of the row"),
    required("split", Kind::Text, "always `train`"),
    required("instance_id", Kind::Text, "the task"),
    required("task", Kind::Text, "JSON object: what an agent may know of the task"),
    required("need_tools_kwargs", Kind::Bool, "always false: tools take no arguments from the row"),
];

/// Columns of `verl-rl`.
pub const VERL_RL: &[Column] = &[
    required("data_source", Kind::Text, "`curate/<dataset>`"),
    required("prompt", Kind::Structs(PROMPT), "system prompt and issue, as rollouts see them"),
    required("ability", Kind::Text, "always `coding`"),
    required("reward_model", Kind::Struct(REWARD_MODEL), "what decides the reward"),
    optional("agent_name", Kind::Text, "agent loop that verl runs"),
    required("extra_info", Kind::Struct(EXTRA_INFO), "handed to agent loop and reward function"),
];

/// Columns of `swebench`.
pub const SWEBENCH: &[Column] = &[
    required("repo", Kind::Text, "`owner/name` or the directory's name"),
    required("instance_id", Kind::Text, "the task; rows are sorted by it"),
    required("base_commit", Kind::Text, "the commit that an agent starts from"),
    required("patch", Kind::Text, "the gold patch, without tests"),
    required("test_patch", Kind::Text, "the hidden tests"),
    required("problem_statement", Kind::Text, "the issue text"),
    required("hints_text", Kind::Text, "always empty"),
    required("created_at", Kind::Text, "commit time of the base, ISO 8601, UTC"),
    required("version", Kind::Text, "of the project at the base commit, empty where it is not known"),
    required("FAIL_TO_PASS", Kind::Text, "JSON list of test ids that fail before and pass after the gold patch"),
    required("PASS_TO_PASS", Kind::Text, "JSON list of test ids that pass before and after"),
    required("environment_setup_commit", Kind::Text, "the base commit"),
    required("fix_commit", Kind::Text, "the commit that the task was made from"),
    LANGUAGE,
    LICENSE,
    EVIDENCE_LABEL,
    MUTANTS_KILLED,
    MUTANTS_TOTAL,
    required("unneeded_hunks", Kind::Texts, "`path:first-last` of the gold patch's hunks without which all tests pass"),
    CHANGE_KIND,
    required(
        "fairness",
        Kind::Json,
        "names, literals and messages that the hidden tests need and only the fix adds, a list",
    ),
    DIFFICULTY_COLUMN,
    required("issue_writer", Kind::Text, "who wrote the issue text; `template` is no model"),
    optional("image", Kind::Text, "container image; null so far"),
    required("dockerfile", Kind::Text, "builds the environment with Docker or podman, from the lock that is in it"),
];

/// Returns the columns of a consumer's rows.
pub fn columns(consumer: Consumer) -> &'static [Column] {
    match consumer {
        Consumer::Trl => TRL,
        Consumer::VerlRl => VERL_RL,
        Consumer::SweBench => SWEBENCH,
    }
}

/// Returns the Arrow schema of some columns.
pub fn arrow_schema(columns: &[Column]) -> Schema {
    Schema::new(fields(columns))
}

fn fields(columns: &[Column]) -> Fields {
    columns.iter().map(field).collect()
}

fn field(column: &Column) -> Field {
    let list = |item: DataType| DataType::List(Arc::new(Field::new_list_field(item, false)));
    let data_type = match column.kind {
        Kind::Text | Kind::Json => DataType::Utf8,
        Kind::Bool => DataType::Boolean,
        Kind::Int32 => DataType::Int32,
        Kind::Int64 => DataType::Int64,
        Kind::Float64 => DataType::Float64,
        Kind::Texts => list(DataType::Utf8),
        Kind::Struct(inner) => DataType::Struct(fields(inner)),
        Kind::Structs(inner) => list(DataType::Struct(fields(inner))),
    };
    let field = Field::new(column.name, data_type, column.nullable);
    match column.kind {
        Kind::Json => field.with_metadata(json_extension()),
        _ => field,
    }
}

/// Marks text as JSON the way Arrow's canonical extension types do; the Parquet writer adds its own logical type.
fn json_extension() -> HashMap<String, String> {
    let pairs = [("ARROW:extension:name", "arrow.json"), ("ARROW:extension:metadata", "")];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Replaces the values of JSON columns by their text, the form in which Parquet holds them.
pub fn encode_json(row: &mut Value, columns: &[Column]) {
    let Value::Object(row) = row else { return };
    for column in columns {
        let Some(value) = row.get_mut(column.name) else { continue };
        match (column.kind, value) {
            (Kind::Json, value) if !value.is_null() => *value = Value::String(value.to_string()),
            (Kind::Struct(inner), value) => encode_json(value, inner),
            (Kind::Structs(inner), Value::Array(items)) => items.iter_mut().for_each(|item| encode_json(item, inner)),
            _ => {}
        }
    }
}

/// Returns the fields of a structure or of a list of structures, none for other types.
pub fn inner(kind: Kind) -> &'static [Column] {
    match kind {
        Kind::Struct(columns) | Kind::Structs(columns) => columns,
        Kind::Text | Kind::Json | Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Float64 | Kind::Texts => &[],
    }
}

/// Returns a column's type as the card shows it.
pub fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "string",
        Kind::Json => "JSON",
        Kind::Bool => "bool",
        Kind::Int32 => "int32",
        Kind::Int64 => "int64",
        Kind::Float64 => "float64",
        Kind::Texts => "list of string",
        Kind::Struct(_) => "struct",
        Kind::Structs(_) => "list of struct",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_columns_become_text_wherever_they_are_nested() {
        let mut row = json!({
            "tools": [],
            "messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"a": null}}}]},
                         {"role": "user"}],
        });
        encode_json(&mut row, TRL);
        assert_eq!(row["tools"], json!("[]"));
        assert_eq!(row["messages"][0]["tool_calls"][0]["function"]["arguments"], json!(r#"{"a":null}"#));
        assert_eq!(row["messages"][1], json!({"role": "user"}));
    }

    #[test]
    fn json_fields_carry_the_extension_and_only_they() {
        let schema = arrow_schema(TRL);
        assert_eq!(schema.field_with_name("tools").unwrap().extension_type_name(), Some("arrow.json"));
        assert_eq!(schema.field_with_name("model_patch").unwrap().extension_type_name(), None);
        assert!(schema.field_with_name("license").unwrap().is_nullable());
        assert!(!schema.field_with_name("messages").unwrap().is_nullable());
    }
}
