//! Codecs and the byte layouts of WAL segments, log blocks and catalog entries.

pub mod catalog_entry;
