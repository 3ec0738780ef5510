//! S3-FIFO: a container that keeps entries that are used again and evicts those that were used once.
//!
//! It has FIFO queues (Yang, Zhang, Qiu, Yue, Vigfusson: "FIFO queues are all you need for cache
//! eviction", SOSP 2023). New entries join the *small* queue, a tenth of the capacity. Entries used
//! twice before they reach its tail move to the *main* queue. The others are evicted, and a ghost
//! remembers their keys: a ghost hit within the window joins the main queue at once. An entry at the
//! tail of the main queue gets a second chance for each use counted, up to three.
//!
//! Differences from the paper:
//! * While the main queue is not full, the small one overflows into it. The paper's cache is one FIFO
//!   queue until enough entries were used twice, and a loop longer than that queue always misses.
//! * A *pinned* queue for metadata. While it holds less than its share, only other metadata evicts its
//!   entries.
//! * A ghost hit joins the main queue only if its reuse distance is shorter than the time that the entry
//!   at the tail of main has been there, unless that entry was used twice or more. The ghost remembers
//!   twice the capacity. If the ghost hit does not join, the tail of main loses a use and gets another
//!   round, so that no entry stays for ever. (LIRS compares the same two times; Jiang and Zhang,
//!   SIGMETRICS 2002.) A ghost hit with a very short reuse distance joins in any case.
//! * A call gives at most [`SECOND_CHANCES_MAX`] entries another round, so that no call holds a lock for
//!   long.
//!
//! **Invariants.** The sum of weights exceeds the capacity only between [`S3Fifo::insert`] and the next
//! [`S3Fifo::make_room`]. A hit allocates nothing, moves nothing and writes at most two bytes of the
//! entry. Equal calls cause equal evictions: there is no randomness and no clock.
//!
//! **Memory.** An entry takes 24 bytes and `size_of::<Option<T>>()` in the slab, 11 to 21 in the table,
//! and 5 to 10 in the ghost; [`S3Fifo::memory_bytes`] returns the sum.
//!
//! **Cost.** A hit reads one cell of the table and one entry.

use super::ghost::Ghost;
use super::slab::{Node, Slab};
use super::table::Table;
use crate::prefetch::prefetch;

/// Share of the capacity for new entries.
const SMALL_SHARE: f64 = 0.10;
/// Share of the capacity up to which entries without a second use may overflow from the small queue into
/// the main one. It is a little less than the main queue's own share, so that the next scan does not
/// fill the room that an eviction leaves there.
const OVERFLOW_SHARE: f64 = 0.88;
/// Share of the capacity within which metadata is pinned.
const PINNED_SHARE: f64 = 0.20;
/// Window of the ghost, in multiples of the capacity.
const GHOST_SHARE: f64 = 2.0;
/// Reuse distance, as a share of the capacity, below which a ghost hit joins the main queue in any case.
const AT_ONCE_SHARE: f64 = 0.20;
/// Uses in the small queue that promote an entry to the main queue. The same number keeps it at the main
/// queue's tail.
const PROMOTION_USES: u8 = 2;
/// Most entries to which one eviction gives another round. Beyond it the next entry in the queue is
/// evicted, used or not. With 64 the work under a lock stays below some ten microseconds, and no known
/// trace shows a difference in hits.
pub const SECOND_CHANCES_MAX: u32 = 64;

const SMALL: u8 = 0;
const MAIN: u8 = 1;
const PINNED: u8 = 2;

/// The memory that a lookup touches, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupStep {
    /// The cell of the table.
    Cell,
    /// The entry that the cell names.
    Entry,
    /// The target of the entry's value, which the caller knows.
    Value,
}

impl LookupStep {
    /// All steps, in order.
    pub const ALL: [Self; 3] = [Self::Cell, Self::Entry, Self::Value];
}

