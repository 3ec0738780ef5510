//! Stored blocks of any signal: their bytes through the cache, their footers, their upload, and the
//! traits that a signal implements to write and merge its blocks.
//!
//! Nothing here knows what the rows of a block are.

pub(crate) mod assembly;
pub(crate) mod block_meta;
pub(crate) mod bytes;
pub(crate) mod cache;
pub(crate) mod merging;
pub(crate) mod open;
pub(crate) mod reader;
pub(crate) mod upload;
