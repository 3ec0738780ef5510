//! Chooses the blocks of samples to merge: a run of them in the order of writing.
//!
//! **Invariant.** If two blocks have a sample of the same series and instant, the block that is later in
//! the order of writing has the sample that was written later. The result of a merge takes the place of
//! its last input. Therefore a run must not leave out a block that is between its inputs and shares
//! instants with an earlier input: that input's samples would move after those of the block.

use sandur_format::catalog_entry::BlockMeta;

/// The bounds of a merge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The most blocks.
    pub(crate) inputs_max: usize,
    /// The most raw bytes of all blocks together.
    pub(crate) raw_bytes_max: u64,
    /// Level of the result.
    pub(crate) level: u8,
}

/// A large block is rewritten to include small ones only if these together have at least this fraction
/// of its bytes (a tenth). So each byte is rewritten a bounded number of times.
const REWRITE_FRACTION: u64 = 10;

/// Whether rewriting a block is worth it to merge it with `others` bytes of other blocks.
pub(crate) fn pays(others: u64, block: &BlockMeta, level: u8) -> bool {
    block.level < level || others.saturating_mul(REWRITE_FRACTION) >= block.raw_bytes
}

/// The longest mergeable run of blocks in the order of writing, of equally long ones the smallest; empty
/// when no merge is worth it. `all` are the blocks that may share instants with them, including `blocks`.
pub(crate) fn best_run<'a>(
    blocks: Vec<&'a BlockMeta>,
    all: &[&'a BlockMeta],
    bounds: Bounds,
) -> Vec<&'a BlockMeta> {
    longest_run(blocks, all, bounds, |run, _| is_worth_it(run, bounds.level))
}

/// The longest mergeable run of at least `least` blocks whose result is at least twice as large as each
/// of them. So no byte is rewritten more often than sizes double.
pub(crate) fn run_of_alike<'a>(
    blocks: Vec<&'a BlockMeta>,
    all: &[&'a BlockMeta],
    bounds: Bounds,
    least: usize,
) -> Vec<&'a BlockMeta> {
    longest_run(blocks, all, bounds, |run, total| {
        let largest = run.iter().map(|block| block.raw_bytes).max().unwrap_or(0);
        run.len() >= least && largest.saturating_mul(2) <= total
    })
}

fn longest_run<'a>(
    mut blocks: Vec<&'a BlockMeta>,
    all: &[&'a BlockMeta],
    bounds: Bounds,
    is_wanted: impl Fn(&[&BlockMeta], u64) -> bool,
) -> Vec<&'a BlockMeta> {
    blocks.sort_by_key(|block| block.order_of_writing());
    let is_one = |block: &BlockMeta| {
        let place = blocks.binary_search_by_key(&block.order_of_writing(), |one| one.order_of_writing());
        place.is_ok()
    };
    let others: Vec<&BlockMeta> = all.iter().copied().filter(|block| !is_one(block)).collect();
    let mut best: Option<(usize, u64, &[&BlockMeta])> = None;
    for start in 0..blocks.len() {
        let mut total = 0u64;
        for end in start..blocks.len() {
            let run = &blocks[start..=end];
            total = total.saturating_add(blocks[end].raw_bytes);
            if run.len() > bounds.inputs_max || total > bounds.raw_bytes_max || is_cut(run, &others) {
                break;
            }
            let is_better = best.is_none_or(|(length, bytes, _)| {
                run.len() > length || (run.len() == length && total < bytes)
            });
            if run.len() > 1 && is_better && is_wanted(run, total) {
                best = Some((run.len(), total, run));
            }
        }
    }
    best.map_or_else(Vec::new, |(.., run)| run.to_vec())
}

/// Whether another block is before the last of a run, and after one that it shares instants with.
fn is_cut(run: &[&BlockMeta], others: &[&BlockMeta]) -> bool {
    let Some((last, before)) = run.split_last() else { return false };
    let cuts = |other: &&BlockMeta| {
        let touches = |block: &&BlockMeta| {
            block.order_of_writing() < other.order_of_writing()
                && block.min_ts <= other.max_ts
                && other.min_ts <= block.max_ts
        };
        other.order_of_writing() < last.order_of_writing() && before.iter().any(touches)
    };
    others.iter().any(cuts)
}

