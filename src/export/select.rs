//! Which tasks and episodes are exported, and the count of those that are not by the filter that dropped them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Consumer, Input, TaskInput};
use crate::{
    config,
    record::{
        episode::{Episode, Grade, Message, Speaker, ToolCall},
        id::Digest,
    },
};

/// An episode with its task, cut to what is exported.
pub struct Chosen<'a> {
    pub task: &'a TaskInput,
    pub episode: &'a Episode,
    pub grade: &'a Grade,
    /// Up to and including the last trained turn.
    pub messages: &'a [Message],
    /// Those of the grade and `control_tokens`, sorted.
    pub flags: Vec<String>,
}

/// What is left after filtering, sorted by id.
pub struct Selection<'a> {
    pub tasks: Vec<&'a TaskInput>,
    /// Empty for consumers of tasks.
    pub episodes: Vec<Chosen<'a>>,
    pub dropped: BTreeMap<String, usize>,
}

/// One line of the filter table; the first that applies names the drop.
pub struct Filter {
    pub name: &'static str,
    /// What it drops.
    pub drops: &'static str,
    pub why: &'static str,
    /// The setting it obeys and its default.
    pub setting: &'static str,
    check: Check,
}

enum Check {
    Task(fn(&TaskInput, &config::Export) -> bool),
    /// Says so of an episode whose task was not exported.
    Orphan,
    Episode(fn(&Chosen, &config::Export) -> bool),
    /// Looks at all episodes kept before.
    Duplicate,
}

/// Every filter, in the order in which they are asked.
pub const FILTERS: &[Filter] = &[
    Filter {
        name: "not_verified",
        drops: "tasks whose fix did not score 1, or nothing at all more than 0, when `curate verify` executed them again",
        why: "rewards of such a task say nothing about the work",
        setting: "always; tasks that were not executed again are kept",
        check: Check::Task(|task, _| task.is_refuted),
    },
    Filter {
        name: "license",
        drops: "tasks under a licence that was not asked for, or under none that was recognised",
        why: "a row may be passed on only under its repository's licence",
        setting: "`licenses`, default: all are kept",
        check: Check::Task(|task, settings| {
            !settings.licenses.is_empty()
                && !task.task.public.license.as_ref().is_some_and(|license| settings.licenses.contains(license))
        }),
    },
    Filter {
        name: "oversized_task",
        drops: "tasks whose patches and texts together are above the largest row",
        why: "readers and viewers fail on very large cells",
        setting: "`max_row_bytes`, default: 16 MiB",
        check: Check::Task(|task, settings| task_bytes(task) > settings.max_row_bytes),
    },
    Filter {
        name: "control_tokens_in_task",
        drops: "tasks whose prompt holds a string that chat templates take for a control token",
        why: "a tokenizer turns it into a real control token and the turn ends in its middle",
        setting: "`drop_control_tokens`, default: true; list in `control_tokens`",
        check: Check::Task(|task, settings| {
            settings.drop_control_tokens && task.prompt.iter().any(|message| has_control_token(message, settings))
        }),
    },
    Filter {
        name: "no_task",
        drops: "episodes whose task has no issue text or was itself dropped",
        why: "a conversation without its task cannot be checked",
        setting: "always",
        check: Check::Orphan,
    },
    Filter {
        name: "policy",
        drops: "episodes of policies that were not asked for",
        why: "the oracle applies the gold patch and the no-op does nothing: neither shows work",
        setting: "`policies`, default: `mock`",
        check: Check::Episode(|chosen, settings| !settings.policies.contains(&chosen.episode.policy)),
    },
    Filter {
        name: "invalid_reward",
        drops: "episodes without a reward",
        why: "the machine failed, so nothing is known of the agent's work",
        setting: "always",
        check: Check::Episode(|chosen, _| !chosen.grade.reward_valid()),
    },
    Filter {
        name: "unresolved",
        drops: "episodes that did not solve their task",
        why: "what failed is not to be imitated",
        setting: "`only_resolved`, default: true",
        check: Check::Episode(|chosen, settings| settings.only_resolved && !chosen.grade.resolved()),
    },
    Filter {
        name: "flagged",
        drops: "episodes with a flag that was asked to be dropped",
        why: "a solution found by a shortcut teaches the shortcut",
        setting: "`drop_flags`, default: none, flags are a column",
        check: Check::Episode(|chosen, settings| chosen.flags.iter().any(|flag| settings.drop_flags.contains(flag))),
    },
    Filter {
        name: "control_tokens",
        drops: "episodes with a string that chat templates take for a control token",
        why: "a tokenizer turns it into a real control token and the turn ends in its middle",
        setting: "`drop_control_tokens`, default: true; list in `control_tokens`",
        check: Check::Episode(|chosen, settings| {
            settings.drop_control_tokens && chosen.flags.iter().any(|flag| flag == CONTROL_TOKENS)
        }),
    },
    Filter {
        name: "no_trained_turn",
        drops: "episodes in which no turn is to be imitated",
        why: "such a row has no loss",
        setting: "always",
        check: Check::Episode(|chosen, _| chosen.messages.is_empty()),
    },
    Filter {
        name: "too_long",
        drops: "episodes above a number of tokens",
        why: "a trainer would cut them in the middle",
        setting: "`max_tokens`, default: no limit",
        check: Check::Episode(|chosen, settings| {
            settings.max_tokens.is_some_and(|max_tokens| chosen.episode.n_tokens > max_tokens)
        }),
    },
    Filter {
        name: "oversized_episode",
        drops: "episodes whose messages and patch together are above the largest row",
        why: "readers and viewers fail on very large cells",
        setting: "`max_row_bytes`, default: 16 MiB",
        check: Check::Episode(|chosen, settings| episode_bytes(chosen) > settings.max_row_bytes),
    },
    Filter {
        name: "duplicate",
        drops: "episodes with the messages and the patch of an earlier one on the same task",
        why: "repetition weighs a row more without adding to it",
        setting: "always",
        check: Check::Duplicate,
    },
];

