//! A cache with its real threads over a device that stops working: no caller that sets or looks up waits
//! for the device, memory continues to answer, and flash comes back without help.
//!
//! A hanging write waits until the test opens a gate, so a caller that waited for it would never reach
//! that point.

#![allow(clippy::unwrap_used)] // also for functions that tests share

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;
use sandur_cache::device::{Fault, Faults, FaultyDevice};
use sandur_cache::flash::{FlashOptions, Health, SegmentState};
use sandur_cache::{Cache, CacheOptions, Hint, Item, Put, Read, Stored};
use sandur_runtime::Env;

/// Longer than any operation takes. Only a caller that waits for the device would exceed it.
const LIMIT: Duration = Duration::from_secs(60);

const VALUE_BYTES: usize = 16 << 10;

/// Hanging operations wait here.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn wait(&self) {
        let is_open = self.is_open.lock().unwrap();
        drop(self.opened.wait_timeout_while(is_open, LIMIT * 2, |is_open| !*is_open).unwrap());
    }

    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

struct World {
    env: Env,
    fault: Fault,
    device: Arc<FaultyDevice>,
    gate: Arc<Gate>,
    cache: Cache,
}

impl World {
    fn new(fault: Fault) -> Self {
        let (env, seed) = (Env::system(1), fault as u64);
        let device = Arc::new(FaultyDevice::new(32 << 20, seed));
        let gate = Arc::new(Gate::default());
        let waiting = Arc::clone(&gate);
        device.while_it_hangs(move |_| waiting.wait());
        let flash = FlashOptions {
            segment_bytes: Some(256 << 10),
            read_deadline: Duration::from_millis(200),
            write_delay: Duration::from_millis(1),
            ..FlashOptions::default()
        };
        let options = CacheOptions { memory: 4 << 20, flash: Some(flash), ..CacheOptions::default() };
        let cache = Cache::open_over(&env, options, Arc::clone(&device) as _).unwrap();
        Self { env, fault, device, gate, cache }
    }

    /// Sets a key to its only value, whatever the device does.
    fn set(&self, key: u64) {
        let put = Put { hint: Hint::Ingest, ..Put::default() };
        let stored = wait(self.cache.put(&key.to_le_bytes(), value(key), &put).wait());
        assert!(matches!(stored, Stored::Done { .. }), "{:?}: {stored:?}", self.fault);
    }

    /// Looks up a key, which must give its value or a miss. Returns whether it was there.
    fn get(&self, key: u64) -> bool {
        let item: Option<Item> = wait(self.cache.get(&key.to_le_bytes(), &Read::default()).wait());
        let is_right = item.as_ref().is_none_or(|item| item.value[..] == value(key)[..]);
        assert!(is_right, "{:?}: wrong bytes", self.fault);
        item.is_some()
    }

    fn health(&self) -> Health {
        self.cache.stats().flash.unwrap().device.health
    }

    /// Repeats `is_true` until it returns true.
    fn until(&self, what: &str, mut is_true: impl FnMut() -> bool) {
        let began = self.env.monotonic();
        while !is_true() {
            let lasted = self.env.monotonic() - began;
            assert!(lasted < LIMIT, "{:?}: not {what} after {lasted:?}, {:?}", self.fault, self.health());
            std::thread::yield_now();
        }
    }
}

fn wait<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn value(key: u64) -> Bytes {
    let bytes = (0..VALUE_BYTES as u64).map(|at| (at ^ key ^ key >> 8) as u8);
    Bytes::from_iter(bytes)
}

