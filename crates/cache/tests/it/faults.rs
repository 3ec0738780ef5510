//! A cache over a device that stops working, with its real threads: nobody who sets or looks up waits for
//! the device, memory goes on answering, and flash comes back by itself.
//!
//! While a write hangs the device waits for the test to let it go on, so a caller that waited for it would
//! never come to that.

#![allow(clippy::unwrap_used)] // also in what the tests share

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;
use sandur_base::Env;
use sandur_cache::device::{Fault, Faults, FaultyDevice};
use sandur_cache::flash::{FlashOptions, Health, SegmentState};
use sandur_cache::{Cache, CacheOptions, Hint, Item, Put, Read, Stored};

/// Longer than anything takes; a caller that waits for the device waits longer.
const LIMIT: Duration = Duration::from_secs(60);

const VALUE_BYTES: usize = 16 << 10;

/// Operations that hang wait here.
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

    /// Looks a key up: its value or a miss. Whether it was there.
    fn get(&self, key: u64) -> bool {
        let item: Option<Item> = wait(self.cache.get(&key.to_le_bytes(), &Read::default()).wait());
        let is_right = item.as_ref().is_none_or(|item| item.value[..] == value(key)[..]);
        assert!(is_right, "{:?}: wrong bytes", self.fault);
        item.is_some()
    }

    fn health(&self) -> Health {
        self.cache.stats().flash.unwrap().device.health
    }

    /// Does something again and again until it has come true.
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

/// What the device does not do any more, and the state that the cache finds it in.
fn a_device_stops(fault: Fault, health: Health) {
    let world = World::new(fault);
    let (mut key, mut first) = (0, 0);
    world.until("on flash", || {
        world.set(key);
        key += 1;
        // Whole on the device, since unwritten records are lost with the writes; and twice what memory holds,
        // so that many are read from flash alone.
        let device = world.cache.stats().flash.unwrap().device;
        let sealed = device.segments.iter().filter(|segment| segment.state == SegmentState::Sealed);
        sealed.count() > 32
    });
    let filled = key;
    world.device.inject(Faults::none().with(fault, 1_000_000));
    let began = world.env.monotonic();
    world.until("noticed", || {
        world.set(key);
        assert!(world.get(key), "{fault:?}: memory has what was just set");
        first = (first + 1) % filled;
        world.get(first);
        key += 1;
        world.health() == health
    });
    let noticed = world.env.monotonic() - began;
    // Nothing is asked of it any more: these are many times what memory and all buffers hold.
    for _ in 0..2000 {
        world.set(key);
        assert!(world.get(key), "{fault:?}: memory has what was just set");
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
fn a_full_disk_never_blocks_a_set_and_neither_does_any_other_that_takes_no_writes() {
    std::thread::scope(|scope| {
        for fault in [Fault::NoSpace, Fault::WriteError, Fault::SyncError, Fault::ReadOnly, Fault::StallWrite]
        {
            scope.spawn(move || a_device_stops(fault, Health::Degraded));
        }
    });
}

#[test]
fn a_device_that_vanishes_or_cannot_be_read_leaves_memory_at_work() {
    std::thread::scope(|scope| {
        for fault in [Fault::ReadError, Fault::Stall, Fault::Vanish] {
            scope.spawn(move || a_device_stops(fault, Health::Failed));
        }
    });
}

/// What is read back from flash while its writes hang and nothing more may wait for them: how many values,
/// and how many that memory alone had were lost meanwhile. `None` when the device was given up before it was
/// full up.
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
    // More than memory holds; each of them twice, so that it deserves a place there.
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
fn reading_what_flash_has_pushes_out_nothing_that_it_cannot_take() {
    // On a busy machine the second that a device is given may be over too early.
    let outcomes = std::iter::repeat_with(reads_while_writes_hang).take(100);
    let seen = outcomes.flatten().find(|(hits, _)| *hits >= 100);
    let (_, lost) = seen.expect("a hundred reads within a second, once in a hundred times");
    assert_eq!(lost, 0);
}

/// How often a writer is told to wait before the device is given up.
fn backpressure_before_the_device_is_given_up() -> u32 {
    let world = World::new(Fault::StallWrite);
    assert!(world.cache.backpressure().is_none(), "nothing waits");
    world.device.inject(Faults::none().with(Fault::StallWrite, 1_000_000));
    let (mut key, mut told) = (0, 0);
    world.until("told so and noticed", || {
        world.set(key);
        key += 1;
        if let Some(backpressure) = world.cache.backpressure() {
            wait(backpressure);
            told += 1;
        }
        world.health() != Health::Ok
    });
    world.device.heal();
    world.gate.open();
    world.until("caught up", || world.cache.backpressure().is_none());
    told
}

#[test]
fn backpressure_ends_within_a_moment_whatever_the_device_does() {
    // Once only would be a wait that lasts until the device is given up. On a busy machine the second that
    // it is given may be over before the writer has come so far.
    let mut told = std::iter::repeat_with(backpressure_before_the_device_is_given_up).take(100);
    assert!(told.any(|told| told > 1), "more than one wait within a second, once in a hundred times");
}
