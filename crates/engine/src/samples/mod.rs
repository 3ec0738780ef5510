//! What is of samples alone: their head, how a flush and a merge make their blocks, how these are read.
//!
//! The frame around it (WAL, views, flush, compaction, delete requests) is shared with logs. Graphite is no
//! signal of its own: its paths are series.

mod assembly;
mod block;
pub(crate) mod flush_plan;
pub mod head;
mod hidden;
mod merge;
mod scan;

pub(crate) use merge::SampleMerging;
pub use scan::{SampleScan, ScannedSeries, SeriesBatch};

/// Bytes of a sample before it is encoded: time and value.
pub(crate) const SAMPLE_BYTES: u64 = 16;

pub(crate) use sandur_model::MILLISECOND_NS;

/// The milliseconds whose nanoseconds lie in a range: first and last, both included.
pub(crate) fn range_ms(range: sandur_model::TimeRange) -> (i64, i64) {
    let first =
        range.start.div_euclid(MILLISECOND_NS) + i64::from(range.start.rem_euclid(MILLISECOND_NS) > 0);
    (first, range.end.saturating_sub(1).div_euclid(MILLISECOND_NS))
}
