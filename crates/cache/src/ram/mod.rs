//! The RAM tier: items in shards, under a common limit of memory.
//!
//! Each shard has its own queues, so eviction is by shard. A shard that needs room evicts its own items
//! if it holds at least the average; otherwise another shard that does evicts. Hashes spread items
//! evenly, so this comes close to one queue for all.
//!
//! Invariants: an item is in the shard of its hash. The memory budget counts every item and its entry in
//! the table. A thread that holds the lock of one shard only tries those of others, so that no deadlock
//! is possible.

mod counts;
mod epochs;
mod evictor;
pub(crate) mod record;
mod shard;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use sandur_memory::{MemoryBudget, Reservation};

pub(crate) use epochs::Epochs;
pub(crate) use evictor::Evictor;
pub(crate) use record::{Dead, Moment, Record};
use shard::Shard;

use crate::policy::LookupStep;
use crate::stats::RamCounts;

/// Most shards, which a tier with enough memory has.
const MOST_SHARDS: u64 = 256;
/// Memory per shard: values of one MiB must fit several times.
const SHARD_MEMORY: u64 = 8 << 20;

/// Smallest number of keys of a lookup for which memory is prefetched: with fewer keys too little would
/// overlap.
const PREFETCHED_KEYS: usize = 8;
/// Smallest size of a tier for which memory is prefetched: smaller ones fit into the processor's caches.
const PREFETCHED_WEIGHT: u64 = 16 << 20;

/// All shards and the memory that they share.
#[derive(Debug)]
pub(crate) struct Ram {
    slots: Box<[Slot]>,
    memory: MemoryBudget,
    evict: bool,
    /// Bytes of all items and their entries.
    weight: AtomicU64,
    /// The shard in which the next search for room begins.
    cursor: AtomicUsize,
}

/// A shard on cache lines of its own; processors fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Slot {
    shard: Mutex<Shard>,
    /// The shard's weight, readable without its lock.
    weight: AtomicU64,
}

/// A locked shard.
pub(crate) struct Locked<'a> {
    ram: &'a Ram,
    index: usize,
    shard: MutexGuard<'a, Shard>,
}

impl Ram {
    pub fn new(memory: MemoryBudget, evict: bool, evictor: Evictor) -> Self {
        let evictor = Arc::new(evictor);
        let shards = (memory.limit() / SHARD_MEMORY).clamp(1, MOST_SHARDS).next_power_of_two();
        let capacity = memory.limit() / shards;
        let shard = || Mutex::new(Shard::new(capacity, memory.empty(), Arc::clone(&evictor)));
        let slot = |_| Slot { shard: shard(), weight: AtomicU64::new(0) };
        Self {
            slots: (0..shards).map(slot).collect(),
            memory,
            evict,
            weight: AtomicU64::new(0),
            cursor: AtomicUsize::new(0),
        }
    }

    pub fn memory(&self) -> &MemoryBudget {
        &self.memory
    }

    pub fn shards(&self) -> usize {
        self.slots.len()
    }

    /// Prefetches the memory that lookups of these hashes will touch, unless it is probably in a cache
    /// of the processor.
    pub fn prefetch(&self, hashes: impl ExactSizeIterator<Item = u64> + Clone) {
        if hashes.len() < PREFETCHED_KEYS || self.weight() < PREFETCHED_WEIGHT {
            return;
        }
        for step in LookupStep::ALL {
            for hash in hashes.clone() {
                self.lock(hash).shard.prefetch(hash, step);
            }
        }
    }

    /// Locks the shard of a hash.
    pub fn lock(&self, hash: u64) -> Locked<'_> {
        // The table inside the shard uses the lower bits.
        self.lock_shard((hash >> 48) as usize & (self.slots.len() - 1))
    }

    /// Locks a shard by its number.
    pub fn lock_shard(&self, index: usize) -> Locked<'_> {
        let shard = self.slots[index].shard.lock().unwrap_or_else(PoisonError::into_inner);
        Locked { ram: self, index, shard }
    }

    fn try_lock_shard(&self, index: usize) -> Option<Locked<'_>> {
        let shard = match self.slots[index].shard.try_lock() {
            Ok(shard) => shard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Locked { ram: self, index, shard })
    }

    /// Reserves `bytes` for something other than items, such as a buffer; evicts items for it.
    pub fn reserve(&self, bytes: u64, at: Moment) -> Option<Reservation> {
        loop {
            if let Ok(reserved) = self.memory.reserve(bytes) {
                return Some(reserved);
            }
            if bytes > self.memory.limit() || !self.evict || !self.evict_elsewhere(usize::MAX, at) {
                return None;
            }
        }
    }

    /// Changes the limit. Items above it are evicted at once.
    pub fn set_limit(&self, limit: u64, at: Moment) {
        self.memory.set_limit(limit);
        let capacity = limit / self.slots.len() as u64;
        for index in 0..self.slots.len() {
            self.lock_shard(index).shard.set_capacity(capacity);
        }
        self.pay_back(at);
    }

    /// Evicts items until about `bytes` less are in use. Does not wait for locks.
    pub fn release(&self, bytes: u64, at: Moment) {
        let goal = self.memory.used().saturating_sub(bytes);
        while self.evict && self.memory.used() > goal && self.evict_elsewhere(usize::MAX, at) {}
    }

    /// Evicts until the bytes in use do not exceed the limit.
    pub fn pay_back(&self, at: Moment) {
        while self.memory.excess() > 0 && self.evict_elsewhere(usize::MAX, at) {}
    }

    /// Evicts one item from a shard that holds at least the average, other than `own`.
    fn evict_elsewhere(&self, own: usize, at: Moment) -> bool {
        let count = self.slots.len();
        let average = self.average();
        for least in [average, 1] {
            for _ in 0..count {
                let index = self.cursor.fetch_add(1, Ordering::Relaxed) & (count - 1);
                if index == own || self.slots[index].weight.load(Ordering::Relaxed) < least {
                    continue;
                }
                if let Some(mut shard) = self.try_lock_shard(index)
                    && shard.evict_one(at)
                {
                    return true;
                }
            }
        }
        false
    }

    fn average(&self) -> u64 {
        (self.weight.load(Ordering::Relaxed) / self.slots.len() as u64).max(1)
    }

    /// The sum of the counters of all shards, and the number of items.
    pub fn counts(&self) -> (RamCounts, u64) {
        let mut sum = RamCounts::default();
        let mut items = 0;
        for index in 0..self.slots.len() {
            let shard = self.lock_shard(index);
            sum.add(&shard.shard.counts);
            items += shard.shard.len() as u64;
        }
        (sum, items)
    }

    /// Removes all items without counting or reporting them.
    pub fn clear(&self) {
        for index in 0..self.slots.len() {
            let mut shard = self.lock_shard(index);
            shard.shard.clear();
            shard.settle();
        }
    }

    /// Bytes of all items and their entries.
    pub fn weight(&self) -> u64 {
        self.weight.load(Ordering::Relaxed)
    }
}

