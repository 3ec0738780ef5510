//! The flash tier: a log of segments on a device, and an index of where each key lies.
//!
//! **Life of a record.** [`Flash::append`] copies it into the write buffer of its class's open
//! segment and puts it into the [`index`]; a thread writes full buffers in order. When a segment is
//! full it gets a footer, and when segments run short the least useful one is reclaimed: what was
//! used in it is written again, the rest is reported to the [`Observer`] and forgotten.
//!
//! **Life of a read.** [`Flash::lookup`] asks the index, without I/O; [`Flash::read`] starts the
//! device reads of any number of keys at once and gives a future for each. Whoever awaits it checks
//! key and checksums.
//!
//! Invariants: nothing here blocks its caller; no value is ever given that was not written under
//! its key; every record that is dropped is reported with its reason.

mod append;
mod clean_stop;
mod compaction;
mod core;
mod counters;
mod expiry;
mod format;
mod health;
mod image;
mod image_room;
mod index;
mod journal;
mod keys;
mod large;
mod layout;
mod observer;
mod options;
mod probe;
mod read;
mod reclaim;
mod recovery;
mod replay;
mod retired;
mod roots;
mod scan;
mod segments;
mod tenants;
#[cfg(test)]
mod tests;
mod threads;
mod touched;
mod unwritten;
mod writer;

pub use append::NewRecord;
pub use clean_stop::CleanStop;
pub use compaction::Compaction;
pub use counters::Counts;
pub use format::{Class, KEY_BYTES_MAX, Marks, TENANT_BITS};
pub use health::Health;
pub use index::Location;
pub use keys::KeyInfo;
pub use large::LargeAppend;
pub use observer::{DropEvent, Dropped, Observer, Unobserved};
pub use options::{FlashError, FlashOptions, Journaling, Warm};
pub use read::{FlashItem, FlashRead, ReadFuture};
pub use segments::{Pool, Segment, SegmentState};

/// Bytes that a value takes on flash under a key of so many bytes.
pub(crate) fn record_footprint(key: usize, value: usize) -> u64 {
    format::units(format::record_bytes(key, value)) * format::UNIT
}

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use sandur_base::Env;

use self::core::Core;
use self::format::{JournalKind, Root};
use self::journal::Place;
use self::layout::Layout;
use self::roots::{may_use, read_root};
use self::threads::Threads;
use crate::device::{Device, FileDevice, OwnReads};

/// The flash tier. Dropping it ends its threads without a clean stop; see [`Flash::close`].
pub struct Flash {
    core: Arc<Core>,
    /// The root of the run before, until recovery begins.
    unrecovered: Mutex<Option<Root>>,
    threads: Mutex<Option<Threads>>,
    /// The stop before this run, if that was a clean one.
    stop_before: Option<CleanStop>,
    /// The stop of this run.
    clean_stop: Mutex<Option<CleanStop>>,
}

/// The figures of the flash tier.
#[derive(Clone, Debug)]
pub struct FlashStats {
    /// What was counted.
    pub counts: Counts,
    /// State of the device.
    pub health: Health,
    /// Records on flash.
    pub records: u64,
    /// Bytes of memory of the index.
    pub index_bytes: u64,
    /// Bytes of all segments.
    pub capacity_bytes: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// All segments, by slot.
    pub segments: Vec<Segment>,
    /// The first slot of the pool of kept records; the number of slots if there is none.
    pub kept_from: u32,
    /// Writes that wait.
    pub queued_writes: u64,
    /// Bytes of records that are not on the device yet.
    pub unwritten_bytes: u64,
    /// Bytes of read buffers that are out.
    pub read_buffer_bytes: u64,
    /// Removals and changes that a crash would undo, since they are not in the journal yet.
    pub journal_waiting: u64,
}

impl Flash {
    /// Opens the files or block devices of `options`. What an earlier run left is found in the
    /// background; until then it misses.
    pub fn open(env: &Env, options: FlashOptions, observer: Arc<dyn Observer>) -> Result<Self, FlashError> {
        let device = Arc::new(FileDevice::open(&options.parts, options.readers)?);
        Self::open_over(env, device, options, observer)
    }

