//! Plain data: the records that stages read and write.
//!
//! | record | written by | one per |
//! |---|---|---|
//! | [`candidate::CommitVerdict`] | mine | commit looked at |
//! | [`candidate::Candidate`] | mine | commit that may become a task |
//! | [`environment::Build`] | build | candidate |
//! | [`task::Validation`] | validate | candidate with an environment |
//! | [`task::Issue`] | issue | task |
//! | [`episode::Episode`] | rollout | attempt at a task |
//! | [`episode::Grade`] | grade | episode |
//!
//! Records know nothing of the store, of processes or of git. A record, once written, is never edited; one that
//! replaces another is a new record under a new key.

pub mod bytes;
pub mod candidate;
pub mod cargo;
pub mod environment;
pub mod episode;
pub mod failure;
pub mod id;
pub mod patch;
pub mod strength;
pub mod suite;
pub mod task;
