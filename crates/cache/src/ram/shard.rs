//! One shard of the RAM tier: a part of the items under one lock.
//!
//! Invariant: what the shard has taken from the memory is [`Shard::weight`] at the last time that its
//! lock was released: the records and the container that holds them.

use std::sync::Arc;

use super::record::{Moment, Record};
use crate::hint::Hint;
use crate::listener::{Leaving, Left, Listener};
use crate::policy::{NewEntry, Rank, S3Fifo};
use crate::stats::RamCounts;

/// Items looked at in one step of a pass over a shard.
const SWEEP_STEP: usize = 1024;

/// Items by hash, and what happened to them.
#[derive(Debug)]
pub(crate) struct Shard {
    items: S3Fifo<Record>,
    swept_at: u32,
    pub counts: RamCounts,
    listener: Option<Arc<dyn Listener>>,
}

/// Why an item is not served any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dead {
    Expired,
    Flushed,
}

impl From<Dead> for Leaving {
    fn from(dead: Dead) -> Self {
        match dead {
            Dead::Expired => Self::Expired,
            Dead::Flushed => Self::Flushed,
        }
    }
}

impl Shard {
    /// An empty shard that is meant to hold `capacity` bytes.
    pub fn new(capacity: u64, listener: Option<Arc<dyn Listener>>) -> Self {
        Self { items: S3Fifo::new(capacity), swept_at: 0, counts: RamCounts::default(), listener }
    }

    /// Bytes of records and of the container.
    pub fn weight(&self) -> u64 {
        self.items.weight() + self.items.memory_bytes() as u64
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn set_capacity(&mut self, capacity: u64) {
        self.items.set_capacity(capacity);
    }

    /// The live item of `key`, counted as a use if `counted`. A dead one is taken out.
    pub fn find(
        &mut self,
        hash: u64,
        key: &[u8],
        at: Moment,
        counted: bool,
    ) -> Result<&mut Record, Option<Dead>> {
        let is = |record: &Record| record.key() == key;
        let dead = self.items.peek(hash, is).ok_or(None)?.dead(at);
        if let Some(why) = dead {
            if let Some(record) = self.items.remove(hash, is) {
                self.counts.count_dead(why, record.fetched);
                self.tell(&record, why.into(), counted, at);
            }
            return Err(Some(why));
        }
        let found = if counted { self.items.get(hash, is) } else { self.items.peek_mut(hash, is) };
        found.ok_or(None)
    }

    /// Puts an item in; returns the one of the same key that it replaces.
    pub fn insert(&mut self, hash: u64, record: Record) -> Option<Record> {
        let weight = record.weight() as u32;
        let rank = if record.hint == Hint::Metadata { Rank::Kept } else { Rank::Ordinary };
        let key = record.shared_key();
        self.items.insert(NewEntry { hash, weight, rank, value: record }, |r| r.key() == key.as_ref())
    }

    /// Takes out the item of `key`, dead or not.
    pub fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Record> {
        self.items.remove(hash, |record| record.key() == key)
    }

    /// Takes out the item that is worth least.
    pub fn evict(&mut self, at: Moment) -> Option<Record> {
        let record = self.items.evict()?.value;
        match record.dead(at) {
            Some(why) => {
                self.counts.count_dead(why, record.fetched);
                self.counts.reclaimed += 1;
                self.tell(&record, why.into(), false, at);
            }
            None => {
                self.counts.count_evicted(&record);
                self.tell(&record, Leaving::Evicted, false, at);
            }
        }
        Some(record)
    }

    /// Takes out all dead items, at most once a second; how many there were.
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
                self.tell(&record, (*why).into(), false, at);
            }
        }
        dead.len()
    }

    fn tell(&self, record: &Record, why: Leaving, looked_up: bool, at: Moment) {
        let Some(listener) = &self.listener else { return };
        listener.left(&Left {
            key: record.key(),
            length: record.length() as u64,
            flags: record.flags,
            expires_at: record.expires_at,
            accessed_at: record.accessed_at,
            fetched: record.fetched,
            why,
            looked_up,
            now: at.now,
        });
    }

    /// Shows live items at up to `count` places from `from` on; where to go on.
    pub fn visit(
        &self,
        from: usize,
        count: usize,
        at: Moment,
        mut see: impl FnMut(&Record),
    ) -> Option<usize> {
        self.items.visit(from, count, |_, record| {
            if record.dead(at).is_none() {
                see(record);
            }
        })
    }
}
