//! Kills while several threads change keys and the threads of the flash tier write, reclaim and take
//! images: recovered values are not older than those whose journal entries are durable. Also lookups
//! during the end of a recovery, which the kills meet only once in thousands.
//!
//! The scheduler decides on the order of events; the seed chooses the calls. `SANDUR_CACHE_FLASH_RACES`
//! sets the number of kills (12 by default), `SANDUR_CACHE_SEED` the seed.

#![allow(clippy::disallowed_methods)] // real threads race here

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use sandur_runtime::Env;
use sandur_runtime::environment::variable;

use super::world::{name_of, small_options, value_of, version_of};
use crate::device::FaultyDevice;
use crate::flash::expiry::Coarse;
use crate::flash::index::{Entry, Location};
use crate::flash::threads::Threads;
use crate::flash::{Class, Flash, FlashOptions, FlashRead, NewRecord, NoObserver, Warm, lock};

const KEYS: u32 = 300;
const WRITERS: u32 = 3;
const DEVICE_BYTES: u64 = 4 << 20;

/// The state of a key as its only writer knows it.
#[derive(Clone, Debug, Default)]
struct Key {
    /// The newest version, and whether it is a value. A removal is a version too.
    version: u32,
    is_value: bool,
    /// Whether it was changed in this run.
    is_known: bool,
    /// Versions below which a crash must not go back: pairs of a number of durable journal entries and a
    /// version, and a version that always applies.
    floors: Vec<(u64, u32)>,
    floor: u32,
}

struct Life {
    seed: u64,
    flash: Flash,
    device: Arc<FaultyDevice>,
    done: AtomicU64,
    stopped: AtomicBool,
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

impl Life {
    fn begin(seed: u64, device: FaultyDevice) -> Self {
        let device = Arc::new(device);
        // In every second run most of the device is for protected records.
        let kept_bytes = if seed >> 8 & 1 == 1 { DEVICE_BYTES / 4 * 3 } else { 0 };
        let segment_bytes = Some(64 << 10);
        let options = FlashOptions { warm: Warm::Crash, segment_bytes, kept_bytes, ..small_options() };
        let options = FlashOptions { write_delay: std::time::Duration::from_millis(1), ..options };
        let env = Env::system(1);
        let flash = Flash::open_on(&env, Arc::clone(&device) as _, options, Arc::new(NoObserver)).unwrap();
        let threads = Threads::start(&flash.core, lock(&flash.unrecovered).take()).unwrap();
        *lock(&flash.threads) = Some(threads);
        let (done, stopped) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { seed, flash, device, done, stopped }
    }

    /// The version under a key. Panics if the value is not a valid version of it.
    fn read(&self, key: u32) -> Option<u32> {
        let name = name_of(key);
        let hash = self.flash.hash(&name);
        let location = self.flash.lookup(hash)?;
        let mut reading = self.flash.read(&[FlashRead { key: &name, hash, location, range: None }]).pop()?;
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let item = loop {
            match Pin::new(&mut reading).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(item) => break item?,
                Poll::Pending => std::thread::park(),
            }
        };
        let version = version_of(key, &item.value);
        assert!(version.is_some(), "seed {}: wrong bytes under key {key}", self.seed);
        version
    }

    fn write(&self, key: u32, version: u32, random: &mut Random) -> bool {
        let magnitude = random.below(14);
        let value = value_of(key, version, 8 + random.below(1 << magnitude) as usize);
        let name = name_of(key);
        let (hash, class) = (self.flash.hash(&name), Class::OF_RECORDS[random.below(4) as usize]);
        let cas = u64::from(version);
        self.flash.append(NewRecord { cas, ..NewRecord::plain(&name, hash, &value, class) }).is_ok()
    }

    /// Makes a call of the writer that owns the key.
    fn change(&self, number: u32, key: &mut Key, random: &mut Random) {
        let hash = self.flash.hash(&name_of(number));
        match random.below(10) {
            // A new value: written at once, or put into memory first, which removes the version on flash.
            0..=3 => {
                key.version += 1;
                key.is_value = self.write(number, key.version, random);
            }
            4 => {
                (key.version, key.is_value) = (key.version + 1, true);
                self.flash.forget(hash);
            }
            // Memory evicts its value.
            5..=6 if key.is_value => key.is_value = self.write(number, key.version, random),
            7 => {
                (key.version, key.is_value) = (key.version + 1, false);
                self.flash.forget(hash);
            }
            _ => {
                let found = self.read(number);
                let is_right = match found {
                    None => true,
                    Some(version) if key.is_known => key.is_value && version == key.version,
                    Some(version) => version >= key.floor && version <= key.version,
                };
                assert!(is_right, "seed {}: key {number} has {found:?}, not {key:?}", self.seed);
                return;
            }
        }
        key.is_known = true;
        key.floors.push((self.flash.core.journal.added(), key.version));
    }

