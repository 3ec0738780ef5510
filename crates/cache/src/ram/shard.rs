//! A shard of the RAM tier: a part of the items under one lock.
//!
//! Invariant: whenever the shard is unlocked, it reserves exactly [`Shard::weight`] bytes, for the records
//! and the container that holds them.

use std::sync::Arc;

use sandur_memory::Reservation;

use super::evictor::{Evictor, Fate};
use super::record::{Dead, Moment, Record};
use crate::hint::Hint;
use crate::policy::{Evicted, LookupStep, NewEntry, Rank, RecentReads, S3Fifo};
use crate::stats::RamCounts;

/// Places visited in one step of a pass over a shard.
const SWEEP_STEP: usize = 1024;

/// Items by hash, and their counters.
#[derive(Debug)]
pub(crate) struct Shard {
    items: S3Fifo<Record>,
    swept_at: u32,
    pub counts: RamCounts,
    pub memory: Reservation,
    evictor: Arc<Evictor>,
    recent_reads: RecentReads,
}

impl Shard {
    /// An empty shard with a capacity of `capacity` bytes, which it will reserve in `memory`.
    pub fn new(capacity: u64, memory: Reservation, evictor: Arc<Evictor>) -> Self {
        Self {
            items: S3Fifo::new(capacity),
            swept_at: 0,
            counts: RamCounts::default(),
            memory,
            evictor,
            recent_reads: RecentReads::default(),
        }
    }

    /// Bytes of records and of the container.
    pub fn weight(&self) -> u64 {
        self.items.weight() + self.items.memory_bytes() as u64
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// See [`S3Fifo::prefetch`].
    pub fn prefetch(&self, hash: u64, step: LookupStep) {
        self.items.prefetch(hash, step, Record::prefetch);
    }

    pub fn set_capacity(&mut self, capacity: u64) {
        self.items.set_capacity(capacity);
    }

    /// Calls `act` with the live item of `key`, counted as a use if `counted`. A dead item is removed.
    pub fn with<R>(
        &mut self,
        hash: u64,
        key: &[u8],
        (at, counted): (Moment, bool),
        act: impl FnOnce(&mut Record, &mut RamCounts) -> R,
    ) -> Result<R, Option<Dead>> {
        let is = |record: &Record| record.key() == key;
        let found = if counted { self.items.get(hash, is) } else { self.items.peek_mut(hash, is) };
        let record = found.ok_or(None)?;
        let Some(why) = record.dead(at) else { return Ok(act(record, &mut self.counts)) };
        if let Some(record) = self.items.remove(hash, is) {
            self.counts.count_dead(why, record.fetched);
            self.evictor.notify(&record, why.into(), counted, at);
        }
        Err(Some(why))
    }

    /// The item of `key`, dead or not.
    pub fn peek_mut(&mut self, hash: u64, key: &[u8]) -> Option<&mut Record> {
        self.items.peek_mut(hash, |record| record.key() == key)
    }

    /// Notes a read of a key from flash. Returns whether a key with the same tag was read shortly before.
    pub fn was_read_lately(&mut self, hash: u64) -> bool {
        self.recent_reads.note(hash)
    }

    /// Stores an item in place of the one with the same key. Returns whether there was a live one.
    pub fn insert(&mut self, hash: u64, record: Record, at: Moment) -> bool {
        let weight = record.weight() as u32;
        let rank = if record.hint == Hint::Metadata { Rank::Pinned } else { Rank::Ordinary };
        let key = record.shared_key();
        let entry = NewEntry { hash, weight, rank, value: record };
        let Some(old) = self.items.insert(entry, |r| r.key() == key.as_ref()) else { return false };
        match old.dead(at) {
            Some(why) => {
                self.counts.count_dead(why, old.fetched);
                self.evictor.notify(&old, why.into(), false, at);
                false
            }
            None => {
                self.counts.replaced += 1;
                true
            }
        }
    }

    /// Removes the item of `key`, dead or not.
    pub fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Record> {
        self.items.remove(hash, |record| record.key() == key)
    }

    /// Evicts the item that is worth least, to flash if that accepts it.
    pub fn evict(&mut self, at: Moment) -> Option<Record> {
        let Evicted { hash, uses, value: record, .. } = self.items.evict()?;
        match record.dead(at) {
            Some(why) => {
                self.counts.count_dead(why, record.fetched);
                self.counts.reclaimed += 1;
                self.evictor.notify(&record, why.into(), false, at);
            }
            None => match self.evictor.evicted(hash, &record, uses, at) {
                Fate::WasOnFlash => self.counts.dropped_clean += 1,
                Fate::Demoted => self.counts.demoted += 1,
                Fate::Lost => self.counts.count_evicted(&record),
            },
        }
        Some(record)
    }

    /// Removes all dead items, at most once per second. Returns their number.
    pub fn sweep(&mut self, at: Moment) -> usize {
        if self.swept_at == at.now {
            return 0;
        }
        self.swept_at = at.now;
        let mut dead = Vec::new();
        let mut next = Some(0);
        while let Some(from) = next {
            next = self.items.visit(from, SWEEP_STEP, |hash, record| {
                if let Some(why) = record.dead(at) {
                    dead.push((hash, record.shared_key(), why));
                }
            });
        }
        for (hash, key, why) in &dead {
            if let Some(record) = self.items.remove(*hash, |record| record.key() == key.as_ref()) {
                self.counts.count_dead(*why, record.fetched);
                self.evictor.notify(&record, (*why).into(), false, at);
            }
        }
        dead.len()
    }

    /// Removes all items without counting them.
    pub fn clear(&mut self) {
        self.items.clear();
    }

    /// Shows live items at up to `count` places from `from` on. Returns the place to continue at.
    pub fn visit(
        &self,
        from: usize,
        count: usize,
        at: Moment,
        mut see: impl FnMut(u64, &Record),
    ) -> Option<usize> {
        self.visit_all(from, count, |hash, record| {
            if record.dead(at).is_none() {
                see(hash, record);
            }
        })
    }

    /// As [`Self::visit`], including dead items.
    pub fn visit_all(&self, from: usize, count: usize, see: impl FnMut(u64, &Record)) -> Option<usize> {
        self.items.visit(from, count, see)
    }

    /// Number of places that may hold an item.
    pub fn places(&self) -> usize {
        self.items.places()
    }
}
