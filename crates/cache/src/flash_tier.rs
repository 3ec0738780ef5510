//! The flash tier below the RAM tier: offers values to flash, finds them there, and counts what flash
//! drops.
//!
//! Admission decides what is written. Newly written data, metadata and the results of fetches are
//! offered when they are stored, ordinary values when they would leave memory. The reads of one call are
//! submitted to the device together.
//!
//! Invariant: every call that changes a key runs under the lock of the key's shard, so that memory and
//! flash change together.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use sandur_memory::MemoryBudget;
use sandur_runtime::Env;

use crate::device::{Device, FileDevice, OwnReads};
use crate::flash::{
    Class, CleanStop, Committed, DropEvent, Dropped, Flash, FlashError, FlashOptions, FlashRead, Health,
    Location, refuse_foreign,
};
use crate::flash::{KeyInfo, Observer, ReadFuture};
use crate::latency::Histogram;
use crate::options::CacheOptions;
use crate::policy::Verdict;
use crate::policy::ghost::Ghost;
use crate::policy::{self, Admission, AdmissionOptions, Candidate, Churn, Eviction, Occasion, Source};
use crate::ram::record::Record;
use crate::stats::FlashTierStats;
use crate::unix_seconds::unix_seconds;
use crate::write_back::{BUFFER_PAUSE, Backpressure, WriteBackQueue, is_passing};

/// Items that expire within this time go to segments of their own, which are freed as a whole.
const BRIEF_SECONDS: u32 = 3600;
/// Number of keys of dropped records that are remembered, to recognise misses that a larger flash would
/// have answered.
const GONE_KEYS: usize = 200_000;

/// Flash with its policies.
pub(crate) struct FlashTier {
    env: Env,
    flash: Arc<Flash>,
    observer: Arc<TierObserver>,
    write_back: Arc<WriteBackQueue>,
    /// The current flush epoch, which counts calls of `flush_all`. Only items of this epoch are
    /// accepted.
    flushes: RwLock<u32>,
    /// The thread that writes queued values.
    write_back_thread: Mutex<Option<JoinHandle<()>>>,
    pub read_latency: Histogram,
    pub hits: AtomicU64,
    /// Reads whose record was not on the device although the index named it.
    pub misses: AtomicU64,
    pub promoted: AtomicU64,
    /// Misses of keys that were evicted from flash recently.
    missed_evicted: AtomicU64,
}

/// The place of a key on flash. It never names another version of the key later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlashPlace {
    pub location: Location,
    segment: u64,
}

/// Counts records that leave flash.
struct TierObserver {
    env: Env,
    admission: Admission,
    churn: Arc<Churn>,
    /// Keys of records that were evicted.
    gone: Ghost,
}

impl Observer for TierObserver {
    fn dropped(&self, event: DropEvent) {
        if event.reason != Dropped::Evicted {
            return;
        }
        self.admission.made_room();
        if event.hash != 0 && event.records > 0 {
            self.gone.note(event.hash, event.bytes);
        }
        if event.class == Class::Probation && event.hash != 0 {
            self.admission.left_probation(event.hash, event.bytes);
        }
        let (class, source) = match event.class {
            Class::Ingest => (policy::Class::Ingest, Source::Ingest),
            Class::Protected => (policy::Class::Protected, Source::Fill),
            Class::Brief => (policy::Class::Brief, Source::Fill),
            Class::Probation | Class::Image => (policy::Class::Probation, Source::Fill),
        };
        let (tenant, bytes, fetched) = (event.tenant, event.bytes, event.is_fetched);
        let eviction = Eviction { class, source, tenant, age_s: u64::from(event.age_s), bytes, fetched };
        self.churn.count(&eviction, u64::from(unix_seconds(&self.env)));
    }

    fn occupied(&self, tenant: u32, bytes: u64) {
        self.admission.holds(tenant, bytes);
    }

    fn vacated(&self, tenant: u32, bytes: u64) {
        self.admission.dropped(tenant, bytes);
    }
}

