//! The flash tier: a log of segments on a device, and an index of the place of each key.
//!
//! **Life of a record.** [`Flash::append`] copies it into the write buffer of its class's open segment
//! and enters it into the [`index`]; a thread writes full buffers in order. A full segment gets a
//! footer. When free segments run short, the least useful segment is reclaimed: its records that were
//! used are written again, the others are reported to the [`Observer`] and dropped.
//!
//! **Life of a read.** [`Flash::lookup`] looks at the index, without I/O. [`Flash::read`] starts the device
//! reads of any number of keys at once and returns a future for each, which checks key and checksums.
//!
//! **Parts.** `disk` is the device, `space` the segments on it, and `journal` the log of changes.
//! `keyspace` is the index with the effects of a change of a key. `writer` has the open segments and
//! queued writes, `read` the reads. `roots` and `image` hold the state from which a restart begins.
//! `reclaim` frees segments, and `recovery` finds the records of an earlier run. A part owns its state
//! and holds handles to the parts below it; `core` assembles them.
//!
//! Invariants: no call here blocks its caller, except those whose documentation says so. A lookup never
//! returns a value that was not written under its key. Every record that is dropped is reported with its
//! reason.

mod append;
mod clean_stop;
mod cold_start;
mod compact;
mod compaction;
mod core;
mod counters;
mod disk;
mod earlier_run;
mod expiry;
mod foreign;
mod format;
mod health;
mod image;
mod image_load;
mod image_room;
mod index;
mod journal;
mod keyspace;
mod large;
mod layout;
mod listing;
mod new_record;
mod observer;
mod open_segment;
mod options;
mod read;
mod reclaim;
mod reclaim_policy;
mod recovery;
mod replay;
mod retired;
mod roots;
mod scan;
mod segments;
mod space;
#[cfg(test)]
mod tests;
mod threads;
mod touched;
mod unwritten;
mod write_queue;
mod writer;

pub use clean_stop::CleanStop;
pub use compaction::Compaction;
pub use counters::Counts;
pub(crate) use foreign::refuse_foreign;
pub use format::{Class, KEY_BYTES_MAX, Marks, TENANT_BITS};
pub use health::Health;
pub use index::Location;
pub use large::LargeAppend;
pub use listing::KeyInfo;
pub use new_record::NewRecord;
pub use observer::{DropEvent, Dropped, NoObserver, Observer};
pub use options::{FlashError, FlashOptions, Journaling, Warm};
pub use read::{FlashItem, FlashRead, ReadFuture};
pub use segments::{Pool, Segment, SegmentState};

/// Bytes that a value of `value` bytes under a key of `key` bytes occupies on flash.
pub(crate) fn record_footprint(key: usize, value: usize) -> u64 {
    format::units(format::record_bytes(key, value)) * format::UNIT
}

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use sandur_runtime::Env;

use self::cold_start::ColdStart;
use self::core::Core;
use self::disk::Disk;
use self::format::Root;
use self::journal::Place;
use self::layout::Layout;
use self::roots::{FoundRoot, read_root};
use self::threads::Threads;
use crate::device::{Device, FileDevice, OwnReads};

/// The flash tier. Dropping it ends its threads without a clean stop; see [`Flash::close`].
pub struct Flash {
    core: Arc<Core>,
    /// The root of the run before this one, until recovery begins.
    unrecovered: Mutex<Option<Root>>,
    threads: Mutex<Option<Threads>>,
    /// The stop before this run, if it was clean.
    stop_before: Option<CleanStop>,
    /// The stop of this run.
    clean_stop: Mutex<Option<CleanStop>>,
}

/// Counters and sizes of the flash tier.
#[derive(Clone, Debug)]
pub struct FlashStats {
    /// Counters since the start.
    pub counts: Counts,
    /// State of the device.
    pub health: Health,
    /// Whether the records of an earlier run are still being recovered.
    pub is_recovering: bool,
    /// Number of records on flash.
    pub records: u64,
    /// Bytes of memory of the index.
    pub index_bytes: u64,
    /// Bytes of all segments.
    pub capacity_bytes: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// All segments, by slot.
    pub segments: Vec<Segment>,
    /// The first slot of the pool of protected records; the number of slots if there is no such pool.
    pub kept_from: u32,
    /// Number of queued writes.
    pub queued_writes: u64,
    /// Bytes of records that are not on the device yet.
    pub unwritten_bytes: u64,
    /// Bytes of read buffers in use.
    pub read_buffer_bytes: u64,
    /// Number of removals and changes that a crash would undo, because they are not in the journal yet.
    pub journal_waiting: u64,
}

impl Flash {
    /// Opens the files or block devices of `options`. The records of an earlier run are recovered in the
    /// background; until they are, lookups of them miss.
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

