//! A flash tier over the faulty device, with a clock that tests advance and a model of the written values.
//!
//! Every byte of a value follows from its key and version, so that [`World::check`] detects a wrong
//! byte, a value of another key and an old value.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sandur_runtime::Env;

use crate::device::FaultyDevice;
use crate::flash::core::Core;
use crate::flash::{
    Class, DropEvent, Dropped, Flash, FlashError, FlashItem, FlashOptions, FlashRead, NewRecord, Observer,
    Warm,
};
use crate::flash::{ReadFuture, SegmentState};
use crate::unix_seconds::unix_seconds;

/// Counts drops by reason.
#[derive(Default)]
pub struct Tally(Mutex<BTreeMap<Dropped, u64>>);

impl Observer for Tally {
    fn dropped(&self, drop: DropEvent) {
        *self.0.lock().unwrap().entry(drop.reason).or_default() += drop.records;
    }
}

impl Tally {
    pub fn of(&self, reason: Dropped) -> u64 {
        self.0.lock().unwrap().get(&reason).copied().unwrap_or_default()
    }

    pub fn all(&self) -> u64 {
        self.0.lock().unwrap().values().sum()
    }
}

/// The state of a key in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It was written with this version.
    Written(u32),
    /// It was removed after this version.
    Removed(u32),
}

/// The test world. See the module.
pub struct World {
    runtime: tokio::runtime::Runtime,
    pub env: Env,
    pub device: Arc<FaultyDevice>,
    pub flash: Flash,
    pub tally: Arc<Tally>,
    pub model: Model,
    pub seed: u64,
    random: u64,
}

/// The written values.
#[derive(Clone, Default)]
pub struct Model {
    pub known: BTreeMap<u32, Known>,
    /// The last version that was tried under each key.
    pub tried: BTreeMap<u32, u32>,
}

/// A key outside of the model, which is written while the device hangs.
const MEANWHILE: u32 = 1 << 30;

/// Plays the other threads while an operation of the device hangs: the watchdog ticks, and callers store
/// and look up. If a lock were held during the operation, they would hang too.
fn go_on(core: &Core, ticks: u32) {
    let (name, value) = (name_of(MEANWHILE), value_of(MEANWHILE, 1, 500));
    let hash = core.disk.hash(&name);
    let class = Class::OF_RECORDS[ticks as usize % 4];
    let record = NewRecord { tenant: 7, cas: 1, ..NewRecord::plain(&name, hash, &value, class) };
    let _ = core.writer.append(&record);
    let _ = core.keys.lookup(hash, true);
    for _ in 0..ticks {
        let advance = std::pin::pin!(tokio::time::advance(Duration::from_millis(100)));
        // The clock advances at the first poll.
        let _ = advance.poll(&mut Context::from_waker(Waker::noop()));
        core.watch_reads();
    }
}

pub fn small_options() -> FlashOptions {
    FlashOptions {
        segment_bytes: Some(128 << 10),
        write_buffer_bytes: 8 << 20,
        write_delay: Duration::from_millis(100),
        ..FlashOptions::default()
    }
}

/// As [`small_options`], for devices whose content survives crashes.
pub fn warm_options() -> FlashOptions {
    FlashOptions { warm: Warm::Crash, ..small_options() }
}

/// The value of a version of a key.
pub fn value_of(key: u32, version: u32, bytes: usize) -> Vec<u8> {
    let mut value = Vec::with_capacity(bytes + 8);
    value.extend_from_slice(&key.to_le_bytes());
    value.extend_from_slice(&version.to_le_bytes());
    let mut state = u64::from(key) << 32 | u64::from(version) | 1;
    while value.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        value.extend_from_slice(&state.to_le_bytes());
    }
    value.truncate(bytes.max(8));
    value
}

pub fn name_of(key: u32) -> Vec<u8> {
    format!("key-{key:08}").into_bytes()
}

/// The version of a value, if every byte is that version's.
pub fn version_of(key: u32, value: &[u8]) -> Option<u32> {
    let version = u32::from_le_bytes(value.get(4..8)?.try_into().ok()?);
    (value == value_of(key, version, value.len())).then_some(version)
}

/// Whether a version may be found under a key after a crash: it is not older than the durable one and
/// not newer than the last one tried.
pub fn is_possible(version: u32, durable: Option<&Known>, tried: Option<&u32>) -> bool {
    let is_new_enough = match durable {
        None => true,
        Some(Known::Written(durable)) => version >= *durable,
        Some(Known::Removed(durable)) => version > *durable,
    };
    is_new_enough && tried.is_some_and(|tried| version <= *tried)
}

impl World {
    pub fn new(seed: u64, device_bytes: u64, options: FlashOptions) -> Self {
        Self::over(seed, FaultyDevice::new(device_bytes, seed), options, Model::default())
    }

    pub fn over(seed: u64, device: FaultyDevice, options: FlashOptions, model: Model) -> Self {
        Self::try_over(seed, device, options, model).unwrap()
    }

