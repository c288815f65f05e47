//! Open repositories that workers borrow: one per thread at a time, with what it has learnt of the trees.

use std::{path::Path, sync::Mutex};

use anyhow::Result;

use crate::git::{Repo, tree::Names};

/// What a worker judges with.
pub struct Worker {
    pub repo: Repo,
    pub names: Names,
}

pub struct Pool<'a> {
    path: &'a Path,
    idle: Mutex<Vec<Worker>>,
}

impl<'a> Pool<'a> {
    pub fn new(path: &'a Path) -> Pool<'a> {
        Pool { path, idle: Mutex::new(Vec::new()) }
    }

    /// Lends a worker for the length of a call.
    ///
    /// # Errors
    /// `action`'s, or the repository cannot be opened again.
    pub fn with<T>(&self, action: impl FnOnce(&mut Worker) -> Result<T>) -> Result<T> {
        let idle = || self.idle.lock().expect("no worker panics while it holds the lock");
        let borrowed = idle().pop();
        let mut worker = match borrowed {
            Some(worker) => worker,
            None => Worker { repo: Repo::open(self.path)?, names: Names::default() },
        };
        let result = action(&mut worker);
        idle().push(worker);
        result
    }
}
