//! Each kind of fault separately: its cost, its report, and its end. `matrix` combines them by seed.

use std::time::Duration;

use super::world::{World, small_options, warm_options};
use crate::device::{Fault, Faults};
use crate::flash::{Dropped, FlashOptions, Health, SegmentState, Warm};

const TENTH: Duration = Duration::from_millis(100);

/// Heals the device and checks that after a minute everything works as before the fault.
pub fn recovers(world: &mut World) {
    let seed = world.seed;
    world.device.heal();
    for _ in 0..60 {
        world.step(Duration::from_secs(1));
    }
    for key in 1000..1020 {
        world.put(key, 2000).unwrap_or_else(|reason| panic!("seed {seed}: {reason:?}"));
        world.step(Duration::from_millis(300));
        assert!(world.check(key), "seed {seed}: a new record is missing");
    }
    let stats = world.flash.stats();
    assert_eq!(stats.health, Health::Ok, "seed {seed}");
    let is_lost = |state| matches!(state, SegmentState::Retired | SegmentState::Unknown);
    let lost = stats.segments.iter().filter(|segment| is_lost(segment.state)).count();
    assert_eq!(lost, 0, "seed {seed}: segments that stay out of use");
}

#[test]
fn a_device_that_stalls_or_vanishes_costs_at_most_the_deadline() {
    for fault in [Fault::Stall, Fault::Vanish, Fault::ReadError] {
        let mut world = World::new(11, 4 << 20, warm_options());
        (0..100).for_each(|key| world.put(key, 1000).unwrap());
        world.step(Duration::from_secs(1));
        world.device.inject(Faults::none().with(fault, 1_000_000));
        let before = world.now();
        let reads: usize = (0..100).filter(|&key| world.check(key)).count();
        assert_eq!(reads, 0);
        assert_eq!(world.flash.health(), Health::Failed, "{fault:?}");
        assert!(world.now() - before <= 5, "{fault:?}: {} s for 100 reads", world.now() - before);
        let hash = world.flash.hash(&super::world::name_of(1));
        assert_eq!(world.flash.lookup(hash), None, "{fault:?}: a failed device is not read");
        recovers(&mut world);
        let left = (0..100).filter(|&key| world.check(key)).count();
        assert!(left >= 80, "{fault:?}: {left} of 100 records are found again");
    }
}

#[test]
fn a_full_or_read_only_disk_never_blocks_a_write() {
    for fault in [Fault::NoSpace, Fault::ReadOnly, Fault::WriteError] {
        let mut world = World::new(12, 4 << 20, warm_options());
        // The first keys are in segments that are complete before the fault.
        (0..100).for_each(|key| world.put(key, 5000).unwrap());
        world.step(Duration::from_secs(1));
        world.device.inject(Faults::none().with(fault, 1_000_000));
        let mut refused = 0;
        for key in 100..400 {
            refused += u64::from(world.put(key, 20_000).is_err());
            world.step(Duration::from_millis(20));
        }
        assert!(refused > 200, "{fault:?}: {refused} refused");
        assert_eq!(world.flash.health(), Health::Degraded, "{fault:?}");
        let reported = world.tally.of(Dropped::DeviceDegraded) + world.tally.of(Dropped::BuffersFull);
        assert!(reported + world.tally.of(Dropped::NoFreeSegment) >= refused, "{fault:?}");
        assert!(world.check(5), "{fault:?}: earlier records are still read");
        recovers(&mut world);
    }
}

#[test]
fn a_corrupt_record_is_dropped_and_counted() {
    let mut world = World::new(13, 4 << 20, warm_options());
    (0..50).for_each(|key| world.put(key, 3000).unwrap());
    world.step(Duration::from_secs(1));
    world.device.inject(Faults::none().with(Fault::BitFlip, 1_000_000));
    let hits = (0..50).filter(|&key| world.check(key)).count();
    world.device.heal();
    // The flipped bit may be outside of the record, in the same block.
    let counts = world.flash.stats().counts;
    assert_eq!(counts.reads_corrupt as usize, 50 - hits);
    assert!(counts.reads_corrupt >= 25, "{} detected", counts.reads_corrupt);
    assert_eq!(world.tally.of(Dropped::Corrupt), counts.reads_corrupt);
    assert_eq!(world.check_all(), hits);
}