/// How an entry is treated before it is read for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rank {
    /// Starts on probation.
    #[default]
    Ordinary,
    /// Pinned: small and needed by nearly every request. Only other pinned entries evict it.
    Pinned,
}

/// The queue of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The small queue, of new entries.
    Small,
    /// The main queue.
    Main,
    /// The pinned queue, of metadata.
    Pinned,
}

/// An entry to insert.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<T> {
    /// Hash of the key.
    pub hash: u64,
    /// Its weight in bytes.
    pub weight: u32,
    /// How it is treated.
    pub rank: Rank,
    /// The value to keep.
    pub value: T,
}

/// An evicted entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted<T> {
    /// Hash of the key.
    pub hash: u64,
    /// Its weight in bytes.
    pub weight: u32,
    /// The queue from which it was evicted.
    pub place: Place,
    /// Whether it was ever read.
    pub fetched: bool,
    /// Number of uses since it was last judged, 0 to 3.
    pub uses: u8,
    /// The value that was kept.
    pub value: T,
}

/// The container. Keys are part of `T`; callers pass the test for equality, because two keys may share a
/// hash.
#[derive(Debug)]
pub struct S3Fifo<T> {
    table: Table,
    slab: Slab<T, 3>,
    ghost: Ghost,
    capacity: u64,
}

