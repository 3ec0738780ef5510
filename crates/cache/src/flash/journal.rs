//! The journal: deletes, overwrites, touches and flushes since the last image of the index.
//!
//! Entries gather in memory and are written together. Each write takes new blocks, so nothing that
//! was durable is ever written over. An image moves the journal to its other half.
//!
//! Invariants: entries are written in the order of their sequence numbers; memory for waiting
//! entries is bounded, and when it overflows the root says that the journal is not whole, so that a
//! crash cannot bring back what was deleted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use super::core::Core;
use super::format::{JournalBlock, JournalEntry, JournalKind, u64_at};
use super::options::Journaling;

/// Entries that wait to be written: 24 MiB.
const WAITING_MAX: usize = 1 << 20;

/// Blocks written with one call.
const BLOCKS_PER_WRITE: usize = 64;

pub(super) struct Journal {
    waiting: Mutex<Waiting>,
    place: Mutex<Whereabouts>,
    arrived: Condvar,
    /// Whether blocks were written that a loss of power could still take.
    unsynced: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    entries: Vec<JournalEntry>,
    /// How many entries were ever added, and how many of them are durable.
    added: u64,
    durable: u64,
    wakers: Vec<(u64, Waker)>,
    /// Whether entries were left out since the last image was begun, and before that.
    lost_since: bool,
    lost_before: bool,
    /// Whether the root is to be written, since it does not say so yet.
    wants_root: bool,
}

/// Where the next block goes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub half: u8,
    pub epoch: u64,
    pub block: u32,
}

struct Whereabouts {
    place: Place,
    /// Whether the place is known, so that blocks may be written.
    is_known: bool,
    /// Whether nothing in the other half is needed any more.
    other_is_free: bool,
}

impl Journal {
    /// A journal in `half`; nothing is written until [`Journal::resume`] says where.
    pub fn new(half: u8) -> Self {
        let place = Place { half, ..Place::default() };
        let place = Whereabouts { place, is_known: false, other_is_free: false };
        let (waiting, arrived) = (Mutex::default(), Condvar::new());
        Self { waiting, place: Mutex::new(place), arrived, unsynced: AtomicBool::new(false) }
    }

    /// From now on blocks are written, from `place` on.
    pub fn resume(&self, place: Place, other_is_free: bool) {
        *self.lock_place() = Whereabouts { place, is_known: true, other_is_free };
    }

