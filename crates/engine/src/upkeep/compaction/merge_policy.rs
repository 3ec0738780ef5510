//! Chooses the blocks to merge next: a pure function of the blocks, the clock and thresholds.
//!
//! Blocks of one hour (of samples: two hours) become one (level 1) once the time is over and quiet. They
//! are merged earlier when there are many of them (of samples: when some have a similar size). The
//! blocks of one day become a day block (level 2) once the day is over. A merge never crosses a window,
//! so retention can drop complete blocks. Blocks of the largest size are not merged; a large block is
//! not rewritten to include a few small ones.
//!
//! Blocks of several days are merged with others of their cell, and cut when they are large
//! ([`long_blocks`](super::long_blocks)).
//!
//! The slots of a large day of samples stay apart: its blocks are rolled slot by slot
//! ([`rollups`](crate::upkeep::rollups)), and a block of several slots would prevent that.
//!
//! The order of rows matters for samples, so only blocks that are adjacent in the order of writing are
//! merged ([`merge_runs`]). Of logs the smallest blocks are merged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sandur_format::catalog_entry::BlockMeta;
use sandur_model::{DAY_NS, Signal, TimeRange};

use crate::policy::compaction::CompactionPolicy;
use crate::upkeep::compaction::due_merge::DueMerge;
use crate::upkeep::compaction::exclusions::Exclusions;
use crate::upkeep::compaction::long_blocks::{by_cells, union};
use crate::upkeep::compaction::merge_runs::{Bounds, best_run, pays, run_of_alike};
use crate::windows::{is_long, slot_ns};

/// The merges of one dataset's blocks that are worth doing, without the blocks in `excluded`. Merges
/// of days come first, the oldest window first. No two merges share a block; if a day is merged, none of
/// its slots is.
pub(crate) fn due_merges(
    policy: &CompactionPolicy,
    signal: Signal,
    now_ns: i64,
    blocks: &[Arc<BlockMeta>],
    excluded: &Exclusions,
) -> impl Iterator<Item = DueMerge> {
    let slot_ns = slot_ns(signal);
    let all_blocks = blocks.iter().map(|block| &**block);
    let (long, blocks): (Vec<&BlockMeta>, Vec<&BlockMeta>) =
        all_blocks.partition(|block| is_long(block.window));
    let mut slots: BTreeMap<i64, Vec<&BlockMeta>> = BTreeMap::new();
    let mut days: BTreeMap<i64, Vec<&BlockMeta>> = BTreeMap::new();
    let mut all: BTreeMap<i64, Vec<&BlockMeta>> = BTreeMap::new();
    let day_of = |block: &BlockMeta| block.window.start.div_euclid(DAY_NS) * DAY_NS;
    for block in &blocks {
        all.entry(day_of(block)).or_default().push(block);
        if block.raw_bytes >= policy.block_raw_bytes_max || excluded.blocks.contains(&block.id) {
            continue;
        }
        if block.window.length_ns() <= slot_ns {
            slots.entry(block.window.start).or_default().push(block);
        }
        days.entry(day_of(block)).or_default().push(block);
    }
    let is_large = |(start, day): (&i64, &Vec<&BlockMeta>)| {
        (signal == Signal::Metrics && policy.is_large(day.iter().copied())).then_some(*start)
    };
    let large: BTreeSet<i64> = all.iter().filter_map(is_large).collect();
    for (start, day) in &mut all {
        let window = TimeRange::new(*start, start.saturating_add(DAY_NS));
        day.extend(long.iter().copied().filter(|block| window.touches(block.min_ts, block.max_ts)));
    }
    let of_long = merges_of_long((policy, signal, now_ns), &[&blocks[..], &long].concat(), &long, excluded);
    let of_day = |(start, mut blocks): (i64, Vec<&BlockMeta>)| {
        let window = TimeRange::new(start, start + DAY_NS);
        let day = all.get(&start).map_or(&[][..], Vec::as_slice);
        if large.contains(&start) {
            blocks.retain(|block| block.window.length_ns() > slot_ns);
        }
        Choice { policy, signal, now_ns, day, excluded, are_long: false }.merge(window, blocks, 2)
    };
    let of_days: Vec<DueMerge> = days.into_iter().filter_map(of_day).collect();
    let merged: BTreeSet<i64> = of_days.iter().map(|merge| merge.window.start).collect();
    let of_slot = move |(start, blocks): (i64, Vec<&BlockMeta>)| {
        let (window, day) = (TimeRange::new(start, start + slot_ns), start.div_euclid(DAY_NS) * DAY_NS);
        if merged.contains(&day) {
            return None;
        }
        let day = all.get(&day).map_or(&[][..], Vec::as_slice);
        Choice { policy, signal, now_ns, day, excluded, are_long: false }.merge(window, blocks, 1)
    };
    of_days.into_iter().chain(slots.into_iter().filter_map(of_slot)).chain(of_long)
}

