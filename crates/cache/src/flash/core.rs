//! What all parts of the flash tier share. The work is in their own files: appending, writing,
//! reading, the journal, reclaiming, images, recovery.
//!
//! Locks are taken in this order and never the other way: an open segment and what may be written again,
//! the one of journal writes, keys, removals, then the journal, the index, the table of segments, a slot's
//! tenants. Only those of journal writes, of the writer and of the keeper are held during I/O.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandur_base::Env;

use super::append::OpenSegment;
use super::compaction::Compaction;
use super::counters::Counters;
use super::format::{self, Class, Root, SEQUENCE_MAX};
use super::health::Watch;
use super::index::{Entry, Index};
use super::journal::Journal;
use super::layout::Layout;
use super::observer::{DropEvent, Dropped, Observer};
use super::options::FlashOptions;
use super::reclaim::Choices;
use super::recovery::Removed;
use super::retired::Retired;
use super::segments::{Segment, SegmentTable};
use super::touched::Touched;
use super::unwritten::Unwritten;
use super::writer::WriteQueue;
use crate::device::{BufferPool, Device};
use crate::policy::reclaim::{Newcomers, Tenure};
use crate::unix_seconds::unix_seconds;

/// Locks of keys; many more than threads that write.
const KEY_LOCKS: usize = 64;

/// Idle buffers kept for reuse.
const RETAINED_BUFFER_BYTES: u64 = 16 << 20;

pub(super) struct Core {
    pub env: Env,
    pub device: Arc<dyn Device>,
    pub layout: Layout,
    pub options: FlashOptions,
    pub device_id: [u8; 16],
    pub hash_seed: u64,
    pub index: Index,
    pub table: SegmentTable,
    pub retired: Retired,
    pub open: [Mutex<Option<OpenSegment>>; Class::OF_RECORDS.len()],
    /// Held from the number that a change of a key takes until the index has it: see [`Core::lock_key`].
    keys: [Mutex<()>; KEY_LOCKS],
    pub unwritten: Unwritten,
    /// Held while a queued write is carried out, and while the keeper's work is done: what steps while the
    /// threads run must not do either beside them. Taken before all other locks.
    pub writing: Mutex<()>,
    pub keeping: Mutex<()>,
    pub queue: WriteQueue,
    pub journal: Journal,
    pub touched: Touched,
    pub choices: Mutex<Choices>,
    /// What is owed to those that come.
    pub newcomers: Newcomers,
    /// How long the oldest of the proven has gone unread.
    pub tenure: Tenure,
    pub compaction: Mutex<Compaction>,
    /// The second of the last look for segments that hold nothing.
    pub spent_looked_at: AtomicU32,
    pub watch: Watch,
    pub counters: Counters,
    pub observer: Arc<dyn Observer>,
    pub write_pool: BufferPool,
    pub read_pool: BufferPool,
    /// The one buffer of images: whoever writes as fast as can be must not keep the journal from moving on.
    pub image_pool: BufferPool,
    /// The next sequence number.
    pub sequence: AtomicU64,
    /// Records with smaller sequence numbers are void.
    pub flushed_below: AtomicU64,
    /// Whether records of an earlier run are still being found.
    pub recovering: AtomicBool,
    /// The turn of the newest root on the device.
    pub root_turn: AtomicU64,
    /// Sequence numbers below this are reserved.
    pub reserved_to: AtomicU64,
    /// The first sequence number of this run.
    pub first_id: u64,
    /// What this run removed while recovery runs.
    pub removed: Mutex<Removed>,
    /// Whether it removed any.
    pub has_removed: AtomicBool,
    /// Whether the journal of an earlier run is void as soon as a root says so.
    pub journal_begins_anew: AtomicBool,
    /// Sequence number of the image that the root names.
    pub image: AtomicU64,
    /// Slots of images that a root which could not be written for certain may name.
    doubtful_image: Mutex<Vec<u32>>,
    /// Records written when it was begun.
    pub records_at_image: AtomicU64,
    /// Records that it holds.
    pub records_in_image: AtomicU64,
    /// Records with smaller sequence numbers may be on the device, to be found after a crash, although the
    /// index does not have them and no journal entry voids them; 0 if there are none.
    unindexed_below: AtomicU64,
}

