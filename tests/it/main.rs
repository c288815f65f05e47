//! Integration tests, in one binary.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by a panic and tells the reason by printing"
)]

mod bench;
mod build;
mod cli;
mod contract_sandbox;
mod export;
mod go;
mod grade;
mod harness;
mod javascript;
mod layers;
mod limit;
mod mine;
mod records;
mod report;
mod rollout;
mod rust;
mod strength;
mod support;
mod traps;
