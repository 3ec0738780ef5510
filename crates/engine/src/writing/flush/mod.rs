//! Flush: the rows of a sealed head become blocks.

pub(crate) mod admission;
pub(crate) mod commit;
pub(crate) mod flusher;
pub(crate) mod outcome;
pub(crate) mod signal;
pub(crate) mod task;