impl Core {
    /// The state of a run that takes over what the run of `root` left, or begins anew.
    pub fn new(
        env: &Env,
        device: Arc<dyn Device>,
        layout: Layout,
        options: FlashOptions,
        observer: Arc<dyn Observer>,
        root: Option<&Root>,
    ) -> Self {
        let random = [env.random_u64().to_le_bytes(), env.random_u64().to_le_bytes()].concat();
        let first_id = root.map_or(1, |root| root.next_sequence);
        let kept_from = layout.slots_before(device.size().saturating_sub(options.kept_bytes));
        Self {
            env: env.clone(),
            device,
            layout,
            device_id: root.map_or_else(|| format::bytes_at(&random, 0), |root| root.device),
            hash_seed: root.map_or_else(|| env.random_u64(), |root| root.hash_seed),
            index: Index::new(layout.shard_rows, options.index_bytes_max),
            table: SegmentTable::unknown(layout.segments, kept_from),
            retired: Retired::default(),
            open: std::array::from_fn(|_| Mutex::new(None)),
            keys: std::array::from_fn(|_| Mutex::default()),
            unwritten: Unwritten::default(),
            writing: Mutex::default(),
            keeping: Mutex::default(),
            queue: WriteQueue::default(),
            journal: Journal::new(root.map_or(0, |root| root.journal_half)),
            touched: Touched::default(),
            choices: Mutex::new(Choices::new(options.write_amplification_max)),
            newcomers: Newcomers::default(),
            tenure: Tenure::default(),
            compaction: Mutex::default(),
            spent_looked_at: AtomicU32::new(0),
            watch: Watch::new(),
            counters: Counters::default(),
            observer,
            write_pool: BufferPool::new(options.write_buffer_bytes, options.write_buffer_bytes),
            read_pool: BufferPool::new(options.read_buffer_bytes, RETAINED_BUFFER_BYTES),
            image_pool: BufferPool::new(layout.piece_bytes() as u64 * 2, 0),
            sequence: AtomicU64::new(first_id),
            flushed_below: AtomicU64::new(root.map_or(0, |root| root.flushed_below)),
            recovering: AtomicBool::new(root.is_some()),
            root_turn: AtomicU64::new(0),
            reserved_to: AtomicU64::new(0),
            first_id,
            removed: Mutex::default(),
            has_removed: AtomicBool::new(false),
            journal_begins_anew: AtomicBool::new(false),
            image: AtomicU64::new(root.map_or(0, |root| root.image)),
            doubtful_image: Mutex::default(),
            records_at_image: AtomicU64::new(0),
            records_in_image: AtomicU64::new(0),
            unindexed_below: AtomicU64::new(0),
            options,
        }
    }

    /// Seconds since 1970.
    pub fn now(&self) -> u32 {
        unix_seconds(&self.env)
    }

    pub fn next_sequence(&self) -> u64 {
        // At a million records per second 48 bits last nine years; wrapping would only lose records.
        self.sequence.fetch_add(1, Ordering::Relaxed) & SEQUENCE_MAX
    }

