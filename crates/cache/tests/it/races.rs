//! Both tiers under several threads, with kills: a running cache returns only the values that were
//! written last, and after a kill no value older than the committed one.
//!
//! The scheduler decides on the order of events; the seed chooses the calls. `SANDUR_CACHE_RACES` sets
//! the number of kills (8 by default), `SANDUR_CACHE_SEED` the seed.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // real threads race here

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use bytes::Bytes;
use sandur_cache::device::FaultyDevice;
use sandur_cache::flash::{FlashOptions, Warm};
use sandur_cache::{Cache, CacheOptions, Change, Hint, Item, Put, Read};
use sandur_runtime::Env;
use sandur_runtime::environment::variable;

const KEYS: u64 = 900;
const WRITERS: u64 = 3;
const DEVICE_BYTES: u64 = 16 << 20;
const HINTS: [Hint; 4] = [Hint::Point, Hint::Ingest, Hint::Metadata, Hint::Scan { bytes: 1 }];

/// The state of a key as its only writer knows it.
#[derive(Clone, Debug, Default)]
struct Key {
    /// The newest version; a removal is a version too.
    version: u64,
    is_value: bool,
    /// Whether it was changed in this run.
    is_known: bool,
    /// The oldest version that may be found after a kill.
    floor: u64,
}

type Keys = BTreeMap<u64, Key>;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

struct Life {
    seed: u64,
    cache: Cache,
    device: Arc<FaultyDevice>,
    done: AtomicU64,
    stopped: AtomicBool,
    /// A flush affects all keys, so no other thread changes one meanwhile.
    flushing: RwLock<()>,
}

fn name(key: u64) -> Vec<u8> {
    format!("key/{key:06}").into_bytes()
}

fn value_of(key: u64, version: u64) -> Vec<u8> {
    let mut random = Random(key << 32 | version);
    let magnitude = random.below(16);
    let length = random.below(1 << magnitude);
    let mut value = format!("{key}:{version}:").into_bytes();
    value.extend((0..length).map(|_| random.below(256) as u8));
    value
}

fn wait<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

impl Life {
    fn begin(seed: u64, device: FaultyDevice) -> Self {
        let device = Arc::new(device);
        let flash = FlashOptions {
            warm: Warm::Crash,
            segment_bytes: Some(256 << 10),
            write_buffer_bytes: 1 << 20,
            write_delay: Duration::from_millis(1),
            read_deadline: Duration::from_secs(60),
            ..FlashOptions::default()
        };
        let options = CacheOptions { memory: 2 << 20, flash: Some(flash), ..CacheOptions::default() };
        let cache = Cache::open_over(&Env::system(1), options, Arc::clone(&device) as _).unwrap();
        let (done, stopped) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { seed, cache, device, done, stopped, flushing: RwLock::default() }
    }

    /// The version under a key. Panics if the value is not a valid version of it.
    fn version(&self, key: u64, item: Option<&Item>) -> Option<u64> {
        let value = &item?.value;
        let text = String::from_utf8_lossy(&value[..value.len().min(40)]).into_owned();
        let mut parts = text.split(':');
        let is_of_key = parts.next() == Some(key.to_string().as_str());
        let version = parts.next().and_then(|part| part.parse().ok()).unwrap_or_default();
        let is_right = is_of_key && value[..] == value_of(key, version);
        assert!(is_right, "seed {}: wrong bytes under key {key}: {text:?}", self.seed);
        Some(version)
    }

    fn check(&self, number: u64, key: &Key, item: Option<&Item>) {
        let found = self.version(number, item);
        let is_right = match found {
            None => true,
            Some(version) if key.is_known => key.is_value && version == key.version,
            Some(version) => version >= key.floor && version <= key.version,
        };
        assert!(is_right, "seed {}: key {number} has {found:?}, not {key:?}", self.seed);
    }

    fn get(&self, number: u64, key: &Key) -> bool {
        let item = wait(self.cache.get(&name(number), &Read::default()).wait());
        self.check(number, key, item.as_ref());
        item.is_some()
    }

