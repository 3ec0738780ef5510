//! Basic operations: writing, reading, replacing, removing, expiring, reclaiming.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::world::{Known, World, name_of, small_options, value_of};
use crate::device::FilePart;
use crate::flash::{Class, Dropped, Flash, FlashOptions, FlashRead, NewRecord, NoObserver};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn records_are_read_from_buffers_and_then_from_the_device() {
    let mut world = World::new(1, 16 << 20, small_options());
    for key in 0..200 {
        world.put(key, 100 + key as usize * 50).unwrap();
    }
    assert_eq!(world.check_all(), 200);
    assert_eq!(world.flash.stats().counts.reads_unwritten, 200);
    world.step(SECOND);
    assert_eq!(world.check_all(), 200);
    let counts = world.flash.stats().counts;
    assert_eq!((counts.reads_unwritten, counts.reads_hit), (200, 400));
    assert_eq!(counts.dropped.iter().sum::<u64>(), 0);
}

#[test]
fn the_last_value_is_read_and_removed_keys_are_gone() {
    let mut world = World::new(2, 16 << 20, small_options());
    for round in 0..5 {
        for key in 0..50 {
            world.put(key, 500 + round * 333).unwrap();
        }
        if round % 2 == 0 {
            world.step(SECOND);
        }
    }
    assert!(world.forget(7) && !world.forget(7) && !world.forget(1000));
    assert!(world.get(7).is_none());
    assert_eq!(world.check_all(), 49);
    world.put(7, 10).unwrap();
    assert!(world.check(7));
    world.flush_all();
    assert_eq!(world.check_all(), 0);
    assert_eq!(world.tally.of(Dropped::Flushed), 50);
    world.put(7, 10).unwrap();
    assert_eq!(world.check_all(), 1);
}

/// Goal: reads that exceed the buffers wait for each other, and a value larger than all buffers is read too.
#[test]
fn reads_wait_for_buffers() {
    let options = FlashOptions { read_buffer_bytes: 256 << 10, ..small_options() };
    let mut world = World::new(9, 32 << 20, options);
    for key in 0..60 {
        world.put(key, 30_000).unwrap();
    }
    world.put(60, 3_000_000).unwrap();
    world.step(SECOND);
    let names: Vec<Vec<u8>> = (0..60).map(name_of).collect();
    let reads: Vec<FlashRead<'_>> = names
        .iter()
        .map(|name| {
            let hash = world.flash.hash(name);
            FlashRead { key: name, hash, location: world.flash.lookup(hash).unwrap(), range: None }
        })
        .collect();
    let mut reading: Vec<_> = world.flash.read(&reads).into_iter().enumerate().collect();
    for _ in 0..100 {
        reading.retain_mut(|(key, reading)| {
            let polled = world.poll(reading);
            if let Poll::Ready(item) = &polled {
                let item = item.as_ref().expect("every read finds its item");
                assert_eq!(item.value, value_of(*key as u32, 1, 30_000));
            }
            polled.is_pending()
        });
        assert!(world.flash.stats().read_buffer_bytes <= 256 << 10);
        world.step(Duration::from_millis(100));
    }
    assert!(reading.is_empty(), "{} reads are not finished", reading.len());
    assert!(world.check(60));
    assert_eq!(world.flash.stats().counts.reads_overloaded, 0);
}

#[test]
fn values_of_any_size_are_read_completely_and_in_ranges() {
    let mut world = World::new(3, 32 << 20, small_options());
    let sizes = [8, 63, 64, 4000, 4096, 31_000, 32_700, 33_000, 65_536, 500_000, 3_000_000];
    for (key, &size) in (0..).zip(&sizes) {
        world.put(key, size).unwrap();
    }
    for pass in 0..2 {
        for (key, &size) in (0..).zip(&sizes) {
            assert!(world.check(key), "pass {pass}: {size} bytes");
            let size = size as u64;
            let cuts =
                [0..0, 0..1, 0..size, size / 3..size / 2, size - 1..size, 0..size + 9, size + 5..size + 6];
            for range in cuts {
                let item = world.get_range(key, Some(range.clone())).unwrap();
                let clamped = range.start.min(size) as usize..range.end.min(size) as usize;
                let expected = value_of(key, 1, size as usize)[clamped].to_vec();
                assert_eq!(item.value, expected, "pass {pass}: {range:?} of {size}");
                assert_eq!(item.value_bytes, size);
            }
        }
        world.step(SECOND);
    }
}