    /// Starts a new run over the device of an earlier one, if the device permits it.
    pub fn try_over(
        seed: u64,
        device: FaultyDevice,
        options: FlashOptions,
        model: Model,
    ) -> Result<Self, FlashError> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let (device, tally) = (Arc::new(device), Arc::new(Tally::default()));
        let (env, flash) = runtime.block_on(async {
            let env = Env::simulated(seed, 1_800_000_000_000_000_000);
            let observer: Arc<dyn Observer> = Arc::clone(&tally) as _;
            let flash = Flash::open_on(&env, Arc::clone(&device) as _, options, observer);
            (env, flash)
        });
        let flash = flash?;
        let core = Arc::downgrade(&flash.core);
        device.while_it_hangs(move |ticks| {
            if let Some(core) = core.upgrade() {
                go_on(&core, ticks);
            }
        });
        Ok(Self { runtime, env, device, flash, tally, model, seed, random: seed ^ 0x5EED })
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % bound
    }

    pub fn now(&self) -> u32 {
        self.runtime.block_on(async { unix_seconds(&self.env) })
    }

    pub fn put(&mut self, key: u32, bytes: usize) -> Result<(), Dropped> {
        self.put_as(key, bytes, Class::Ingest, 0)
    }

    pub fn put_as(&mut self, key: u32, bytes: usize, class: Class, expires_at: u32) -> Result<(), Dropped> {
        let version = self.model.tried.get(&key).map_or(1, |tried| tried + 1);
        self.model.tried.insert(key, version);
        let (name, value) = (name_of(key), value_of(key, version, bytes));
        let hash = self.flash.hash(&name);
        let (flags, tenant, cas) = (key, 7, u64::from(version));
        let record =
            NewRecord { flags, expires_at, tenant, cas, ..NewRecord::plain(&name, hash, &value, class) };
        let outcome = self.at_once(|| self.flash.append(record));
        let known = if outcome.is_ok() { Known::Written(version) } else { Known::Removed(version) };
        self.model.known.insert(key, known);
        outcome
    }

    pub fn forget(&mut self, key: u32) -> bool {
        if let Some(Known::Written(version)) = self.model.known.get(&key).copied() {
            self.model.known.insert(key, Known::Removed(version));
        }
        let hash = self.flash.hash(&name_of(key));
        self.at_once(|| self.flash.forget(hash))
    }

    /// Makes a call that must not wait, and must not cause a device operation for which its caller waits.
    fn at_once<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = (self.device.blocking_operations(), self.elapsed());
        let outcome = self.in_its_time(work);
        let after = (self.device.blocking_operations(), self.elapsed());
        assert_eq!(before, after, "seed {}: a call waited for the device", self.seed);
        outcome
    }

    /// Runs `work` with the clock of this world.
    pub fn in_its_time<T>(&self, work: impl FnOnce() -> T) -> T {
        self.runtime.block_on(async { work() })
    }

    /// Time since the start of the world.
    pub fn elapsed(&self) -> Duration {
        self.runtime.block_on(async { self.env.monotonic() })
    }

    pub fn flush_all(&mut self) {
        for known in self.model.known.values_mut() {
            if let Known::Written(version) = *known {
                *known = Known::Removed(version);
            }
        }
        self.runtime.block_on(async { self.flash.flush_all() });
    }

    /// Advances the clock and runs the background work.
    pub fn step(&self, advance: Duration) {
        self.runtime.block_on(async {
            tokio::time::advance(advance).await;
            self.flash.step();
        });
    }

    pub fn get(&self, key: u32) -> Option<FlashItem> {
        self.get_range(key, None)
    }

    /// Starts a read of a key.
    pub fn start_get(&self, key: u32, range: Option<std::ops::Range<u64>>) -> Option<ReadFuture> {
        let name = name_of(key);
        let hash = self.flash.hash(&name);
        self.at_once(|| {
            let location = self.flash.lookup(hash)?;
            self.flash.read(&[FlashRead { key: &name, hash, location, range }]).pop()
        })
    }

    /// Reads a key. A read that takes two seconds hangs.
    pub fn get_range(&self, key: u32, range: Option<std::ops::Range<u64>>) -> Option<FlashItem> {
        let mut future = self.start_get(key, range)?;
        for _ in 0..20 {
            match self.poll(&mut future) {
                Poll::Ready(item) => return item,
                Poll::Pending => self.step(Duration::from_millis(100)),
            }
        }
        panic!("seed {}: a read hangs", self.seed);
    }

    pub fn poll(&self, reading: &mut ReadFuture) -> Poll<Option<FlashItem>> {
        self.runtime.block_on(async { Pin::new(reading).poll(&mut Context::from_waker(Waker::noop())) })
    }

    /// Reads a key and compares the answer with the model. Returns whether it was there.
    pub fn check(&self, key: u32) -> bool {
        let Some(item) = self.get(key) else { return false };
        let seed = self.seed;
        let version = version_of(key, &item.value);
        assert!(version.is_some(), "seed {seed}: wrong bytes under key {key}");
        assert_eq!((item.flags, item.tenant), (key, 7), "seed {seed}: wrong fields of key {key}");
        let known = self.model.known.get(&key).copied();
        assert_eq!(version.map(Known::Written), known, "seed {seed}: an old value of key {key}");
        true
    }

    /// Checks every key of the model. Returns the number of those that are there.
    pub fn check_all(&self) -> usize {
        self.model.known.keys().filter(|&&key| self.check(key)).count()
    }

    /// Whether all earlier removals and replacements would survive a crash.
    pub fn is_committed(&self) -> bool {
        let core = &self.flash.core;
        core.journal.is_durable(core.journal.added(), Waker::noop())
    }

    /// The keys whose record is in a segment that is completely on the device.
    pub fn sealed_keys(&self) -> Vec<u32> {
        let core = &self.flash.core;
        let is_sealed = |key: &&u32| {
            let entry = core.keys.index.find(core.disk.hash(&name_of(**key)), false);
            let state = entry.map(|entry| core.space.table.segment(entry.location.slot).state);
            state == Some(SegmentState::Sealed)
        };
        self.model.known.keys().filter(is_sealed).copied().collect()
    }

    /// A clean stop.
    pub fn close(self) -> (Arc<FaultyDevice>, Model) {
        let Self { runtime, flash, device, model, .. } = self;
        runtime.block_on(async { flash.close() });
        (device, model)
    }
}