/// The merges of long blocks with others of their cells. `all` are the blocks that may share instants
/// with them.
fn merges_of_long(
    (policy, signal, now_ns): (&CompactionPolicy, Signal, i64),
    all: &[&BlockMeta],
    long: &[&BlockMeta],
    excluded: &Exclusions,
) -> Vec<DueMerge> {
    let of_cell = |blocks: Vec<&BlockMeta>| {
        let window = union(&blocks);
        let near: Vec<&BlockMeta> =
            all.iter().copied().filter(|block| window.touches(block.min_ts, block.max_ts)).collect();
        Choice { policy, signal, now_ns, day: &near, excluded, are_long: true }.merge(window, blocks, 2)
    };
    by_cells(policy, long, excluded).into_values().filter_map(of_cell).collect()
}

/// Whether a day is over, and quiet if it has several blocks: time alone makes no more merges of them due.
pub(crate) fn is_settled(
    policy: &CompactionPolicy,
    now_ns: i64,
    window: TimeRange,
    blocks: &[Arc<BlockMeta>],
) -> bool {
    let day: Vec<&BlockMeta> = blocks.iter().map(|block| &**block).collect();
    // For a complete day the signal makes no difference.
    let choice = Choice {
        policy,
        signal: Signal::Logs,
        now_ns,
        day: &day,
        excluded: &Exclusions::default(),
        are_long: false,
    };
    choice.is_over(window) && (day.len() < 2 || choice.is_due(window, &day, 2))
}

/// The inputs of the choice of a merge for one window.
struct Choice<'a> {
    policy: &'a CompactionPolicy,
    signal: Signal,
    now_ns: i64,
    /// All blocks that may have rows of the window.
    day: &'a [&'a BlockMeta],
    excluded: &'a Exclusions,
    /// Whether the blocks are long: then their time is over.
    are_long: bool,
}

impl Choice<'_> {
    fn merge(&self, window: TimeRange, blocks: Vec<&BlockMeta>, level: u8) -> Option<DueMerge> {
        if blocks.len() < 2 {
            return None;
        }
        let inputs_max = self.excluded.inputs_max(window, level, self.policy.inputs_max);
        // Two blocks just below the threshold become one that is cut.
        let raw_bytes_max =
            if self.are_long { 2 * self.policy.long_raw_bytes_max } else { self.policy.block_raw_bytes_max };
        let bounds = Bounds { inputs_max, raw_bytes_max, level };
        let is_due = self.is_due(window, &blocks, level);
        let mut chosen = match self.signal {
            Signal::Logs if is_due => smallest(blocks, bounds),
            Signal::Metrics if is_due => best_run(blocks, self.day, bounds),
            // A window that is over is merged once, when it is quiet.
            Signal::Metrics if level == 1 && !self.is_over(window) => {
                run_of_alike(blocks, self.day, bounds, self.policy.alike_blocks_min)
            }
            Signal::Logs | Signal::Metrics => return None,
        };
        if chosen.len() < 2 {
            return None;
        }
        chosen.sort_by_key(|block| block.order_of_writing());
        let window = if self.are_long { union(&chosen) } else { window };
        Some(DueMerge { inputs: chosen.iter().map(|block| block.id).collect(), window, level })
    }

    fn is_over(&self, window: TimeRange) -> bool {
        self.are_long || self.now_ns >= window.end.saturating_add(self.policy.window_grace.as_nanos() as i64)
    }

    fn is_due(&self, window: TimeRange, blocks: &[&BlockMeta], level: u8) -> bool {
        let Self { policy, now_ns, .. } = self;
        let newest_ms = blocks.iter().map(|block| block.id.timestamp_ms()).max().unwrap_or(0);
        let quiet_ms = (newest_ms as i64).saturating_add(policy.quiet.as_millis() as i64);
        let crowded = (level == 1 || self.are_long) && blocks.len() >= policy.hour_blocks_max;
        crowded || (self.is_over(window) && now_ns / 1_000_000 >= quiet_ms)
    }
}