    fn change(&self, number: u64, key: &mut Key, random: &mut Random) {
        let version = key.version + 1;
        let hint = HINTS[random.below(4) as usize];
        let with = Put { hint, ..Put::default() };
        match random.below(10) {
            0..=3 => {
                let value = Bytes::from(value_of(number, version));
                wait(self.cache.put(&name(number), value, &with).wait());
                key.is_value = true;
            }
            4 => {
                let value = Bytes::from(value_of(number, version));
                let change = move |item: Option<&Item>| (Change::Write(value, with), item.cloned());
                let updated = wait(self.cache.update(&name(number), change).wait());
                self.check(number, key, updated.answer.as_ref());
                key.is_value = true;
            }
            5 => {
                self.cache.remove(&name(number));
                key.is_value = false;
            }
            _ => {
                self.get(number, key);
                return;
            }
        }
        (key.version, key.is_known) = (version, true);
    }

    fn work(&self, writer: u64, keys: &mut Keys) {
        let mut random = Random(self.seed ^ writer << 40);
        while !self.stopped.load(Ordering::Acquire) {
            let number = random.below(KEYS / WRITERS) * WRITERS + writer;
            let changing = self.flushing.read().unwrap();
            self.change(number, keys.entry(number).or_default(), &mut random);
            if random.below(100) == 0 {
                wait(self.cache.committed());
                // The commit was before the kill, so no older version may be found after it.
                if !self.stopped.load(Ordering::Acquire) {
                    keys.values_mut().filter(|key| key.is_known).for_each(|key| key.floor = key.version);
                }
            }
            drop(changing);
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Flushes all keys while the tiers work in the background.
    fn flush(&self) {
        let _alone = self.flushing.write().unwrap();
        self.cache.flush_all(None);
        for number in 0..KEYS {
            let item = wait(self.cache.get(&name(number), &Read::default()).wait());
            assert!(item.is_none(), "seed {}: key {number} outlives a flush", self.seed);
        }
    }
}

#[test]
fn no_stale_value_is_found_while_threads_race_or_after_kills() {
    let number = |name: &str| variable(name).and_then(|text| text.parse::<u64>().ok());
    let seed = number("SANDUR_CACHE_SEED").unwrap_or(1);
    let kills = number("SANDUR_CACHE_RACES").unwrap_or(8);
    println!("seed {seed}, {kills} kills");
    let mut random = Random(seed);
    let mut parts: Vec<Keys> = (0..WRITERS).map(|_| Keys::new()).collect();
    let mut device = FaultyDevice::new(DEVICE_BYTES, seed);
    let (mut found, mut from_flash) = (0, 0);
    for kill in 0..kills {
        let life = Life::begin(seed ^ kill << 8, device);
        let (changes, flush_at) = (random.below(15_000), random.below(60_000));
        let after = std::thread::scope(|scope| {
            for (writer, keys) in (0..WRITERS).zip(&mut parts) {
                let life = &life;
                scope.spawn(move || life.work(writer, keys));
            }
            let wait_for = |count: u64| {
                while life.done.load(Ordering::Relaxed) < count {
                    std::thread::yield_now();
                }
            };
            if flush_at < changes {
                wait_for(flush_at);
                life.flush();
            }
            wait_for(changes);
            // Floors that are set while the copy is taken apply to it, because they were durable before.
            life.stopped.store(true, Ordering::Release);
            life.device.after_kill(seed ^ kill)
        });
        from_flash += life.cache.stats().flash.map_or(0, |flash| flash.hits);
        drop(life);
        let life = Life::begin(seed ^ kill << 8 ^ 1, after);
        while life.cache.is_recovering() {
            std::thread::yield_now();
        }
        for (number, key) in parts.iter_mut().flatten() {
            key.is_known = false;
            found += u64::from(life.get(*number, key));
        }
        device = life.device.after_kill(seed);
    }
    println!("{found} values found after kills, {from_flash} read from flash before");
    assert!(found > 20 * kills && from_flash > 100 * kills, "too few to show anything");
}
