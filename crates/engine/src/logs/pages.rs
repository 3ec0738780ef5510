//! Which pages of a block may hold rows of some streams and times that hold some needles.

use roaring::RoaringBitmap;
use sandur_format::log_block::PageEntry;
use sandur_model::TimeRange;
use sandur_query::QueryStats;

use super::block::OpenLogs;
use crate::block_reader::{BlockReader, ReadError};
use crate::needles::NeedleKeys;

/// Rows that are looked for.
#[derive(Clone, Copy)]
pub(crate) struct Sought<'a> {
    /// Of these times.
    pub range: TimeRange,
    /// Of these streams.
    pub streams: &'a RoaringBitmap,
    /// With these needles.
    pub needles: &'a NeedleKeys,
}

/// Pages that may hold what is sought, and how they were found.
#[derive(Default)]
pub(crate) struct FoundPages {
    /// The pages.
    pub pages: RoaringBitmap,
    /// How many there were before filters were asked.
    pub before_filters: u64,
    /// Filters that were asked.
    pub filters_asked: u64,
    /// Filters that are damaged or missing: they rule nothing out.
    pub unread: Vec<ReadError>,
}

/// The pages of the block that may hold what is sought. Fails when the store does not answer.
pub(crate) async fn pages_holding(
    reader: &BlockReader,
    block: &OpenLogs,
    sought: Sought<'_>,
    stats: &QueryStats,
) -> Result<FoundPages, ReadError> {
    let Sought { range, streams, needles } = sought;
    let fits = |page: &&PageEntry| {
        range.touches(page.min_ts, page.max_ts)
            && streams.range_cardinality(page.first_stream..=page.last_stream) > 0
    };
    let pages: RoaringBitmap = block.footer.pages().iter().filter(fits).map(|page| page.index).collect();
    let mut found = FoundPages { before_filters: pages.len(), pages, ..FoundPages::default() };
    if needles.is_empty() {
        return Ok(found);
    }
    for segment in block.footer.filter_segments() {
        let covered = segment.pages();
        if found.pages.range_cardinality(covered.clone()) == 0 {
            continue;
        }
        found.filters_asked += 1;
        match reader.segment(block, segment, stats).await {
            Ok(view) => {
                let without = |page: &u32| !needles.may_be_in(&view, *page);
                let out: RoaringBitmap = found.pages.range(covered).filter(without).collect();
                found.pages -= out;
            }
            Err(error @ ReadError::Store { .. }) => return Err(error),
            Err(damage) => found.unread.push(damage),
        }
    }
    Ok(found)
}
