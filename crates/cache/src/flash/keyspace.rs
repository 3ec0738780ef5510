//! The keys on flash: the index with its related state, and all effects of a change of a key.
//!
//! Changes of a key take their sequence numbers in the order in which the index sees them, under the
//! key's lock, and are journalled if a crash could undo them.
//!
//! Invariants: no I/O. A key that is not in the index is not on flash, or no crash can bring it back
//! unnoticed: see [`Keyspace::may_come_back`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::Disk;
use super::earlier_run::EarlierRun;
use super::expiry::Coarse;
use super::format::{Class, JournalKind, Root, SEQUENCE_MAX, UNIT};
use super::index::{Entry, Index, Location};
use super::journal::Journal;
use super::observer::{DropEvent, Dropped};
use super::options::Journaling;
use super::segments::Segment;
use super::space::Space;
use super::touched::Touched;

/// Number of locks of keys: many more than writing threads.
const KEY_LOCKS: usize = 64;

/// The keys on flash. See the module.
pub(super) struct Keyspace {
    pub disk: Arc<Disk>,
    pub space: Arc<Space>,
    pub journal: Arc<Journal>,
    pub index: Index,
    pub touched: Touched,
    pub earlier: EarlierRun,
    /// Held from taking the sequence number of a change until the index has the change: see
    /// [`Keyspace::lock_key`].
    locks: [Mutex<()>; KEY_LOCKS],
    /// The next sequence number.
    sequence: AtomicU64,
    /// Records with smaller sequence numbers are void.
    flushed_below: AtomicU64,
    /// Records with smaller sequence numbers may be on the device, to be found after a crash, although
    /// the index does not have them and no journal entry voids them; 0 if there are none.
    unindexed_below: AtomicU64,
}

impl Keyspace {
    /// An empty index, even if the run of `root` left records.
    pub fn new(disk: Arc<Disk>, space: Arc<Space>, journal: Arc<Journal>, root: Option<&Root>) -> Self {
        let first_id = root.map_or(1, |root| root.next_sequence);
        Self {
            index: Index::new(disk.layout.shard_rows, disk.options.index_bytes_max),
            touched: Touched::default(),
            earlier: EarlierRun::new(first_id, root.is_some()),
            locks: std::array::from_fn(|_| Mutex::default()),
            sequence: AtomicU64::new(first_id),
            flushed_below: AtomicU64::new(root.map_or(0, |root| root.flushed_below)),
            unindexed_below: AtomicU64::new(0),
            disk,
            space,
            journal,
        }
    }

    pub fn next_sequence(&self) -> u64 {
        // At a million records per second 48 bits last nine years; a wrap would only lose records.
        self.sequence.fetch_add(1, Ordering::Relaxed) & SEQUENCE_MAX
    }