    fn work(&self, writer: u32, keys: &mut BTreeMap<u32, Key>) {
        let mut random = Random(self.seed ^ u64::from(writer) << 40);
        while !self.stopped.load(Ordering::Acquire) {
            let number = random.below(u64::from(KEYS / WRITERS)) as u32 * WRITERS + writer;
            self.change(number, keys.entry(number).or_default(), &mut random);
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// After a kill: keeps the durable versions as floors and forgets the rest.
fn settle(keys: &mut BTreeMap<u32, Key>, durable: u64) {
    for key in keys.values_mut() {
        let settled = key.floors.iter().filter(|(count, _)| *count <= durable).map(|(_, version)| *version);
        key.floor = settled.max().unwrap_or_default().max(key.floor);
        key.floors.clear();
        key.is_known = false;
    }
}

#[test]
fn no_stale_value_is_found_after_kills_at_any_point_of_many_threads() {
    let number = |name: &str| variable(name).and_then(|text| text.parse::<u64>().ok());
    let seed = number("SANDUR_CACHE_SEED").unwrap_or(1);
    let kills = number("SANDUR_CACHE_FLASH_RACES").unwrap_or(12);
    println!("seed {seed}, {kills} kills");
    let mut random = Random(seed);
    let mut parts: Vec<BTreeMap<u32, Key>> = (0..WRITERS).map(|_| BTreeMap::new()).collect();
    let mut device = FaultyDevice::new(DEVICE_BYTES, seed);
    let (mut found, mut images, mut reclaimed) = (0, 0, 0);
    for kill in 0..kills {
        let life = Life::begin(seed ^ kill << 8, device);
        let changes = random.below(100_000);
        let (after, durable) = std::thread::scope(|scope| {
            for (writer, keys) in (0..WRITERS).zip(&mut parts) {
                let life = &life;
                scope.spawn(move || life.work(writer, keys));
            }
            while life.done.load(Ordering::Relaxed) < changes {
                std::thread::yield_now();
            }
            let durable = life.flash.core.journal.durable();
            let after = life.device.after_kill(seed ^ kill);
            life.stopped.store(true, Ordering::Release);
            (after, durable)
        });
        let counts = life.flash.stats().counts;
        (images, reclaimed) = (images + counts.images_written, reclaimed + counts.segments_reclaimed);
        drop(life);
        parts.iter_mut().for_each(|keys| settle(keys, durable));
        let life = Life::begin(seed ^ kill << 8 ^ 1, after);
        while life.flash.is_recovering() {
            std::thread::yield_now();
        }
        for (number, key) in parts.iter().flatten() {
            let Some(version) = life.read(*number) else { continue };
            let possible = key.floor <= version && version <= key.version;
            assert!(possible, "seed {seed}, kill {kill}: key {number} has version {version} of {key:?}");
            found += 1;
        }
        device = life.device.after_kill(seed);
    }
    println!("{found} values recovered; {images} images, {reclaimed} segments reclaimed meanwhile");
    assert!(found > 20 * kills && images > 0 && reclaimed > 0, "too few to show anything");
}

/// Number of ends of a recovery during lookups of other threads, each at another point of them.
const ENDS: u64 = 100_000;
/// Threads that look up: many more than processors, so that some are interrupted within a lookup.
const LOOKING: usize = 16;

#[test]
fn a_record_that_recovery_undoes_is_not_found_at_its_end() {
    let device = Arc::new(FaultyDevice::new(DEVICE_BYTES, 1));
    let flash = Flash::open_on(&Env::system(1), device, small_options(), Arc::new(NoObserver)).unwrap();
    let core = &flash.core;
    // A record in a slot that is not used in this run.
    let location =
        Location { slot: 3, offset: 8, units: 4, expiry: Coarse::new(0, core.disk.now()), is_large: false };
    let entry = Entry::new(location);
    assert!(core.keys.is_of_earlier_run(&entry));
    // A recovery never follows another one: a thread that looks for a key of one does not look for it in
    // the next.
    let hash_in = |end: u64| core.disk.hash(&end.to_le_bytes());
    let present = AtomicU64::new(ENDS);
    let (is_over, seen, found) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..LOOKING {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    let hash = hash_in(present.load(Ordering::Acquire));
                    found.fetch_add(u64::from(core.keys.lookup(hash, false).is_some()), Ordering::Relaxed);
                    seen.fetch_add(u64::from(core.keys.index.has(hash)), Ordering::Relaxed);
                }
            });
        }
        for end in 0..ENDS {
            core.keys.earlier.begin();
            present.store(end, Ordering::Release);
            let hash = hash_in(end);
            core.keys.index.insert(hash, entry);
            (0..end % 64).for_each(|_| std::hint::spin_loop());
            core.keys.index.remove_at(hash, location.slot, location.offset);
            core.keys.earlier.end();
        }
        is_over.store(true, Ordering::Release);
    });
    println!("the entry was present in {seen:?} lookups");
    assert_eq!(found.into_inner(), 0, "a void record was found");
}
