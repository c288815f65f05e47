//! `curate` turns a repository's git history into training data for coding agents.
//!
//! ```text
//!  git history ─mine→ candidate ─build→ environment ─validate→ task ─issue→ issue
//!                                                               │
//!                    report ← every record       export ← grade ← rollout (episodes)
//! ```
//!
//! Work flows one way. Each stage is a function from records to new records ([`record`]); a record, once written, is
//! never edited. [`pipeline`] drives all stages: it skips what the [`store`] already holds under the same key, runs the
//! rest on workers, commits each result as it comes, and stops on Ctrl-C with nothing lost.
//!
//! Modules lie in four layers, and a test (`tests/it/layers.rs`) holds them there:
//!
//! | layer | modules | may use |
//! |---|---|---|
//! | 3 | [`cli`]: flags, dispatch, exit codes | everything |
//! | 2 | the stages: [`mine`] [`build`] [`validate`] [`issue`] [`rollout`] [`grade`] [`export`] [`report`] | layers 0 and 1, never one another |
//! | 1 | mechanisms: everything else | layer 0 and one another without circles |
//! | 0 | plain data: [`record`] [`config`] | nothing |
//!
//! Some things exist once: processes are started by [`process`], git is read by [`git`], text is printed by
//! [`console`], tests are run by [`harness`]. What adapts to a test runner ([`lang`]) or a sandbox backend
//! ([`sandbox`]) is a pair of pure functions, plan and parse, around those.
//!
//! Two rules hold everywhere. Something that did not run is never taken for something that ran and failed. And hidden
//! tests enter only in [`grade`], when the agent's sandbox is gone: [`rollout`] is handed the public half of a task, a
//! type that does not contain them.

// 0: plain data
pub mod config;
pub mod record;

// 1: mechanisms
pub mod cache;
pub mod console;
pub mod environments;
pub mod files;
pub mod git;
pub mod harness;
pub mod history;
pub mod interpreters;
pub mod interrupt;
pub mod lab;
pub mod lang;
pub mod online;
pub mod pipeline;
pub mod process;
pub mod sandbox;
pub mod sources;
pub mod store;
pub mod syntax;
pub mod uv;

// 2: stages
pub mod build;
pub mod export;
pub mod grade;
pub mod issue;
pub mod mine;
pub mod report;
pub mod rollout;
pub mod validate;

// 3: command line
pub mod cli;