    pub fn hash(&self, key: &[u8]) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(key, self.hash_seed)
    }

    pub fn lock_open(&self, class: Class) -> MutexGuard<'_, Option<OpenSegment>> {
        self.open[class as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes of a key take their numbers in the order in which the index sees them. Without that a record
    /// that is written again could get a later number than the value that replaces it, and come back instead
    /// of that after a crash.
    pub fn lock_key(&self, hash: u64) -> MutexGuard<'_, ()> {
        self.keys[hash as usize % KEY_LOCKS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No key is changed as long as these are held.
    pub fn lock_all_keys(&self) -> Vec<MutexGuard<'_, ()>> {
        (0..KEY_LOCKS as u64).map(|number| self.lock_key(number)).collect()
    }

    pub fn lock_removed(&self) -> MutexGuard<'_, Removed> {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A record that may be on the device is not in the index any more, and no journal entry says so: from
    /// now on whatever changes a key is noted, until an image stands for all that there is.
    pub fn note_unindexed(&self) {
        let below = self.sequence.load(Ordering::Relaxed);
        self.unindexed_below.fetch_max(below, Ordering::AcqRel);
    }

    /// As [`Self::note_unindexed`], of many records: until an image stands for all a crash leaves nothing
    /// to be believed.
    pub fn distrust(&self) {
        self.note_unindexed();
        self.journal.distrust();
    }

    /// Whether a crash could bring back a record of this hash that nothing voids.
    pub fn may_come_back(&self, hash: u64) -> bool {
        let is_unknown =
            self.recovering.load(Ordering::Acquire) || self.unindexed_below.load(Ordering::Acquire) > 0;
        is_unknown || self.index.has(hash)
    }

    /// The root names an image that was begun at `sequence`: of older records it alone counts.
    pub fn is_imaged(&self, sequence: u64) {
        let below = self.unindexed_below.load(Ordering::Acquire);
        if below <= sequence {
            // Whoever came meanwhile set it higher.
            let _ = self.unindexed_below.compare_exchange(below, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    pub fn lock_doubtful_image(&self) -> MutexGuard<'_, Vec<u32>> {
        self.doubtful_image.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes and counts.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let _under_way = self.watch.write_begins();
        self.device.write_at(offset, bytes)?;
        self.counters.bytes_written.add(bytes.len() as u64);
        self.watch.write_succeeded();
        Ok(())
    }

    /// Waits until everything written before survives a loss of power.
    pub fn sync(&self) -> io::Result<()> {
        let _under_way = self.watch.write_begins();
        let synced = self.device.sync();
        match synced {
            Ok(()) => self.watch.sync_succeeded(),
            Err(_) => self.watch.sync_failed(self.env.monotonic()),
        }
        synced
    }

    pub fn write_failed(&self, what: &'static str, error: &io::Error) {
        self.counters.writes_failed.add(1);
        tracing::warn!(what, %error, "a write to flash failed");
        self.watch.write_failed(self.env.monotonic());
    }

    /// The index points to this record from now on.
    pub fn link_entry(&self, entry: &Entry) {
        let bytes = u64::from(entry.location.units) * format::UNIT;
        self.table.add_live(entry.location.slot, bytes);
        if entry.frequency > 0 {
            self.table.add_used(entry.location.slot, bytes);
        }
    }

    /// The index does not point to this record any more.
    pub fn unlink(&self, entry: &Entry) {
        let bytes = u64::from(entry.location.units) * format::UNIT;
        self.table.remove_live(entry.location.slot, bytes);
        if entry.frequency > 0 {
            self.table.remove_used(entry.location.slot, bytes);
        }
    }

    pub fn report(&self, event: DropEvent) {
        self.counters.drop_of(event.reason, event.records);
        if event.reason == Dropped::Evicted {
            self.counters.bytes_evicted.add(event.bytes);
        }
        self.observer.dropped(event);
    }

    /// A record that was in the index was dropped.
    pub fn report_entry(&self, reason: Dropped, hash: u64, entry: &Entry) {
        let segment = self.table.segment(entry.location.slot);
        self.report(DropEvent {
            reason,
            class: segment.class,
            hash,
            records: 1,
            bytes: u64::from(entry.location.units) * format::UNIT,
            age_s: self.now().saturating_sub(segment.opened_at),
            tenant: 0,
            is_fetched: entry.is_fetched,
        });
    }

    /// Whatever the index says to be in a segment is gone.
    pub fn drop_segment(&self, reason: Dropped, segment: &Segment) {
        let records = self.index.retain(|entry| entry.location.slot != segment.slot);
        self.report(DropEvent {
            reason,
            class: segment.class,
            hash: 0,
            records,
            bytes: segment.live_bytes,
            age_s: self.now().saturating_sub(segment.opened_at),
            tenant: 0,
            is_fetched: false,
        });
    }
}
