//! Integration tests, in one binary.

mod bench;
mod contract_sandbox;
mod grade;
mod rollout;
mod support;
