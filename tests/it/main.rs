//! Integration tests, in one binary.

mod contract_sandbox;
mod support;
