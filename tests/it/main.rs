//! Integration tests, in one binary.

mod contract_sandbox;
mod harness;
mod support;
