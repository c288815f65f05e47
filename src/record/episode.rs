//! One attempt at one task, and the verdict on it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{bytes::ByteText, suite::Status};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    System,
    User,
    Assistant,
    Tool,
}

impl Speaker {
    pub fn name(self) -> &'static str {
        match self {
            Speaker::System => "system",
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
            Speaker::Tool => "tool",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    /// Always an object.
    pub arguments: Map<String, Value>,
}

/// One message exactly as the policy saw or wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    pub role: Speaker,
    pub content: String,
    /// Assistant only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Tool only: the call it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Tool only: the tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Assistant only: false for a turn that should not be imitated (a mistake inside a recovery).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train: Option<bool>,
}

/// Who acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyName {
    /// Applies the gold patch
    Oracle,
    /// Finishes at once
    Noop,
    /// A scripted agent that fixes or fails by a seeded choice
    Mock,
}

impl PolicyName {
    pub fn name(self) -> &'static str {
        match self {
            PolicyName::Oracle => "oracle",
            PolicyName::Noop => "noop",
            PolicyName::Mock => "mock",
        }
    }
}

/// Why an episode ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The policy called `finish`.
    Finished,
    /// The policy said that it gives up.
    GaveUp,
    MaxSteps,
    MaxTokens,
    MaxWall,
    /// The same action and observation over and over.
    Stuck,
    /// The policy's replies could not be had.
    ProviderError,
    /// The sandbox was lost or could not be set up.
    Infrastructure,
}

impl StopReason {
    pub fn name(self) -> &'static str {
        match self {
            StopReason::Finished => "finished",
            StopReason::GaveUp => "gave_up",
            StopReason::MaxSteps => "max_steps",
            StopReason::MaxTokens => "max_tokens",
            StopReason::MaxWall => "max_wall",
            StopReason::Stuck => "stuck",
            StopReason::ProviderError => "provider_error",
            StopReason::Infrastructure => "infrastructure",
        }
    }
}

/// What an episode may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    pub max_steps: u32,
    /// Estimated at four bytes a token where the policy reports none.
    pub max_tokens: u64,
    pub max_wall_s: u64,
    /// For one command.
    pub command_s: u64,
}

/// How [`Episode::stop_detail`] begins when what the agent left was too large to keep.
pub const PATCH_TOO_LARGE: &str = "patch_too_large";

/// Times, kept apart because they differ from run to run and are never exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    pub wall_ms: u64,
    pub policy_ms: u64,
    pub tool_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Episode {
    /// `<instance_id>.<policy>.<seed>.<sample>`
    pub episode_id: String,
    pub instance_id: String,
    pub policy: PolicyName,
    pub seed: u64,
    pub sample: u32,
    /// What a scripted policy set out to do (`fix`, `wrong_file`, …); `None` for others.
    pub script: Option<String>,
    pub budget: Budget,
    pub messages: Vec<Message>,
    /// Policy replies.
    pub n_steps: u32,
    pub n_tokens: u64,
    /// Difference between base and what the agent left, whatever it did to its repository.
    pub patch: ByteText,
    pub stop: StopReason,
    /// What stands behind the stop where there is more to say; begins with [`PATCH_TOO_LARGE`] where the patch was not
    /// kept for its size.
    pub stop_detail: String,
    pub timing: Timing,
}

/// The first label that fits, in this order; see the grade stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    Resolved,
    Infrastructure,
    ProviderError,
    BudgetExceeded,
    BrokenPatch,
    GaveUp,
    NoChange,
    TestTamper,
    WrongFile,
    TestOverfit,
    Regression,
    IncorrectFix,
}

impl Label {
    pub const ALL: [Label; 12] = [
        Label::Resolved,
        Label::Infrastructure,
        Label::ProviderError,
        Label::BudgetExceeded,
        Label::BrokenPatch,
        Label::GaveUp,
        Label::NoChange,
        Label::TestTamper,
        Label::WrongFile,
        Label::TestOverfit,
        Label::Regression,
        Label::IncorrectFix,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Label::Resolved => "resolved",
            Label::Infrastructure => "infrastructure",
            Label::ProviderError => "provider_error",
            Label::BudgetExceeded => "budget_exceeded",
            Label::BrokenPatch => "broken_patch",
            Label::GaveUp => "gave_up",
            Label::NoChange => "no_change",
            Label::TestTamper => "test_tamper",
            Label::WrongFile => "wrong_file",
            Label::TestOverfit => "test_overfit",
            Label::Regression => "regression",
            Label::IncorrectFix => "incorrect_fix",
        }
    }
}

/// The verdict on one episode's patch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grade {
    pub episode_id: String,
    pub instance_id: String,
    pub label: Label,
    /// 1.0 or 0.0; `None` where the machine failed.
    pub reward: Option<f64>,
    /// Status of every fail-to-pass and pass-to-pass test that was not seen to pass, or `None` where it was not seen.
    pub failed_tests: BTreeMap<String, Option<Status>>,
    pub n_fail_to_pass: u32,
    pub n_fail_to_pass_passed: u32,
    pub n_pass_to_pass: u32,
    pub n_pass_to_pass_passed: u32,
    /// Paths of the patch that were not carried over (tests, runner configuration, generated files).
    pub dropped_paths: Vec<String>,
    /// Names of suspicious things seen in the patch or the messages; advisory.
    pub flags: Vec<String>,
    /// What the label rests on.
    pub detail: String,
    pub wall_ms: u64,
}

impl Grade {
    pub fn reward_valid(&self) -> bool {
        self.reward.is_some()
    }

    pub fn resolved(&self) -> bool {
        self.label == Label::Resolved
    }
}
