//! Checks of the whole program.

mod export;
mod records;
mod support;
