//! Which earlier holdings have exactly the rows of a block, so that a flush or a merge does not outdate what
//! was computed from them.
//!
//! The version of a cached answer is a sum over the holdings that it was computed from
//! ([`sandur_query::add_versions`]). A flush moves the rows of a head to blocks, and a merge moves those of
//! blocks to another one; answers stay the same. Therefore this process remembers, for a block that it wrote
//! without leaving out a row, the holdings that had these rows before. They are reported in place of the
//! block. Another process, or this one after a restart, reports the block itself: then answers are computed
//! again.
//!
//! **Invariants.** A block is remembered before it is committed, and only if the rows that were written are
//! as many as the rows that were read. The memory is bounded: the oldest blocks are forgotten first. Holdings
//! that are much older than the newest one of their block are joined to minutes. A sum over complete minutes
//! does not change by that.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandur_base::Id;
use sandur_format::catalog_entry::BlockMeta;
use sandur_query::Holding;
use xxhash_rust::xxh3::xxh3_128;

/// The most holdings of all blocks together: 2 MiB.
const HOLDINGS_MAX: usize = 32_768;
/// The most holdings of one block: those of a day.
const OF_BLOCK_MAX: usize = 8_192;
/// Holdings that end earlier than this before the last one are joined. Dashboards over longer times have
/// steps of complete minutes.
const FINE_NS: i64 = 6 * 3_600 * 1_000_000_000;
const MINUTE_NS: i64 = 60 * 1_000_000_000;

/// The blocks whose earlier holdings are known.
#[derive(Default)]
pub(crate) struct SameRows(Mutex<Known>);

#[derive(Default)]
struct Known {
    blocks: HashMap<Id, Arc<[Holding]>>,
    oldest_first: VecDeque<Id>,
    holdings: usize,
}

/// A block as a holding.
pub(crate) fn of_block(block: &BlockMeta) -> Holding {
    Holding {
        first: block.min_ts,
        last: block.max_ts,
        version: xxh3_128(&block.id.to_bytes()),
        bytes: block.raw_bytes.max(1),
        block: (block.min_ts, block.max_ts),
    }
}

impl SameRows {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The holdings that had the rows of a block before; `None` if they are not known.
    pub(crate) fn of(&self, block: Id) -> Option<Arc<[Holding]>> {
        self.lock().blocks.get(&block).cloned()
    }

    /// Notes that these blocks of one dataset will have the rows of a head, which has `rows` of them.
    pub(crate) fn note_flush(&self, (holdings, rows): (Vec<Holding>, u64), blocks: &[&BlockMeta]) {
        let mut blocks = blocks.to_vec();
        blocks.sort_unstable_by_key(|block| block.min_ts);
        let is_complete = blocks.iter().map(|block| block.rows).sum::<u64>() == rows;
        if !is_complete || blocks.windows(2).any(|pair| pair[0].max_ts >= pair[1].min_ts) {
            return;
        }
        let mut of_blocks: Vec<Vec<Holding>> = blocks.iter().map(|_| Vec::new()).collect();
        for holding in holdings {
            let touches = |block: &BlockMeta| block.min_ts <= holding.last && holding.first <= block.max_ts;
            let mut places = (0..blocks.len()).filter(|place| touches(blocks[*place]));
            let Some(first) = places.next() else { return };
            of_blocks[first].push(holding);
            // The other part of a holding that two blocks share counts as new.
            for place in places {
                let block = of_block(blocks[place]);
                let (first, last) = (block.first.max(holding.first), block.last.min(holding.last));
                of_blocks[place].push(Holding { first, last, bytes: 1, ..block });
            }
        }
        let mut known = self.lock();
        for (block, holdings) in blocks.iter().zip(of_blocks) {
            known.insert(block, holdings);
        }
    }