    /// Adds an entry with a sequence number from `sequence`, taken in the order of the entries.
    /// Whether there was room for it.
    fn add(&self, hash: u64, kind: JournalKind, sequence: impl FnOnce() -> u64) -> bool {
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

    /// Waits until an entry is there, or for `patience`.
    pub fn wait(&self, patience: Duration) {
        let waiting = self.lock();
        if waiting.entries.is_empty() {
            drop(self.arrived.wait_timeout(waiting, patience));
        }
    }

    /// Lets whoever waits go on.
    pub fn wake(&self) {
        self.arrived.notify_all();
    }

    /// Whether entries are missing that the present image does not cover.
    pub fn has_lost(&self) -> bool {
        let waiting = self.lock();
        waiting.lost_since || waiting.lost_before
    }

    /// Whether the root is to be written soon; asked once.
    pub fn wants_root(&self) -> bool {
        std::mem::take(&mut self.lock().wants_root)
    }

    /// What the root says has changed.
    pub fn want_root(&self) {
        self.lock().wants_root = true;
    }

    /// The part of the present half that is written, in percent.
    pub fn fill_percent(&self, blocks: u32) -> u32 {
        self.place().block * 100 / blocks.max(1)
    }

    /// How many entries were added so far.
    pub fn added(&self) -> u64 {
        self.lock().added
    }

    /// Whether the first `count` entries are durable; if not, `waker` is woken when they are.
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

    /// An image is begun that holds everything before `sequence`: later entries go to the other
    /// half, unless the last image needs that one.
    pub fn begin_image(&self, sequence: u64) {
        let mut waiting = self.lock();
        waiting.lost_before |= std::mem::take(&mut waiting.lost_since);
        drop(waiting);
        let mut whereabouts = self.lock_place();
        if whereabouts.is_known && whereabouts.other_is_free {
            let half = 1 - whereabouts.place.half;
            whereabouts.place = Place { half, epoch: sequence, block: 0 };
            whereabouts.other_is_free = false;
        }
    }

    /// The image is whole and the next root will name it. Whether it makes up for lost entries.
    pub fn cover_lost(&self) -> bool {
        std::mem::take(&mut self.lock().lost_before)
    }

    /// The root that names the image could not be written.
    pub fn uncover_lost(&self, had_lost: bool) {
        self.lock().lost_before |= had_lost;
    }

    /// The root names the image: the other half is not needed any more.
    pub fn end_image(&self) {
        self.lock_place().other_is_free = true;
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_place(&self) -> MutexGuard<'_, Whereabouts> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> (Vec<JournalEntry>, u64) {
        let mut waiting = self.lock();
        (std::mem::take(&mut waiting.entries), waiting.added)
    }

    fn put_back(&self, mut entries: Vec<JournalEntry>) {
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

impl Core {
    /// Notes what happened to a key, unless keys never change.
    pub fn note(&self, hash: u64, kind: JournalKind) {
        let notes = self.options.journaling != Journaling::Off;
        if notes && !self.journal.add(hash, kind, || self.next_sequence()) {
            self.counters.journal_lost.add(1);
        }
    }

    /// Writes what waits, and with `sync` makes all of it survive a loss of power. What finds no
    /// room in its half waits on, until an image frees the other. Whether everything is written.
    pub fn commit_journal(&self, sync: bool) -> bool {
        if !self.watch.may_write() {
            return false;
        }
        let (mut entries, added) = self.journal.take();
        let mut result = self.write_entries(&mut entries);
        if result.is_ok() && sync && self.journal.unsynced.swap(false, Ordering::Relaxed) {
            result = self.device.sync();
            self.journal.unsynced.store(result.is_err(), Ordering::Relaxed);
        }
        match &result {
            Ok(()) if entries.is_empty() => self.journal.made_durable(added),
            _ => self.journal.put_back(entries),
        }
        if let Err(error) = result {
            self.write_failed("journal", &error);
            return false;
        }
        true
    }

    /// What the checksums of journal blocks are made with.
    pub fn journal_key(&self) -> u64 {
        u64_at(&self.device_id, 0)
    }

    /// Removes from `entries` what was written.
    fn write_entries(&self, entries: &mut Vec<JournalEntry>) -> std::io::Result<()> {
        while !entries.is_empty() {
            let place = self.journal.place();
            let room = self.layout.journal_blocks.saturating_sub(place.block) as usize;
            if room == 0 || !self.journal.lock_place().is_known {
                break;
            }
            // Not from the pool of write buffers: full buffers must not keep a delete from lasting.
            let (mut bytes, mut taken, mut blocks) = (Vec::new(), 0, 0);
            while blocks < room.min(BLOCKS_PER_WRITE) && taken < entries.len() {
                let count = JournalBlock::fitting(&entries[taken..]);
                let block = &entries[taken..taken + count];
                bytes.extend(JournalBlock::encode(self.journal_key(), place.epoch, block));
                (taken, blocks) = (taken + count, blocks + 1);
            }
            let start = self.layout.journal_block(place.half, place.block);
            // The place moves on even if the write fails: what lies there now is unknown.
            self.journal.lock_place().place.block += blocks as u32;
            self.write(start, &bytes)?;
            self.journal.unsynced.store(true, Ordering::Relaxed);
            self.counters.journal_entries.add(taken as u64);
            entries.drain(..taken);
        }
        Ok(())
    }
}
