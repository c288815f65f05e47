//! Episodes: one attempt of one policy at one task.
//!
//! The loop queries the policy, carries out its calls, shows it what came of them, and records all of it. The history is
//! append-only, and what the policy saw is what is stored. The loop gets the public half of a task; hidden tests are not
//! on its machine. No episode is lost: whatever ends it is a [`StopReason`], and only the user's interrupt is an `Err`.

mod capture;
mod files;
mod mock;
mod observe;
mod phrase;
mod place;
mod policy;
pub mod prompt;
mod reading;
mod script;
mod stuck;
#[cfg(test)]
mod tests;
pub mod tool;
mod toolbox;
mod unified;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::{Map, Value};

pub use self::policy::{Call, Policy, Reply, Turn, policy_for};
use self::{
    stuck::Detector,
    tool::Action,
    toolbox::{Observation, Toolbox, Trouble},
};
use crate::{
    config,
    harness::{self, Subject},
    interrupt::{self, Interrupted},
    lab::Lab,
    record::{
        bytes::ByteText,
        episode::{Budget, Episode, Message, PATCH_TOO_LARGE, PolicyName, Speaker, StopReason, Timing, ToolCall},
        task::{Issue, PublicTask},
    },
    sandbox::Limits,
};

/// Which attempt this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub policy: PolicyName,
    pub seed: u64,
    pub sample: u32,
}

/// Consecutive replies without a usable call that end an episode.
const MAX_IDLE_REPLIES: u32 = 3;
/// From here on the policy is told how many replies are left.
const FEW_STEPS: u32 = 5;
/// Kept of one command's output before it is clipped for the policy, bytes.
const SESSION_OUTPUT_BYTES: usize = 8 << 20;

/// Returns what an attempt may use up.
pub fn budget(settings: &config::Rollout) -> Budget {
    Budget {
        max_steps: settings.max_steps,
        max_tokens: settings.max_tokens,
        max_wall_s: settings.max_wall_s,
        command_s: settings.command_s,
    }
}

/// Makes one attempt. `trace` is called with every message as it is recorded.
///
/// # Errors
/// Only the user's interrupt ([`Interrupted`]).
#[expect(clippy::too_many_arguments, reason = "a stage's entry point: context, subject, actor, options")]
pub fn run(
    lab: &Lab,
    repository: &Path,
    task: &PublicTask,
    issue: &Issue,
    policy: &mut dyn Policy,
    settings: &config::Rollout,
    identity: Identity,
    trace: &dyn Fn(&Message),
) -> Result<Episode> {
    let budget = budget(settings);
    let mut log = Log::open(prompt::messages(task, issue, &budget), trace);
    let (patch, end) = attempt(lab, repository, task, policy, budget, &mut log)?;
    log.timing.wall_ms = millis(log.started.elapsed());
    Ok(Episode {
        episode_id: format!("{}.{}.{}.{}", task.instance_id, identity.policy.name(), identity.seed, identity.sample),
        instance_id: task.instance_id.clone(),
        policy: identity.policy,
        seed: identity.seed,
        sample: identity.sample,
        script: policy.script(),
        budget,
        messages: log.messages,
        n_steps: log.n_steps,
        n_tokens: log.n_tokens,
        patch,
        stop: end.stop,
        stop_detail: end.detail,
        timing: log.timing,
    })
}

/// Sets up the machine, lets the policy work, and captures what it leaves.
fn attempt(
    lab: &Lab,
    repository: &Path,
    task: &PublicTask,
    policy: &mut dyn Policy,
    budget: Budget,
    log: &mut Log,
) -> Result<(ByteText, End)> {
    let nothing = |detail: String| Ok((ByteText::default(), End::new(StopReason::Infrastructure, detail)));
    let subject = Subject { repository, base_commit: &task.base_commit, build: &task.build };
    let workspace = match harness::workspace(lab, subject, &[]) {
        Ok(workspace) => workspace,
        Err(error) => return nothing(format!("make the workspace: {}", cause(error)?)),
    };
    let surroundings = match harness::surroundings(lab, subject) {
        Ok(surroundings) => surroundings,
        Err(failure) => return nothing(format!("set up the environment: {failure}")),
    };
    let spec = surroundings.spec(&workspace, Limits { output_bytes: SESSION_OUTPUT_BYTES, ..Limits::default() });
    let deadline = log.started + Duration::from_secs(budget.max_wall_s);
    let command_wall = Duration::from_secs(budget.command_s);
    let end = match Toolbox::open(lab.backend, &spec, &surroundings, &task.build, command_wall, deadline) {
        Ok(mut toolbox) => converse(&mut |action| toolbox.perform(action), policy, budget, log)?,
        Err(error) => return nothing(format!("open the sandbox: {}", cause(error)?)),
    };
    // The sandbox is gone with the toolbox: nothing writes any more.
    match capture::patch(repository, &task.base_commit, &task.build, &workspace) {
        Ok(capture::Captured::Patch(patch)) => Ok((patch, end)),
        Ok(capture::Captured::TooLarge(size)) => {
            Ok((ByteText::default(), End::new(end.stop, format!("{PATCH_TOO_LARGE}: {size}"))))
        }
        Err(error) => nothing(format!("capture the patch: {}", cause(error)?)),
    }
}

