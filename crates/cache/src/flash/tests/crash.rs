//! Stops, kills and losses of power at random moments: which records are recovered, and which must not be.

use std::sync::Arc;
use std::time::Duration;

use sandur_runtime::Env;

use super::seeds;
use super::world::{
    Known, Model, World, is_possible, name_of, small_options, version_of, warm_options as options,
};
use crate::device::{Device, FaultyDevice, ReadRequest};
use crate::flash::{Class, Flash, FlashOptions, Journaling, NoObserver, Pool, Segment, SegmentState, Warm};

#[test]
fn a_clean_stop_loses_nothing() {
    let mut world = World::new(1, 16 << 20, FlashOptions { warm: Warm::Clean, ..small_options() });
    for key in 0..1500 {
        world.put_as(key, 10 + key as usize * 3, Class::Probation, 0).unwrap();
        if key % 100 == 0 {
            world.step(Duration::from_millis(200));
        }
    }
    (0..1500).step_by(7).for_each(|key| assert!(world.forget(key)));
    let touched = world.now() + 500;
    assert!(world.flash.touch(world.flash.hash(&name_of(1)), touched));
    let held = world.check_all();
    let (device, model) = world.close();
    let world = World::over(
        2,
        device.after_power_loss(1),
        FlashOptions { warm: Warm::Clean, ..small_options() },
        model,
    );
    assert!(world.flash.is_recovering() && world.get(1).is_none(), "a lookup during recovery misses");
    world.step(Duration::ZERO);
    assert_eq!(world.check_all(), held);
    assert_eq!(world.get(1).unwrap().expires_at, touched);
    let stats = world.flash.stats();
    assert_eq!((stats.records, stats.counts.records_recovered), (held as u64, held as u64));
    let live: u64 = stats.segments.iter().map(|segment| segment.live_bytes).sum();
    let records: u64 = stats.segments.iter().map(|segment| segment.record_bytes).sum();
    assert!(live > records / 2 && live <= records, "{live} of {records} bytes live");
}

#[test]
fn no_segment_is_reclaimed_while_recovery_runs() {
    let mut world = World::new(10, 8 << 20, options());
    (0..300).for_each(|key| world.put(key, 3000).unwrap());
    world.step(Duration::from_secs(1));
    let world = World::over(11, world.device.after_kill(1), options(), world.model.clone());
    let core = &world.flash.core;
    // The state in which recovery has entered the segments into the table, but not yet found their records.
    let (slot, id) = (3, core.keys.earlier.first_id - 1);
    let found = Segment { slot, id, state: SegmentState::Sealed, ..core.space.table.segment(slot) };
    core.space.table.adopt(found, 0);
    assert!(!core.reclaimer.reclaim_next());
    world.step(Duration::ZERO);
    assert_eq!(world.check_all(), 300);
}

#[test]
fn records_are_recovered_only_as_the_options_say() {
    for (warm, after_clean, after_crash) in
        [(Warm::Off, false, false), (Warm::Clean, true, false), (Warm::Crash, true, true)]
    {
        let options = FlashOptions { warm, ..small_options() };
        let mut world = World::new(3, 8 << 20, options.clone());
        for key in 0..100 {
            world.put(key, 5000).unwrap();
        }
        world.step(Duration::from_secs(1));
        let crashed = World::over(4, world.device.after_kill(1), options.clone(), world.model.clone());
        crashed.step(Duration::ZERO);
        assert_eq!(crashed.check_all() == 100, after_crash, "{warm:?}");
        let (device, model) = world.close();
        let stopped = World::over(4, device.after_kill(1), options, model);
        stopped.step(Duration::ZERO);
        assert_eq!(stopped.check_all() == 100, after_clean, "{warm:?}");
    }
}

#[test]
fn writes_and_removals_of_this_run_override_recovered_records() {
    let mut world = World::new(5, 8 << 20, options());
    for key in 0..300 {
        world.put(key, 3000).unwrap();
    }
    world.step(Duration::from_secs(1));
    let mut world = World::over(6, world.device.after_kill(1), options(), world.model.clone());
    assert!(!world.forget(10) && world.flash.is_recovering());
    world.step(Duration::ZERO);
    assert!(!world.check(10), "a key removed before it was found came back");
    assert_eq!(world.check_all(), 299);
    let world = World::over(7, world.device.after_kill(2), options(), world.model.clone());
    world.step(Duration::ZERO);
    assert_eq!(world.check_all(), 299, "after a second crash");
}

