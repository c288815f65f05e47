//! (being written)
pub mod manifest;
pub mod requirement;