#[test]
fn a_device_that_answers_no_read_is_not_read_after_a_second() {
    let mut world = World::new(14, 4 << 20, warm_options());
    (0..50).for_each(|key| world.put(key, 1000).unwrap());
    world.step(Duration::from_secs(1));
    world.device.inject(Faults::none().with(Fault::Stall, 1_000_000));
    let hash = world.flash.hash(&super::world::name_of(1));
    assert!(world.flash.lookup(hash).is_some());
    assert!(!world.check(1), "one read that hangs for its deadline");
    assert_eq!(world.flash.lookup(hash), None, "later lookups do not wait for the device");
    recovers(&mut world);
}

#[test]
fn a_device_that_is_slow_for_minutes_gets_no_writes_until_it_is_fast_again() {
    let mut world = World::new(15, 4 << 20, warm_options());
    (0..50).for_each(|key| world.put(key, 1000).unwrap());
    world.step(Duration::from_secs(1));
    world.device.inject(Faults::none().with(Fault::Delay, 1_000_000));
    let began = world.now();
    while world.flash.health() != Health::Degraded {
        assert!(world.check(began as usize as u32 % 50), "a slow answer is still right");
        world.step(TENTH);
        let lasted = world.now() - began;
        assert!(lasted < 400, "{:?} after {lasted} s", world.flash.health());
        assert!(lasted < 60 || world.flash.health() >= Health::Slow, "not slow after {lasted} s");
    }
    let lasted = world.now() - began;
    assert!(lasted >= 290, "only {lasted} s");
    assert_eq!(world.put(100, 1000), Err(Dropped::DeviceDegraded));
    assert!(world.check(7), "earlier records are still read");
    recovers(&mut world);
}

fn after_clean_stops() -> FlashOptions {
    FlashOptions { warm: Warm::Clean, ..small_options() }
}

#[test]
fn a_stop_uses_a_device_that_works_again() {
    for fault in [Fault::WriteError, Fault::SyncError, Fault::Vanish] {
        let mut world = World::new(16, 4 << 20, after_clean_stops());
        (0..100).for_each(|key| world.put(key, 5000).unwrap());
        world.step(Duration::from_secs(1));
        world.device.inject(Faults::none().with(fault, 1_000_000));
        let mut key = 100;
        while world.flash.may_write() {
            // Some are refused because no segment is free.
            let _ = world.put(key, 5000);
            world.step(Duration::from_millis(20));
            key += 1;
        }
        assert!(world.flash.health() >= Health::Degraded, "{fault:?}");
        world.device.heal();
        let held = world.check_all();
        let (device, model) = world.close();
        let world = World::over(17, device.after_kill(1), after_clean_stops(), model);
        world.step(Duration::ZERO);
        assert_eq!((world.check_all(), held > 50), (held, true), "{fault:?}");
    }
}

#[test]
fn a_failed_write_during_a_stop_does_not_make_the_next_start_empty() {
    for seed in 0..20 {
        let mut world = World::new(seed, 4 << 20, after_clean_stops());
        (0..100).for_each(|key| world.put(key, 5000).unwrap());
        (0..50).for_each(|key| assert!(world.forget(key)));
        world.step(Duration::from_secs(1));
        (0..30).for_each(|key| world.put(key, 3000).unwrap());
        world.device.inject(Faults::none().with(Fault::WriteError, 30_000));
        let (device, model) = world.close();
        let world = World::over(seed, device.after_kill(seed), after_clean_stops(), model);
        assert!(world.flash.is_recovering(), "seed {seed}: the start uses nothing of the previous run");
        world.step(Duration::ZERO);
        assert!(world.check_all() > 0, "seed {seed}");
    }
}
