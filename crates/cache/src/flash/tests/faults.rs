//! The fault matrix: every kind of failure, alone and together, by seed.

use std::time::Duration;

use super::seeds;
use super::world::{Model, World, small_options, version_of};
use crate::device::{Fault, Faults};
use crate::flash::{Class, Dropped, FlashOptions, Health, Warm};

const TENTH: Duration = Duration::from_millis(100);

/// Random calls under faults. Every value read is right and current, or a miss.
fn live(world: &mut World, calls: u64) {
    for _ in 0..calls {
        let key = world.below(150) as u32;
        match world.below(10) {
            0..=4 => {
                let magnitude = world.below(16);
                let bytes = 8 + world.below(1 + (1 << magnitude)) as usize;
                let _ = world.put_as(key, bytes, Class::OF_RECORDS[key as usize % 4], 0);
            }
            5 => {
                world.forget(key);
            }
            6..=8 => {
                world.check(key);
            }
            _ => world.step(TENTH),
        }
    }
}

/// The device is well again: in a minute all is as if nothing had been.
fn recovers(world: &mut World) {
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
    assert_eq!(world.flash.health(), Health::Ok, "seed {seed}");
}

fn options() -> FlashOptions {
    FlashOptions { warm: Warm::Crash, ..small_options() }
}

#[test]
fn under_any_faults_no_byte_is_wrong_nothing_hangs_and_the_device_comes_back() {
    let mut injected = 0;
    for seed in seeds() {
        let mut world = World::new(seed, 4 << 20, options());
        live(&mut world, 50);
        let mut faults = Faults::none();
        // Every kind alone first, then mixtures.
        let alone = Fault::ALL[(seed % Fault::ALL.len() as u64) as usize];
        for fault in Fault::ALL {
            let rate = if fault == alone { 20_000 + world.below(500_000) } else { world.below(30_000) };
            let is_in = fault == alone || (seed >= 50 && world.below(3) == 0);
            if is_in {
                faults = faults.with(fault, rate as u32);
            }
        }
        world.device.inject(faults);
        live(&mut world, 300);
        injected += world.device.injected();
        recovers(&mut world);
        // After a crash a lost journal write may bring back an old value, but never a wrong one.
        let next = World::over(seed, world.device.after_kill(seed), options(), Model::default());
        next.step(Duration::ZERO);
        for key in world.model.known.keys() {
            if let Some(item) = next.get(*key) {
                assert!(version_of(*key, &item.value).is_some(), "seed {seed}: wrong bytes of {key}");
            }
        }
    }
    assert!(injected > 1000, "{injected} faults are too few to show anything");
    println!("{injected} faults injected");
}

#[test]
fn a_device_that_stalls_or_vanishes_costs_at_most_the_deadline() {
    for fault in [Fault::Stall, Fault::Vanish, Fault::ReadError] {
        let mut world = World::new(11, 4 << 20, options());
        (0..100).for_each(|key| world.put(key, 1000).unwrap());
        world.step(Duration::from_secs(1));
        world.device.inject(Faults::none().with(fault, 1_000_000));
        let before = world.now();
        let reads: usize = (0..100).filter(|&key| world.check(key)).count();
        assert_eq!(reads, 0);
        assert_eq!(world.flash.health(), Health::Failed, "{fault:?}");
        assert!(world.now() - before <= 5, "{fault:?}: {} s for 100 reads", world.now() - before);
        let hash = world.flash.hash(&super::world::name_of(1));
        assert_eq!(world.flash.lookup(hash), None, "{fault:?}: a failed device is not asked");
        recovers(&mut world);
        let left = (0..100).filter(|&key| world.check(key)).count();
        assert!(left >= 80, "{fault:?}: {left} of 100 records are there again");
    }
}

#[test]
fn a_full_or_read_only_disk_never_holds_a_write_up() {
    for fault in [Fault::NoSpace, Fault::ReadOnly, Fault::WriteError] {
        let mut world = World::new(12, 4 << 20, options());
        // The first keys are in segments that are whole by then.
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
        let told = world.tally.of(Dropped::DeviceDegraded) + world.tally.of(Dropped::BuffersFull);
        assert!(told + world.tally.of(Dropped::NoFreeSegment) >= refused, "{fault:?}");
        assert!(world.check(5), "{fault:?}: what was written before is still read");
        recovers(&mut world);
    }
}

#[test]
fn a_corrupt_record_is_a_miss_once_and_counted() {
    let mut world = World::new(13, 4 << 20, options());
    (0..50).for_each(|key| world.put(key, 3000).unwrap());
    world.step(Duration::from_secs(1));
    world.device.inject(Faults::none().with(Fault::BitFlip, 1_000_000));
    let hits = (0..50).filter(|&key| world.check(key)).count();
    world.device.heal();
    // A flip may hit what lies beside the record in the block that was read.
    let counts = world.flash.stats().counts;
    assert_eq!(counts.reads_corrupt as usize, 50 - hits);
    assert!(counts.reads_corrupt >= 25, "{} noticed", counts.reads_corrupt);
    assert_eq!(world.tally.of(Dropped::Corrupt), counts.reads_corrupt);
    assert_eq!(world.check_all(), hits);
}

#[test]
fn a_silent_device_is_left_alone_after_a_second() {
    let mut world = World::new(14, 4 << 20, options());
    (0..50).for_each(|key| world.put(key, 1000).unwrap());
    world.step(Duration::from_secs(1));
    world.device.inject(Faults::none().with(Fault::Stall, 1_000_000));
    let hash = world.flash.hash(&super::world::name_of(1));
    assert!(world.flash.lookup(hash).is_some());
    assert!(!world.check(1), "one read that hangs for its deadline");
    assert_eq!(world.flash.lookup(hash), None, "and nobody waits for the device any more");
    recovers(&mut world);
}

#[test]
fn a_device_that_is_slow_for_long_gets_no_writes_until_it_is_fast_again() {
    let mut world = World::new(15, 4 << 20, options());
    (0..50).for_each(|key| world.put(key, 1000).unwrap());
    world.step(Duration::from_secs(1));
    world.device.inject(Faults::none().with(Fault::Delay, 1_000_000));
    let began = world.now();
    while world.flash.health() != Health::Degraded {
        assert!(world.check(began as usize as u32 % 50), "slow is not wrong");
        world.step(TENTH);
        let lasted = world.now() - began;
        assert!(lasted < 400, "{:?} after {lasted} s", world.flash.health());
        assert!(lasted < 60 || world.flash.health() >= Health::Slow, "not slow after {lasted} s");
    }
    let lasted = world.now() - began;
    assert!(lasted >= 290, "{lasted} s are not for long");
    assert_eq!(world.put(100, 1000), Err(Dropped::DeviceDegraded));
    assert!(world.check(7), "what is there is still read");
    recovers(&mut world);
}