    /// As [`Flash::open_over`], without threads.
    fn open_on(
        env: &Env,
        device: Arc<dyn Device>,
        options: FlashOptions,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, FlashError> {
        let layout = Layout::plan(device.size(), options.segment_bytes)?;
        let found = match read_root(&*device)? {
            FoundRoot::Sound(root) => Some(root),
            FoundRoot::Unreadable => {
                cold_start::log_unreadable();
                None
            }
            FoundRoot::New => None,
        };
        let last_turn = found.map_or(0, |root| root.turn);
        let root = found.filter(|root| {
            let why_not = ColdStart::of(root, &layout, &options, device.size());
            why_not.iter().for_each(|why| why.log(root));
            why_not.is_none()
        });
        let disk = Disk::new(env, device, layout, options, root.as_ref());
        let core = Core::new(disk, observer, last_turn, root.as_ref());
        if root.is_none() {
            core.space.table.free_all();
            core.journal.resume(Place { half: 0, epoch: core.keys.earlier.first_id, block: 0 }, true);
        }
        // From here on the content belongs to this run, even if it ends the next moment.
        core.roots.write_root(false)?;
        Ok(Self {
            core: Arc::new(core),
            unrecovered: Mutex::new(root),
            threads: Mutex::new(None),
            stop_before: found.as_ref().and_then(CleanStop::of),
            clean_stop: Mutex::new(None),
        })
    }

    /// The hash of a key, with the seed stored on the device.
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.core.disk.hash(key)
    }

    /// Writes a record. Lookups find it at once; it reaches the device in the background. A record that
    /// cannot be written is reported, and an older value of the key is removed too.
    pub fn append(&self, record: NewRecord<'_>) -> Result<(), Dropped> {
        self.core.writer.append(&record)
    }

    /// Notes that a lookup missed in both tiers: the next value stored may be its answer.
    pub fn note_miss(&self) {
        self.core.policy.arrivals.missed();
    }

    /// The current [tail age](crate::policy::reclaim::TailAge): how long the oldest protected segment
    /// has gone unread. `time` is the current time by [`Admission::time`].
    ///
    /// [`Admission::time`]: crate::policy::Admission::time
    pub fn tail_age_at(&self, time: u64) -> u64 {
        self.core.policy.tail_age.set_time(time);
        self.core.policy.tail_age.bytes()
    }

    /// Returns the place of a key and counts a use of it. `None` is certain. `Some` turns out to be a
    /// miss if the record belongs to another key, has expired or is gone.
    pub fn lookup(&self, hash: u64) -> Option<Location> {
        self.core.keys.lookup(hash, true)
    }

    /// As [`Flash::lookup`], without counting a use.
    pub fn peek(&self, hash: u64) -> Option<Location> {
        self.core.keys.lookup(hash, false)
    }

    /// The id of the segment that holds a location now. Ids are never reused.
    pub fn segment_id(&self, location: &Location) -> u64 {
        self.core.space.table.id(location.slot)
    }

    /// Number of records in the index, including pieces of large values.
    pub fn records(&self) -> u64 {
        self.core.keys.index.len()
    }

    /// Bytes of memory of the index.
    pub fn index_bytes(&self) -> u64 {
        self.core.keys.index.bytes()
    }

    /// Bytes of all segments.
    pub fn capacity(&self) -> u64 {
        self.core.disk.layout.capacity()
    }

    /// See [`Device::own_reads`].
    pub fn own_reads(&self) -> Option<OwnReads> {
        self.core.disk.device.own_reads()
    }

