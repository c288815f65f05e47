//! `unittest` of the standard library.
//!
//! Ids are `module.Class.method`. A plain run takes the test files below `tests` or `test`, else those in the tree's
//! packages; a file's module name follows from the `__init__.py` files around it.

pub const NAME: &str = "curate_unittest.py";
pub const SCRIPT: &str = include_str!("python/curate_unittest.py");
