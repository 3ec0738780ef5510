//! Long blocks: blocks of several days, which flushes make of rows that are spread over a long time
//! ([`windows`](crate::windows)).
//!
//! Days are grouped into cells of 1, 8, 64, 512 ... days, each cell within one of the next size. A long
//! block belongs to the smallest cell that contains its rows. Long blocks of one cell are merged with
//! each other. A large one, or one that blocks other work, is cut at the borders of the next smaller
//! cells. Its parts belong to smaller cells, and finally to days, whose blocks are merged as usual. So a
//! byte is rewritten once for each size of cells, in whatever order the days of a backfill arrive.
//!
//! A long block blocks retention when a part of it is past a period. It blocks merges of a day when the
//! day's blocks could be merged without it ([`merge_runs`](super::merge_runs)), and merges of its cell when
//! it cannot be merged with the others. Long blocks that block rollups are found in
//! [`rollups`](crate::upkeep::rollups).
//!
//! **Invariants.** The choice is a pure function of blocks, periods and the clock. The parts of a block
//! are always shorter than the block.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandur_format::catalog_entry::BlockMeta;
use sandur_model::{DAY_NS, TimeRange};

use crate::policy::compaction::CompactionPolicy;
use crate::policy::retention::Expiry;
use crate::upkeep::compaction::exclusions::Exclusions;
use crate::windows::{days_of, is_long};

/// How many cells of one size make a cell of the next size.
const CELLS: i64 = 8;
/// Added to the number of a day, so that none is negative: a power of [`CELLS`] that exceeds the number
/// of days before 1970 that timestamps can have.
const DAYS_BEFORE_1970: i64 = CELLS.pow(6);
/// A block is cut when this fraction of its length (an eighth) is past a period of retention.
const EXPIRED_PART: i64 = 8;

/// A cell of days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    /// Its length in days.
    days: i64,
    /// Its number among the cells of this length.
    number: i64,
}

/// The smallest cell that contains the rows of a block.
pub(crate) fn cell_of(block: &BlockMeta) -> Cell {
    let (first, end) = days(block);
    let mut days = 1i64;
    while first.div_euclid(days) != (end - 1).div_euclid(days) {
        days *= CELLS;
    }
    Cell { days, number: first.div_euclid(days) }
}

/// The windows of the parts into which a long block is cut, by time.
pub(crate) fn parts_of(block: &BlockMeta) -> Vec<TimeRange> {
    let ((first, end), cell) = (days(block), cell_of(block));
    let within = (cell.days / CELLS).max(1);
    let window = |number: i64| {
        let ns = |day: i64| (day - DAYS_BEFORE_1970).saturating_mul(DAY_NS);
        TimeRange::new(ns((number * within).max(first)), ns(((number + 1) * within).min(end)))
    };
    (first.div_euclid(within)..=(end - 1).div_euclid(within)).map(window).collect()
}

/// The numbers of the first day of a block's rows, and of the day after the last one.
fn days(block: &BlockMeta) -> (i64, i64) {
    // A block with only exemplars or metadata has no times of rows.
    let TimeRange { start, end } =
        if block.rows > 0 { days_of(block.min_ts, block.max_ts) } else { block.window };
    let number = |instant: i64| instant.div_euclid(DAY_NS) + DAYS_BEFORE_1970;
    (number(start), number(end.saturating_add(DAY_NS - 1)).max(number(start) + 1))
}

/// Long blocks by their cells, without the large and the excluded ones.
pub(crate) fn by_cells<'a>(
    policy: &CompactionPolicy,
    long: &[&'a BlockMeta],
    excluded: &Exclusions,
) -> BTreeMap<Cell, Vec<&'a BlockMeta>> {
    let mut cells: BTreeMap<Cell, Vec<&BlockMeta>> = BTreeMap::new();
    for block in long {
        if block.raw_bytes < policy.long_raw_bytes_max && !excluded.blocks.contains(&block.id) {
            cells.entry(cell_of(block)).or_default().push(block);
        }
    }
    cells
}