/// Whether rewriting each block of a run is worth it to merge it with the smaller ones.
fn is_worth_it(run: &[&BlockMeta], level: u8) -> bool {
    let mut by_size = run.to_vec();
    by_size.sort_by_key(|block| block.raw_bytes);
    let mut total = by_size.first().map_or(0, |smallest| smallest.raw_bytes);
    by_size.iter().skip(1).all(|block| {
        let pays = pays(total, block, level);
        total = total.saturating_add(block.raw_bytes);
        pays
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sandur_base::Id;
    use sandur_model::{Signal, TimeRange};

    use super::*;
    use crate::fixtures::block_meta;

    const BOUNDS: Bounds = Bounds { inputs_max: 4, raw_bytes_max: 1_000, level: 1 };

    fn block(place: u64, times: (i64, i64), raw_bytes: u64) -> BlockMeta {
        BlockMeta {
            window: TimeRange::new(0, 100),
            raw_bytes,
            place,
            ..block_meta(Signal::Metrics, Id(u128::from(place)), times)
        }
    }

    /// Chooses a run of these blocks (place, times, raw bytes), without those at the places `left_out`.
    fn run(blocks: &[BlockMeta], left_out: &[u64], bounds: Bounds) -> Vec<u64> {
        let all: Vec<&BlockMeta> = blocks.iter().collect();
        let candidates = all.iter().copied().filter(|block| !left_out.contains(&block.place)).collect();
        best_run(candidates, &all, bounds).iter().map(|block| block.place).collect()
    }

    #[test]
    fn adjacent_blocks_are_merged() {
        let sizes = [(1, 500), (2, 10), (3, 400), (4, 10), (5, 10), (6, 10), (7, 10)];
        let blocks: Vec<BlockMeta> = sizes.iter().map(|(place, raw)| block(*place, (0, 9), *raw)).collect();
        assert_eq!(run(&blocks, &[], BOUNDS), [4, 5, 6, 7], "the smallest of runs with equal length");
        assert_eq!(run(&blocks[..4], &[], BOUNDS), [1, 2, 3, 4]);
        assert_eq!(run(&blocks[..3], &[], Bounds { raw_bytes_max: 420, ..BOUNDS }), [2, 3]);
        // A block that has the level already is not rewritten to include small ones.
        let large = |block: &BlockMeta| BlockMeta { level: 1, ..block.clone() };
        let with_large = [large(&blocks[0]), blocks[1].clone(), large(&blocks[2]), blocks[3].clone()];
        assert_eq!(run(&with_large, &[], BOUNDS), [0u64; 0]);
    }

    #[test]
    fn similar_blocks_make_one_that_is_twice_as_large_as_each() {
        let chosen = |sizes: &[u64]| -> Vec<u64> {
            let blocks: Vec<BlockMeta> =
                (1..).zip(sizes).map(|(place, raw)| block(place, (0, 9), *raw)).collect();
            let all: Vec<&BlockMeta> = blocks.iter().collect();
            let bounds = Bounds { inputs_max: 32, ..BOUNDS };
            run_of_alike(all.clone(), &all, bounds, 4).iter().map(|block| block.place).collect()
        };
        assert_eq!(chosen(&[10, 10, 10]), [0u64; 0], "too few");
        assert_eq!(chosen(&[10, 10, 10, 10]), [1, 2, 3, 4]);
        assert_eq!(chosen(&[40, 10, 10, 10]), [0u64; 0], "40 would be rewritten for 30");
        assert_eq!(chosen(&[40, 10, 10, 10, 10]), [1, 2, 3, 4, 5]);
        assert_eq!(chosen(&[300, 10, 10, 10, 10]), [2, 3, 4, 5]);
    }

    #[test]
    fn a_slot_of_equal_blocks_stays_few_and_is_seldom_rewritten() {
        let (mut held, mut written, mut seen) = (Vec::<BlockMeta>::new(), 0, 0);
        for place in 1..=24 {
            held.push(block(place, (0, 9), 10));
            loop {
                let all: Vec<&BlockMeta> = held.iter().collect();
                let bounds = Bounds { inputs_max: 32, ..BOUNDS };
                let chosen = run_of_alike(all.clone(), &all, bounds, 4);
                let Some(last) = chosen.last().map(|block| block.place) else { break };
                let raw = chosen.iter().map(|block| block.raw_bytes).sum::<u64>();
                let taken: Vec<u64> = chosen.iter().map(|block| block.place).collect();
                held.retain(|block| !taken.contains(&block.place));
                held.push(BlockMeta { level: 1, ..block(last, (0, 9), raw) });
                written += raw;
            }
            assert!(held.len() <= 6, "{} blocks", held.len());
            seen += held.len();
        }
        assert!(seen < 24 * 4, "{seen} blocks in 24 looks");
        assert!(written < 240 * 5 / 2, "{written} bytes for 240");
    }

    #[test]
    fn a_run_leaves_out_no_block_between_that_shares_instants() {
        let blocks = [block(1, (0, 9), 10), block(2, (5, 20), 10), block(3, (30, 40), 10)];
        assert_eq!(run(&blocks, &[2], BOUNDS), [0u64; 0], "2 would come before 1");
        assert_eq!(run(&blocks, &[1], BOUNDS), [2, 3], "1 is before both");
        assert_eq!(run(&blocks, &[3], BOUNDS), [1, 2], "3 is after both");
        let apart = [block(1, (0, 9), 10), block(2, (10, 20), 10), block(3, (15, 40), 10)];
        assert_eq!(run(&apart, &[2], BOUNDS), [1, 3], "2 has no instant of 1");
    }

    proptest! {
        /// Merges until none is due. At every instant the block that was written last stays the last.
        #[test]
        fn merges_keep_the_last_written_block_of_each_instant_last(
            blocks in prop::collection::vec(((0i64..20, 0i64..8), 1u64..300, any::<bool>()), 2..12),
            left_out in 0u64..14,
        ) {
            // Each block has a map from instants to the place that wrote the instant last.
            let mut held: Vec<(BlockMeta, Vec<Option<u64>>)> = Vec::new();
            for (place, ((first, length), raw, is_merged)) in (1..).zip(blocks) {
                let last = (first + length).min(24);
                let instants = (0..25).map(|at| (first <= at && at <= last).then_some(place)).collect();
                let block = BlockMeta { level: u8::from(is_merged), ..block(place, (first, last), raw) };
                held.push((block, instants));
            }
            let shown = |held: &[(BlockMeta, Vec<Option<u64>>)]| -> Vec<Option<u64>> {
                let mut held: Vec<_> = held.iter().collect();
                held.sort_by_key(|(block, _)| block.order_of_writing());
                (0..25).map(|at| held.iter().rev().find_map(|(_, instants)| instants[at])).collect()
            };
            let before = shown(&held);
            let latest = |at: usize| held.iter().filter_map(|(_, own)| own[at]).max();
            prop_assert_eq!(&before, &(0..25).map(latest).collect::<Vec<_>>());
            for merges in 1.. {
                let all: Vec<&BlockMeta> = held.iter().map(|(block, _)| block).collect();
                let candidates = all.iter().copied().filter(|block| block.place != left_out).collect();
                let chosen: Vec<u64> = best_run(candidates, &all, BOUNDS).iter().map(|b| b.place).collect();
                if chosen.is_empty() {
                    break;
                }
                let (inputs, mut rest): (Vec<_>, Vec<_>) =
                    held.into_iter().partition(|(block, _)| chosen.contains(&block.place));
                let first = inputs.iter().map(|(block, _)| block.min_ts).min().unwrap();
                let last = inputs.iter().map(|(block, _)| block.max_ts).max().unwrap();
                let raw = inputs.iter().map(|(block, _)| block.raw_bytes).sum();
                let place = *chosen.last().unwrap();
                let merged = BlockMeta { level: 1, ..block(place, (first, last), raw) };
                rest.push((merged, shown(&inputs)));
                held = rest;
                prop_assert_eq!(&before, &shown(&held));
                prop_assert!(merges < 100, "merges without end");
            }
        }
    }
}
