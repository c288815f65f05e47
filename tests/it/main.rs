//! Integration tests, in one binary.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by a panic and tells the reason by printing"
)]

mod contract_sandbox;
mod export;
mod harness;
mod layers;
mod records;
mod report;
mod support;