impl<T> S3Fifo<T> {
    /// An empty container for entries with a total weight of `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        let ghost = Ghost::new(share(capacity, GHOST_SHARE), 0);
        Self { table: Table::default(), slab: Slab::new(), ghost, capacity }
    }

    /// As [`Self::new`], with memory for `entries` entries allocated at once, so that no insertion waits
    /// for growth.
    pub fn with_room(capacity: u64, entries: usize) -> Self {
        let ghost = Ghost::new(share(capacity, GHOST_SHARE), entries);
        Self { table: Table::with_room(entries), slab: Slab::with_room(entries), ghost, capacity }
    }

    /// Prefetches the memory of a step of a lookup. For lookups of many keys: the loads of a step
    /// overlap if each step is made for all keys before the next one.
    #[inline]
    pub fn prefetch(&self, hash: u64, step: LookupStep, of_value: impl FnOnce(&T)) {
        match step {
            LookupStep::Cell => self.table.prefetch(hash),
            LookupStep::Entry => {
                self.table.find(hash, |place| {
                    prefetch(self.slab.node(place), size_of::<Node<T>>());
                    true
                });
            }
            LookupStep::Value => {
                let place = self.table.find(hash, |place| self.slab.node(place).hash == hash);
                if let Some(value) = place.and_then(|place| self.slab.node(place).value()) {
                    of_value(value);
                }
            }
        }
    }

    /// Returns the entry of a key and counts a use.
    #[inline]
    pub fn get(&mut self, hash: u64, is: impl FnMut(&T) -> bool) -> Option<&mut T> {
        let place = self.find(hash, is)?;
        let node = self.slab.node_mut(place);
        node.use_once();
        node.value_mut()
    }

    /// Returns the entry of a key without counting a use.
    #[inline]
    pub fn peek(&self, hash: u64, is: impl FnMut(&T) -> bool) -> Option<&T> {
        self.slab.node(self.find(hash, is)?).value()
    }

    /// Returns the entry of a key for a change in place, without counting a use.
    #[inline]
    pub fn peek_mut(&mut self, hash: u64, is: impl FnMut(&T) -> bool) -> Option<&mut T> {
        let place = self.find(hash, is)?;
        self.slab.node_mut(place).value_mut()
    }

    /// Adds an entry, or replaces the value of the entry for which `is` holds: that entry keeps its
    /// place in the queues, and its former value is returned. Call [`Self::make_room`] until it returns
    /// `None` first: this method never evicts.
    pub fn insert(&mut self, entry: NewEntry<T>, is: impl FnMut(&T) -> bool) -> Option<T> {
        if let Some(place) = self.find(entry.hash, is) {
            self.slab.reweigh(place, entry.weight);
            let value = self.slab.node_mut(place).value_mut();
            return value.map(|v| std::mem::replace(v, entry.value));
        }
        let reuse_distance = self.ghost.take_age(entry.hash);
        let queue = match entry.rank {
            Rank::Pinned => PINNED,
            Rank::Ordinary if reuse_distance.is_some_and(|bytes| self.joins_main(bytes)) => MAIN,
            Rank::Ordinary => SMALL,
        };
        let place = self.slab.add(queue, entry.hash, entry.weight, entry.value);
        self.slab.node_mut(place).joined = self.ghost.time();
        self.table.insert(entry.hash, place);
        self.fill_main();
        None
    }

    /// Evicts one entry if `weight` more bytes do not fit; `None` if they fit, or if the container is empty.
    pub fn make_room(&mut self, weight: u32) -> Option<Evicted<T>> {
        if self.weight() + u64::from(weight) <= self.capacity {
            return None;
        }
        self.evict_within(self.capacity)
    }

    /// Evicts the entry that is worth least; `None` without entries. For callers with less room than the
    /// capacity: the shares of the queues then refer to the present weight, because a main queue that
    /// cannot reach its share of the capacity would never lose an entry.
    pub fn evict(&mut self) -> Option<Evicted<T>> {
        self.evict_within(self.weight())
    }

    fn evict_within(&mut self, room: u64) -> Option<Evicted<T>> {
        let mut chances = SECOND_CHANCES_MAX;
        loop {
            let queue = self.next_queue(room)?;
            let place = self.slab.oldest(queue)?;
            let node = self.slab.node(place);
            let uses = node.uses();
            let (queue, uses) = match queue {
                SMALL if uses >= PROMOTION_USES => (MAIN, 0),
                MAIN | PINNED if uses > 0 => (queue, uses - 1),
                _ => return self.evict_at(place),
            };
            if chances == 0 {
                return self.evict_at(place);
            }
            self.slab.node_mut(place).set_uses(uses);
            self.join(place, queue);
            chances -= 1;
        }
    }

    /// Removes an entry; the ghost does not remember it.
    pub fn remove(&mut self, hash: u64, is: impl FnMut(&T) -> bool) -> Option<T> {
        let place = self.find(hash, is)?;
        self.table.remove(hash, place);
        self.slab.take(place)
    }

    /// Changes the weight of an entry; `false` if there is none.
    pub fn reweigh(&mut self, hash: u64, weight: u32, is: impl FnMut(&T) -> bool) -> bool {
        match self.find(hash, is) {
            Some(place) => {
                self.slab.reweigh(place, weight);
                true
            }
            None => false,
        }
    }

    /// Changes the capacity. Later calls of [`Self::make_room`] evict the entries above it.
    pub fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.ghost.set_window(share(capacity, GHOST_SHARE));
    }

    /// Drops all entries and empties the ghost.
    pub fn clear(&mut self) {
        self.table.clear();
        self.slab = Slab::new();
        self.ghost.clear();
    }

    /// Shows the entries in up to `count` places from `from` on, in no particular order. Returns the
    /// place to continue at, or `None` at the end. An entry that stays in the container for a complete
    /// pass is shown once.
    pub fn visit(&self, from: usize, count: usize, mut see: impl FnMut(u64, &T)) -> Option<usize> {
        let end = from.saturating_add(count).min(self.slab.places());
        for place in from..end {
            let node = self.slab.node(place as u32);
            if let Some(value) = node.value() {
                see(node.hash, value);
            }
        }
        (end < self.slab.places()).then_some(end)
    }

    /// Number of places for [`Self::visit`].
    pub fn places(&self) -> usize {
        self.slab.places()
    }

    /// Largest sum of weights in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Sum of the weights of all entries in bytes.
    #[inline]
    pub fn weight(&self) -> u64 {
        self.slab.weight(SMALL) + self.slab.weight(MAIN) + self.slab.weight(PINNED)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.slab.entries(SMALL) + self.slab.entries(MAIN) + self.slab.entries(PINNED)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of entries and sum of weights of one queue.
    pub fn in_place(&self, place: Place) -> (usize, u64) {
        let queue = match place {
            Place::Small => SMALL,
            Place::Main => MAIN,
            Place::Pinned => PINNED,
        };
        (self.slab.entries(queue), self.slab.weight(queue))
    }

    /// Bytes of the container itself, without allocations of the values.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.slab.memory_bytes() + self.ghost.memory_bytes()
    }

    #[inline]
    fn find(&self, hash: u64, mut is: impl FnMut(&T) -> bool) -> Option<u32> {
        self.table.find(hash, |place| {
            let node = self.slab.node(place);
            node.hash == hash && node.value().is_some_and(&mut is)
        })
    }

    /// The queue whose oldest entry is judged next, with room for `room` bytes in total.
    fn next_queue(&self, room: u64) -> Option<u8> {
        let weight = |queue| self.slab.weight(queue);
        let full = |queue| self.slab.entries(queue) > 0;
        if full(PINNED) && weight(PINNED) > share(room, PINNED_SHARE) {
            return Some(PINNED);
        }
        let protected = weight(MAIN) + weight(PINNED);
        if full(SMALL) && (protected <= share(room, 1.0 - SMALL_SHARE) || !full(MAIN)) {
            return Some(SMALL);
        }
        [MAIN, PINNED].into_iter().find(|queue| full(*queue))
    }

    /// Moves the oldest entries of the small queue to the main queue while that has room to spare. Two
    /// at each insertion keep pace with any load, and no call has to move all of them.
    fn fill_main(&mut self) {
        for _ in 0..2 {
            let Some(place) = self.slab.oldest(SMALL) else { return };
            let weight = self.slab.node(place).weight;
            let over = self.slab.weight(SMALL) > share(self.capacity, SMALL_SHARE);
            if !over || !self.fits_main(weight) {
                return;
            }
            self.reinsert_into_main(place);
        }
    }

    /// Makes an entry the newest of the main queue, which costs one use.
    fn reinsert_into_main(&mut self, place: u32) {
        let node = self.slab.node_mut(place);
        node.set_uses(node.uses().saturating_sub(1));
        self.join(place, MAIN);
    }

    fn join(&mut self, place: u32, queue: u8) {
        self.slab.node_mut(place).joined = self.ghost.time();
        self.slab.move_to(place, queue);
    }

    /// Whether a key with this reuse distance in bytes is worth more than the oldest entry of the main
    /// queue. If not, that entry gets another round.
    fn joins_main(&mut self, reuse_distance: u64) -> bool {
        if reuse_distance <= share(self.capacity, AT_ONCE_SHARE) {
            return true;
        }
        let Some(end) = self.slab.oldest(MAIN) else { return true };
        let node = self.slab.node(end);
        let (uses, stood) = (node.uses(), self.ghost.bytes_since(node.joined));
        // It was not used on its way through the small queue either.
        let unused = reuse_distance + share(self.capacity, SMALL_SHARE);
        if uses < PROMOTION_USES && unused <= stood {
            return true;
        }
        if uses > 0 {
            self.reinsert_into_main(end);
        }
        false
    }

    fn fits_main(&self, weight: u32) -> bool {
        let protected = self.slab.weight(MAIN) + self.slab.weight(PINNED);
        protected + u64::from(weight) <= share(self.capacity, OVERFLOW_SHARE)
    }

    fn evict_at(&mut self, place: u32) -> Option<Evicted<T>> {
        let node = self.slab.node(place);
        let (hash, weight, uses, fetched) = (node.hash, node.weight, node.uses(), node.was_fetched());
        let from = match node.queue {
            SMALL => Place::Small,
            MAIN => Place::Main,
            _ => Place::Pinned,
        };
        if from == Place::Small {
            self.ghost.make_room(self.slab.places());
            self.ghost.note(hash, u64::from(weight));
        }
        self.table.remove(hash, place);
        let value = self.slab.take(place)?;
        Some(Evicted { hash, weight, place: from, fetched, uses, value })
    }
}