impl FlashTier {
    /// Opens `device`; without one, the files that `options` name. `limits` bounds what may be written
    /// to flash and held on it.
    pub fn open(
        env: &Env,
        (options, device): (FlashOptions, Option<Arc<dyn Device>>),
        limits: &CacheOptions,
        (churn, memory): (Arc<Churn>, MemoryBudget),
    ) -> Result<Self, FlashError> {
        let device = match device {
            Some(device) => device,
            None => {
                if options.refuse_foreign {
                    refuse_foreign(&options.parts)?;
                }
                Arc::new(FileDevice::open(&options.parts, options.readers)?)
            }
        };
        let write_back = Arc::new(WriteBackQueue::new(env, options.write_deadline(), memory));
        let capacity = device.size();
        let admission = Admission::new(AdmissionOptions {
            capacity,
            write_bytes_per_day: limits.flash_write_bytes_per_day,
            tenants: limits.tenant_caps.clone(),
            seed: env.random_u64(),
        });
        let gone = Ghost::new(capacity, GONE_KEYS);
        let observer = Arc::new(TierObserver { env: env.clone(), admission, churn, gone });
        let flash =
            Arc::new(Flash::open_over(env, device, options, Arc::clone(&observer) as Arc<dyn Observer>)?);
        let write_back_thread = start_write_back(&flash, &write_back, &observer).map_err(FlashError::Io)?;
        observer.admission.set_capacity(flash.capacity());
        Ok(Self {
            env: env.clone(),
            flash,
            observer,
            write_back,
            flushes: RwLock::new(0),
            write_back_thread: Mutex::new(Some(write_back_thread)),
            read_latency: Histogram::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            promoted: AtomicU64::new(0),
            missed_evicted: AtomicU64::new(0),
        })
    }

    pub fn hash(&self, key: &[u8]) -> u64 {
        self.flash.hash(key)
    }

    /// The queued value of a hash, which is the newest version.
    pub fn waiting(&self, hash: u64) -> Option<Record> {
        self.write_back.get(hash)
    }

    /// Whether the queue is so full that the next item evicted from memory may find no room.
    pub fn is_nearly_full(&self) -> bool {
        self.write_back.is_half_full()
    }

    /// See [`Cache::backpressure`](crate::Cache::backpressure).
    pub fn backpressure(&self) -> Option<Backpressure> {
        self.write_back.backpressure()
    }

    /// The probable place of a key on flash, if its value is not queued.
    pub fn find(&self, hash: u64, counted: bool) -> Option<FlashPlace> {
        let location = if counted { self.flash.lookup(hash) } else { self.flash.peek(hash) }?;
        Some(FlashPlace { location, segment: self.flash.segment_id(&location) })
    }

    /// The store on the device.
    pub fn flash(&self) -> &Flash {
        &self.flash
    }

    /// Counts a lookup of a key that is in no tier.
    pub fn count_miss(&self, hash: u64) {
        self.flash.note_miss();
        if self.observer.gone.take(hash) {
            self.missed_evicted.fetch_add(1, Relaxed);
        }
    }

    /// See [`Device::own_reads`](crate::device::Device::own_reads).
    pub fn own_reads(&self) -> Option<OwnReads> {
        self.flash.own_reads()
    }

