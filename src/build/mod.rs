//! (being written)
pub mod exceptions;
pub mod ladder;
pub mod lockfile;
pub mod manifest;
pub mod python;
pub mod recipe;
pub mod requirement;
