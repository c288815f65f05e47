//! Spec → bubblewrap argv. Pure.
