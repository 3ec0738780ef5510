//! Segments that are freed before room runs short, and the pool of protected records.

use std::time::Duration;

use super::world::{World, name_of, small_options};
use crate::flash::{Class, Compaction, Dropped, FlashOptions, Pool, SegmentState};

const SECOND: Duration = Duration::from_secs(1);
const SEGMENT: u64 = 128 << 10;

fn free(world: &World) -> u64 {
    let segments = world.flash.stats().segments;
    segments.iter().filter(|segment| segment.state == SegmentState::Free).count() as u64
}

#[test]
fn expired_segments_are_freed_and_touched_records_stay() {
    let mut world = World::new(21, 8 << 20, small_options());
    let now = world.now();
    for key in 0..60 {
        world.put_as(key, 8000, Class::Brief, now + 10).unwrap();
    }
    world.step(SECOND);
    let before = free(&world);
    assert!(world.flash.touch(world.flash.hash(&name_of(3)), now + 100));
    world.step(SECOND * 12);
    assert!(free(&world) > before, "a segment without a live record is free");
    assert!(world.get(3).is_some() && world.get(4).is_none());
    let reclaimed = || world.flash.stats().counts.segments_reclaimed;
    let before = reclaimed();
    world.step(SECOND * 100);
    assert!(before > 0 && reclaimed() == before + 1, "its segment is freed when it has expired too");
    assert_eq!(world.tally.of(Dropped::Evicted), 0);
}

#[test]
fn compaction_frees_segments_and_loses_nothing() {
    let mut world = World::new(22, 8 << 20, small_options());
    for key in 0..400 {
        world.put(key, 8000).unwrap();
    }
    for key in (0..400).filter(|key| key % 3 > 0) {
        world.forget(key);
    }
    world.step(SECOND);
    let before = free(&world);
    world.step(SECOND);
    assert_eq!(free(&world), before, "compaction is not enabled");
    world.flash.set_compaction(Compaction {
        below_free_bytes: before * SEGMENT,
        live_share_below: 0.8,
        drop_unread_below_free_bytes: 0,
        is_forbidden: false,
    });
    for _ in 0..100 {
        world.step(SECOND);
    }
    let counts = world.flash.stats().counts;
    assert!(free(&world) > before && counts.segments_compacted > 5, "{counts:?}");
    assert_eq!(world.check_all(), 134);
    assert_eq!(world.tally.of(Dropped::Evicted), 0);
}

#[test]
fn compaction_drops_unread_records_if_enabled() {
    let mut world = World::new(23, 8 << 20, small_options());
    for key in 0..400 {
        world.put(key, 8000).unwrap();
    }
    world.step(SECOND);
    for key in 0..5 {
        assert!(world.check(key));
    }
    let below = free(&world) * SEGMENT;
    world.flash.set_compaction(Compaction {
        below_free_bytes: below,
        live_share_below: 0.8,
        drop_unread_below_free_bytes: below,
        is_forbidden: false,
    });
    for _ in 0..100 {
        world.step(SECOND);
    }
    assert!(world.tally.of(Dropped::Evicted) > 0);
    for key in 0..5 {
        assert!(world.check(key), "{key} was read");
    }
}

#[test]
fn records_of_the_general_pool_move_to_the_protected_pool_while_it_has_room() {
    let options = FlashOptions { kept_bytes: 4 << 20, ..small_options() };
    let mut world = World::new(24, 8 << 20, options);
    let stats = world.flash.stats();
    let general = u64::from(stats.kept_from);
    assert!(general >= 12 && general < stats.segments.len() as u64, "{general}");
    // More than the general pool holds, less than both pools do.
    let keys = (general * 16 * 3 / 2) as u32;
    for key in 0..keys {
        world.put(key, 8000).unwrap();
        if key % 10 == 0 {
            world.step(SECOND);
        }
    }
    assert_eq!(world.check_all() as u32, keys, "unread records are all there");
    let stats = world.flash.stats();
    assert!(stats.counts.records_reinserted > 0 && world.tally.all() == 0);
    let is_apart = |slot: u32, class: Class| (slot >= stats.kept_from) == (class == Class::Protected);
    let used = stats.segments.iter().filter(|segment| segment.state == SegmentState::Sealed);
    assert!(
        used.clone().all(|segment| is_apart(segment.slot, segment.class)),
        "{:?} holds other records",
        Pool::Protected
    );
    for key in keys..keys * 4 {
        world.put(key, 8000).unwrap();
        if key % 10 == 0 {
            world.step(SECOND);
        }
    }
    assert!(world.check_all() > 0 && world.tally.of(Dropped::Evicted) > 0, "both pools turn over");
}

/// Goal: records find room as long as one pool can make some, even if nothing in the other can be
/// evicted. Method: the protected pool has one segment, which is open. An image is due that is larger
/// than the free segments.
#[test]
fn a_pool_that_cannot_evict_does_not_block_the_other() {
    let options = FlashOptions { kept_bytes: 64 << 10, segment_bytes: Some(64 << 10), ..small_options() };
    let mut world = World::new(25, 8 << 20, options);
    assert_eq!(world.flash.core.space.table.count(Pool::Protected), 1);
    world.put_as(0, 8, Class::Protected, 0).unwrap();
    let mut key = 1;
    let mut fill = |world: &mut World, keys: u32| {
        let mut refused = 0;
        for _ in 0..keys {
            refused += usize::from(world.put(key, 8).is_err());
            key += 1;
            if key.is_multiple_of(100) {
                world.step(SECOND);
            }
        }
        refused
    };
    assert_eq!(fill(&mut world, 80_000), 0);
    world.flash.core.keys.mark_incomplete();
    assert!(!world.flash.core.images.has_room_for_image());
    assert_eq!(fill(&mut world, 20_000), 0);
    assert!(!world.flash.core.journal.has_lost(), "room was made and the image written");
}