/// The window of the merge of these blocks.
pub(crate) fn union(blocks: &[&BlockMeta]) -> TimeRange {
    let start = blocks.iter().map(|block| block.window.start).min().unwrap_or(0);
    let end = blocks.iter().map(|block| block.window.end).max().unwrap_or(start);
    TimeRange::new(start, end)
}

/// The long blocks of a dataset that are due to be cut, without the excluded ones. Call it after the due
/// merges.
pub(crate) fn due_cuts<'a>(
    (policy, now_ns): (&CompactionPolicy, i64),
    expiry: Option<&Expiry>,
    blocks: &'a [Arc<BlockMeta>],
    excluded: &Exclusions,
) -> impl Iterator<Item = &'a Arc<BlockMeta>> {
    let (long, of_days): (Vec<_>, Vec<_>) = blocks.iter().partition(|block| is_long(block.window));
    let is_left = |block: &&Arc<BlockMeta>| !excluded.blocks.contains(&block.id);
    let long: Vec<&Arc<BlockMeta>> = long.into_iter().filter(is_left).collect();
    let over_ns = now_ns.saturating_sub(policy.window_grace.as_nanos() as i64);
    let metas: Vec<&BlockMeta> = long.iter().map(|block| &***block).collect();
    let crowded = by_cells(policy, &metas, excluded).into_values();
    let crowded = crowded.filter(|blocks| blocks.len() >= policy.hour_blocks_max);
    // Most runs end at the block that was written first.
    let oldest = crowded.filter_map(|blocks| blocks.into_iter().min_by_key(|block| block.order_of_writing()));
    let in_the_way: Vec<_> = oldest.map(|block| block.id).collect();
    let is_due = move |block: &&Arc<BlockMeta>| {
        let is_large = block.raw_bytes >= policy.long_raw_bytes_max;
        let is_past = expiry.is_some_and(|expiry| is_partly_past(expiry, block));
        is_large || is_past || in_the_way.contains(&block.id) || parts_a_day(block, &of_days, over_ns)
    };
    long.into_iter().filter(is_due)
}

/// Whether a block is between blocks of a day in the order of writing, so that these cannot be merged
/// although the day is over.
fn parts_a_day(block: &BlockMeta, of_days: &[&Arc<BlockMeta>], over_ns: i64) -> bool {
    let times = TimeRange::inclusive(block.min_ts, block.max_ts);
    let mut sides: BTreeMap<i64, [bool; 2]> = BTreeMap::new();
    let near = of_days.iter().filter(|one| times.touches(one.min_ts, one.max_ts));
    // Blocks of logs have no places: they are merged in any order.
    for one in near.filter(|one| one.place > 0 && one.max_ts < over_ns) {
        let day = one.window.start.div_euclid(DAY_NS);
        let is_later = one.order_of_writing() > block.order_of_writing();
        let sides = sides.entry(day).or_default();
        sides[usize::from(is_later)] = true;
        if *sides == [true, true] && (day + 1).saturating_mul(DAY_NS) <= over_ns {
            return true;
        }
    }
    false
}

/// Whether at least a day of a block, and at least an eighth of its length, is past a period of retention.
fn is_partly_past(expiry: &Expiry, block: &BlockMeta) -> bool {
    let length = block.max_ts.saturating_sub(block.min_ts);
    let part_ns = (length / EXPIRED_PART).max(DAY_NS);
    expiry.ends_between(block.min_ts.saturating_add(part_ns), block.max_ts)
}

#[cfg(test)]
mod tests {
    use sandur_base::Id;
    use sandur_model::Signal;

    use super::*;
    use crate::fixtures::block_meta;
    use crate::policy::retention::Retention;