const CONTROL_TOKENS: &str = "control_tokens";

/// Applies the filters that concern a consumer.
pub fn select<'a>(input: &'a Input, consumer: Consumer, settings: &config::Export) -> Selection<'a> {
    let mut dropped = BTreeMap::new();
    let mut tasks: Vec<&TaskInput> =
        input.tasks.iter().filter(|task| keep(task_filter(task, settings), &mut dropped)).collect();
    tasks.sort_by(|a, b| a.task.public.instance_id.cmp(&b.task.public.instance_id));
    let episodes = match consumer {
        Consumer::Trl => select_episodes(input, &tasks, settings, &mut dropped),
        Consumer::VerlRl | Consumer::SweBench => Vec::new(),
    };
    Selection { tasks, episodes, dropped }
}

fn select_episodes<'a>(
    input: &'a Input,
    tasks: &[&'a TaskInput],
    settings: &config::Export,
    dropped: &mut BTreeMap<String, usize>,
) -> Vec<Chosen<'a>> {
    let tasks: HashMap<&str, &TaskInput> =
        tasks.iter().map(|task| (task.task.public.instance_id.as_str(), *task)).collect();
    let mut episodes: Vec<&(Episode, Grade)> = input.episodes.iter().collect();
    episodes.sort_by(|a, b| a.0.episode_id.cmp(&b.0.episode_id));
    let mut seen = BTreeSet::new();
    let mut kept = Vec::new();
    for (episode, grade) in episodes {
        let Some(&task) = tasks.get(episode.instance_id.as_str()) else {
            keep(Some(name_of(&Check::Orphan)), dropped);
            continue;
        };
        let messages = through_last_trained(&episode.messages);
        let chosen = Chosen { task, episode, grade, messages, flags: flags(episode, grade, settings) };
        let mut filter = episode_filter(&chosen, settings);
        if filter.is_none() && !seen.insert(content_digest(&chosen)) {
            filter = Some(name_of(&Check::Duplicate));
        }
        if keep(filter, dropped) {
            kept.push(chosen);
        }
    }
    kept
}

/// Says whether to keep what no filter names, and counts it otherwise.
fn keep(filter: Option<&str>, dropped: &mut BTreeMap<String, usize>) -> bool {
    if let Some(name) = filter {
        *dropped.entry(name.to_owned()).or_default() += 1;
    }
    filter.is_none()
}

