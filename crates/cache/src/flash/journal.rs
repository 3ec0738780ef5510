//! The journal: deletes, overwrites, touches and flushes since the last image of the index.
//!
//! Entries gather in memory and are written in groups. A block that is not full is written again with
//! later entries, alternately to two blocks, so that a durable entry is overwritten only after it is
//! durable elsewhere. An image switches the journal to its other half.
//!
//! Invariants: entries are written in the order of their sequence numbers. Memory of waiting entries is
//! bounded. When it overflows, the root records that the journal is incomplete, so that a crash cannot
//! bring back deleted keys.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use super::disk::Disk;
use super::format::{ENTRIES_PER_BLOCK, JournalBlock, JournalEntry, JournalKind};

/// Most entries that wait to be written: 24 MiB.
const WAITING_MAX: usize = 1 << 20;

/// Most blocks in one write.
const BLOCKS_PER_WRITE: usize = 64;

pub(super) struct Journal {
    disk: Arc<Disk>,
    waiting: Mutex<Waiting>,
    place: Mutex<JournalPosition>,
    /// Held during a write of entries, which several threads may start.
    committing: Mutex<()>,
    arrived: Condvar,
    /// Whether blocks were written that a loss of power could still lose.
    unsynced: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    entries: Vec<JournalEntry>,
    /// Number of entries added since the start, and number of durable ones.
    added: u64,
    durable: u64,
    wakers: Vec<(u64, Waker)>,
    /// Whether entries were lost since the last image was begun, and before that.
    lost_since: bool,
    lost_before: bool,
    /// Whether a root must be written that records the loss.
    wants_root: bool,
}

/// The place of the next block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub half: u8,
    pub epoch: u64,
    pub block: u32,
}

/// See [`Journal::pause_commits`].
pub(super) struct CommitsPaused<'a> {
    _guard: MutexGuard<'a, ()>,
}

struct JournalPosition {
    place: Place,
    /// Whether the place is known. Blocks are written only then.
    is_known: bool,
    /// Whether the other half may be overwritten.
    other_is_free: bool,
    /// The entries of the last block written, if it has room for more.
    open: Vec<JournalEntry>,
    /// The place of that block. Its next copy goes to the adjacent block: to `place`, or to the one after it.
    open_at: Option<u32>,
}

impl JournalPosition {
    fn at(place: Place, is_known: bool, other_is_free: bool) -> Self {
        Self { place, is_known, other_is_free, open: Vec::new(), open_at: None }
    }

    /// The block to write next, if all entries fit into it.
    fn next_copy(&self) -> u32 {
        if self.open_at == Some(self.place.block) { self.place.block + 1 } else { self.place.block }
    }

    /// The first block after all written ones.
    fn end(&self) -> u32 {
        self.open_at.map_or(self.place.block, |at| self.place.block.max(at + 1))
    }

    /// Notes that blocks up to `end` are written, of which the last holds `last`.
    fn end_write(&mut self, is_copy: bool, end: u32, last: &[JournalEntry]) {
        let is_full = last.len() >= ENTRIES_PER_BLOCK;
        if !is_copy {
            self.place.block = end - 1;
        }
        (self.open, self.open_at) = (last.to_vec(), Some(end - 1));
        if is_full {
            self.place.block = self.end();
            (self.open, self.open_at) = (Vec::new(), None);
        }
    }
}

impl Journal {
    /// A journal in `half`. Nothing is written before [`Journal::resume`] sets the place.
    pub fn new(half: u8, disk: Arc<Disk>) -> Self {
        let place = Place { half, ..Place::default() };
        let place = Mutex::new(JournalPosition::at(place, false, false));
        let (waiting, committing, arrived) = (Mutex::default(), Mutex::default(), Condvar::new());
        Self { disk, waiting, place, committing, arrived, unsynced: AtomicBool::new(false) }
    }

    /// Starts writing of blocks, at `place`.
    pub fn resume(&self, place: Place, other_is_free: bool) {
        *self.lock_place() = JournalPosition::at(place, true, other_is_free);
    }