#[test]
fn records_expire_in_time_and_a_touch_changes_the_expiry() {
    let mut world = World::new(4, 16 << 20, small_options());
    let now = world.now();
    world.put_as(1, 100, Class::Brief, now + 10).unwrap();
    world.put_as(2, 100, Class::Brief, now + 10).unwrap();
    world.put_as(3, 100, Class::Brief, 0).unwrap();
    assert_eq!(world.put_as(4, 100, Class::Brief, now), Err(Dropped::Expired));
    let hash = |key| world.flash.hash(&name_of(key));
    assert!(world.flash.touch(hash(2), now + 100) && world.flash.touch(hash(3), now + 20));
    assert!(!world.flash.touch(hash(99), now + 20));
    for (after, alive) in [(9, [true, true, true]), (10, [false, true, true]), (50, [false, true, false])] {
        world.step(SECOND * (now + after - world.now()));
        assert_eq!([1, 2, 3].map(|key| world.get(key).is_some()), alive, "after {after} s");
    }
    assert_eq!(world.get(2).unwrap().expires_at, now + 100);
}

#[test]
fn the_oldest_records_are_reclaimed_and_used_ones_stay() {
    let mut world = World::new(5, 8 << 20, small_options());
    let favourites = (0..3).map(|number| number * 30);
    for key in 0..3000 {
        world.put(key, 8000).unwrap();
        if key % 10 == 0 {
            world.step(SECOND);
            for favourite in favourites.clone().filter(|&favourite| favourite <= key) {
                assert!(world.check(favourite), "{favourite} was lost at {key}");
            }
        }
    }
    let held = world.check_all();
    let stats = world.flash.stats();
    assert_eq!(held as u64, stats.records);
    assert_eq!(world.tally.of(Dropped::Evicted) + held as u64, 3000);
    assert_eq!(world.tally.all(), world.tally.of(Dropped::Evicted));
    let live: u64 = stats.segments.iter().map(|segment| segment.live_bytes).sum();
    assert!(live > stats.capacity_bytes / 2, "{live} of {} bytes used", stats.capacity_bytes);
    assert!(stats.counts.records_reinserted > 0);
    let amplification = stats.counts.write_amplification();
    assert!(amplification < 1.25, "write amplification {amplification}");
}

/// Writes values of 10,000 bytes while the background work runs; `is_asked_for` says whether each was
/// missed before.
fn write_all(world: &mut World, keys: std::ops::Range<u32>, class: Class, is_asked_for: bool) {
    for key in keys {
        if is_asked_for {
            world.flash.note_miss();
        }
        world.put_as(key, 10_000, class, 0).unwrap();
        if key % 10 == 9 {
            world.step(SECOND);
        }
    }
}

/// The number of keys that are there. Lookups are not counted, because they would make the keys used.
fn count_there(world: &World, keys: std::ops::Range<u32>) -> usize {
    let is_there = |key: &u32| world.flash.peek(world.flash.hash(&name_of(*key))).is_some();
    keys.filter(is_there).count()
}

/// Goal: a loop over more keys than fit finds those that it read first, and the last ones are on probation.
#[test]
fn the_first_records_stay_protected_until_ghost_hits_replace_them() {
    let mut world = World::new(8, 16 << 20, small_options());
    write_all(&mut world, 0..4_000, Class::Probation, true);
    assert_eq!(
        [0..1_000, 1_200..3_800, 3_900..4_000].map(|keys| count_there(&world, keys)),
        [1_000, 0, 100],
        "the first, those between, the last"
    );
    write_all(&mut world, 10_000..10_600, Class::Protected, true);
    assert_eq!(
        [10_000..10_600, 0..500].map(|keys| count_there(&world, keys)),
        [600, 0],
        "protected, and the first"
    );
}

