//! The byte layouts of WAL segments, blocks and catalog entries, and the codecs that they consist of.
//!
//! **What it is.** Pure functions between rows and bytes, and the hot path of the product: every line
//! passes once through [`wal_segment`] and at least once through [`log_block::BlockWriter`]. Each format
//! has a page in `docs/formats/`, a version, checksums, and a fixture in `fixtures/` that every later
//! version must still read.
//!
//! **What it is not.** No I/O, no async, no clock, no policy: the crate does not know the names of
//! objects, their readers, when a block is written, or what is cached. It parses no wire protocol.
//!
//! **Life of a call.** A batch becomes a [`wal_segment::Record`], records become a frame, and the caller
//! makes the frame durable. Later its rows, sorted, pass through [`log_block::BlockWriter::push_row`].
//! The writer cuts pages, compresses lines, packs the narrow columns, builds filters ([`needle`]) and
//! counts, and returns bytes group by group. A query opens the [`log_block::Footer`], selects streams and
//! pages, applies the filters, and decodes the remaining pages, columns first and lines last.
//!
//! **Invariants.** Hostile bytes never cause a panic and never take more memory than a stated bound:
//! every length is checked before memory is reserved, and errors name the part, its offset in the object,
//! the expected and the found value. Integers on disk have fixed widths or are LEB128; never `usize`. A
//! checksum is verified before its bytes are used. A filter never rules out a page that holds the needle.
//! The keys of filters and the order of streams are part of the format.
//!
//! Writing and reading a block of samples:
//!
//! ```
//! use bytes::Bytes;
//! use sandur_format::block::BlockIndex;
//! use sandur_format::sample_block::{
//!     BlockOptions, BlockWriter, Floats, Footer, OpenGroup, TimeTable, WholeSeries,
//! };
//! use sandur_model::{MatchOp, Matcher, TenantId, TimeRange};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let hour = TimeRange::new(0, 3_600_000_000_000);
//! let mut writer = BlockWriter::new(BlockOptions::new(TenantId::new("acme")?, hour, 0));
//! writer.push_series([("__name__", "up"), ("pod", "a")].into_iter())?;
//! writer.push_series([("__name__", "up"), ("pod", "b")].into_iter())?;
//! writer.push_floats(0, Floats { times: &[15_000, 30_000], values: &[1.0, 1.0], ..Floats::default() })?;
//! writer.push_floats(1, Floats { times: &[15_000, 30_000], values: &[0.0, 1.0], ..Floats::default() })?;
//! let mut pieces = Vec::new();
//! let summary = writer.finish(&mut pieces)?;
//! let object = Bytes::from(pieces.concat());
//! let cut = |range: std::ops::Range<u64>| object.slice(range.start as usize..range.end as usize);
//!
//! // A reader has the offset of the footer from the catalog, and fetches groups and times one by one.
//! let footer = Footer::open(object.slice(summary.footer_offset as usize..))?;
//! let series = WholeSeries::of_object(&object, &footer)?;
//! let pod_b = series.select(&[Matcher::new("pod", MatchOp::Equal, "b")?]);
//! let groups = footer.groups_of(&pod_b, hour);
//! let mut times = TimeTable::default();
//! for number in footer.time_pages_of(&groups) {
//!     let page = &footer.time_pages()[number as usize];
//!     times.push(page.first_list, page.decode(&cut(page.piece.range()))?.into());
//! }
//! let entry = &footer.groups()[groups[0] as usize];
//! let group = OpenGroup::open(entry, cut(entry.piece.range()))?;
//! let page = &group.head().pages()[group.head().pages_of(&pod_b, hour)[0] as usize];
//! let page = group.head().decoder().decode(page, &group.page_bytes(page), &times)?;
//! let run = page.runs.iter().find(|run| pod_b.contains(run.series)).expect("its page has a run of it");
//! assert_eq!(series.labels(run.series).get("pod"), Some("b"));
//! assert_eq!((run.times[1], page.values[run.start as usize + 1]), (30_000, 1.0));
//! # Ok(())
//! # }
//! ```

pub mod block;
mod block_footer;
pub mod catalog_entry;
pub mod codec;
mod error;
pub mod log_block;
pub mod needle;
pub mod sample_block;
pub mod shapes;
pub mod stamp;
pub mod wal_segment;

pub use block_footer::BlockFooter;
pub use error::Error;
