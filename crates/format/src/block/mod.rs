//! What blocks of every signal share: container, series table, postings, and what a block says of itself.
//!
//! A stream of logs and a series of metrics are both a label set: here they are series.

mod container;
mod index;
mod info;
mod origin;
pub(crate) mod postings;
mod series;
mod series_list;
mod series_order;

pub use container::{HEADER_LEN, SectionInfo, TRAILER_LEN};
pub(crate) use container::{Layout, PART_FOOTER};
pub use index::{BlockIndex, IndexBase};
pub use info::{BlockInfo, BlockSummary};
pub use origin::BlockOrigin;
pub use series::{SeriesStats, SeriesTable};
pub use series_list::SeriesList;
pub use series_order::{BOUND_NAME, METRIC_NAME, compare_series};