impl Locked<'_> {
    /// Calls `act` with the live item of `key`, counted as a use if `counted`. A dead item is removed.
    pub fn with<R>(
        &mut self,
        hash: u64,
        key: &[u8],
        (at, counted): (Moment, bool),
        act: impl FnOnce(&mut Record, &mut RamCounts) -> R,
    ) -> Result<R, Option<Dead>> {
        let outcome = self.shard.with(hash, key, (at, counted), act);
        if let Err(Some(_)) = &outcome {
            self.settle();
        }
        outcome
    }

    /// Notes that an item was read from flash. Returns whether it was also read shortly before.
    pub fn was_read_lately(&mut self, hash: u64) -> bool {
        self.shard.was_read_lately(hash)
    }

    /// Whether a tenth of the memory that the cache can have is free.
    pub fn has_room_to_spare(&self) -> bool {
        self.ram.memory.used() < self.ram.memory.attainable() / 10 * 9
    }

    /// The live item of `key`, counted as a use if `counted`. A dead item is removed.
    pub fn find(
        &mut self,
        hash: u64,
        key: &[u8],
        at: Moment,
        counted: bool,
    ) -> Result<&mut Record, Option<Dead>> {
        // Looked up twice, because returning the reference from a match would keep the shard borrowed.
        self.with(hash, key, (at, counted), |_, _| ())?;
        self.shard.peek_mut(hash, key).ok_or(None)
    }

    /// Reserves `bytes` and evicts items for them, unless the cache does not evict.
    pub fn make_room(&mut self, bytes: u64, at: Moment) -> Option<Reservation> {
        let memory = &self.ram.memory;
        if bytes > memory.limit() {
            return None;
        }
        loop {
            if let Ok(reserved) = memory.reserve(bytes) {
                return Some(reserved);
            }
            if !self.free_some(at) {
                return None;
            }
        }
    }

    /// Stores a record, whose weight was reserved. Returns whether it replaced a live one.
    pub fn store(&mut self, hash: u64, record: Record, reserved: Reservation, at: Moment) -> bool {
        debug_assert_eq!(reserved.bytes(), record.weight());
        let replaced = self.shard.insert(hash, record, at);
        self.shard.memory.absorb(reserved);
        self.settle();
        replaced
    }

    /// Removes the item of `key`, dead or not.
    pub fn take(&mut self, hash: u64, key: &[u8]) -> Option<Record> {
        let record = self.shard.remove(hash, key)?;
        self.settle();
        Some(record)
    }

    /// Removes all dead items, at most once per second. Returns their number.
    pub fn sweep(&mut self, at: Moment) -> usize {
        let dead = self.shard.sweep(at);
        self.settle();
        dead
    }

    /// Shows live items at up to `count` places from `from` on. Returns the place to continue at.
    pub fn visit(
        &self,
        from: usize,
        count: usize,
        at: Moment,
        see: impl FnMut(u64, &Record),
    ) -> Option<usize> {
        self.shard.visit(from, count, at, see)
    }

    /// Shows items, including dead ones, at up to `count` places from `from` on.
    pub fn visit_all(&self, from: usize, count: usize, see: impl FnMut(u64, &Record)) {
        self.shard.visit_all(from, count, see);
    }

    /// Number of places for [`Self::visit_all`].
    pub fn places(&self) -> usize {
        self.shard.places()
    }

    /// The shard's counters.
    pub fn counts(&mut self) -> &mut RamCounts {
        &mut self.shard.counts
    }

    /// Frees an item here, or in a shard that holds more. If the cache does not evict, frees dead items.
    fn free_some(&mut self, at: Moment) -> bool {
        if !self.ram.evict {
            return self.sweep(at) > 0;
        }
        let holds_its_share = self.shard.weight() >= self.ram.average();
        if holds_its_share && self.evict_one(at) {
            return true;
        }
        self.ram.evict_elsewhere(self.index, at) || self.evict_one(at)
    }

    fn evict_one(&mut self, at: Moment) -> bool {
        let evicted = self.shard.evict(at).is_some();
        self.settle();
        evicted
    }

    /// Reserves exactly the present weight of the shard.
    fn settle(&mut self) {
        let now = self.shard.weight();
        let before = self.ram.slots[self.index].weight.swap(now, Ordering::Relaxed);
        self.ram.weight.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        self.shard.memory.resize_anyway(now);
    }
}
