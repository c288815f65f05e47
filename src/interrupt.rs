//! The Ctrl-C flag, polled by long work.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Marks work that stopped because the user asked for it.
#[derive(Clone, Copy, Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Sets the flag on SIGINT, SIGTERM and SIGHUP.
///
/// # Errors
/// The handler cannot be installed.
pub fn install() -> Result<()> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst)).context("install the interrupt handler")
}

/// Says whether the user asked to stop.
pub fn requested() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}
