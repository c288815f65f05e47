//! pytest 3.1 and later.
//!
//! Ids are pytest's node ids relative to the tree. Listed files count only if they match the repository's
//! `python_files` (or are called `tests.py`), as in a run of the whole directory; so support files next to tests stay
//! support files. Of `addopts` only options that decide what is a test, and whether and under which id it can be
//! imported, are kept (doctests run where `--doctest-modules` or `--doctest-glob` says so), and for
//! [`Selection::All`] also `-m` and `--deselect`.
//!
//! [`Selection::All`]: crate::record::suite::Selection::All

pub const NAME: &str = "curate_pytest.py";
pub const SCRIPT: &str = include_str!("python/curate_pytest.py");
