//! A sample block: one immutable object with the samples of one tenant and one time window.
//!
//! **Physical order.** Header; groups of pages, and between them pages of lists of times and parts of the
//! index; pages of exemplars and of metadata; the rest of the index; footer; trailer. The container is
//! that of [`crate::block`]. The [`index`] holds the series; its parts are in the footer if they are
//! small. See `docs/formats/sample-block.md`.
//!
//! **Writing.** [`BlockWriter::push_series`] with series in the order of
//! [`crate::block::compare_series`]; their samples through [`BlockWriter::push_floats`] and
//! [`BlockWriter::push_histograms`], those of a series at any time after it; exemplars and metadata
//! through [`BlockWriter::push_exemplars`] and [`BlockWriter::push_metadata`];
//! [`BlockWriter::take_output`] from time to time; [`BlockWriter::finish`].
//!
//! **Reading.** [`Footer`], opened from the last `footer_len` bytes; [`Footer::index`] for series;
//! [`Footer::groups_of`] for groups, [`GroupHead::decode`] for the pages of a group,
//! [`Footer::time_pages_of`] for their times, [`PageDecoder::decode`] for samples; [`ExemplarPage`] and
//! [`MetadataPage`] are independent of the index.
//!
//! Invariants: the samples of a block are sorted by (series, time) over all pages, floats and histograms
//! separately; each time of a series occurs once in each; values are kept bit for bit; every byte between
//! header and footer has a checksum; a page is decoded from its own bytes, its group's head and its
//! times; decoding bounds every allocation.

mod annotations;
#[cfg(test)]
mod annotations_tests;
mod exemplars;
#[cfg(test)]
mod fixture;
mod footer;
mod group;
mod histograms;
pub mod index;
mod list_stamps;
mod metadata;
mod options;
mod page;
mod scaling;
mod starts;
#[cfg(test)]
mod tests;
mod times;
mod whole;
mod whole_series;
mod writer;

pub use exemplars::{EXEMPLARS_OF_SERIES_MAX, ExemplarPage, SeriesExemplars, exemplars_of_plain};
pub use footer::{Footer, STAMPED_SINCE, check_header};
pub use group::{GroupEntry, GroupHead, GroupTables, OpenGroup, PageDecoder, Values};
pub use metadata::{MetadataPage, metadata_of_plain};
pub use options::BlockOptions;
pub use page::{PageEntry, Run, SamplePage, TimeLists, TimeTable};
pub use times::{TimeList, TimePageEntry};
pub use whole::{annotations_of_object, pages_of_object};
pub use whole_series::WholeSeries;
pub use writer::{BlockWriter, Floats, Histograms};

/// The newest version: that of blocks whose samples have stamps.
pub const VERSION: u16 = 8;
/// The version of blocks whose samples have no stamps.
const VERSION_UNSTAMPED: u16 = 7;
/// The first version that is read. Earlier ones were never released.
const VERSION_MIN: u16 = 3;
/// Most samples of a page.
pub const PAGE_ROWS_MAX: u32 = 1 << 13;
/// Most times of a list, which belongs to one run of a page.
pub(crate) const LIST_ROWS_MAX: u32 = PAGE_ROWS_MAX;
/// Bytes of a sample before it is encoded: time and value.
pub const SAMPLE_BYTES: u64 = 16;
/// Most plain bytes of the head of a group.
const GROUP_HEAD_MAX: usize = 1 << 23;
/// Most pages of a group.
const GROUP_PAGES_MAX: usize = 1 << 13;
/// Names of the parts in errors.
const PART_PAGE: &str = "sample page";
const PART_GROUP: &str = "group of sample pages";
const PART_TIMES: &str = "page of times";
const PART_EXEMPLARS: &str = "page of exemplars";
const PART_METADATA: &str = "page of metadata";