    /// The sequence number of the next change.
    pub fn coming_sequence(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed)
    }

    /// Records with smaller sequence numbers are void.
    pub fn flushed_below(&self) -> u64 {
        self.flushed_below.load(Ordering::Acquire)
    }

    /// Locks a key for a change, so that the numbers of its changes are in the order in which the index
    /// sees them. Otherwise a record that is written again could get a later number than the value that
    /// replaces it, and come back in its place after a crash.
    pub fn lock_key(&self, hash: u64) -> MutexGuard<'_, ()> {
        self.locks[hash as usize % KEY_LOCKS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks all keys against changes.
    pub fn lock_all_keys(&self) -> Vec<MutexGuard<'_, ()>> {
        (0..KEY_LOCKS as u64).map(|number| self.lock_key(number)).collect()
    }

    /// Notes that a record which may be on the device is no longer in the index and no journal entry
    /// says so. From now on every change of a key is journalled, until an image covers everything.
    pub fn note_unindexed(&self) {
        let below = self.coming_sequence();
        self.unindexed_below.fetch_max(below, Ordering::AcqRel);
    }

    /// As [`Self::note_unindexed`], for many records: until an image covers everything, a start after a
    /// crash discards everything.
    pub fn mark_incomplete(&self) {
        self.note_unindexed();
        self.journal.mark_incomplete();
    }

    /// Whether a crash could bring back a record of this hash that nothing voids.
    pub fn may_come_back(&self, hash: u64) -> bool {
        let is_unknown = self.earlier.is_recovering() || self.unindexed_below.load(Ordering::Acquire) > 0;
        is_unknown || self.index.has(hash)
    }

    /// Notes that the root names an image begun at `sequence`, which replaces all knowledge of older records.
    pub fn is_imaged(&self, sequence: u64) {
        let below = self.unindexed_below.load(Ordering::Acquire);
        if below <= sequence {
            // A later loss has set a higher number, which stays.
            let _ = self.unindexed_below.compare_exchange(below, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Counts a record that the index now names.
    pub fn link_entry(&self, entry: &Entry) {
        let bytes = u64::from(entry.location.units) * UNIT;
        self.space.table.add_live(entry.location.slot, bytes);
        if entry.frequency > 0 {
            self.space.table.add_used(entry.location.slot, bytes);
        }
    }

    /// Uncounts a record that the index no longer names.
    pub fn unlink(&self, entry: &Entry) {
        let bytes = u64::from(entry.location.units) * UNIT;
        self.space.table.remove_live(entry.location.slot, bytes);
        if entry.frequency > 0 {
            self.space.table.remove_used(entry.location.slot, bytes);
        }
    }

    /// Removes all entries of a segment from the index and reports them.
    pub fn drop_segment(&self, reason: Dropped, segment: &Segment) {
        let records = self.index.retain(|entry| entry.location.slot != segment.slot);
        self.space.report(DropEvent {
            reason,
            class: segment.class,
            hash: 0,
            records,
            bytes: segment.live_bytes,
            age_s: self.disk.now().saturating_sub(segment.opened_at),
            tenant: 0,
            is_fetched: false,
        });
    }

    pub fn lookup(&self, hash: u64, count: bool) -> Option<Location> {
        if !self.disk.watch.may_read() {
            return None;
        }
        // Read before the index: recovery may end between the two, after it has undone what the index shows.
        let is_certain = !self.earlier.is_recovering();
        let entry = self.index.find(hash, count)?;
        // An event that recovery has not reached yet may void a recovered record.
        if !is_certain && self.is_of_earlier_run(&entry) {
            return None;
        }
        if count && entry.frequency == 0 {
            self.space.table.add_used(entry.location.slot, u64::from(entry.location.units) * UNIT);
        }
        (!entry.location.expiry.is_past(self.disk.now())).then_some(entry.location)
    }

    pub fn forget(&self, hash: u64) -> bool {
        let _key = self.lock_key(hash);
        self.earlier.remove(hash);
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

    pub fn touch(&self, hash: u64, expires_at: u32) -> bool {
        let expiry = Coarse::new(expires_at, self.disk.now());
        if !self.index.set_expiry(hash, expiry) || !self.touched.set(hash, expires_at) {
            return false;
        }
        self.note(hash, JournalKind::Touched { expires_at });
        true
    }

    pub fn flush_all(&self) {
        let _keys = self.lock_all_keys();
        let _recovery_waits = self.earlier.lock_removed();
        let below = self.next_sequence();
        self.flushed_below.store(below, Ordering::Release);
        self.note(0, JournalKind::Flushed);
        // The root records it too, in case there is no journal.
        self.journal.want_root();
        self.touched.clear();
        let records = self.index.retain(|_| false);
        let bytes = self.space.table.all().iter().map(|segment| segment.live_bytes).sum();
        self.space.table.clear_live();
        let (class, is_fetched) = (Class::Ingest, false);
        let reason = Dropped::Flushed;
        self.space.report(DropEvent {
            reason,
            class,
            hash: 0,
            records,
            bytes,
            age_s: 0,
            tenant: 0,
            is_fetched,
        });
    }

    /// Journals a change of a key, unless values never change.
    pub fn note(&self, hash: u64, kind: JournalKind) {
        let notes = self.disk.options.journaling != Journaling::Off;
        if notes && !self.journal.add(hash, kind, || self.next_sequence()) {
            self.disk.counters.journal_lost.add(1);
        }
    }

    pub fn drop_entry(&self, hash: u64, at: Location, reason: Dropped) {
        let _key = self.lock_key(hash);
        self.earlier.remove(hash);
        if let Some(entry) = self.index.remove_at(hash, at.slot, at.offset) {
            // After a crash the record may be readable again, although the key has another value by then.
            self.note(hash, JournalKind::Forgotten);
            self.space.report_entry(reason, hash, &entry);
            self.unlink(&entry);
        }
    }

    /// The entry of a key whose record was written before this run.
    pub fn find_of_earlier_run(&self, hash: u64) -> Option<Entry> {
        self.index.find(hash, false).filter(|entry| self.is_of_earlier_run(entry))
    }

    /// Removes a key whose record was written before this run. The caller has locked the key.
    pub fn remove_of_earlier_run(&self, hash: u64) {
        let place = self.find_of_earlier_run(hash).map(|entry| entry.location);
        if let Some(removed) = place.and_then(|at| self.index.remove_at(hash, at.slot, at.offset)) {
            self.unlink(&removed);
            self.touched.forget(hash);
        }
    }

    /// Removes all entries that were written before this run.
    pub fn clear_earlier_run(&self) {
        self.index.retain(|entry| {
            let keep = !self.is_of_earlier_run(entry);
            if !keep {
                self.unlink(entry);
            }
            keep
        });
    }

    /// Whether the record of an entry was written before this run.
    pub fn is_of_earlier_run(&self, entry: &Entry) -> bool {
        self.space.table.id(entry.location.slot) < self.earlier.first_id
    }
}