/// Makes the device fail permanently and checks the state that the cache detects.
fn a_device_stops(fault: Fault, health: Health) {
    let world = World::new(fault);
    let (mut key, mut first) = (0, 0);
    world.until("on flash", || {
        world.set(key);
        key += 1;
        // Values in sealed segments are completely on the device; unwritten ones are lost when writes
        // fail. These are twice what memory holds, so that many are only on flash.
        let device = world.cache.stats().flash.unwrap().device;
        let sealed = device.segments.iter().filter(|segment| segment.state == SegmentState::Sealed);
        sealed.count() > 32
    });
    let filled = key;
    world.device.inject(Faults::none().with(fault, 1_000_000));
    let began = world.env.monotonic();
    world.until("noticed", || {
        world.set(key);
        assert!(world.get(key), "{fault:?}: memory has the new value");
        first = (first + 1) % filled;
        world.get(first);
        key += 1;
        world.health() == health
    });
    let noticed = world.env.monotonic() - began;
    // The device is not used any more: these are many times what memory and all buffers hold.
    for _ in 0..2000 {
        world.set(key);
        assert!(world.get(key), "{fault:?}: memory has the new value");
        key += 1;
    }
    assert_eq!(world.health(), health, "{fault:?}");
    world.device.heal();
    world.gate.open();
    world.until("taken back", || {
        world.set(key);
        world.get(key - 1);
        key += 1;
        world.health() == Health::Ok
    });
    let written = || world.cache.stats().flash.unwrap().device.counts.bytes_written;
    let before = written();
    world.until("written again", || {
        world.set(key);
        key += 1;
        written() > before + (4 << 20)
    });
    println!("{fault:?}: noticed after {noticed:?}");
}

#[test]
fn a_device_that_accepts_no_writes_never_blocks_a_set() {
    std::thread::scope(|scope| {
        for fault in [Fault::NoSpace, Fault::WriteError, Fault::SyncError, Fault::ReadOnly, Fault::StallWrite]
        {
            scope.spawn(move || a_device_stops(fault, Health::Degraded));
        }
    });
}

#[test]
fn memory_works_without_a_device_that_vanished_or_cannot_be_read() {
    std::thread::scope(|scope| {
        for fault in [Fault::ReadError, Fault::Stall, Fault::Vanish] {
            scope.spawn(move || a_device_stops(fault, Health::Failed));
        }
    });
}

/// Reads values from flash while writes to it hang and its queue is full. Returns the number of values
/// read, and the number of values in memory that were lost meanwhile; `None` if the device failed before
/// its queue was full.
fn reads_while_writes_hang() -> Option<(u64, u64)> {
    let world = World::new(Fault::StallWrite);
    let flash = || world.cache.stats().flash.unwrap();
    let evicted = || world.cache.stats().ram.evicted;
    let mut key = 0;
    world.until("on flash", || {
        world.set(key);
        key += 1;
        flash().device.counts.records_written > 400
    });
    let on_flash = key.min(400);
    world.device.inject(Faults::none().with(Fault::StallWrite, 1_000_000));
    world.until("full up", || {
        world.set(key);
        key += 1;
        evicted() > 0 || world.health() != Health::Ok
    });
    let (hits, lost) = (flash().hits, evicted());
    let mut outcome = None;
    // More values than memory holds, each read twice, so that it would be promoted.
    for read in 0..on_flash * 2 {
        world.get(read / 2);
        let read = (flash().hits - hits, evicted() - lost);
        if world.health() != Health::Ok {
            break;
        }
        outcome = Some(read);
    }
    world.device.heal();
    world.gate.open();
    outcome
}

#[test]
fn reads_from_flash_evict_no_value_that_flash_cannot_accept() {
    // On a busy machine the device's deadline of a second may be over too early.
    let outcomes = std::iter::repeat_with(reads_while_writes_hang).take(100);
    let seen = outcomes.flatten().find(|(hits, _)| *hits >= 100);
    let (_, lost) = seen.expect("a hundred reads within a second, once in a hundred times");
    assert_eq!(lost, 0);
}

/// Number of waits for backpressure before the device has failed.
fn backpressure_before_the_device_is_given_up() -> u32 {
    let world = World::new(Fault::StallWrite);
    assert!(world.cache.backpressure().is_none(), "nothing waits");
    world.device.inject(Faults::none().with(Fault::StallWrite, 1_000_000));
    let (mut key, mut waits) = (0, 0);
    world.until("slowed down and noticed", || {
        world.set(key);
        key += 1;
        if let Some(backpressure) = world.cache.backpressure() {
            wait(backpressure);
            waits += 1;
        }
        world.health() != Health::Ok
    });
    world.device.heal();
    world.gate.open();
    world.until("caught up", || world.cache.backpressure().is_none());
    waits
}

#[test]
fn backpressure_ends_before_a_hanging_device_has_failed() {
    // A single wait could have lasted until the device has failed. On a busy machine its deadline of a
    // second may be over before the writer gets that far.
    let mut waits = std::iter::repeat_with(backpressure_before_the_device_is_given_up).take(100);
    assert!(waits.any(|waits| waits > 1), "more than one wait within a second, once in a hundred times");
}