    fn block(n: u128, days: (i64, i64), raw_bytes: u64) -> Arc<BlockMeta> {
        let times = (days.0 * DAY_NS + 1, days.1 * DAY_NS - 1);
        let window = days_of(times.0, times.1);
        Arc::new(BlockMeta { raw_bytes, rows: 9, window, ..block_meta(Signal::Logs, Id(n), times) })
    }

    fn parts(days: (i64, i64)) -> Vec<(i64, i64)> {
        let parts = parts_of(&block(1, days, 1));
        parts.iter().map(|part| (part.start / DAY_NS, part.end / DAY_NS)).collect()
    }

    #[test]
    fn blocks_are_cut_at_the_borders_of_the_next_smaller_cells() {
        let days = |days| cell_of(&block(1, days, 1)).days;
        assert_eq!([days((3, 4)), days((3, 5)), days((7, 9)), days((60, 70))], [1, 8, 64, 512]);
        assert_eq!([days((-1, 1)), days((-106_751, 106_751))], [CELLS.pow(7); 2]);
        assert_eq!(cell_of(&block(1, (3, 5), 1)), cell_of(&block(2, (0, 8), 1)));
        assert_eq!(parts((3, 6)), [(3, 4), (4, 5), (5, 6)]);
        assert_eq!(parts((7, 9)), [(7, 8), (8, 9)]);
        assert_eq!(parts((5, 60)).len(), 8);
        assert_eq!(parts((3, 4)), [(3, 4)]);
        assert_eq!(parts((-3, 4)), [(-3, 0), (0, 4)]);
    }

    #[test]
    fn large_crowding_and_partly_expired_blocks_are_cut() {
        let policy = CompactionPolicy { hour_blocks_max: 3, ..CompactionPolicy::default() };
        let blocks = [
            block(1, (0, 3), policy.long_raw_bytes_max),
            block(2, (0, 40), 1),
            block(3, (64, 128), 1),
            block(4, (80, 128), 1),
            block(5, (96, 120), 1),
            block(6, (5, 6), policy.long_raw_bytes_max),
        ];
        let due = |expiry: Option<Expiry>, left: &Exclusions| -> Vec<u128> {
            due_cuts((&policy, 128 * DAY_NS), expiry.as_ref(), &blocks, left)
                .map(|block| block.id.0)
                .collect()
        };
        let kept = |days| Some(Expiry::new(Retention::uniform(days * DAY_NS), 128 * DAY_NS));
        assert_eq!(due(None, &Exclusions::default()), [1, 3]);
        assert_eq!(
            due(kept(125), &Exclusions::default()),
            [1, 3],
            "less than an eighth of the second one is past"
        );
        assert_eq!(due(kept(122), &Exclusions::default()), [1, 2, 3]);
        assert_eq!(due(kept(30), &Exclusions::default()), [1, 3, 4], "the others are completely past it");
        let mut left = Exclusions::default();
        left.blocks.extend([Id(1), Id(3)]);
        assert_eq!(due(None, &left), [], "two blocks of the cell are not excluded");
    }

    #[test]
    fn a_long_block_between_blocks_of_a_day_is_cut_once_the_day_is_over() {
        let of = |n: u128, days, place| {
            let block = BlockMeta { place, ..(*block(n, days, 1)).clone() };
            Arc::new(block)
        };
        let policy = CompactionPolicy::default();
        let due = |days: [(i64, i64); 2], places: [u64; 2], now| {
            let blocks = [of(1, days[0], places[0]), of(2, (3, 9), 5), of(3, days[1], places[1])];
            let left = Exclusions::default();
            due_cuts((&policy, now * DAY_NS), None, &blocks, &left).count()
        };
        assert_eq!(due([(4, 5), (4, 5)], [3, 7], 10), 1);
        assert_eq!(due([(4, 5), (4, 5)], [3, 7], 5), 0, "the day is not over");
        assert_eq!(due([(4, 5), (6, 7)], [3, 7], 10), 0, "two days");
        assert_eq!(due([(4, 5), (4, 5)], [3, 4], 10), 0, "both are older");
    }
}