/// Returns an error's text, unless it is the user's interrupt.
fn cause(error: anyhow::Error) -> Result<String> {
    if error.is::<Interrupted>() { Err(error) } else { Ok(format!("{error:#}")) }
}

/// Why a conversation is over.
struct End {
    stop: StopReason,
    detail: String,
}

impl End {
    fn new(stop: StopReason, detail: impl Into<String>) -> End {
        End { stop, detail: detail.into() }
    }
}

/// Carries out one call.
type Perform<'a> = dyn FnMut(&Action) -> Result<Observation, Trouble> + 'a;

/// The loop: query, act, observe, record.
fn converse(perform: &mut Perform, policy: &mut dyn Policy, budget: Budget, log: &mut Log) -> Result<End> {
    let mut detector = Detector::default();
    let mut n_idle = 0;
    loop {
        if interrupt::requested() {
            return Err(Interrupted.into());
        }
        if let Some(stop) = log.exhausted(budget) {
            return Ok(End::new(stop, ""));
        }
        let reply = match log.timed_query(policy) {
            Turn::Reply(reply) => reply,
            Turn::ProviderError(detail) => return Ok(End::new(StopReason::ProviderError, detail)),
            Turn::MachineFault(detail) => return Ok(End::new(StopReason::Infrastructure, detail)),
        };
        let calls = log.record_reply(reply);
        let step = match act(perform, &calls, budget, log)? {
            Act::On(step) => step,
            Act::Ended(end) => return Ok(end),
        };
        n_idle = if step.is_idle { n_idle + 1 } else { 0 };
        if n_idle >= MAX_IDLE_REPLIES {
            return Ok(End::new(StopReason::Stuck, format!("{n_idle} replies in a row without a usable call")));
        }
        if calls.is_empty() {
            log.push(prompt::message(Speaker::User, NUDGE.to_owned()));
            continue;
        }
        detector.observe(&step.pairs);
        if let Some(detail) = detector.verdict() {
            return Ok(End::new(StopReason::Stuck, detail));
        }
    }
}

const NUDGE: &str = "Every reply must call a tool. If the work is done, call `finish`.";
const NOT_RUN: &str = "Not carried out: the episode ended before.";

/// A call with the id that its answer names.
struct Pending {
    id: String,
    name: String,
    /// `Err`: why the arguments were not understood.
    arguments: Result<Map<String, Value>, String>,
}

/// What one step did.
#[derive(Default)]
struct Step {
    pairs: Vec<(String, String)>,
    /// No call was understood.
    is_idle: bool,
}

enum Act {
    On(Step),
    Ended(End),
}

/// Carries out the calls of one reply in order; each id is answered exactly once, whatever happens.
fn act(perform: &mut Perform, calls: &[Pending], budget: Budget, log: &mut Log) -> Result<Act> {
    let mut step = Step { pairs: Vec::new(), is_idle: true };
    let mut end = None;
    for (index, call) in calls.iter().enumerate() {
        if end.is_some() {
            log.answer(call, NOT_RUN.to_owned());
            continue;
        }
        let action = call.arguments.clone().and_then(|arguments| tool::parse(&call.name, &arguments));
        let (essence, shown) = match &action {
            Err(reason) => (reason.clone(), format!("error: {reason}")),
            Ok(action) => match log.timed_action(|| perform(action)) {
                Ok(observation) => (observation.essence, observation.shown),
                Err(Trouble::Interrupted) => return Err(Interrupted.into()),
                Err(Trouble::Lost(detail)) => {
                    log.answer(call, "error: the sandbox was lost".to_owned());
                    end = Some(End::new(StopReason::Infrastructure, detail));
                    continue;
                }
            },
        };
        step.is_idle &= action.is_err();
        let is_last = index + 1 == calls.len();
        let note = if is_last { log.remaining(budget) } else { None };
        log.answer(call, note.map_or_else(|| shown.clone(), |note| format!("{}\n{note}", shown.trim_end())));
        step.pairs.push((format!("{} {:?}", call.name, call.arguments), essence));
        if let Ok(Action::Finish { summary, gave_up }) = action {
            let stop = if gave_up { StopReason::GaveUp } else { StopReason::Finished };
            end = Some(End::new(stop, if gave_up { summary } else { String::new() }));
        }
    }
    Ok(end.map_or(Act::On(step), Act::Ended))
}

