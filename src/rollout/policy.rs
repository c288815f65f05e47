//! Who acts: the trait, and the two anchors. `oracle` hands in the fix, `noop` does nothing; grading must give them 1
//! and 0 on every task.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

use super::{mock::Mock, unified};
use crate::record::{
    episode::{Message, PolicyName},
    task::{HiddenTask, PublicTask},
};

/// A call as the policy wrote it; the loop gives it an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub name: String,
    /// JSON text, which may be malformed.
    pub arguments: String,
}

impl Call {
    pub fn new(name: &str, arguments: &Value) -> Call {
        Call { name: name.to_owned(), arguments: arguments.to_string() }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub content: String,
    /// Carried out in order, each answered once.
    pub calls: Vec<Call>,
    /// See [`Message::train`].
    pub train: Option<bool>,
    /// Tokens of this reply, where the policy counts them.
    pub tokens: Option<u64>,
}

/// What a policy does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    Reply(Reply),
    /// No reply can be had; why.
    ProviderError(String),
    /// The machine is to fail here, so that what becomes of such an episode can be rehearsed; only scripts say so.
    MachineFault(String),
}

/// Something that answers a conversation. The tools that it may call are [`super::tool::definitions`].
pub trait Policy {
    fn next(&mut self, history: &[Message]) -> Turn;

    /// What a scripted policy set out to do.
    fn script(&self) -> Option<String> {
        None
    }
}

/// Returns a policy by name. Only `oracle` and `mock` make use of the hidden half, and their episodes say so.
///
/// # Panics
/// `oracle` or `mock` without the hidden half: the caller's mistake.
pub fn policy_for(
    name: PolicyName,
    hidden: Option<&HiddenTask>,
    task: &PublicTask,
    seed: u64,
    sample: u32,
) -> Box<dyn Policy> {
    let hidden = || hidden.expect("the caller hands the hidden half to policies that are made from it");
    match name {
        PolicyName::Noop => Box::new(Noop),
        PolicyName::Oracle => Box::new(Oracle::new(hidden())),
        PolicyName::Mock => Box::new(Mock::new(hidden(), task, seed, sample)),
    }
}

struct Noop;

impl Policy for Noop {
    fn next(&mut self, _history: &[Message]) -> Turn {
        Turn::Reply(Reply {
            content: "Nothing is changed.".to_owned(),
            calls: vec![Call::new("finish", &json!({"summary": "Nothing was changed."}))],
            ..Reply::default()
        })
    }
}

struct Oracle {
    calls: std::vec::IntoIter<Call>,
}

impl Oracle {
    fn new(hidden: &HiddenTask) -> Oracle {
        let mut calls = fix_calls(&hidden.source_patch.0);
        calls.push(Call::new("finish", &json!({"summary": "The reference change is applied."})));
        Oracle { calls: calls.into_iter() }
    }
}

impl Policy for Oracle {
    fn next(&mut self, _history: &[Message]) -> Turn {
        let calls: Vec<Call> = self.calls.next().into_iter().collect();
        Turn::Reply(Reply { content: "The reference change is applied.".to_owned(), calls, ..Reply::default() })
    }
}

/// Returns the calls that apply a whole git diff: `apply_patch` where it can carry it, else git itself in pieces that fit
/// into a command.
pub(super) fn fix_calls(patch: &[u8]) -> Vec<Call> {
    let plain = std::str::from_utf8(patch).ok().filter(|text| {
        unified::parse(text).is_ok_and(|files| {
            files
                .iter()
                .all(|file| file.unsupported.is_none() && (!file.hunks.is_empty() || file.old_path == file.new_path))
        })
    });
    if let Some(text) = plain {
        return vec![Call::new("apply_patch", &json!({"patch": text}))];
    }
    let mut calls = Vec::new();
    for (index, chunk) in patch.chunks(600_000).enumerate() {
        let arrow = if index == 0 { ">" } else { ">>" };
        let command = format!("base64 -d {arrow} /tmp/fix.patch <<'END'\n{}\nEND", BASE64_STANDARD.encode(chunk));
        calls.push(Call::new("bash", &json!({"command": command})));
    }
    calls.push(Call::new("bash", &json!({"command": "git apply --whitespace=nowarn /tmp/fix.patch"})));
    calls
}
