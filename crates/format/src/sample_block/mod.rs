//! A sample block: one immutable object with the samples of one tenant and one time window.
//!
//! **Physical order.** Header; pages; footer; trailer. The container is that of [`crate::block`], so is the
//! series table with its postings; a page holds runs of samples, one run a series, in plain columns. See
//! `docs/formats/sample-block.md`.
//!
//! **Writing.** [`BlockWriter::new`] with the sorted series, samples in order through [`BlockWriter::push`],
//! [`BlockWriter::take_output`] now and then, [`BlockWriter::finish`].
//!
//! **Reading.** [`Footer`] opened from the last `footer_len` bytes; the series table and the selection of
//! series are those of [`crate::block::BlockIndex`],
//! [`Footer::pages_of`] for pages, [`PageEntry::decode`].
//!
//! Invariants: all samples of a block are sorted by (series, time) over all pages, each time of a series
//! once; values are kept by their bits; every byte between header and footer belongs to a page with a
//! checksum; decoding bounds every allocation.

#[cfg(test)]
mod fixture;
mod footer;
mod page;
#[cfg(test)]
mod tests;
mod writer;

pub use footer::{Footer, check_header};
pub use page::{PageEntry, Run, SamplePage};
pub use writer::{BlockOptions, BlockWriter};

/// The version that is written; this one and all before it are read.
pub const VERSION: u16 = 1;
/// Most samples of a page.
pub const PAGE_ROWS_MAX: u32 = 1 << 16;
/// Bytes of a sample before it is encoded: time and value.
pub const SAMPLE_BYTES: u64 = 16;
use sandur_model::MILLISECOND_NS;
/// Errors name pages by this.
const PART_PAGE: &str = "sample page";
