//! A log block: one immutable object with the rows of one tenant and one time window.
//!
//! **Physical order.** Header; groups of pages (a group: the line columns of its pages, then their narrow
//! columns); filter segments (between groups and after the last); footer; trailer. The footer holds the
//! information that decides which pages to read, and a checksum for every piece; see
//! `docs/formats/log-block.md`.
//!
//! **Writing.** [`sort_streams`], [`BlockWriter::new`], rows in order through [`BlockWriter::push_row`]
//! (or complete pages through [`BlockWriter::push_page`]), [`BlockWriter::take_output`] from time to
//! time, [`BlockWriter::finish`].
//!
//! **Reading.** [`Footer`], opened from the last `footer_len` bytes; [`crate::block::BlockIndex`] for
//! streams; [`Footer::pages`] for pages with matching times and streams; [`Footer::filter_segment_of`] to
//! rule pages out; [`PageEntry::decode_narrow`], [`PageEntry::decode_lines`]; [`Footer::minute_counts`]
//! instead of pages where complete minutes are counted, together with [`Footer::metadata_keys`].
//!
//! Invariants: rows of a page are sorted by (stream ordinal, timestamp), one run per stream; every byte
//! between header and footer belongs to a piece with a checksum; decoding bounds every allocation.

#[cfg(test)]
mod fixture;
mod footer;
mod limits;
pub mod lines;
mod metadata;
mod metadata_keys;
mod minutes;
mod narrow;
mod options;
mod order;
mod page_builder;
mod pages;
mod runs;
#[cfg(test)]
mod tests;
mod writer;

pub use footer::{Footer, check_header};
pub use limits::{ROWS_MAX, TEXT_BYTES_MAX, VERSION, VERSION_MIN};
pub use metadata_keys::{Carriers, MetadataKeys};
pub use minutes::{CountRun, DecodedCounts, MinuteCounts, minute_of};
pub use narrow::{NarrowPage, Wanted};
pub use options::BlockOptions;
pub use order::{LEVEL_LABELS, SERVICE_LABELS, compare_streams, sort_streams, stream_sort_key};
pub use pages::PageEntry;
pub use runs::Run;
pub use writer::{BlockWriter, PageCopy, Row, check_page};