    /// Adds an entry with a number from `sequence`, which is called in the order of the entries. Returns
    /// whether there was room.
    pub fn add(&self, hash: u64, kind: JournalKind, sequence: impl FnOnce() -> u64) -> bool {
        let mut waiting = self.lock();
        let entry = JournalEntry { hash, sequence: sequence(), kind };
        if waiting.entries.len() >= WAITING_MAX {
            (waiting.lost_since, waiting.wants_root) = (true, true);
            return false;
        }
        waiting.entries.push(entry);
        waiting.added += 1;
        if waiting.entries.len() == 1 {
            self.arrived.notify_one();
        }
        true
    }

    /// Waits for an entry, at most for `patience`.
    pub fn wait(&self, patience: Duration) {
        let waiting = self.lock();
        if waiting.entries.is_empty() {
            drop(self.arrived.wait_timeout(waiting, patience));
        }
    }

    /// Whether entries wait.
    pub fn has_waiting(&self) -> bool {
        !self.lock().entries.is_empty()
    }

    /// Wakes waiting threads.
    pub fn wake(&self) {
        self.arrived.notify_all();
    }

    /// Notes that the device holds records which are not in the index and which no entry voids. Until
    /// the next image a start after a crash discards everything.
    pub fn mark_incomplete(&self) {
        let mut waiting = self.lock();
        (waiting.lost_since, waiting.wants_root) = (true, true);
    }

    /// Whether entries are missing that the present image does not cover.
    pub fn has_lost(&self) -> bool {
        let waiting = self.lock();
        waiting.lost_since || waiting.lost_before
    }

    /// Whether a root must be written soon. Resets the request.
    pub fn wants_root(&self) -> bool {
        std::mem::take(&mut self.lock().wants_root)
    }

    /// Requests that a root be written.
    pub fn want_root(&self) {
        self.lock().wants_root = true;
    }

    /// The written share of the present half, in percent.
    pub fn fill_percent(&self) -> u32 {
        self.lock_place().end() * 100 / self.disk.layout.journal_blocks.max(1)
    }

    /// Number of entries added so far.
    pub fn added(&self) -> u64 {
        self.lock().added
    }

    /// Number of durable entries, counted from the first.
    #[cfg(test)]
    pub fn durable(&self) -> u64 {
        self.lock().durable
    }

    /// Number of entries that are not durable.
    pub fn waiting(&self) -> u64 {
        let waiting = self.lock();
        waiting.added - waiting.durable
    }

    /// Whether the first `count` entries are durable. If not, `waker` is woken when they are.
    pub fn is_durable(&self, count: u64, waker: &Waker) -> bool {
        let mut waiting = self.lock();
        if waiting.durable >= count {
            return true;
        }
        waiting.wakers.push((count, waker.clone()));
        false
    }

    pub fn place(&self) -> Place {
        self.lock_place().place
    }

