//! Integration tests, in one binary.

mod bench;
mod build;
mod contract_sandbox;
mod export;
mod grade;
mod harness;
mod layers;
mod mine;
mod records;
mod report;
mod rollout;
mod support;
mod traps;