    /// Notes that a block will have the rows of these inputs.
    pub(crate) fn note_merge<'b>(&self, inputs: impl Iterator<Item = &'b BlockMeta>, output: &BlockMeta) {
        let (mut holdings, mut rows) = (Vec::new(), 0);
        let mut known = self.lock();
        for input in inputs {
            rows += input.rows;
            match known.blocks.get(&input.id) {
                Some(of_input) => holdings.extend_from_slice(of_input),
                None => holdings.push(of_block(input)),
            }
        }
        if rows == output.rows {
            known.insert(output, holdings);
        }
    }
}

impl Known {
    fn insert(&mut self, block: &BlockMeta, holdings: Vec<Holding>) {
        let mut holdings = joined(holdings);
        if holdings.len() > OF_BLOCK_MAX {
            return;
        }
        holdings.iter_mut().for_each(|holding| holding.block = (block.min_ts, block.max_ts));
        self.holdings += holdings.len();
        if let Some(before) = self.blocks.insert(block.id, holdings.into()) {
            self.holdings -= before.len();
        } else {
            self.oldest_first.push_back(block.id);
        }
        while self.holdings > HOLDINGS_MAX {
            let Some(oldest) = self.oldest_first.pop_front() else { return };
            self.holdings -= self.blocks.remove(&oldest).map_or(0, |holdings| holdings.len());
        }
    }
}