    /// Starts all reads at once.
    pub fn read(&self, reads: &[FlashRead<'_>]) -> Vec<ReadFuture> {
        self.flash.read(reads)
    }

    /// Offers a value when it is stored, unless its hint says that it is offered when it leaves memory.
    pub fn offer_stored(&self, hash: u64, record: &Record) -> bool {
        let occasion = Occasion::of_first_offer(record.hint);
        occasion == Occasion::Stored && self.offer_on(occasion, hash, record, 0)
    }

    /// Offers a value that memory has no room for. Returns whether it is on flash now; if not, no older
    /// value is there either.
    pub fn offer(&self, hash: u64, record: &Record, hits: u8) -> bool {
        self.offer_on(Occasion::Leaving, hash, record, hits)
    }

    fn offer_on(&self, occasion: Occasion, hash: u64, record: &Record, hits: u8) -> bool {
        // Memory may still hold items of the epoch that a flush has just ended here.
        let flushes = self.flushes.read().unwrap_or_else(PoisonError::into_inner);
        if record.epoch != *flushes {
            self.forget(hash);
            return false;
        }
        let bytes = (record.key().len() + record.length()) as u64;
        let candidate = Candidate { hash, bytes, tenant: record.tenant, hint: record.hint, hits, occasion };
        let now_ms = self.env.monotonic().as_millis() as u64;
        let admission = &self.observer.admission;
        admission.set_tail_age(self.flash.tail_age_at(admission.time()));
        let Verdict::Admit(class) = admission.decide(&candidate, now_ms) else {
            self.forget(hash);
            return false;
        };
        let is_brief =
            record.expires_at != 0 && record.expires_at.saturating_sub(record.stored_at) < BRIEF_SECONDS;
        let class = match class {
            _ if is_brief => Class::Brief,
            policy::Class::Ingest => Class::Ingest,
            policy::Class::Protected => Class::Protected,
            policy::Class::Brief => Class::Brief,
            policy::Class::Probation | policy::Class::Ram => Class::Probation,
        };
        let value = record.value();
        let new = record.as_new_record(hash, &value, class);
        self.write_back.remove(hash);
        let written = match self.flash.is_beyond_buffers(&new) {
            true => Err(Dropped::BuffersFull),
            false => self.flash.try_append(&new),
        };
        let Err(reason) = written else {
            self.observer.admission.spent(bytes);
            return true;
        };
        // The version on flash is older. It must be gone before the write-back thread can write the
        // value.
        self.flash.forget(hash);
        if is_passing(reason) && self.write_back.add(hash, record, class) {
            return true;
        }
        self.flash.refuse(&new, reason);
        false
    }

    /// Whether an item that leaves memory is still on flash; `used` says whether it was read in memory.
    pub fn still_has(&self, hash: u64, used: bool) -> bool {
        self.waiting(hash).is_some() || self.find(hash, used).is_some()
    }

    /// Number of records on flash and of queued values; none on flash while the device cannot be read.
    pub fn items(&self) -> u64 {
        let on_flash = if self.flash.health() == Health::Failed { 0 } else { self.flash.records() };
        on_flash + self.write_back.len()
    }

    /// Removes a key. Returns whether it was there.
    pub fn forget(&self, hash: u64) -> bool {
        let waited = self.write_back.remove(hash);
        self.flash.forget(hash) || waited
    }

    /// Changes the expiry of a key on flash. Removes the key when the change cannot be stored. Returns
    /// whether the key is still there.
    pub fn touch(&self, hash: u64, expires_at: u32) -> bool {
        self.write_back.touch(hash, expires_at) || self.flash.touch(hash, expires_at) || {
            self.flash.forget(hash);
            false
        }
    }

    /// Voids everything. The caller then begins the next epoch of memory.
    pub fn flush_all(&self) {
        let mut flushes = self.flushes.write().unwrap_or_else(PoisonError::into_inner);
        *flushes = flushes.wrapping_add(1);
        self.write_back.clear();
        self.flash.flush_all();
    }

    /// Waits until there is room for a value of `bytes` bytes, or until `until`. Returns `false` if
    /// there is none by then, or when the device has failed.
    pub fn wait_for_room(&self, bytes: u64, until: Duration) -> bool {
        while !self.flash.may_write() || !self.write_back.has_room_for(bytes) {
            if !self.flash.probe_unless_well() || self.env.monotonic() >= until {
                return false;
            }
            std::thread::park_timeout(BUFFER_PAUSE);
        }
        true
    }

    pub fn is_recovering(&self) -> bool {
        self.flash.is_recovering()
    }

    pub fn keys(&self, see: &mut dyn FnMut(KeyInfo<'_>) -> ControlFlow<()>) {
        self.flash.keys(see);
    }

    pub fn committed(&self) -> Committed {
        self.flash.committed()
    }

    /// Bytes of all segments.
    pub fn capacity(&self) -> u64 {
        self.flash.capacity()
    }

    pub fn index_bytes(&self) -> u64 {
        self.flash.index_bytes()
    }

    pub fn tier_stats(&self) -> FlashTierStats {
        let mut device = self.flash.stats();
        device.unwritten_bytes += self.write_back.bytes();
        FlashTierStats {
            device,
            hits: self.hits.load(Relaxed),
            misses: self.misses.load(Relaxed),
            latency: self.read_latency.snapshot(),
            promoted: self.promoted.load(Relaxed),
            missed_evicted: self.missed_evicted.load(Relaxed),
            reserve_bytes: self.flash.reserve_bytes(),
            refused: self.observer.admission.refusals().collect(),
        }
    }

    /// Writes everything to the device, so that the next start finds it.
    pub fn close(&self) {
        // Each queued value is written or dropped within the queue's patience.
        while !self.write_back.is_empty() && self.is_writing_back() {
            std::thread::park_timeout(BUFFER_PAUSE);
        }
        self.stop_write_back();
        self.flash.close();
    }

    /// See [`Flash::stop_before`].
    pub fn stop_before(&self) -> Option<CleanStop> {
        self.flash.stop_before()
    }

    /// See [`Flash::clean_stop`].
    pub fn clean_stop(&self) -> Option<CleanStop> {
        self.flash.clean_stop()
    }

    fn stop_write_back(&self) {
        self.write_back.close();
        let write_back_thread = self.lock_write_back_thread().take();
        // A panic of the thread was reported when it occurred.
        write_back_thread.map(JoinHandle::join);
    }

    fn is_writing_back(&self) -> bool {
        self.lock_write_back_thread().as_ref().is_some_and(|thread| !thread.is_finished())
    }

    fn lock_write_back_thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.write_back_thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a finished read.
    pub fn count_read(&self, found: bool, since: Duration) {
        let counter = if found { &self.hits } else { &self.misses };
        counter.fetch_add(1, Relaxed);
        self.read_latency.note(self.env.monotonic().saturating_sub(since));
    }
}

/// Starts the write-back thread.
#[allow(clippy::disallowed_methods)] // the thread blocks on the device, as those of the flash tier do
fn start_write_back(
    flash: &Arc<Flash>,
    write_back: &Arc<WriteBackQueue>,
    observer: &Arc<TierObserver>,
) -> std::io::Result<JoinHandle<()>> {
    let (flash, write_back, observer) = (Arc::clone(flash), Arc::clone(write_back), Arc::clone(observer));
    std::thread::Builder::new().name("flash-writeback".to_owned()).spawn(move || {
        write_back.work(&flash, &|record| {
            observer.admission.spent((record.key().len() + record.length()) as u64);
        });
    })
}

impl Drop for FlashTier {
    fn drop(&mut self) {
        self.stop_write_back();
    }
}

impl std::fmt::Debug for FlashTier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FlashTier")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::FaultyDevice;
    use crate::flash::{NewRecord, Warm};

    fn open(device: FaultyDevice) -> (FlashTier, Arc<FaultyDevice>) {
        let device = Arc::new(device);
        let options =
            FlashOptions { segment_bytes: Some(64 << 10), warm: Warm::Crash, ..FlashOptions::default() };
        let shared = (Arc::new(Churn::new()), MemoryBudget::root("cache", 64 << 20));
        let tier = FlashTier::open(
            &Env::system(1),
            (options, Some(Arc::clone(&device) as _)),
            &CacheOptions::default(),
            shared,
        );
        let tier = tier.unwrap();
        while tier.is_recovering() {
            std::thread::yield_now();
        }
        (tier, device)
    }

    #[test]
    fn bytes_held_by_tenants_survive_a_restart() {
        let (tier, device) = open(FaultyDevice::new(8 << 20, 1));
        let value = [7; 5000];
        for key in 0_u32..400 {
            let key_bytes = key.to_le_bytes();
            let record = NewRecord::plain(&key_bytes, tier.hash(&key_bytes), &value, Class::Ingest);
            assert_eq!(tier.flash.append(NewRecord { tenant: 8 + key % 2, cas: 1, ..record }), Ok(()));
        }
        tier.close();
        let held = [7, 8, 9].map(|tenant| tier.observer.admission.held_by(tenant));
        assert!(held[0] == 0 && held[1] >= 1_000_000 && held[2] == held[1], "{held:?}");
        drop(tier);
        let (tier, _device) = open(device.after_kill(1));
        assert_eq!([7, 8, 9].map(|tenant| tier.observer.admission.held_by(tenant)), held);
    }
}
