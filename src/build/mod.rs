//! (being written)
pub mod exceptions;
pub mod lockfile;
pub mod manifest;
pub mod python;
pub mod requirement;