/// Goal: the newest results of a job that only writes are kept; records that are read repeatedly stay too.
#[test]
fn without_misses_records_are_evicted_in_fifo_order() {
    let mut world = World::new(9, 16 << 20, small_options());
    write_all(&mut world, 0..1_000, Class::Probation, false);
    (0..200).for_each(|key| assert!(world.check(key) && world.check(key)));
    write_all(&mut world, 1_000..4_000, Class::Probation, false);
    let there = [0..200, 220..2_800, 3_200..4_000].map(|keys| count_there(&world, keys));
    assert_eq!(there, [200, 0, 800], "read records, unread older ones, the newest");
}

#[test]
fn all_keys_are_listed_from_buffers_and_device() {
    let mut world = World::new(7, 16 << 20, small_options());
    for key in 0..400 {
        world.put(key, 50 + key as usize * 20).unwrap();
        if key == 300 {
            world.step(SECOND);
        }
    }
    world.put(400, 200_000).unwrap();
    (0..400).step_by(9).for_each(|key| assert!(world.forget(key)));
    let mut listed = Vec::new();
    world.flash.keys(&mut |info| {
        listed.push((info.key.to_vec(), info.flags, info.tenant, info.cas));
        ControlFlow::Continue(())
    });
    let present = (0..=400).filter(|key| key % 9 != 0 || *key == 400);
    let mut expected: Vec<_> = present.map(|key| (name_of(key), key, 7, 1)).collect();
    listed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(listed, expected);
    let mut count = 0;
    world.flash.keys(&mut |_| {
        count += 1;
        if count == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(count, 5);
}

#[test]
fn writes_without_room_are_dropped_and_counted() {
    let options = FlashOptions { write_buffer_bytes: 2 << 20, value_bytes_max: 4 << 20, ..small_options() };
    let mut world = World::new(6, 16 << 20, options);
    let outcomes: Vec<_> = (0..400).map(|key| world.put(key, 20_000)).collect();
    let written = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert!(outcomes.contains(&Err(Dropped::BuffersFull)) && written >= 60, "{written} written");
    assert_eq!(world.tally.of(Dropped::BuffersFull), 400 - written as u64);
    assert_eq!(world.check_all(), written);
    world.step(SECOND);
    assert_eq!(world.check_all(), written);
    assert!(world.put(1, 20_000).is_ok());
    assert_eq!(world.put(2, (4 << 20) + 1).err(), None.or(Some(Dropped::TooLarge)));
    assert_eq!(world.model.known[&2], Known::Removed(2));
    assert!(!world.check(2), "a refused value leaves no older one");
}

#[test]
fn records_are_read_from_a_file_with_the_tiers_own_threads() {
    let folder = tempfile::tempdir().unwrap();
    let env = sandur_runtime::Env::system(1);
    let options = FlashOptions {
        parts: vec![FilePart { path: folder.path().join("flash"), bytes: 64 << 20 }],
        ..FlashOptions::default()
    };
    let flash = Arc::new(Flash::open(&env, options, Arc::new(NoObserver)).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let put = |key: u32| {
        let (name, value) = (name_of(key), value_of(key, 1, 3000));
        let hash = flash.hash(&name);
        flash.append(NewRecord::plain(&name, hash, &value, Class::Probation))
    };
    for key in 0..5000 {
        put(key).unwrap();
    }
    let names: Vec<_> = (0..5000).map(name_of).collect();
    for pass in 0..3 {
        for (first, names) in (0..).step_by(100).zip(names.chunks(100)) {
            let reads: Vec<_> = names
                .iter()
                .map(|name| {
                    let hash = flash.hash(name);
                    FlashRead { key: name, hash, location: flash.lookup(hash).unwrap(), range: None }
                })
                .collect();
            for (key, future) in (first..).zip(flash.read(&reads)) {
                let item = runtime.block_on(future).unwrap_or_else(|| panic!("pass {pass}: no {key}"));
                assert_eq!(item.value, value_of(key, 1, 3000));
            }
        }
    }
    let flash = Arc::into_inner(flash).unwrap();
    assert_eq!(flash.stats().counts.reads_hit, 15_000);
    flash.close();
}
