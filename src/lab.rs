//! What every stage that executes something needs: the cache, the sandbox backend, the number of workers,
//! and test runners that are loaded already.

use crate::{
    cache::Cache,
    sandbox::{Backend, preload::Pool},
};

#[derive(Clone, Debug)]
pub struct Lab {
    pub cache: Cache,
    pub backend: Backend,
    /// Workers; each runs at most one sandbox at a time.
    pub jobs: usize,
    /// Test runners that are loaded already.
    pub preloaded: Pool,
}

impl Lab {
    pub fn new(cache: Cache, backend: Backend, jobs: usize) -> Lab {
        Lab { cache, backend, jobs, preloaded: Pool::new() }
    }
}
