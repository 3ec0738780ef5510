//! What upkeep does, as data: thresholds of compaction, periods of retention, steps of rollups.
//!
//! The embedding program makes these values from its configuration. Rules of a protocol (the
//! archives of a path, for how long each is kept) reach the engine only through the traits here.

pub(crate) mod compaction;
pub(crate) mod expired;
pub(crate) mod retention;
pub(crate) mod rollups;
