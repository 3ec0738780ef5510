//! What delete rules do to a block: which streams are hidden completely, and which pages may have hidden
//! rows.
//!
//! Footer and needle filters decide; no page is read. Streams and pages that are not listed have no
//! hidden row, so their counts and pages can be used unchanged.

use std::sync::Arc;

use roaring::RoaringBitmap;
use sandur_format::block::SeriesStats;
use sandur_format::log_block::PageEntry;
use sandur_memory::MemoryBudget;
use sandur_model::TimeRange;
use sandur_query::QueryStats;

use super::block::OpenLogs;
use super::mask::Mask;
use super::pages::{Sought, pages_holding};
use crate::blocks::reader::BlockReader;
use crate::error::ReadError;
use crate::rules::Rule;

/// The effect of rules on a block.
#[derive(Default)]
pub(crate) struct Touched {
    /// Streams of which every row is hidden.
    pub gone: RoaringBitmap,
    /// Streams that may have both hidden and visible rows.
    pub partly: RoaringBitmap,
    /// Pages that may have hidden rows of these streams.
    pub pages: RoaringBitmap,
    /// The rules that hide these rows.
    pub mask: Option<Arc<Mask>>,
    /// Only rows of these times are kept, if set.
    only: Option<TimeRange>,
}

impl Touched {
    /// Whether a page may have hidden rows, including those of completely hidden streams.
    pub fn may_hit(&self, page: &PageEntry) -> bool {
        let gone = self.gone.range_cardinality(page.first_stream..=page.last_stream) > 0;
        let is_cut = self.only.is_some_and(|only| !only.covers(page.min_ts, page.max_ts));
        gone || is_cut || self.pages.contains(page.index)
    }

    /// Hides all rows outside of a window.
    pub fn keep_only(&mut self, window: TimeRange) {
        self.only = Some(window);
    }

    /// Whether a stream may have rows that stay.
    pub fn keeps(&self, stream: u32, of: &SeriesStats) -> bool {
        of.rows > 0 && !self.gone.contains(stream) && self.may_keep(of.min_ts, of.max_ts)
    }

    /// Whether rows between these instants, both inclusive, may stay.
    pub fn may_keep(&self, first: i64, last: i64) -> bool {
        self.only.is_none_or(|only| only.touches(first, last))
    }

    /// The times outside of which rows are hidden, if set.
    pub fn only(&self) -> Option<TimeRange> {
        self.only
    }

    /// Whether the block has no hidden row.
    pub fn is_nothing(&self) -> bool {
        self.gone.is_empty() && self.mask.is_none() && self.only.is_none()
    }
}

/// Applies the rules to these streams of the block, for rows in the range. Skips rules of which the
/// block is known to be clean.
pub(crate) async fn touched(
    reader: &BlockReader,
    block: &OpenLogs,
    (streams, range): (&RoaringBitmap, TimeRange),
    rules: impl Iterator<Item = &Arc<Rule>>,
    (budget, stats): (&MemoryBudget, &QueryStats),
) -> Result<Touched, ReadError> {
    let mut touched = Touched::default();
    let mut masking: Vec<Arc<Rule>> = Vec::new();
    let clean_of = block.meta.deletes_through;
    for rule in rules.filter(|rule| rule.started.is_none_or(|at| at > clean_of)) {
        let concerned = rule.range.intersect(&range);
        if !concerned.touches(block.meta.min_ts, block.meta.max_ts) {
            continue;
        }
        let selected = block.footer.select(rule.naming().await?.matchers());
        let selected = selected.map_err(|reason| ReadError::damaged(&block.meta, reason))? & streams;
        let mut partly = RoaringBitmap::new();
        for stream in selected {
            let of = block.footer.streams().stats(stream);
            if of.rows == 0 || !concerned.touches(of.min_ts, of.max_ts) {
                continue;
            }
            let whole = !rule.looks_at_rows() && rule.range.covers(of.min_ts, of.max_ts);
            if whole {
                touched.gone.insert(stream)
            } else {
                partly.insert(stream)
            };
        }
        let sought = Sought { range: concerned, streams: &partly, needles: rule.needles() };
        // A filter that cannot be read rules no page out.
        let pages = pages_holding(reader, block, sought, (budget, stats)).await?.pages;
        if !pages.is_empty() {
            touched.partly |= in_pages(block, &partly, &pages);
            touched.pages |= pages;
            masking.push(Arc::clone(rule));
        }
    }
    touched.partly -= &touched.gone;
    touched.mask = Mask::of(masking);
    Ok(touched)
}

fn in_pages(block: &OpenLogs, streams: &RoaringBitmap, pages: &RoaringBitmap) -> RoaringBitmap {
    let mut near = RoaringBitmap::new();
    for page in pages.iter().map(|n| &block.footer.pages()[n as usize]) {
        near.insert_range(page.first_stream..=page.last_stream);
    }
    near & streams
}
