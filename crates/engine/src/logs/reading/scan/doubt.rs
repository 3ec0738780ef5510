//! Which rows of a cluster may be stored twice.
//!
//! The bounds of streams decide at first. If they leave streams in doubt, pairs of blocks that were compared
//! before decide for themselves. Further pairs are compared by queries that read most of their pages anyway:
//! a comparison concerns all streams of two blocks, and a query for few of them would pay for the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use roaring::RoaringBitmap;
use sandur_memory::Reservation;
use sandur_query::{Error, Order};

use super::plan::{HeadPart, Planner, Wanted};
use crate::logs::common_rows::{CommonRows, Comparison};
use crate::logs::suspects::{
    Pair, StreamSpan, Suspects, find_suspects, find_suspects_after, overlapping_pairs,
};

/// The most pairs of blocks of a cluster that are looked up or compared. With more of them the bounds decide.
const PAIRS_MAX: usize = 2_048;
/// How many rows are compared for each row of the cluster. A block may be compared with many others; what is
/// left is compared by the next queries.
const COMPARED_PER_ROW: u64 = 8;
/// Blocks are compared if the query selects streams with at least one in this many of their rows.
const SELECTED_ONE_IN: u64 = 4;
/// Pairs that are compared at the same time.
const COMPARED_AT_ONCE: usize = 4;
/// The memory of a pair in the lists of this module.
const PAIR_BYTES: usize = 128;

/// The spans of the streams of a cluster, with their memory and that of what is found in them.
pub(super) struct Spans {
    spans: Vec<StreamSpan>,
    _memory: Reservation,
}

impl Planner {
    /// The spans of the streams of blocks, and of heads. The number of a block as a source is its place.
    pub(super) fn spans(
        &self,
        wanted: &[Wanted],
        heads: &[HeadPart],
        streams: impl Fn(&Wanted) -> RoaringBitmap,
    ) -> Result<Spans, Error> {
        // One span for each stream, and in the worst case an entry of the result for every two.
        let count = wanted.iter().map(|one| one.streams.len()).sum::<u64>()
            + heads.iter().map(|head| head.spans.len() as u64).sum::<u64>();
        let _memory = self.context.budget().reserve(2 * count * size_of::<StreamSpan>() as u64)?;
        let mut spans: Vec<StreamSpan> = heads.iter().flat_map(|h| h.spans.iter().copied()).collect();
        for (source, one) in (0..).zip(wanted) {
            let (table, (first, last)) = (one.block.footer.streams(), one.times_of_pages());
            spans.extend(streams(one).iter().map(|ordinal| {
                let (stats, stream) = (table.stats(ordinal), one.block.series_id(ordinal));
                StreamSpan { source, stream, first: stats.min_ts.max(first), last: stats.max_ts.min(last) }
            }));
        }
        Ok(Spans { spans, _memory })
    }

    /// The streams that may have rows stored twice.
    pub(super) async fn suspects(&self, wanted: &[Wanted], mut spans: Spans) -> Result<Suspects, Error> {
        let by_bounds = find_suspects(&mut spans.spans);
        if by_bounds.is_empty() {
            return Ok(by_bounds);
        }
        let are_blocks = |(_, last): Pair| (last as usize) < wanted.len();
        let Ok(_memory) = self.context.budget().reserve((PAIRS_MAX * PAIR_BYTES) as u64) else {
            return Ok(by_bounds);
        };
        let Some(pairs) = overlapping_pairs(&spans.spans, PAIRS_MAX, are_blocks) else {
            return Ok(by_bounds);
        };
        let comparison = Comparison { reader: &self.reader, context: &self.context };
        let blocks = |(a, b): Pair| [&wanted[a as usize].block, &wanted[b as usize].block];
        let mut compared: BTreeMap<Pair, Arc<CommonRows>> = BTreeMap::new();
        let mut unknown = Vec::new();
        let selected: Vec<bool> = wanted.iter().map(selects_many_rows).collect();
        let mut rows_left = COMPARED_PER_ROW * wanted.iter().map(|one| one.block.meta.rows).sum::<u64>();
        for pair in pairs {
            if let Some(common) = comparison.known(blocks(pair).map(|block| &**block)) {
                compared.insert(pair, common);
                continue;
            }
            let rows = blocks(pair).iter().map(|block| block.meta.rows).sum();
            if let Some(left) = rows_left.checked_sub(rows)
                && selected[pair.0 as usize]
                && selected[pair.1 as usize]
            {
                rows_left = left;
                unknown.push(pair);
            }
        }
        if self.reads_all_rows() {
            for some in unknown.chunks(COMPARED_AT_ONCE) {
                let comparing = some.iter().map(|pair| comparison.compare(blocks(*pair)));
                for (pair, common) in some.iter().zip(join_all(comparing).await) {
                    compared.extend(common?.map(|common| (*pair, common)));
                }
            }
        }
        Ok(find_suspects_after(&spans.spans, &compared).unwrap_or(by_bounds))
    }

    /// Whether the query reads all rows of its streams, so that to compare them costs little more.
    fn reads_all_rows(&self) -> bool {
        self.selection.order == Order::Any && self.needles.is_empty() && !self.context.saves_memory()
    }
}

fn selects_many_rows(one: &Wanted) -> bool {
    let table = one.block.footer.streams();
    let rows: u64 = one.streams.iter().map(|ordinal| table.stats(ordinal).rows).sum();
    rows >= one.block.meta.rows / SELECTED_ONE_IN
}