#[test]
fn a_recovery_during_which_values_were_lost_recovers_nothing() {
    let mut world = World::new(16, 8 << 20, options());
    (0..300).for_each(|key| world.put(key, 3000).unwrap());
    world.step(Duration::from_secs(1));
    (0..150).for_each(|key| world.put(key, 2000).unwrap());
    world.step(Duration::from_secs(1));
    let mut world = World::over(17, world.device.after_kill(1), options(), world.model.clone());
    world.flash.core.keys.earlier.lose();
    world.step(Duration::ZERO);
    assert!(!world.flash.is_recovering());
    assert_eq!((world.check_all(), world.flash.stats().records), (0, 0));
    world.put(1, 100).unwrap();
    world.step(Duration::from_secs(1));
    assert_eq!(world.check_all(), 1);
    // Nor after another crash.
    let world = World::over(18, world.device.after_kill(2), options(), world.model.clone());
    world.step(Duration::ZERO);
    assert!(world.check_all() <= 1);
}

#[test]
fn a_flush_stays_flushed_after_a_crash() {
    flush_and_crash(options());
    flush_and_crash(FlashOptions { journaling: Journaling::Off, ..options() });
}

#[test]
fn a_start_after_a_crash_is_empty_if_removals_did_not_fit_into_the_journal() {
    let mut world = World::new(11, 8 << 20, options());
    for key in 0..7000 {
        world.put(key, 300).unwrap();
        if key % 500 == 0 {
            world.step(Duration::from_secs(1));
        }
    }
    world.step(Duration::from_secs(1));
    let core = Arc::clone(&world.flash.core);
    // Without a buffer no image can be written.
    let buffers: Vec<_> =
        std::iter::from_fn(|| core.images.image_pool.take(core.disk.layout.piece_bytes())).collect();
    (0..6990).for_each(|key| assert!(world.forget(key)));
    (0..3).for_each(|_| world.step(Duration::from_secs(1)));
    assert!(!world.is_committed(), "the journal holds more than this test removes");
    let crashed = World::over(12, world.device.after_kill(1), options(), world.model.clone());
    crashed.step(Duration::ZERO);
    assert_eq!(crashed.check_all(), 0);
    // With a buffer, an image covers the removals that the journal had no room for.
    drop(buffers);
    (0..3).for_each(|_| world.step(Duration::from_secs(1)));
    let crashed = World::over(13, world.device.after_kill(1), options(), world.model.clone());
    crashed.step(Duration::ZERO);
    assert_eq!(crashed.check_all(), 10);
}

#[test]
fn removals_that_need_several_writes_of_the_journal_survive_a_crash() {
    let mut world = World::new(19, 128 << 20, options());
    let removed = 20_000;
    for key in 0..removed + 10 {
        world.put(key, 20).unwrap();
        if key % 500 == 0 {
            world.step(Duration::from_secs(1));
        }
    }
    world.step(Duration::from_secs(1));
    let core = Arc::clone(&world.flash.core);
    // No image may be written, because it would cover them.
    let buffers: Vec<_> =
        std::iter::from_fn(|| core.images.image_pool.take(core.disk.layout.piece_bytes())).collect();
    let before = world.flash.stats().counts.journal_entries;
    (0..removed).for_each(|key| assert!(world.forget(key)));
    world.step(Duration::ZERO);
    assert_eq!(world.flash.stats().counts.journal_entries - before, u64::from(removed));
    assert!(world.is_committed());
    let crashed = World::over(20, world.device.after_kill(1), options(), world.model.clone());
    crashed.step(Duration::ZERO);
    assert_eq!((crashed.check_all(), buffers.is_empty()), (10, false));
}

/// A device with a range of bytes that cannot be read.
struct Unreadable(Arc<FaultyDevice>, std::ops::Range<u64>);

