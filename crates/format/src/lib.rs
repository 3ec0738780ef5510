//! Codecs and the byte layouts of WAL segments, log blocks and catalog entries.

pub mod catalog_entry;
pub mod codec;
mod error;
pub mod log_block;
pub mod needle;
pub mod wal_segment;

pub use error::Error;