/// As many of the smallest blocks as the bounds allow.
fn smallest(mut blocks: Vec<&BlockMeta>, bounds: Bounds) -> Vec<&BlockMeta> {
    blocks.sort_by_key(|block| (block.raw_bytes, block.id));
    let mut chosen: Vec<&BlockMeta> = Vec::new();
    let mut total = 0u64;
    for block in blocks {
        // The smallest block may always be rewritten; the blocks that join it must be worth it.
        let is_worth_it = chosen.is_empty() || pays(total, block, bounds.level);
        let fits = total.saturating_add(block.raw_bytes) <= bounds.raw_bytes_max;
        if chosen.len() >= bounds.inputs_max || !fits || !is_worth_it {
            break;
        }
        total += block.raw_bytes;
        chosen.push(block);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use sandur_base::Id;
    use sandur_model::HOUR_NS;

    use super::*;
    use crate::fixtures::block_meta;

    const MB: u64 = 1 << 20;

    fn block(n: u128, window: (i64, i64), level: u8, raw_mb: u64) -> Arc<BlockMeta> {
        Arc::new(BlockMeta {
            level,
            raw_bytes: raw_mb * MB,
            ..block_meta(Signal::Logs, Id::from_parts(1_000, n), (window.0, window.1 - 1))
        })
    }

    fn next_merge(
        policy: &CompactionPolicy,
        signal: Signal,
        now_ns: i64,
        blocks: &[Arc<BlockMeta>],
    ) -> Option<DueMerge> {
        due_merges(policy, signal, now_ns, blocks, &Exclusions::default()).next()
    }

    fn next_of(policy: &CompactionPolicy, now_ns: i64, blocks: &[Arc<BlockMeta>]) -> Option<DueMerge> {
        next_merge(policy, Signal::Logs, now_ns, blocks)
    }

    fn ids(merge: &DueMerge) -> Vec<u128> {
        merge.inputs.iter().map(|id| id.0 & 0xFFFF).collect()
    }

    const NOON: (i64, i64) = (12 * HOUR_NS, 13 * HOUR_NS);

    #[test]
    fn a_small_day_block_joins_what_came_after_it() {
        let policy = CompactionPolicy::default();
        let day = (0, 24 * HOUR_NS);
        let blocks = [block(0, day, 2, 1), block(1, NOON, 0, 10), block(2, NOON, 1, 20)];
        let merge = next_of(&policy, 48 * HOUR_NS, &blocks).expect("the day is over");
        assert_eq!((ids(&merge), merge.level), (vec![0, 2, 1], 2));
    }

    #[test]
    fn an_hour_is_merged_when_it_is_over_or_crowded() {
        let policy = CompactionPolicy { hour_blocks_max: 4, ..Default::default() };
        let few: Vec<_> = (0..3).map(|n| block(n, NOON, 0, 10)).collect();
        assert_eq!(next_of(&policy, NOON.1, &few), None, "within the grace period");
        let merge = next_of(&policy, NOON.1 + HOUR_NS, &few).expect("the hour is over");
        assert_eq!((ids(&merge), merge.level), (vec![0, 1, 2], 1));
        let many: Vec<_> = (0..4).map(|n| block(n, NOON, 0, 10)).collect();
        assert!(next_of(&policy, NOON.0, &many).is_some(), "crowded");
        assert_eq!(next_of(&policy, NOON.1 + HOUR_NS, &few[..1]), None, "one block is merged");
    }

    #[test]
    fn similar_blocks_of_samples_are_merged_before_their_time_is_over() {
        let policy = CompactionPolicy::default();
        let slot = (12 * HOUR_NS, 14 * HOUR_NS);
        let blocks: Vec<_> = (0..4).map(|n| block(n, slot, 0, 10)).collect();
        let next = |blocks: &[_], now| next_merge(&policy, Signal::Metrics, now, blocks);
        assert_eq!(next(&blocks[..3], slot.1), None);
        let merge = next(&blocks, slot.1).expect("they have similar sizes");
        assert_eq!((ids(&merge), merge.level), (vec![0, 1, 2, 3], 1));
        let large = [block(9, slot, 1, 60), blocks[0].clone(), blocks[1].clone(), blocks[2].clone()];
        assert_eq!(next(&large, slot.1), None, "the large one would be rewritten for half of it");
        assert_eq!(next_of(&policy, slot.1, &blocks), None, "lines wait");
        // Blocks of a time that is over wait until it is quiet.
        let young: Vec<_> = (0..4)
            .map(|n| {
                let id = Id::from_parts((slot.1 / 1_000_000) as u64 + 3_599_000, n);
                Arc::new(BlockMeta { id, ..(*block(n, slot, 0, 10)).clone() })
            })
            .collect();
        assert_eq!(next(&young, slot.1 + HOUR_NS), None);
        assert!(next(&young, slot.1 + 2 * HOUR_NS).is_some());
    }

    #[test]
    fn a_day_is_merged_when_it_is_over() {
        let policy = CompactionPolicy::default();
        let hour = |h: i64| (h * HOUR_NS, (h + 1) * HOUR_NS);
        let blocks: Vec<_> = (0..5).map(|h| block(h as u128, hour(h), 1, 100)).collect();
        assert_eq!(next_of(&policy, DAY_NS, &blocks), None);
        let merge = next_of(&policy, DAY_NS + HOUR_NS, &blocks).expect("the day is over");
        assert_eq!((merge.window, merge.level, merge.inputs.len()), (TimeRange::new(0, DAY_NS), 2, 5));
    }

    #[test]
    fn merges_that_are_due_share_no_block() {
        let policy = CompactionPolicy { hour_blocks_max: 4, ..Default::default() };
        let hour = |h: i64| (h * HOUR_NS, (h + 1) * HOUR_NS);
        // A day that is over and has an hour that would be merged alone, and two crowded hours of today.
        let of_hour = |h: i64, first: u128| (0..4).map(move |n| block(first + n, hour(h), 0, 10));
        let blocks: Vec<_> = of_hour(3, 0)
            .chain([block(9, hour(5), 1, 10)])
            .chain(of_hour(50, 10))
            .chain(of_hour(51, 20))
            .collect();
        let due: Vec<_> =
            due_merges(&policy, Signal::Logs, 52 * HOUR_NS, &blocks, &Exclusions::default()).collect();
        let starts: Vec<_> = due.iter().map(|merge| (merge.window.start / HOUR_NS, merge.level)).collect();
        assert_eq!(starts, [(0, 2), (50, 1), (51, 1)]);
        assert_eq!(due.iter().map(|merge| merge.inputs.len()).sum::<usize>(), blocks.len());
    }

    #[test]
    fn a_day_is_settled_when_it_is_over_and_quiet() {
        let policy = CompactionPolicy::default();
        let day = TimeRange::new(0, DAY_NS);
        let one = [block(0, NOON, 0, 1)];
        let settled = |now, blocks: &[_]| is_settled(&policy, now, day, blocks);
        assert!(!settled(DAY_NS, &one) && settled(DAY_NS + HOUR_NS, &one));
        let late = Id::from_parts(((DAY_NS + HOUR_NS) / 1_000_000) as u64, 1);
        let two = [one[0].clone(), Arc::new(BlockMeta { id: late, ..(*one[0]).clone() })];
        assert!(!settled(DAY_NS + HOUR_NS, &two) && settled(DAY_NS + 2 * HOUR_NS, &two));
    }

    #[test]
    fn the_slots_of_a_large_day_stay_apart() {
        let policy = CompactionPolicy { block_raw_bytes_max: 1_000 * MB, ..Default::default() };
        let slot = |n: i64| (2 * n * HOUR_NS, 2 * (n + 1) * HOUR_NS);
        let rests = |raw_mb| -> Vec<_> { (0..10).map(|n| block(n, slot(n as i64), 1, raw_mb)).collect() };
        let next = |blocks: &[_]| next_merge(&policy, Signal::Metrics, 3 * DAY_NS, blocks);
        assert_eq!(next(&rests(100)).map(|merge| merge.inputs.len()), Some(10));
        let full = block(20, slot(11), 1, 15_001);
        let mut large = rests(100);
        large.push(Arc::clone(&full));
        assert_eq!(next(&large), None);
        // Blocks of the complete day are merged as before, and so are those of one slot.
        let days = [block(30, (0, DAY_NS), 0, 10), block(31, (0, DAY_NS), 0, 10)];
        let merge = next(&[&large[..], &days].concat()).expect("two of the day");
        assert_eq!((ids(&merge), merge.window), (vec![30, 31], TimeRange::new(0, DAY_NS)));
        let merge = next(&[&large[..], &[block(32, slot(9), 0, 90)]].concat()).expect("two of a slot");
        assert_eq!((ids(&merge), merge.level), (vec![9, 32], 1));
        large.push(block(40, slot(11), 1, 100));
        assert_eq!(next_of(&policy, 3 * DAY_NS, &large).map(|merge| merge.level), Some(2), "lines");
    }

    #[test]
    fn sizes_are_bounded_and_large_blocks_are_not_rewritten_for_small_ones() {
        let policy = CompactionPolicy { block_raw_bytes_max: 1_000 * MB, ..Default::default() };
        let day = (0, DAY_NS);
        let crumb = [block(0, NOON, 1, 1), block(1, day, 2, 900)];
        assert_eq!(next_of(&policy, 3 * DAY_NS, &crumb), None);
        let large: Vec<_> = (0..4).map(|n| block(n, NOON, 0, 400)).collect();
        let merge = next_of(&policy, 3 * DAY_NS, &large).expect("two of them fit");
        assert_eq!(merge.inputs.len(), 2);
        let full = [block(0, NOON, 0, 1_000), block(1, NOON, 0, 1_200)];
        assert_eq!(next_of(&policy, 3 * DAY_NS, &full), None);
    }
}