/// The record of an episode under way.
struct Log<'a> {
    messages: Vec<Message>,
    n_steps: u32,
    n_calls: u32,
    n_tokens: u64,
    started: Instant,
    timing: Timing,
    trace: &'a dyn Fn(&Message),
}

impl<'a> Log<'a> {
    fn open(messages: Vec<Message>, trace: &'a dyn Fn(&Message)) -> Log<'a> {
        let mut log = Log {
            messages: Vec::new(),
            n_steps: 0,
            n_calls: 0,
            n_tokens: 0,
            started: Instant::now(),
            timing: Timing::default(),
            trace,
        };
        for message in messages {
            log.push(message);
        }
        log
    }

    fn push(&mut self, message: Message) {
        self.n_tokens += estimate_tokens(&message);
        self.record(message);
    }

    fn record(&mut self, message: Message) {
        (self.trace)(&message);
        self.messages.push(message);
    }

    fn exhausted(&self, budget: Budget) -> Option<StopReason> {
        if self.n_steps >= budget.max_steps {
            Some(StopReason::MaxSteps)
        } else if self.n_tokens >= budget.max_tokens {
            Some(StopReason::MaxTokens)
        } else if self.started.elapsed() >= Duration::from_secs(budget.max_wall_s) {
            Some(StopReason::MaxWall)
        } else {
            None
        }
    }

    /// Returns what the policy is told when little is left.
    fn remaining(&self, budget: Budget) -> Option<String> {
        let steps = budget.max_steps.saturating_sub(self.n_steps);
        let tokens = budget.max_tokens.saturating_sub(self.n_tokens);
        if steps <= FEW_STEPS {
            Some(format!("[{steps} {} left]", if steps == 1 { "reply" } else { "replies" }))
        } else if tokens < budget.max_tokens / 10 {
            Some(format!("[about {tokens} tokens left]"))
        } else {
            None
        }
    }

    fn timed_query(&mut self, policy: &mut dyn Policy) -> Turn {
        let started = Instant::now();
        let turn = policy.next(&self.messages);
        self.timing.policy_ms += millis(started.elapsed());
        turn
    }

    fn timed_action<T>(&mut self, action: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = action();
        self.timing.tool_ms += millis(started.elapsed());
        result
    }

    /// Records a reply and gives its calls their ids, which are ours: a policy's own may repeat.
    fn record_reply(&mut self, reply: Reply) -> Vec<Pending> {
        self.n_steps += 1;
        let calls: Vec<Pending> = reply.calls.iter().map(|call| self.pending(call)).collect();
        let malformed = calls.iter().any(|call| call.arguments.is_err());
        let message = Message {
            role: Speaker::Assistant,
            content: reply.content,
            tool_calls: reply.calls.iter().zip(&calls).map(|(raw, call)| recorded(raw, call)).collect(),
            tool_call_id: None,
            name: None,
            train: if malformed { Some(false) } else { reply.train },
        };
        self.n_tokens += reply.tokens.unwrap_or_else(|| estimate_tokens(&message));
        self.record(message);
        calls
    }

    fn pending(&mut self, call: &Call) -> Pending {
        self.n_calls += 1;
        Pending {
            id: format!("call_{:04}", self.n_calls),
            name: call.name.clone(),
            arguments: tool::parse_arguments(&call.arguments),
        }
    }

    fn answer(&mut self, call: &Pending, content: String) {
        self.push(Message {
            role: Speaker::Tool,
            content,
            tool_calls: Vec::new(),
            tool_call_id: Some(call.id.clone()),
            name: Some(call.name.clone()),
            train: None,
        });
    }
}

/// Arguments that are no object are kept as the text they came as, under this key.
const MALFORMED: &str = "malformed_arguments";

fn recorded(raw: &Call, call: &Pending) -> ToolCall {
    let arguments = call.arguments.clone().unwrap_or_else(|_| {
        let cut = raw.arguments.floor_char_boundary(tool::MAX_ARGUMENT_BYTES);
        Map::from_iter([(MALFORMED.to_owned(), Value::String(raw.arguments[..cut].to_owned()))])
    });
    ToolCall { id: call.id.clone(), name: call.name.clone(), arguments }
}

/// Estimates a message at four bytes a token.
fn estimate_tokens(message: &Message) -> u64 {
    let calls: usize = message
        .tool_calls
        .iter()
        .map(|call| call.name.len() + Value::Object(call.arguments.clone()).to_string().len())
        .sum();
    (message.content.len() + calls).div_ceil(4) as u64
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