impl Device for Unreadable {
    fn size(&self) -> u64 {
        self.0.size()
    }
    fn read_alignment(&self) -> u64 {
        self.0.read_alignment()
    }
    fn submit(&self, batch: Vec<ReadRequest>) {
        self.0.submit(batch);
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        let meets = offset < self.1.end && self.1.start < offset + into.len() as u64;
        if meets { Err(rustix::io::Errno::IO.into()) } else { self.0.read_at(offset, into) }
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.0.write_at(offset, data)
    }
    fn sync(&self) -> std::io::Result<()> {
        self.0.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> std::io::Result<()> {
        self.0.discard(offset, length)
    }
    fn expire(&self, patience: u32) -> usize {
        self.0.expire(patience)
    }
}

#[test]
fn an_unreadable_journal_discards_everything_at_this_and_later_starts() {
    let mut world = World::new(14, 8 << 20, options());
    (0..300).for_each(|key| world.put(key, 3000).unwrap());
    world.step(Duration::from_secs(1));
    (0..150).for_each(|key| assert!(world.forget(key)));
    world.step(Duration::from_secs(1));
    let block = world.flash.core.disk.layout.journal_block(0, 0);
    let device = Arc::new(world.device.after_kill(1));
    let unreadable = Arc::new(Unreadable(Arc::clone(&device), block..block + 1));
    let flash = Flash::open_on(&Env::system(1), unreadable, options(), Arc::new(NoObserver)).unwrap();
    flash.step();
    assert_eq!((flash.stats().records, flash.is_recovering()), (0, false));
    // The next start can read it, but the journal is not complete any more.
    let world = World::over(15, device.after_kill(2), options(), world.model.clone());
    world.step(Duration::ZERO);
    assert_eq!(world.check_all(), 0);
}

#[test]
fn an_image_finds_room_on_a_full_device_and_is_not_begun_without_room() {
    let options = FlashOptions { segment_bytes: Some(64 << 10), ..options() };
    let mut world = World::new(14, 48 << 20, options.clone());
    let image_bytes = |world: &World| world.flash.core.keys.index.image_bytes();
    let (mut key, mut images, mut written) = (0, 0, 0);
    // The device is filled once and then completely replaced several times; touches fill the journal.
    for round in 0..22 {
        for n in 0..3000 {
            let _ = world.put(key, 1000);
            let hash = world.flash.hash(&name_of(key));
            (1..5).for_each(|more| assert!(world.flash.touch(hash, 2_000_000_000 + more)));
            key += 1;
            if n % 40 == 0 {
                world.step(Duration::from_millis(150));
            }
        }
        let counts = world.flash.stats().counts;
        if round == 15 {
            (images, written) = (counts.images_written, counts.bytes_written);
        }
    }
    let counts = world.flash.stats().counts;
    let (images, written) = (counts.images_written - images, counts.bytes_written - written);
    let room = (world.flash.core.space.free_wanted(Pool::General) as u64) << 16;
    assert!(image_bytes(&world) > room, "the image fits into the reserve: the test shows nothing");
    assert!(images > 3, "{images} images");
    let admitted = 6 * 3000 * 1100;
    assert!(written < 3 * admitted, "{written} bytes written for {admitted}");
    assert!(!world.flash.core.journal.has_lost());
    world.step(Duration::from_secs(1));
    let held = world.check_all();
    let (device, model) = world.close();
    let world = World::over(15, device.after_kill(1), options, model);
    world.step(Duration::ZERO);
    assert!(world.check_all() * 100 >= held * 90, "a clean stop finds room for its image");
}

/// Goal: an image finds room however small the general pool is. Method: most records are in the
/// protected pool and very short, so that their image is larger than a third of the general pool. They
/// are overwritten until the journal would have been full many times.
#[test]
fn an_image_finds_room_in_the_protected_pool() {
    let options = FlashOptions { segment_bytes: Some(64 << 10), kept_bytes: 7 << 20, ..options() };
    let mut world = World::new(16, 8 << 20, options.clone());
    for _ in 0..40 {
        for _ in 0..150 {
            for _ in 0..50 {
                let key = world.below(60_000) as u32;
                let _ = world.put(key, 8);
            }
            world.step(Duration::from_millis(150));
        }
        assert!(!world.flash.core.journal.has_lost(), "a start after a crash would be empty");
    }
    let core = &world.flash.core;
    let (image, general) =
        (core.keys.index.image_bytes(), core.space.table.count(Pool::General) as u64 * (64 << 10));
    assert!(image * 3 > general, "an image of {image} bytes would fit in {general}");
    let counts = world.flash.stats().counts;
    let room = u64::from(core.disk.layout.journal_blocks) * 254;
    assert!(counts.journal_entries > 20 * room, "{} entries, room for {room}", counts.journal_entries);
    assert!(counts.images_written > 10, "{} images", counts.images_written);
    let held = world.check_all();
    assert!(held > 20_000, "{held} records");
    let next = World::over(17, world.device.after_kill(1), options.clone(), world.model.clone());
    next.step(Duration::ZERO);
    let found = next.check_all();
    assert!(found * 100 >= held * 98, "{found} of {held} after a crash");
    let (device, model) = world.close();
    let next = World::over(18, device.after_kill(1), options, model);
    next.step(Duration::ZERO);
    let found = next.check_all();
    assert!(found * 100 >= held * 60, "{found} of {held} after a stop that had to make room for its image");
}

fn flush_and_crash(options: FlashOptions) {
    let mut world = World::new(8, 8 << 20, options.clone());
    (0..300).for_each(|key| world.put(key, 3000).unwrap());
    world.step(Duration::from_secs(1));
    world.flush_all();
    (0..10).for_each(|key| world.put(key, 3000).unwrap());
    world.step(Duration::from_secs(1));
    let world = World::over(9, world.device.after_kill(1), options, world.model.clone());
    world.step(Duration::ZERO);
    assert_eq!(world.check_all(), 10);
}

/// Makes random calls. Returns the model as of the last durable commit.
fn live(world: &mut World) -> Model {
    let mut durable = world.model.clone();
    for _ in 0..20 + world.below(400) {
        let key = world.below(120) as u32;
        match world.below(100) {
            0..=59 => {
                let magnitude = world.below(16);
                let bytes = 8 + world.below(1 + (1 << magnitude)) as usize;
                let class = Class::OF_RECORDS[world.below(4) as usize];
                let _ = world.put_as(key, bytes, class, 0);
            }
            60..=74 => {
                world.forget(key);
            }
            75..=94 => {
                world.check(key);
            }
            95 if world.below(10) == 0 => world.flush_all(),
            _ => {
                world.step(Duration::from_millis(150));
                if world.is_committed() {
                    durable = world.model.clone();
                }
            }
        }
    }
    durable
}

#[test]
fn after_any_crash_no_value_is_wrong_or_old_and_sealed_records_are_recovered() {
    let (mut sealed, mut found_again, mut images) = (0, 0, 0);
    for seed in seeds() {
        let mut world = World::new(seed, 4 << 20, options());
        for life in 0..3 {
            let durable = live(&mut world);
            let must = world.sealed_keys();
            images += world.flash.stats().counts.images_written;
            let device = match world.below(2) {
                0 => world.device.after_kill(seed),
                _ => world.device.after_power_loss(seed ^ life),
            };
            let mut model = world.model.clone();
            let next = World::over(seed ^ (life << 32), device, options(), Model::default());
            next.step(Duration::ZERO);
            for (key, known) in &mut model.known {
                let tried = model.tried.get(key);
                *known = match next.get(*key) {
                    Some(item) => {
                        let version = version_of(*key, &item.value);
                        let version = version.unwrap_or_else(|| panic!("seed {seed}: wrong bytes of {key}"));
                        let possible = is_possible(version, durable.known.get(key), tried);
                        assert!(
                            possible,
                            "seed {seed}, life {life}: key {key} has version {version}, \
                            durable {:?}, tried {tried:?}",
                            durable.known.get(key)
                        );
                        Known::Written(version)
                    }
                    None => Known::Removed(tried.copied().unwrap_or_default()),
                };
            }
            let back = must.iter().filter(|key| matches!(model.known[key], Known::Written(_))).count();
            assert!(
                back * 1000 >= must.len() * 999,
                "seed {seed}, life {life}: {back} of {} back",
                must.len()
            );
            (sealed, found_again) = (sealed + must.len(), found_again + back);
            world = next;
            world.model = model;
        }
    }
    assert!(
        sealed > 1000 && images > 50,
        "{sealed} sealed records, {images} images: too few to show anything"
    );
    println!("{found_again} of {sealed} sealed records recovered, {images} images");
}