/// A share of the capacity in bytes.
fn share(capacity: u64, part: f64) -> u64 {
    (capacity as f64 * part) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, VecDeque};

    use proptest::prelude::*;

    use super::*;

    /// A simple implementation of the same policy: queues of keys, a map, an exact ghost.
    struct Naive {
        capacity: u64,
        queues: [VecDeque<u64>; 3],
        entries: HashMap<u64, (u32, u8, usize)>,
        joined: HashMap<u64, u64>,
        ghost: HashMap<u64, u64>,
        noted: u64,
    }

    impl Naive {
        fn new(capacity: u64) -> Self {
            let (entries, joined, ghost) = (HashMap::new(), HashMap::new(), HashMap::new());
            Self { capacity, queues: Default::default(), entries, joined, ghost, noted: 0 }
        }

        fn weight(&self, queue: usize) -> u64 {
            self.queues[queue].iter().map(|k| u64::from(self.entries[k].0)).sum()
        }

        fn get(&mut self, key: u64) -> bool {
            let Some(entry) = self.entries.get_mut(&key) else { return false };
            entry.1 = (entry.1 + 1).min(3);
            true
        }

        fn insert(&mut self, key: u64, weight: u32, kept: bool) -> Vec<u64> {
            let mut gone = Vec::new();
            while (0..3).map(|q| self.weight(q)).sum::<u64>() + u64::from(weight) > self.capacity {
                match self.evict() {
                    Some(key) => gone.push(key),
                    None => break,
                }
            }
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.0 = weight;
                return gone;
            }
            let window = (self.capacity as f64 * GHOST_SHARE) as u64;
            let reuse_distance =
                self.ghost.remove(&key).map(|then| self.noted - then).filter(|bytes| *bytes <= window);
            let queue = match reuse_distance {
                _ if kept => 2,
                Some(reuse_distance) if self.joins_main(reuse_distance) => 1,
                _ => 0,
            };
            self.entries.insert(key, (weight, 0, queue));
            self.push(key, queue);
            for _ in 0..2 {
                let oldest = self.queues[0].back().copied();
                let over = self.weight(0) > (self.capacity as f64 * SMALL_SHARE) as u64;
                if let Some(oldest) = oldest.filter(|key| over && self.fits_main(*key)) {
                    self.queues[0].pop_back();
                    self.promote(oldest);
                } else {
                    break;
                }
            }
            gone
        }

        fn fits_main(&self, key: u64) -> bool {
            let protected = self.weight(1) + self.weight(2);
            protected + u64::from(self.entries[&key].0) <= (self.capacity as f64 * OVERFLOW_SHARE) as u64
        }

        fn promote(&mut self, key: u64) {
            let entry = self.entries.get_mut(&key).unwrap();
            *entry = (entry.0, entry.1.saturating_sub(1), 1);
            self.push(key, 1);
        }

        fn push(&mut self, key: u64, queue: usize) {
            self.joined.insert(key, self.noted);
            self.queues[queue].push_front(key);
        }

        fn joins_main(&mut self, reuse_distance: u64) -> bool {
            let part = |share: f64| (self.capacity as f64 * share) as u64;
            let Some(end) = self.queues[1].back().copied() else { return true };
            let (uses, stood) = (self.entries[&end].1, self.noted - self.joined[&end]);
            if reuse_distance <= part(AT_ONCE_SHARE)
                || uses < 2 && reuse_distance + part(SMALL_SHARE) <= stood
            {
                return true;
            }
            if uses > 0 {
                self.queues[1].pop_back();
                self.promote(end);
            }
            false
        }

        fn evict(&mut self) -> Option<u64> {
            loop {
                let kept_over = self.weight(2) > (self.capacity as f64 * PINNED_SHARE) as u64;
                let protected = self.weight(1) + self.weight(2);
                let small_due = protected <= (self.capacity as f64 * (1.0 - SMALL_SHARE)) as u64;
                let queue = if kept_over {
                    2
                } else if !self.queues[0].is_empty() && (small_due || self.queues[1].is_empty()) {
                    0
                } else if !self.queues[1].is_empty() {
                    1
                } else {
                    2
                };
                let key = self.queues[queue].pop_back()?;
                let entry = self.entries.get_mut(&key).unwrap();
                if queue == 0 && entry.1 >= 2 {
                    *entry = (entry.0, 0, 1);
                    self.push(key, 1);
                } else if queue != 0 && entry.1 > 0 {
                    entry.1 -= 1;
                    self.push(key, queue);
                } else {
                    self.noted += if queue == 0 { u64::from(entry.0) } else { 0 };
                    if queue == 0 {
                        self.ghost.insert(key, self.noted);
                    }
                    self.entries.remove(&key);
                    return Some(key);
                }
            }
        }

        fn remove(&mut self, key: u64) -> bool {
            for queue in &mut self.queues {
                queue.retain(|k| *k != key);
            }
            self.entries.remove(&key).is_some()
        }
    }

    fn hash_of(key: u64) -> u64 {
        // Every third pair of keys shares a hash.
        (if key % 6 == 1 { key - 1 } else { key }).wrapping_mul(0xD6E8_FEB8_6659_FD93)
    }

    fn insert(cache: &mut S3Fifo<u64>, key: u64, weight: u32, rank: Rank) -> Vec<Evicted<u64>> {
        let mut gone = Vec::new();
        while let Some(evicted) = cache.make_room(weight) {
            gone.push(evicted);
        }
        cache.insert(NewEntry { hash: hash_of(key), weight, rank, value: key }, |k| *k == key);
        gone
    }

    #[derive(Clone, Debug)]
    enum Step {
        Get(u64),
        Insert(u64, u32, bool),
        Remove(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        // Keys that share no fingerprint in the ghost; small ones more often.
        let key = prop_oneof![0u64..12, 0u64..60];
        prop_oneof![
            5 => key.clone().prop_map(Step::Get),
            4 => (key.clone(), 1u32..30, prop::bool::weighted(0.1))
                .prop_map(|(key, weight, kept)| Step::Insert(key, weight, kept)),
            1 => key.prop_map(Step::Remove),
        ]
    }

    proptest! {
        #[test]
        fn decides_like_the_naive_policy(
            capacity in 40u64..400,
            steps in prop::collection::vec(step(), 1..800),
        ) {
            let mut cache = S3Fifo::new(capacity);
            // So much room that no bucket of the ghost overflows: the exact one never does.
            cache.ghost.make_room(4_096);
            let mut naive = Naive::new(capacity);
            for step in steps {
                match step {
                    Step::Get(key) => {
                        // Keys with one hash share their entry in the ghost; the exact one distinguishes
                        // them.
                        let found = cache.get(hash_of(key), |k| *k == key).is_some();
                        prop_assert_eq!(found, naive.get(key));
                    }
                    Step::Insert(key, weight, kept) if key % 6 != 1 => {
                        let rank = if kept { Rank::Pinned } else { Rank::Ordinary };
                        let gone: Vec<u64> =
                            insert(&mut cache, key, weight, rank).iter().map(|e| e.value).collect();
                        prop_assert_eq!(gone, naive.insert(key, weight, kept));
                    }
                    Step::Insert(..) => {}
                    Step::Remove(key) => {
                        let removed = cache.remove(hash_of(key), |k| *k == key).is_some();
                        prop_assert_eq!(removed, naive.remove(key));
                    }
                }
                prop_assert_eq!(cache.len(), naive.entries.len());
                prop_assert_eq!(cache.weight(), (0..3).map(|q| naive.weight(q)).sum::<u64>());
            }
            let mut seen = Vec::new();
            let mut from = Some(0);
            while let Some(at) = from {
                from = cache.visit(at, 7, |_, key| seen.push(*key));
            }
            seen.sort_unstable();
            let mut expected: Vec<u64> = naive.entries.keys().copied().collect();
            expected.sort_unstable();
            prop_assert_eq!(seen, expected);
        }
    }

    /// Reads keys in a loop and inserts missing ones. Returns the number of hits in the last pass.
    fn found_in_the_last(cache: &mut S3Fifo<u64>, keys: std::ops::Range<u64>, passes: u32) -> usize {
        let mut found = 0;
        for pass in 1..=passes {
            for key in keys.clone() {
                if cache.get(hash_of(key), |k| *k == key).is_some() {
                    found += usize::from(pass == passes);
                } else {
                    insert(cache, key, 10, Rank::Ordinary);
                }
            }
        }
        found
    }

    #[test]
    fn ghost_hits_with_a_shorter_reuse_distance_replace_the_first_entries_of_main() {
        let mut cache = S3Fifo::new(10_000);
        found_in_the_last(&mut cache, 1_000_000..1_001_000, 1);
        // The loop is longer than the small queue and the paper's ghost together, which would never
        // remember its keys.
        let found = found_in_the_last(&mut cache, 2_000_000..2_001_300, 12);
        assert!(found >= 600, "{found} of 1,300 found");
    }

    #[test]
    fn a_loop_does_not_evict_itself() {
        for keys in [1_100, 1_250, 2_500] {
            let mut cache = S3Fifo::new(10_000);
            let found = found_in_the_last(&mut cache, 1_000_000..1_000_000 + keys, 20);
            assert!(found >= 700, "{found} of {keys} found where 1,000 fit");
        }
    }

    #[test]
    fn keys_with_one_hash_are_kept_apart() {
        let mut cache = S3Fifo::new(1_000);
        assert_eq!(hash_of(0), hash_of(1));
        insert(&mut cache, 0, 10, Rank::Ordinary);
        insert(&mut cache, 1, 10, Rank::Ordinary);
        assert_eq!(cache.peek(hash_of(1), |k| *k == 1), Some(&1));
        assert_eq!(cache.remove(hash_of(0), |k| *k == 0), Some(0));
        assert_eq!(cache.peek(hash_of(1), |k| *k == 1), Some(&1));
        assert_eq!(cache.peek(hash_of(0), |k| *k == 0), None);
    }

    #[test]
    fn a_scan_evicts_neither_hot_entries_nor_metadata() {
        let mut cache = S3Fifo::new(10_000);
        for key in 0..60 {
            insert(&mut cache, key, 50, Rank::Ordinary);
            for _ in 0..3 {
                cache.get(hash_of(key), |k| *k == key);
            }
        }
        for key in 1_000..1_020 {
            insert(&mut cache, key, 50, Rank::Pinned);
        }
        for key in 10_000..12_000 {
            insert(&mut cache, key, 50, Rank::Ordinary);
        }
        let left = (0..60).filter(|key| cache.peek(hash_of(*key), |k| k == key).is_some()).count();
        let metadata = (1_000..1_020).filter(|key| cache.peek(hash_of(*key), |k| k == key).is_some()).count();
        assert_eq!((left, metadata), (60, 20), "hot entries and metadata after a scan of 10x the capacity");
    }

    /// Reads a key with room for `room` bytes, less than the capacity. Returns whether it was there.
    fn read_within(cache: &mut S3Fifo<u64>, key: u64, room: u64) -> bool {
        let hash = hash_of(key);
        if cache.get(hash, |k| *k == key).is_some() {
            return true;
        }
        while cache.weight() + 50 > room {
            cache.evict();
        }
        cache.insert(NewEntry { hash, weight: 50, rank: Rank::Ordinary, value: key }, |k| *k == key);
        false
    }

    #[test]
    fn single_reads_do_not_evict_hot_entries_when_room_is_below_the_capacity() {
        for room in [8_500, 6_000] {
            let mut cache = S3Fifo::new(10_000);
            let mut hits = 0;
            for round in 0..20 {
                hits = 0;
                for key in 0..60 {
                    hits += usize::from(read_within(&mut cache, key, room));
                    let single = (round * 60 + key + 1) * 1_000;
                    (single..single + 5).for_each(|key| _ = read_within(&mut cache, key, room));
                }
            }
            assert_eq!(hits, 60, "room for {room} bytes");
        }
    }

    #[test]
    fn new_entries_have_their_share_when_room_is_below_the_capacity() {
        let mut cache = S3Fifo::new(10_000);
        let mut hits = 0;
        // More hot keys than fit, and between them keys that are read again soon.
        for step in 0..3_000 {
            read_within(&mut cache, step % 130, 6_000);
            read_within(&mut cache, 1_000 + step, 6_000);
            hits += usize::from(step >= 2_000 && read_within(&mut cache, 1_000 + step - 4, 6_000));
        }
        assert!(hits >= 900, "{hits} of 1,000 new entries hit after four others");
    }

    #[test]
    fn metadata_beyond_its_share_evicts_metadata() {
        let mut cache = S3Fifo::new(1_000);
        for key in 0..99 {
            insert(&mut cache, key, 10, Rank::Ordinary);
        }
        for key in 100..200 {
            insert(&mut cache, key, 10, Rank::Pinned);
        }
        // With one entry more than the share, the next one evicts an entry of the pinned queue.
        assert_eq!((cache.in_place(Place::Pinned), cache.in_place(Place::Small)), ((21, 210), (9, 90)));
    }

    #[test]
    fn an_eviction_gives_a_bounded_number_of_second_chances() {
        let mut cache = S3Fifo::new(100_000);
        for key in 0..10_000 {
            insert(&mut cache, key, 10, Rank::Ordinary);
            for _ in 0..3 {
                cache.get(hash_of(key), |k| *k == key);
            }
        }
        // All entries are hot: after the bound the next in the queue is evicted.
        let gone = cache.make_room(10).map(|e| e.value);
        // The first 8,800 overflowed into the main queue; the small queue is judged.
        assert_eq!(gone, Some(8_800 + u64::from(SECOND_CHANCES_MAX)));
    }

    #[test]
    fn a_smaller_capacity_takes_effect_with_the_next_call_of_make_room() {
        let mut cache = S3Fifo::new(1_000);
        for key in 0..100 {
            insert(&mut cache, key, 10, Rank::Ordinary);
        }
        cache.set_capacity(300);
        let mut gone = 0;
        while cache.make_room(0).is_some() {
            gone += 1;
        }
        assert_eq!((gone, cache.weight(), cache.len()), (70, 300, 30));
        cache.clear();
        assert!(cache.is_empty() && cache.weight() == 0 && cache.evict().is_none());
    }

    /// Checks the sizes in the module's documentation.
    #[test]
    fn memory_per_entry_is_as_documented() {
        let mut cache = S3Fifo::with_room(1 << 40, 1_000_000);
        for key in 0..1_000_000u64 {
            let entry = NewEntry {
                hash: key.wrapping_mul(0x9E37_79B9_7F4A_7C15),
                weight: 1,
                rank: Rank::Ordinary,
                value: (),
            };
            cache.insert(entry, |_| false);
        }
        let per_entry = cache.memory_bytes() as f64 / 1e6;
        assert!((35.0..58.0).contains(&per_entry), "{per_entry} bytes per entry");
    }
}