fn task_filter(task: &TaskInput, settings: &config::Export) -> Option<&'static str> {
    let applies = |filter: &&Filter| matches!(filter.check, Check::Task(check) if check(task, settings));
    FILTERS.iter().find(applies).map(|filter| filter.name)
}

fn episode_filter(chosen: &Chosen, settings: &config::Export) -> Option<&'static str> {
    let applies = |filter: &&Filter| matches!(filter.check, Check::Episode(check) if check(chosen, settings));
    FILTERS.iter().find(applies).map(|filter| filter.name)
}

fn name_of(check: &Check) -> &'static str {
    let same = |filter: &&Filter| std::mem::discriminant(&filter.check) == std::mem::discriminant(check);
    FILTERS.iter().find(same).map(|filter| filter.name).expect("the table has every kind of check")
}

impl Filter {
    /// Says whether it has anything to do with a consumer's rows.
    pub fn concerns(&self, consumer: Consumer) -> bool {
        match self.check {
            Check::Task(_) => true,
            Check::Orphan | Check::Episode(_) | Check::Duplicate => consumer == Consumer::Trl,
        }
    }
}

/// Says whether a message is an assistant's turn that bears loss.
pub fn is_trained(message: &Message) -> bool {
    message.role == Speaker::Assistant && message.train != Some(false)
}

fn through_last_trained(messages: &[Message]) -> &[Message] {
    let end = messages.iter().rposition(is_trained).map_or(0, |index| index + 1);
    &messages[..end]
}

fn flags(episode: &Episode, grade: &Grade, settings: &config::Export) -> Vec<String> {
    let mut flags: BTreeSet<String> = grade.flags.iter().cloned().collect();
    let in_messages = episode.messages.iter().any(|message| has_control_token(message, settings));
    if in_messages {
        flags.insert(CONTROL_TOKENS.to_owned());
    }
    flags.into_iter().collect()
}

fn has_control_token(message: &Message, settings: &config::Export) -> bool {
    let has_token = |text: &str| settings.control_tokens.iter().any(|token| text.contains(token.as_str()));
    let arguments = |call: &ToolCall| serde_json::to_string(&call.arguments).expect("arguments have string keys");
    has_token(&message.content) || message.tool_calls.iter().any(|call| has_token(&arguments(call)))
}

fn content_digest(chosen: &Chosen) -> Digest {
    Digest::of_json(&(&chosen.episode.instance_id, chosen.messages, &chosen.episode.patch))
}

fn episode_bytes(chosen: &Chosen) -> u64 {
    let messages: usize = chosen
        .messages
        .iter()
        .map(|message| {
            let calls = message
                .tool_calls
                .iter()
                .map(|call| serde_json::to_string(&call.arguments).expect("arguments have string keys").len());
            message.content.len() + calls.sum::<usize>()
        })
        .sum();
    (messages + chosen.episode.patch.as_bytes().len()) as u64
}

fn task_bytes(task: &TaskInput) -> u64 {
    let hidden = &task.task.hidden;
    let ids: usize = hidden.fail_to_pass.iter().chain(&hidden.pass_to_pass).map(String::len).sum();
    let prompt: usize = task.prompt.iter().map(|message| message.content.len()).sum();
    let patches = hidden.source_patch.as_bytes().len() + hidden.test_patch.as_bytes().len();
    (ids + prompt + patches + task.issue.text.len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: Speaker, content: &str, train: Option<bool>) -> Message {
        let content = content.to_owned();
        Message { role, content, tool_calls: Vec::new(), tool_call_id: None, name: None, train }
    }

    #[test]
    fn a_conversation_ends_on_its_last_trained_turn() {
        let messages = [
            message(Speaker::User, "issue", None),
            message(Speaker::Assistant, "good", Some(true)),
            message(Speaker::Tool, "result", None),
            message(Speaker::Assistant, "mistake", Some(false)),
        ];
        assert_eq!(through_last_trained(&messages).len(), 2);
        assert!(through_last_trained(&messages[2..]).is_empty());
    }

    #[test]
    fn filter_names_are_unique() {
        let names: BTreeSet<&str> = FILTERS.iter().map(|filter| filter.name).collect();
        assert_eq!(names.len(), FILTERS.len());
    }
}