    /// As [`Flash::open`], over any device.
    pub fn open_over(
        env: &Env,
        device: Arc<dyn Device>,
        options: FlashOptions,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, FlashError> {
        let flash = Self::open_on(env, device, options, observer)?;
        let threads = Threads::start(&flash.core, lock(&flash.unrecovered).take())?;
        *lock(&flash.threads) = Some(threads);
        Ok(flash)
    }

    /// As [`Flash::open_over`], without threads: whoever calls [`Flash::step`] does
    /// their work. For simulations.
    pub fn open_on(
        env: &Env,
        device: Arc<dyn Device>,
        options: FlashOptions,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, FlashError> {
        let layout = Layout::plan(device.size(), options.segment_bytes)?;
        let found = read_root(&*device)?;
        let last_turn = found.map_or(0, |root| root.turn);
        let root = found.filter(|root| may_use(root, &layout, &options, device.size()));
        let core = Core::new(env, device, layout, options, observer, root.as_ref());
        core.root_turn.store(last_turn, Ordering::Relaxed);
        if root.is_none() {
            core.table.free_all();
            core.journal.resume(Place { half: 0, epoch: core.first_id, block: 0 }, true);
        }
        // From here on the content is what this run makes of it, also if it ends in the next moment.
        core.write_root(false)?;
        Ok(Self {
            core: Arc::new(core),
            unrecovered: Mutex::new(root),
            threads: Mutex::new(None),
            stop_before: found.as_ref().and_then(CleanStop::of),
            clean_stop: Mutex::new(None),
        })
    }

    /// The hash of a key, with the seed that is kept on the device.
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.core.hash(key)
    }

    /// Writes a record. It can be read at once; it reaches the device in the background. What
    /// cannot be written is reported, and then an older value of the key is gone too.
    pub fn append(&self, record: NewRecord<'_>) -> Result<(), Dropped> {
        self.core.append(&record)
    }

    /// Somebody asked for a key that is nowhere: what comes next may be the answer.
    pub fn note_miss(&self) {
        self.core.newcomers.missed();
    }

    /// How long the oldest of the proven has gone unread, at the time that [`Admission::time`] says.
    ///
    /// [`Admission::time`]: crate::policy::Admission::time
    pub fn tenure_at(&self, time: u64) -> u64 {
        self.core.tenure.set_time(time);
        self.core.tenure.bytes()
    }

    /// Where a key lies, and counts a use of it. `None` is certain; `Some` is a miss after all if
    /// the record turns out to be another's, expired or gone.
    pub fn lookup(&self, hash: u64) -> Option<Location> {
        self.core.lookup(hash, true)
    }

    /// As [`Flash::lookup`], without counting a use.
    pub fn peek(&self, hash: u64) -> Option<Location> {
        self.core.lookup(hash, false)
    }

    /// The number of the segment that a location is in now. Numbers are never used twice.
    pub fn segment_id(&self, location: &Location) -> u64 {
        self.core.table.id(location.slot)
    }

    /// Records that may be found, pieces of long values among them.
    pub fn records(&self) -> u64 {
        self.core.index.len()
    }

    /// Bytes of memory of the index.
    pub fn index_bytes(&self) -> u64 {
        self.core.index.bytes()
    }

    /// Bytes of all segments.
    pub fn capacity(&self) -> u64 {
        self.core.layout.capacity()
    }

    /// See [`Device::own_reads`].
    pub fn own_reads(&self) -> Option<OwnReads> {
        self.core.device.own_reads()
    }

    /// Starts reading any number of records, all at once.
    pub fn read(&self, reads: &[FlashRead<'_>]) -> Vec<ReadFuture> {
        self.core.read(reads)
    }

    /// Removes a key, also after a crash. Whether it was there.
    pub fn forget(&self, hash: u64) -> bool {
        self.core.forget(hash)
    }

    /// Changes the expiry (seconds since 1970, 0 for never) of a key. `false` when the key is not
    /// there or no more changes can be remembered; then the record is to be written again.
    pub fn touch(&self, hash: u64, expires_at: u32) -> bool {
        self.core.touch(hash, expires_at)
    }

    /// Removes everything.
    pub fn flush_all(&self) {
        self.core.flush_all();
    }

    /// State of the device.
    pub fn health(&self) -> Health {
        self.core.watch.health()
    }

    /// The figures of this moment.
    pub fn stats(&self) -> FlashStats {
        let core = &self.core;
        FlashStats {
            counts: core.counters.counts(),
            health: core.watch.health(),
            records: core.index.len(),
            index_bytes: core.index.bytes(),
            capacity_bytes: core.layout.capacity(),
            segment_bytes: core.layout.segment_bytes,
            segments: core.table.all(),
            kept_from: core.table.count(Pool::General) as u32,
            queued_writes: core.queue.len() as u64,
            unwritten_bytes: core.unwritten_bytes(),
            read_buffer_bytes: core.read_pool.bytes_out(),
            journal_waiting: core.journal.waiting(),
        }
    }

    /// Lists every key, one segment after the other, reading them from the device. Blocks; the
    /// visitor sets the pace.
    pub fn keys(&self, visit: &mut dyn FnMut(KeyInfo<'_>) -> ControlFlow<()>) {
        let _ = self.core.keys(visit);
    }

    /// Resolves when all that was removed, replaced and touched so far would stay so after a crash.
    pub fn committed(&self) -> Committed {
        Committed { core: Arc::clone(&self.core), count: self.core.journal.added() }
    }

    /// Whether what an earlier run left is still being found.
    pub fn is_recovering(&self) -> bool {
        self.core.recovering.load(Ordering::Acquire)
    }

    /// Does the work of the threads for a moment: what an earlier run left is found, everything
    /// queued is written, buffers whose time has come are flushed, the journal is committed,
    /// segments are reclaimed.
    pub fn step(&self) {
        let core = &self.core;
        if let Some(root) = lock(&self.unrecovered).take() {
            core.recover(&root);
        }
        core.watch_reads();
        core.flush_buffers(false);
        while core.write_next(Duration::ZERO) {}
        core.commit_journal(true);
        core.keep_once();
        core.commit_journal(true);
    }

    /// Stops: everything is written, with an image of the index, so that the next start finds it all
    /// at once.
    pub fn close(&self) {
        self.stop_threads();
        let core = &self.core;
        if let Some(root) = lock(&self.unrecovered).take() {
            core.recover(&root);
        }
        core.seal_all();
        while core.write_next(Duration::ZERO) {}
        let is_written = core.commit_journal(true);
        // The image may need more segments than are free; the oldest records make room for it.
        for _ in 0..core.table.len() {
            let is_clean = is_written && core.write_image(true);
            if is_clean {
                let turn = core.root_turn.load(Ordering::Relaxed);
                *lock(&self.clean_stop) = Some(CleanStop::new(core.device_id, turn));
            }
            let lacks_room = !is_clean && !core.has_room_for_image() && core.watch.may_write();
            if !is_written || !lacks_room || !core.reclaim_for_image() {
                break;
            }
            while core.write_next(Duration::ZERO) {}
        }
    }

    /// The stop of the run before this one; `None` when that did not end cleanly, or there was none.
    pub fn stop_before(&self) -> Option<CleanStop> {
        self.stop_before
    }

    /// The stop of this run, once [`Flash::close`] has brought it about.
    pub fn clean_stop(&self) -> Option<CleanStop> {
        *lock(&self.clean_stop)
    }

    fn stop_threads(&self) {
        let threads = lock(&self.threads).take();
        if let Some(mut threads) = threads {
            threads.stop(&self.core);
        }
    }
}

/// See [`Flash::committed`].
pub struct Committed {
    core: Arc<Core>,
    count: u64,
}

impl Future for Committed {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.core.journal.is_durable(self.count, context.waker()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Flash {
    fn drop(&mut self) {
        self.stop_threads();
    }
}

impl Core {
    fn lookup(&self, hash: u64, count: bool) -> Option<Location> {
        if !self.watch.may_read() {
            return None;
        }
        // Asked before the look: recovery may end between the two, after it has taken back what is found.
        let is_certain = !self.recovering.load(Ordering::Acquire);
        let entry = self.index.find(hash, count)?;
        // What recovery has found may be void by an event that it has not come to yet.
        if !is_certain && self.is_of_earlier_run(&entry) {
            return None;
        }
        if count && entry.frequency == 0 {
            self.table.add_used(entry.location.slot, u64::from(entry.location.units) * format::UNIT);
        }
        (!entry.location.expiry.is_past(self.now())).then_some(entry.location)
    }

    fn forget(&self, hash: u64) -> bool {
        let _key = self.lock_key(hash);
        self.remove_while_recovering(hash);
        let may_come_back = self.may_come_back(hash);
        let removed = self.index.remove(hash);
        if let Some(entry) = &removed {
            self.unlink(entry);
            self.touched.forget(hash);
        }
        if may_come_back {
            self.note(hash, JournalKind::Forgotten);
        }
        removed.is_some()
    }

    fn touch(&self, hash: u64, expires_at: u32) -> bool {
        let expiry = expiry::Coarse::new(expires_at, self.now());
        if !self.index.set_expiry(hash, expiry) || !self.touched.set(hash, expires_at) {
            return false;
        }
        self.note(hash, JournalKind::Touched { expires_at });
        true
    }

    fn flush_all(&self) {
        let _keys = self.lock_all_keys();
        let _recovery_waits = self.lock_removed();
        let below = self.next_sequence();
        self.flushed_below.store(below, Ordering::Release);
        self.note(0, JournalKind::Flushed);
        // The root says so too, for when there is no journal.
        self.journal.want_root();
        self.touched.clear();
        let records = self.index.retain(|_| false);
        let bytes = self.table.all().iter().map(|segment| segment.live_bytes).sum();
        self.table.clear_live();
        let (class, is_fetched) = (Class::Ingest, false);
        let reason = Dropped::Flushed;
        self.report(DropEvent { reason, class, hash: 0, records, bytes, age_s: 0, tenant: 0, is_fetched });
    }
}
