//! Checks of the whole program.

mod export;
mod records;
mod report;
mod support;
