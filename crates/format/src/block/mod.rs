//! The common parts of blocks of every signal: container, order of series, and properties; and the table
//! of streams of blocks of logs.
//!
//! A stream of logs and a series of metrics are both a label set; this module calls both series. Blocks
//! of samples have many more of them and read them in parts: see [`crate::sample_block::index`].

mod container;
mod index;
mod info;
mod origin;
pub(crate) mod postings;
mod series;
mod series_order;
mod streams;

pub use container::{HEADER_LEN, SectionInfo, TRAILER_LEN};
pub(crate) use container::{Layout, PART_FOOTER};
pub use index::{BlockIndex, IndexBase};
pub use info::{BlockInfo, BlockSummary};
pub use origin::BlockOrigin;
pub(crate) use origin::OriginParts;
pub use series::{SeriesStats, SeriesTable};
pub(crate) use series_order::compare_bounds;
pub use series_order::{BOUND_NAME, METRIC_NAME, compare_series, is_apart_from_points, is_rollup_label};
pub(crate) use streams::StreamIndex;
