//! Finds the pages of a block that may have rows of given streams and times with given needles.

use std::collections::BTreeMap;

use roaring::RoaringBitmap;
use sandur_format::log_block::PageEntry;
use sandur_format::needle::{FilterSegment, PageSet};
use sandur_memory::{MemoryBudget, Reservation};
use sandur_model::TimeRange;
use sandur_query::QueryStats;

use super::block::OpenLogs;
use crate::blocks::reader::BlockReader;
use crate::error::ReadError;
use crate::needles::NeedleKeys;

/// The rows to find.
#[derive(Clone, Copy)]
pub(crate) struct Sought<'a> {
    /// The times of the rows.
    pub range: TimeRange,
    /// The streams of the rows.
    pub streams: &'a RoaringBitmap,
    /// The needles that the lines contain.
    pub needles: &'a NeedleKeys,
}

/// The pages that were found, with counts for statistics.
#[derive(Default)]
pub(crate) struct FoundPages {
    /// The pages that may have the rows.
    pub pages: RoaringBitmap,
    /// Number of pages before filters ruled some out.
    pub before_filters: u64,
    /// Number of filter segments that were read.
    pub filters_asked: u64,
    /// Filter segments that are damaged or missing. They rule no page out.
    pub unread: Vec<ReadError>,
}

/// Finds the pages of the block that may have the rows, with memory of the budget. Fails if the store does
/// not answer or the memory is not available.
pub(crate) async fn pages_holding(
    reader: &BlockReader,
    block: &OpenLogs,
    sought: Sought<'_>,
    (budget, stats): (&MemoryBudget, &QueryStats),
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
    // The filters of a few keys are read first, those of the other keys only if pages are left.
    let few = needles.with_few_keys();
    let stages = few.iter().chain([needles]).map(|needles| (needles, needles.keys())).collect::<Vec<_>>();
    for segment in block.footer.filter_segments() {
        let covered = segment.pages();
        if found.pages.range_cardinality(covered.clone()) == 0 {
            continue;
        }
        found.filters_asked += 1;
        match rule_out(reader, (block, segment), &stages, &mut found.pages, (budget, stats)).await {
            Ok(()) => {}
            Err(error @ (ReadError::Store { .. } | ReadError::Memory(_))) => return Err(error),
            Err(damage) => found.unread.push(damage),
        }
    }
    Ok(found)
}

/// Removes pages of a segment that cannot have the needles, in stages until no page is left. The keys are
/// those of the needles of a stage.
async fn rule_out(
    reader: &BlockReader,
    (block, segment): (&OpenLogs, &FilterSegment),
    stages: &[(&NeedleKeys, Vec<u32>)],
    pages: &mut RoaringBitmap,
    (budget, stats): (&MemoryBudget, &QueryStats),
) -> Result<(), ReadError> {
    for (needles, keys) in stages {
        let left = match reader.filters_of(block, (segment, keys), budget, stats).await {
            Ok(held) => needles.pages_in(|key| segment.pages_with(&held.pieces, key)),
            Err(ReadError::Memory(_)) if keys.len() > 1 => {
                let (of_key, _memory) =
                    pages_of_keys(reader, (block, segment), keys, (budget, stats)).await?;
                needles.pages_in(|key| of_key.get(&key).copied().unwrap_or(PageSet::ALL))
            }
            Err(error) => return Err(error),
        };
        let covered = segment.pages();
        let without = |page: &u32| !left.contains((page - covered.start) as usize);
        let out: RoaringBitmap = pages.range(covered.clone()).filter(without).collect();
        *pages -= out;
        if pages.range_cardinality(covered) == 0 {
            break;
        }
    }
    Ok(())
}

/// Returns the pages of a segment that may have each of the keys, and the memory of the answer. Reads the
/// pieces of fewer keys at a time when memory is short, down to those of one key.
async fn pages_of_keys(
    reader: &BlockReader,
    (block, segment): (&OpenLogs, &FilterSegment),
    keys: &[u32],
    (budget, stats): (&MemoryBudget, &QueryStats),
) -> Result<(BTreeMap<u32, PageSet>, Reservation), ReadError> {
    let memory = budget.reserve((keys.len() * 2 * size_of::<(u32, PageSet)>()) as u64)?;
    let mut found = BTreeMap::new();
    let mut at_once = keys.len().div_ceil(2);
    while found.len() < keys.len() {
        let some = &keys[found.len()..keys.len().min(found.len() + at_once)];
        match reader.filters_of(block, (segment, some), budget, stats).await {
            Ok(held) => found.extend(some.iter().map(|key| (*key, segment.pages_with(&held.pieces, *key)))),
            Err(ReadError::Memory(_)) if some.len() > 1 => at_once = some.len() / 2,
            Err(error) => return Err(error),
        }
    }
    Ok((found, memory))
}
