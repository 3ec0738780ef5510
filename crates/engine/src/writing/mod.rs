//! Writing: pushes, the WAL, and the flush that turns heads into blocks.

pub(crate) mod flush;
pub(crate) mod membership;
mod nodes;
pub(crate) mod order_of_writers;
mod push;
mod push_parts;
pub(crate) mod readiness;
pub(crate) mod rule_terms;
pub(crate) mod supervisor;
pub(crate) mod wal;
pub(crate) mod writer;
