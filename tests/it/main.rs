//! Integration tests, in one binary.

mod build;
mod contract_sandbox;
mod export;
mod harness;
mod layers;
mod records;
mod report;
mod support;
mod traps;
