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
//! **Parts.** `disk` is the device, `space` the segments on it, `journal` the log of changes, `keyspace` the
//! index and what a change of a key entails, `writer` the open segments and queued writes, `read` the reads,
//! `roots` and `image` what a restart begins with, `reclaim` what makes room, `recovery` what finds the
//! records of an earlier run. A part owns its state and holds handles to the parts below it; `core` puts them
//! together.
//!
//! Invariants: nothing here blocks its caller; no value is ever given that was not written under
//! its key; every record that is dropped is reported with its reason.

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
pub use format::{Class, KEY_BYTES_MAX, Marks, TENANT_BITS};
pub use health::Health;
pub use index::Location;
pub use large::LargeAppend;
pub use listing::KeyInfo;
pub use new_record::NewRecord;
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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use sandur_base::Env;

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
    /// Whether what an earlier run left is still being found.
    pub is_recovering: bool,
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
        // From here on the content is what this run makes of it, also if it ends in the next moment.
        core.roots.write_root(false)?;
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
        self.core.disk.hash(key)
    }

    /// Writes a record. It can be read at once; it reaches the device in the background. What
    /// cannot be written is reported, and then an older value of the key is gone too.
    pub fn append(&self, record: NewRecord<'_>) -> Result<(), Dropped> {
        self.core.writer.append(&record)
    }

    /// A lookup missed in both tiers: what is stored next may be its answer.
    pub fn note_miss(&self) {
        self.core.policy.arrivals.missed();
    }

    /// How long the oldest protected segment has gone unread, at the time that [`Admission::time`] says.
    ///
    /// [`Admission::time`]: crate::policy::Admission::time
    pub fn tail_age_at(&self, time: u64) -> u64 {
        self.core.policy.tail_age.set_time(time);
        self.core.policy.tail_age.bytes()
    }

    /// Where a key lies, and counts a use of it. `None` is certain; `Some` is a miss after all if
    /// the record turns out to be another's, expired or gone.
    pub fn lookup(&self, hash: u64) -> Option<Location> {
        self.core.keys.lookup(hash, true)
    }

    /// As [`Flash::lookup`], without counting a use.
    pub fn peek(&self, hash: u64) -> Option<Location> {
        self.core.keys.lookup(hash, false)
    }

    /// The number of the segment that a location is in now. Numbers are never used twice.
    pub fn segment_id(&self, location: &Location) -> u64 {
        self.core.space.table.id(location.slot)
    }

    /// Records that may be found, pieces of long values among them.
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

    /// Starts reading any number of records, all at once.
    pub fn read(&self, reads: &[FlashRead<'_>]) -> Vec<ReadFuture> {
        self.core.reader.read(reads)
    }

    /// Removes a key, also after a crash. Whether it was there.
    pub fn forget(&self, hash: u64) -> bool {
        self.core.keys.forget(hash)
    }

    /// Changes the expiry (seconds since 1970, 0 for never) of a key. `false` when the key is not
    /// there or no more changes can be remembered; then the record is to be written again.
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

    /// The figures of this moment.
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

    /// Lists every key, one segment after the other, reading them from the device. Blocks; the
    /// visitor sets the pace.
    pub fn keys(&self, visit: &mut dyn FnMut(KeyInfo<'_>) -> ControlFlow<()>) {
        let _ = self.core.reader.keys(visit);
    }

    /// Resolves when all that was removed, replaced and touched so far would stay so after a crash.
    pub fn committed(&self) -> Committed {
        Committed { core: Arc::clone(&self.core), count: self.core.journal.added() }
    }

    /// Whether what an earlier run left is still being found.
    pub fn is_recovering(&self) -> bool {
        self.core.keys.earlier.is_recovering()
    }

    /// Does the work of the threads for a moment: what an earlier run left is found, everything
    /// queued is written, buffers whose time has come are flushed, the journal is committed,
    /// segments are reclaimed. One tick of the watch passes. For tests without threads.
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

    /// Stops: everything is written, with an image of the index, so that the next start finds it all
    /// at once. Takes as long as the device needs.
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
                "the stop of flash is not a clean one: the next start treats it as a crash"
            ),
        }
    }

    /// Whether the device takes writes.
    pub fn may_write(&self) -> bool {
        self.core.disk.watch.may_write()
    }

    /// Probes a device that is out of use at once, unless an operation on it has not returned. Whether it
    /// takes writes, or may do so soon. For who is about to write for the last time.
    pub fn probe_unless_well(&self) -> bool {
        self.core.probe_unless_well()
    }

    /// The stop of the run before this one; `None` when that did not end cleanly, or there was none.
    pub fn stop_before(&self) -> Option<CleanStop> {
        self.stop_before
    }

    /// The stop of this run, once [`Flash::close`] has brought it about.
    pub fn clean_stop(&self) -> Option<CleanStop> {
        *lock(&self.clean_stop)
    }

    /// Changes when segments are compacted, from now on.
    pub fn set_compaction(&self, compaction: Compaction) {
        self.core.reclaimer.set_compaction(compaction);
    }

    /// Whether a record of so many bytes would find room in the write buffers with a quarter left for
    /// others.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        let unwritten = self.core.writer.unwritten_bytes();
        unwritten == 0 || unwritten + bytes <= self.core.disk.options.write_buffer_bytes / 4 * 3
    }

    /// Bytes that are kept free for reclaiming and images, and never hold records for long.
    pub fn reserve_bytes(&self) -> u64 {
        let wanted =
            |pool| if self.core.space.table.has(pool) { self.core.space.free_wanted(pool) } else { 0 };
        (wanted(Pool::General) + wanted(Pool::Protected)) as u64 * self.core.disk.layout.segment_bytes
    }

    /// As [`Flash::append`], but what cannot be written is not reported and leaves everything as it was.
    pub fn try_append(&self, record: &NewRecord<'_>) -> Result<(), Dropped> {
        self.core.writer.try_append(record)
    }

    /// Reports a record that was not written.
    pub fn refuse(&self, record: &NewRecord<'_>, reason: Dropped) {
        self.core.writer.refuse(record, reason);
    }

    /// Whether a value is too long for one record.
    pub fn is_large(&self, record: &NewRecord<'_>) -> bool {
        self.core.writer.is_large(record)
    }

    /// Whether a record would take most of the write buffers, so that it should be written step by step.
    pub fn is_beyond_buffers(&self, record: &NewRecord<'_>) -> bool {
        let bytes = format::record_bytes(record.key.len(), record.value.len());
        self.core.writer.is_large(record) && bytes > self.core.disk.options.write_buffer_bytes / 4 * 3
    }

    /// Begins to write a large value.
    pub fn begin_large(&self, record: &NewRecord<'_>) -> Result<LargeAppend, Dropped> {
        self.core.writer.check_new(record)?;
        Ok(self.core.writer.begin_large(record))
    }

    /// Writes the next piece of a large value that has not all of them.
    pub fn append_piece(&self, record: &NewRecord<'_>, large: &mut LargeAppend) -> Result<(), Dropped> {
        self.core.writer.append_piece(record, large)
    }

    /// Writes the head of a large value, which makes it found.
    pub fn append_head(&self, record: &NewRecord<'_>, large: &LargeAppend) -> Result<(), Dropped> {
        self.core.writer.append_head(record, large)
    }

    /// Forgets the pieces of a large value that will get no head.
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