    /// Starts the reads of any number of records at once.
    pub fn read(&self, reads: &[FlashRead<'_>]) -> Vec<ReadFuture> {
        self.core.reader.read(reads)
    }

    /// Removes a key, also after a crash. Returns whether it was there.
    pub fn forget(&self, hash: u64) -> bool {
        self.core.keys.forget(hash)
    }

    /// Changes the expiry (seconds since 1970, 0 for never) of a key. Returns `false` if the key is not
    /// there or the change cannot be stored; then the caller must write the record again.
    pub fn touch(&self, hash: u64, expires_at: u32) -> bool {
        self.core.keys.touch(hash, expires_at)
    }

    /// Removes everything.
    pub fn flush_all(&self) {
        self.core.keys.flush_all();
    }

    /// State of the device.
    pub fn health(&self) -> Health {
        self.core.disk.watch.health()
    }

    /// The current counters and sizes.
    pub fn stats(&self) -> FlashStats {
        let core = &self.core;
        FlashStats {
            counts: core.disk.counters.counts(),
            health: core.disk.watch.health(),
            is_recovering: core.keys.earlier.is_recovering(),
            records: core.keys.index.len(),
            index_bytes: core.keys.index.bytes(),
            capacity_bytes: core.disk.layout.capacity(),
            segment_bytes: core.disk.layout.segment_bytes,
            segments: core.space.table.all(),
            kept_from: core.space.table.count(Pool::General) as u32,
            queued_writes: core.writer.queue.len() as u64,
            unwritten_bytes: core.writer.unwritten_bytes(),
            read_buffer_bytes: core.disk.read_pool.bytes_out(),
            journal_waiting: core.journal.waiting(),
        }
    }

    /// Lists every key, reading one segment after the other from the device. Blocks, for as long as
    /// `visit` takes.
    pub fn keys(&self, visit: &mut dyn FnMut(KeyInfo<'_>) -> ControlFlow<()>) {
        let _ = self.core.reader.keys(visit);
    }

    /// Resolves when all earlier removals, replacements and changes of expiry would survive a crash.
    pub fn committed(&self) -> Committed {
        Committed { core: Arc::clone(&self.core), count: self.core.journal.added() }
    }

    /// Whether the records of an earlier run are still being recovered.
    pub fn is_recovering(&self) -> bool {
        self.core.keys.earlier.is_recovering()
    }

    /// Does the threads' work of a moment, for tests without threads: recovers an earlier run, writes
    /// everything queued, flushes due buffers, commits the journal and reclaims segments. The watchdog
    /// ticks once.
    #[cfg(test)]
    pub fn step(&self) {
        let core = &self.core;
        if let Some(root) = lock(&self.unrecovered).take() {
            core.recover(&root);
        }
        core.watch_reads();
        core.writer.flush_buffers(false);
        while core.writer.write_next(std::time::Duration::ZERO) {}
        core.journal.commit(true);
        core.keep_once();
        core.journal.commit(true);
    }

    /// Stops cleanly: writes everything, with an image of the index, from which the next start recovers
    /// quickly. Blocks until the device has written it.
    pub fn close(&self) {
        self.stop_threads();
        let core = &self.core;
        if let Some(root) = lock(&self.unrecovered).take() {
            core.recover(&root);
        }
        match core.stop_cleanly() {
            Ok(stop) => *lock(&self.clean_stop) = Some(stop),
            Err(why) => tracing::warn!(
                %why,
                records = core.keys.index.len(),
                "flash was not stopped cleanly: the next start treats this stop as a crash"
            ),
        }
    }

    /// Whether the device accepts writes.
    pub fn may_write(&self) -> bool {
        self.core.disk.watch.may_write()
    }

    /// Probes a device that is not in use now, unless an operation on it is still hanging. Returns whether it
    /// accepts writes, or may do so soon. For callers that are about to write for the last time.
    pub fn probe_unless_well(&self) -> bool {
        self.core.probe_unless_well()
    }

    /// The stop of the run before this one; `None` if that run did not stop cleanly, or if there was none.
    pub fn stop_before(&self) -> Option<CleanStop> {
        self.stop_before
    }

    /// The clean stop of this run, once [`Flash::close`] has made it.
    pub fn clean_stop(&self) -> Option<CleanStop> {
        *lock(&self.clean_stop)
    }

    /// Changes when segments are compacted, from now on.
    pub fn set_compaction(&self, compaction: Compaction) {
        self.core.reclaimer.set_compaction(compaction);
    }

    /// Whether a record of `bytes` bytes fits into the write buffers and leaves a quarter of them free
    /// for others.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        let unwritten = self.core.writer.unwritten_bytes();
        unwritten == 0 || unwritten + bytes <= self.core.disk.options.write_buffer_bytes / 4 * 3
    }

    /// Bytes that are kept free for reclaiming and images.
    pub fn reserve_bytes(&self) -> u64 {
        let wanted =
            |pool| if self.core.space.table.has(pool) { self.core.space.free_wanted(pool) } else { 0 };
        (wanted(Pool::General) + wanted(Pool::Protected)) as u64 * self.core.disk.layout.segment_bytes
    }

    /// As [`Flash::append`], but a record that cannot be written is not reported and changes nothing.
    pub fn try_append(&self, record: &NewRecord<'_>) -> Result<(), Dropped> {
        self.core.writer.try_append(record)
    }

    /// Reports a record that was not written.
    pub fn refuse(&self, record: &NewRecord<'_>, reason: Dropped) {
        self.core.writer.refuse(record, reason);
    }

    /// Whether a value is too long for a single record.
    pub fn is_large(&self, record: &NewRecord<'_>) -> bool {
        self.core.writer.is_large(record)
    }

    /// Whether a record would occupy most of the write buffers, so that it must be written piece by piece.
    pub fn is_beyond_buffers(&self, record: &NewRecord<'_>) -> bool {
        let bytes = format::record_bytes(record.key.len(), record.value.len());
        self.core.writer.is_large(record) && bytes > self.core.disk.options.write_buffer_bytes / 4 * 3
    }

    /// Begins to write a large value.
    pub fn begin_large(&self, record: &NewRecord<'_>) -> Result<LargeAppend, Dropped> {
        self.core.writer.check_new(record)?;
        Ok(self.core.writer.begin_large(record))
    }

    /// Writes the next piece of a large value that has unwritten pieces.
    pub fn append_piece(&self, record: &NewRecord<'_>, large: &mut LargeAppend) -> Result<(), Dropped> {
        self.core.writer.append_piece(record, large)
    }

    /// Writes the head of a large value. From then on lookups find the value.
    pub fn append_head(&self, record: &NewRecord<'_>, large: &LargeAppend) -> Result<(), Dropped> {
        self.core.writer.append_head(record, large)
    }

    /// Removes the pieces of a large value that will get no head.
    pub fn abandon_large(&self, record: &NewRecord<'_>, large: &LargeAppend) {
        self.core.writer.abandon_large(record, large);
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