    /// Waits until no entries are being written, and prevents writes while the guard is held.
    pub fn pause_commits(&self) -> CommitsPaused<'_> {
        CommitsPaused { _guard: self.lock_committing() }
    }

    /// Notes that an image is begun that covers everything before `sequence`. Later entries go to the
    /// other half, unless the previous image still needs it.
    pub fn begin_image(&self, sequence: u64, _: &CommitsPaused<'_>) {
        let mut waiting = self.lock();
        waiting.lost_before |= std::mem::take(&mut waiting.lost_since);
        drop(waiting);
        let mut whereabouts = self.lock_place();
        if whereabouts.is_known && whereabouts.other_is_free {
            let half = 1 - whereabouts.place.half;
            *whereabouts = JournalPosition::at(Place { half, epoch: sequence, block: 0 }, true, false);
        }
    }

    /// The image is complete and the next root will name it. Returns whether it covers lost entries.
    pub fn cover_lost(&self) -> bool {
        std::mem::take(&mut self.lock().lost_before)
    }

    /// Undoes [`Journal::cover_lost`] when the root that names the image could not be written.
    pub fn uncover_lost(&self, had_lost: bool) {
        self.lock().lost_before |= had_lost;
    }

    /// The root names the image, so the other half may be overwritten.
    pub fn end_image(&self) {
        self.lock_place().other_is_free = true;
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_place(&self) -> MutexGuard<'_, JournalPosition> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_committing(&self) -> MutexGuard<'_, ()> {
        self.committing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> (Vec<JournalEntry>, u64) {
        let mut waiting = self.lock();
        (std::mem::take(&mut waiting.entries), waiting.added)
    }

    fn put_back(&self, mut entries: Vec<JournalEntry>) {
        if entries.is_empty() {
            return;
        }
        let mut waiting = self.lock();
        entries.append(&mut waiting.entries);
        waiting.entries = entries;
    }

    fn made_durable(&self, added: u64) {
        let mut waiting = self.lock();
        waiting.durable = waiting.durable.max(added);
        let durable = waiting.durable;
        let all = std::mem::take(&mut waiting.wakers);
        let (ready, rest) = all.into_iter().partition::<Vec<_>, _>(|(count, _)| *count <= durable);
        waiting.wakers = rest;
        drop(waiting);
        ready.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl Journal {
    /// Writes the waiting entries, and with `sync` makes all survive a loss of power. Entries for which
    /// the half has no room wait until an image frees the other half. Returns whether no write failed.
    pub fn commit(&self, sync: bool) -> bool {
        if !self.disk.watch.may_write() {
            return false;
        }
        let committing = self.lock_committing();
        let (mut entries, added) = self.take();
        let (written, result) = self.write_entries(&entries);
        entries.drain(..written);
        let is_all = entries.is_empty();
        self.put_back(entries);
        drop(committing);
        if let Err(error) = &result {
            self.disk.write_failed("journal", error);
        }
        let is_done = result.is_ok() && (!sync || self.sync());
        if is_done && is_all {
            self.made_durable(added);
        }
        is_done
    }

    /// Makes written entries survive a loss of power. Returns whether they do.
    pub fn sync(&self) -> bool {
        if !self.disk.watch.may_write() || !self.unsynced.swap(false, Ordering::Relaxed) {
            return true;
        }
        let result = self.disk.sync();
        if let Err(error) = &result {
            self.unsynced.store(true, Ordering::Relaxed);
            self.disk.write_failed("journal", error);
        }
        result.is_ok()
    }

    /// Writes entries while there is room. Returns how many, and the result of the last write.
    fn write_entries(&self, entries: &[JournalEntry]) -> (usize, std::io::Result<()>) {
        let mut written = 0;
        while written < entries.len() {
            match self.write_blocks(&entries[written..]) {
                Ok(Some(count)) => written += count,
                Ok(None) => break,
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
    }

    /// Writes as many of the first entries as fit into one write. Returns how many, or `None` if there
    /// is no room for a block.
    fn write_blocks(&self, entries: &[JournalEntry]) -> std::io::Result<Option<usize>> {
        let whereabouts = self.lock_place();
        let (half, epoch) = (whereabouts.place.half, whereabouts.place.epoch);
        let open = whereabouts.open.len();
        let next = entries.len().min(BLOCKS_PER_WRITE * ENTRIES_PER_BLOCK);
        let all = [&whereabouts.open[..], &entries[..next]].concat();
        let is_copy = JournalBlock::fitting(&all) == all.len();
        let start = if is_copy { whereabouts.next_copy() } else { whereabouts.end() };
        let room = self.disk.layout.journal_blocks.saturating_sub(start) as usize;
        if room == 0 || !whereabouts.is_known {
            return Ok(None);
        }
        drop(whereabouts);
        // Not from the pool of write buffers: full buffers must not delay the durability of a delete.
        let (mut bytes, mut last, mut taken, mut end) = (Vec::new(), 0, 0, start);
        while ((end - start) as usize) < room.min(BLOCKS_PER_WRITE) && taken < all.len() {
            last = taken;
            taken += JournalBlock::fitting(&all[taken..]);
            bytes.extend(JournalBlock::encode(self.disk.journal_key(), epoch, &all[last..taken]));
            end += 1;
        }
        let written = self.disk.write(self.disk.layout.journal_block(half, start), &bytes);
        let mut whereabouts = self.lock_place();
        if let Err(error) = written {
            // The contents of these blocks are unknown now. Blocks that were durable before are not
            // overwritten.
            let block = whereabouts.end().max(end);
            let place = Place { block, ..whereabouts.place };
            *whereabouts = JournalPosition::at(place, true, whereabouts.other_is_free);
            return Err(error);
        }
        whereabouts.end_write(is_copy, end, &all[last..taken]);
        drop(whereabouts);
        self.unsynced.store(true, Ordering::Relaxed);
        self.disk.counters.journal_entries.add((taken - open) as u64);
        Ok(Some(taken - open))
    }
}
