//! `curate` turns a repository's git history into training data for coding agents.

// 0: plain data
pub mod config;
pub mod record;

// 1: mechanisms
pub mod cache;
pub mod console;
pub mod environments;
pub mod git;
pub mod harness;
pub mod history;
pub mod interpreters;
pub mod interrupt;
pub mod lab;
pub mod lang;
pub mod pipeline;
pub mod process;
pub mod sandbox;
pub mod sources;
pub mod store;
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