/// Joins old holdings that are within the same minute. Holdings that are longer stay as they are.
fn joined(mut holdings: Vec<Holding>) -> Vec<Holding> {
    let newest = holdings.iter().map(|holding| holding.last).max().unwrap_or(0);
    // A minute ends with the instant of the next one, as the slots of a head do.
    let minute = |at: i64| at.saturating_sub(1).div_euclid(MINUTE_NS);
    let is_old = |holding: &Holding| holding.last < newest.saturating_sub(FINE_NS);
    let mut joined: Vec<Holding> = Vec::with_capacity(holdings.len());
    holdings.sort_unstable_by_key(|holding| (holding.first, holding.last));
    for holding in holdings {
        let of_minute = minute(holding.first);
        match joined.last_mut() {
            Some(last)
                if is_old(&holding)
                    && [minute(holding.last), minute(last.first), minute(last.last)] == [of_minute; 3] =>
            {
                last.last = last.last.max(holding.last);
                last.version = last.version.wrapping_add(holding.version);
                last.bytes = last.bytes.saturating_add(holding.bytes);
            }
            _ => joined.push(holding),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use sandur_model::{Dataset, TenantId, TimeRange};
    use sandur_query::add_versions;

    use super::*;
    use crate::blocks::block_meta;

    const S: i64 = 1_000_000_000;

    fn block(id: u128, (min_ts, max_ts): (i64, i64), rows: u64) -> BlockMeta {
        let dataset = Dataset::logs(TenantId::default_tenant());
        let unwritten = block_meta::unwritten(Id(id), Id(1), &dataset, TimeRange::ALL, 0);
        BlockMeta { min_ts, max_ts, rows, ..unwritten }
    }

    /// Slots of five seconds, as a head has them.
    fn slots(seconds: std::ops::Range<i64>) -> Vec<Holding> {
        let slot = |at: i64| {
            let (first, last) = (at * S + 1, (at + 5) * S);
            Holding { first, last, version: xxh3_128(&at.to_le_bytes()), bytes: 1, block: (first, last) }
        };
        seconds.step_by(5).map(slot).collect()
    }

    /// The version of the rows between two seconds; the first one is excluded.
    fn version(holdings: &[Holding], (after, last): (i64, i64)) -> u128 {
        let mut sums = [0];
        add_versions(holdings, &[TimeRange::inclusive(after * S + 1, last * S)], 3, &mut sums);
        sums[0]
    }

    #[test]
    fn blocks_of_a_flush_have_the_versions_of_the_head() {
        let (same, head) = (SameRows::default(), slots(0..100));
        let (a, b) = (block(1, (S, 52 * S), 11), block(2, (53 * S, 99 * S), 9));
        same.note_flush((head.clone(), 20), &[&b, &a]);
        let all: Vec<Holding> =
            [1, 2].iter().flat_map(|id| same.of(Id(*id)).expect("it is known").to_vec()).collect();
        for range in [(0, 50), (55, 100), (20, 30)] {
            assert_eq!(version(&all, range), version(&head, range), "{range:?}");
        }
        assert_ne!(version(&all, (0, 100)), version(&head, (0, 100)), "the blocks share a slot");
        assert!(all.iter().all(|holding| [(S, 52 * S), (53 * S, 99 * S)].contains(&holding.block)));
    }

    #[test]
    fn a_flush_or_merge_that_leaves_out_rows_is_a_change() {
        let same = SameRows::default();
        same.note_flush((slots(0..10), 7), &[&block(1, (S, 9 * S), 6)]);
        assert!(same.of(Id(1)).is_none(), "a row is missing");
        let overlapping = [&block(1, (S, 9 * S), 3), &block(2, (9 * S, 9 * S), 4)];
        same.note_flush((slots(0..10), 7), &overlapping);
        assert!(same.of(Id(1)).is_none() && same.of(Id(2)).is_none());
        let (a, b) = (block(3, (S, 2 * S), 3), block(4, (S, 5 * S), 4));
        same.note_merge([&a, &b].into_iter(), &block(5, (S, 5 * S), 6));
        assert!(same.of(Id(5)).is_none());
        same.note_merge([&a, &b].into_iter(), &block(6, (S, 5 * S), 7));
        let merged = same.of(Id(6)).expect("it is known");
        let versions: Vec<u128> = merged.iter().map(|holding| holding.version).collect();
        assert_eq!(versions, [of_block(&a).version, of_block(&b).version]);
    }

    /// Goal: hours become a day without a change of any version over complete minutes.
    #[test]
    fn old_holdings_are_joined_to_minutes_that_have_the_same_versions() {
        let (same, hour) = (SameRows::default(), 3_600);
        let mut before = Vec::new();
        let hours: Vec<BlockMeta> =
            (0..24).map(|n| block(n as u128, (n * hour * S + 1, (n + 1) * hour * S), 1)).collect();
        for (n, one) in hours.iter().enumerate() {
            let slots = slots(n as i64 * hour..(n as i64 + 1) * hour);
            before.extend_from_slice(&slots);
            same.note_flush((slots, 1), &[one]);
        }
        let day = block(99, (1, 24 * hour * S), 24);
        same.note_merge(hours.iter(), &day);
        let after = same.of(Id(99)).expect("it is known");
        assert_eq!(after.len() as i64, 18 * 60 + 1 + 6 * 720, "one slot ends at the border");
        for range in [(0, 24 * hour), (60, 120), (600, 4_260), (23 * hour + 5, 23 * hour + 35)] {
            assert_eq!(version(&after, range), version(&before, range), "{range:?}");
        }
        assert_ne!(version(&after, (60, 90)), version(&before, (60, 90)), "half of a minute");
    }

    #[test]
    fn the_oldest_blocks_are_forgotten_first() {
        let same = SameRows::default();
        for id in 0..40 {
            same.note_flush((slots(0..5_000), 1), &[&block(id, (1, 5_000 * S), 1)]);
        }
        assert!(same.of(Id(0)).is_none() && same.of(Id(39)).is_some());
        let known = same.lock();
        assert!(known.holdings <= HOLDINGS_MAX, "{}", known.holdings);
        assert_eq!(known.blocks.len(), known.oldest_first.len());
        drop(known);
        let longer = |at: Holding| Holding { last: at.last + 60 * S, ..at };
        let many = slots(0..50_000).into_iter().map(longer).collect();
        same.note_flush((many, 1), &[&block(99, (1, 50_000 * S), 1)]);
        assert!(same.of(Id(99)).is_none(), "one block has too many");
    }
}
