//! The byte layouts of WAL segments, log blocks and catalog entries, and the codecs they are made of.
//!
//! **What it is.** Pure functions between rows and bytes, and the hot path of the whole product: every
//! line goes once through [`wal_segment`] and at least once through [`log_block::BlockWriter`]. Each
//! format has a page in `docs/formats/`, a version, checksums, and a fixture in `fixtures/` that every
//! later version must still read.
//!
//! **What it is not.** No I/O, no async, no clock, no policy: it does not know what an object is called,
//! who reads it, when a block is written or what is cached. It parses no wire protocol.
//!
//! **Life of a call.** A batch becomes a [`wal_segment::Record`], records become a frame, a frame is
//! made durable by the caller. Later its rows, sorted, go through [`log_block::BlockWriter::push_row`]; the
//! writer cuts pages, compresses lines, packs the narrow columns, builds filters ([`needle`]) and counts,
//! and hands out bytes group by group. A query opens the [`log_block::Footer`], selects streams and
//! pages, asks the filters, and decodes the pages that are left, columns first and lines last.
//!
//! **Invariants.** Hostile bytes never panic and never take more memory than a stated bound: every length
//! is checked before memory is taken, and errors name the part, its offset in the object, what was
//! expected and what was found. Integers on disk have fixed widths or are LEB128; never `usize`. A
//! checksum is compared before its bytes are believed. A filter never rules out a page that holds the
//! needle. The keys of filters and the order of streams are part of the format.

pub mod block;
mod block_footer;
pub mod catalog_entry;
pub mod codec;
mod error;
pub mod log_block;
pub mod needle;
pub mod sample_block;
pub mod shapes;
pub mod wal_segment;

pub use block_footer::BlockFooter;
pub use error::Error;
