//! Reads blocks of Prometheus's TSDB, which Thanos and Mimir use too: `meta.json`, the index, files of
//! chunks, tombstones.
//!
//! **What it is.** [`BlockMeta`] is the description of a block. [`Index`] reads the symbols and lists the
//! series with their chunks; [`Chunks`] reads chunks; [`Samples`] decodes them: floats, histograms with
//! integer counts and with float counts. [`Tombstones`] says which samples were deleted.
//!
//! **What it is not.** It does not write, does not use postings, and does not depend on where samples are
//! stored. Its only I/O is [`ReadAt`].
//!
//! **Life of a call.** [`Index::open`] reads the table of contents and the symbols, after it has told
//! [`Index::memory_bytes`]. [`Index::series`] goes through the series in the order of the file, through a
//! window of it. For each chunk of a series, [`Chunks::read`] returns the bytes, and
//! [`Samples::add_chunk`] appends its samples.
//!
//! **Invariants.** Every checksum is verified before the bytes are used. Every length is compared with what
//! is left of the file and with a limit before memory is reserved. No input makes a function panic. Values
//! are those of the file, bit for bit; stale markers stay stale markers.

mod bits;
mod block;
mod bytes;
mod checksum;
mod chunks;
mod error;
mod floats;
mod histograms;
mod index;
mod samples;
mod series;
mod source;
mod symbols;
mod tombstones;

pub use block::BlockMeta;
pub use chunks::Chunks;
pub use error::Error;
pub use histograms::IntegerHistograms;
pub use index::Index;
pub use samples::{Histograms, Samples, TimedHistogram};
pub use series::{ChunkMeta, Series, SeriesReader};
pub use source::ReadAt;
pub use symbols::Symbols;
pub use tombstones::{Deleted, Tombstones};
