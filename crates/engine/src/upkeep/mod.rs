//! Upkeep in the background: adoption of dead writers, deletes, merges, retention, rollups, garbage
//! collection.
//!
//! No answer depends on upkeep to be correct.

pub(crate) mod adoption;
pub(crate) mod author;
pub(crate) mod compaction;
pub(crate) mod context;
pub(crate) mod deletes;
pub(crate) mod retention;
pub(crate) mod rollups;
mod rounds;

pub(crate) use rounds::run;
