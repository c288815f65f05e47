//! The messages that open every episode, filled from the public half of a task. Pure.

use crate::{
    harness,
    record::{
        episode::{Budget, Message, Speaker},
        task::{Issue, PublicTask},
    },
};

const SYSTEM: &str = include_str!("../../configs/prompts/agent_system.md");
const TASK: &str = include_str!("../../configs/prompts/agent_task.md");

/// Returns the system and the user message.
pub fn messages(task: &PublicTask, issue: &Issue, budget: &Budget) -> Vec<Message> {
    let system = fill(
        SYSTEM,
        &[
            ("language", title(&task.language)),
            ("runner", task.build.runner.name().to_owned()),
            ("test_command", harness::visible_command(task.build.runner).to_owned()),
            ("max_steps", budget.max_steps.to_string()),
            ("max_tokens", budget.max_tokens.to_string()),
            ("command_s", budget.command_s.to_string()),
        ],
    );
    let user = fill(TASK, &[("repo", task.repo.clone()), ("issue", issue.text.trim().to_owned())]);
    vec![message(Speaker::System, system), message(Speaker::User, user)]
}

/// Returns a message without calls.
pub(super) fn message(role: Speaker, content: String) -> Message {
    Message { role, content, tool_calls: Vec::new(), tool_call_id: None, name: None, train: None }
}

fn title(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

/// Replaces `{{name}}` by its value in one pass, so that braces in a value stay as they are.
fn fill(template: &str, values: &[(&str, String)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template.trim_end();
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, tail) = after.split_once("}}").expect("the prompts are part of the program and their braces pair");
        let (_, value) = values.iter().find(|(key, _)| *key == name).expect("the prompts name only known values");
        text.push_str(before);
        text.push_str(value);
        rest = tail;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_filled_in_once_and_braces_in_them_stay() {
        assert_eq!(fill("a {{x}} b {{y}}.\n", &[("x", "{{y}}".into()), ("y", "2".into())]), "a {{y}} b 2.");
    }

    #[test]
    fn both_templates_name_only_known_values() {
        let known = ["language", "runner", "test_command", "max_steps", "max_tokens", "command_s", "repo", "issue"];
        for template in [SYSTEM, TASK] {
            for part in template.split("{{").skip(1) {
                assert!(known.contains(&part.split("}}").next().unwrap()), "{part}");
            }
        }
    }
}
