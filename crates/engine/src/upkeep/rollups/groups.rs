//! Groups the blocks of a day that are rolled together.
//!
//! **Invariants.** No block of the day outside of a group has a row within the group's window, so a step
//! within the window includes all of its points. Groups share no block, so each is replaced in its own
//! commit. A day that is not large is one group. Compaction keeps the slots of a large day apart
//! (`merge_policy`). Then a group is a slot, or several slots that share blocks, which are cut
//! ([`super::roll`]). The slots are also kept apart if a block of the day is damaged, which then blocks
//! only its own slots, and if the blocks of the day do not fit into memory.

use std::sync::Arc;

use sandur_format::catalog_entry::BlockMeta;
use sandur_model::{Signal, TimeRange};

use crate::policy::compaction::CompactionPolicy;
use crate::windows::slot_ns;

/// Blocks that are rolled together.
#[derive(Debug)]
pub(crate) struct Group {
    /// The time range of which it has all rows; its blocks have no others.
    pub(crate) window: TimeRange,
    /// In the order of writing.
    pub(crate) blocks: Vec<Arc<BlockMeta>>,
    /// Long blocks with rows in the window. They are cut before the group is rolled.
    pub(crate) long: Vec<Arc<BlockMeta>>,
}

/// Groups the blocks of a day. The blocks come in the order of writing; `long` are the long blocks that
/// may have rows of the day.
pub(crate) fn groups_of(
    policy: &CompactionPolicy,
    (day, are_apart): (TimeRange, bool),
    blocks: Vec<Arc<BlockMeta>>,
    long: &[Arc<BlockMeta>],
) -> Vec<Group> {
    let mut groups = groups_without_long(policy, (day, are_apart), blocks);
    for Group { window, long: within, .. } in &mut groups {
        within.extend(long.iter().filter(|block| window.touches(block.min_ts, block.max_ts)).cloned());
    }
    groups
}

fn groups_without_long(
    policy: &CompactionPolicy,
    (day, are_apart): (TimeRange, bool),
    blocks: Vec<Arc<BlockMeta>>,
) -> Vec<Group> {
    let long = Vec::new();
    if !are_apart && !policy.is_large(blocks.iter().map(|block| &**block)) {
        return Vec::from_iter((!blocks.is_empty()).then_some(Group { window: day, blocks, long }));
    }
    // Blocks without rows have no points and no time bounds.
    let mut with_rows: Vec<Arc<BlockMeta>> = blocks.into_iter().filter(|block| block.rows > 0).collect();
    with_rows.sort_by_key(|block| block.min_ts);
    let mut groups: Vec<Group> = Vec::new();
    for block in with_rows {
        let slots = slots_of(&block);
        match groups.last_mut().filter(|group| slots.start < group.window.end) {
            Some(group) => {
                group.window.end = group.window.end.max(slots.end);
                group.blocks.push(block);
            }
            None => groups.push(Group { window: slots, blocks: vec![block], long: long.clone() }),
        }
    }
    groups.iter_mut().for_each(|group| group.blocks.sort_by_key(|block| block.order_of_writing()));
    groups
}

/// From the begin of the first slot with rows of a block to the end of the last one.
pub(super) fn slots_of(block: &BlockMeta) -> TimeRange {
    let slot_ns = slot_ns(Signal::Metrics);
    let begin = |ts: i64| ts.div_euclid(slot_ns).saturating_mul(slot_ns);
    TimeRange::new(begin(block.min_ts), begin(block.max_ts).saturating_add(slot_ns))
}

#[cfg(test)]
mod tests {
    use sandur_base::Id;
    use sandur_model::{DAY_NS, HOUR_NS};

    use super::*;
    use crate::fixtures::block_meta;

    const DAY: TimeRange = TimeRange { start: 0, end: DAY_NS };

    /// A block with rows of the hours from `hours.0` up to `hours.1`, exclusive.
    fn block(place: u64, hours: (i64, i64), raw_bytes: u64) -> Arc<BlockMeta> {
        Arc::new(BlockMeta {
            level: 1,
            rows: raw_bytes / 16,
            raw_bytes,
            place,
            window: DAY,
            ..block_meta(Signal::Metrics, Id(u128::from(place)), (hours.0 * HOUR_NS, hours.1 * HOUR_NS - 1))
        })
    }

    /// The hours and places of each group.
    fn groups(blocks: Vec<Arc<BlockMeta>>) -> Vec<((i64, i64), Vec<u64>)> {
        groups_with(false, blocks)
    }

    fn groups_with(are_apart: bool, blocks: Vec<Arc<BlockMeta>>) -> Vec<((i64, i64), Vec<u64>)> {
        let policy = CompactionPolicy { block_raw_bytes_max: 1_000, ..CompactionPolicy::default() };
        let shown = |Group { window, blocks, .. }: &Group| {
            let places = blocks.iter().map(|block| block.place).collect();
            ((window.start / HOUR_NS, window.end / HOUR_NS), places)
        };
        groups_of(&policy, (DAY, are_apart), blocks, &[]).iter().map(shown).collect()
    }

    #[test]
    fn a_day_is_one_group_until_it_is_large() {
        let small = vec![block(1, (0, 1), 800), block(2, (12, 13), 800)];
        assert_eq!(groups(small.clone()), [((0, 24), vec![1, 2])]);
        assert_eq!(groups_with(true, small), [((0, 2), vec![1]), ((12, 14), vec![2])]);
        assert_eq!(groups(Vec::new()), []);
        let large = vec![block(1, (12, 13), 16_000), block(2, (0, 1), 800), block(3, (1, 2), 800)];
        assert_eq!(groups(large), [((0, 2), vec![2, 3]), ((12, 14), vec![1])]);
    }

    #[test]
    fn slots_that_share_a_block_are_one_group() {
        let mut blocks: Vec<_> =
            (1..=12).map(|n| block(n, (2 * n as i64 - 2, 2 * n as i64), 4_000)).collect();
        assert_eq!(groups(blocks.clone()).len(), 12);
        blocks.push(block(13, (3, 7), 160));
        let joined = groups(blocks.clone());
        assert_eq!((joined.len(), &joined[1]), (10, &((2, 8), vec![2, 3, 4, 13])));
        blocks.push(block(14, (0, 24), 160));
        assert_eq!(groups(blocks), [((0, 24), (1..=14).collect())]);
        let without_rows = vec![block(1, (0, 24), 0), block(2, (0, 1), 90_000)];
        assert_eq!(groups(without_rows), [((0, 2), vec![2])]);
    }
}
