//! Entries of known series, found by the hash of the series' name, and stored in arrival order.
//!
//! A sender repeats its series in every request, in the same order. So a lookup first tries the entry
//! after the one that was found last. Series in the same order are then read sequentially, without a
//! random memory access per sample. Others are found by a table of partial hashes and positions.
//!
//! **Invariants.** There are two generations. When the young one is full it becomes the old one, and an
//! entry that is found in the old one is added to the young one. The entries of each take at most half of
//! the bytes, as counted by [`Weighed`]. A dropped generation is freed after the lock is released.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hashbrown::HashTable;

use super::series_key::{SeriesKey, hash_of_part};

/// Entries that are allocated together.
const SEGMENT: usize = 512;
/// Bytes of a position in a table that has just grown.
const PLACE_BYTES: u64 = 24;

/// The value of an entry.
pub(super) trait Weighed: Clone {
    /// Bytes that it takes in addition to its entry.
    fn further_bytes(&self) -> u64;
}

struct Entry<V> {
    key: SeriesKey,
    known: V,
}

/// Returns the bytes of an entry and its position in the table.
pub(super) const fn entry_bytes<V>() -> u64 {
    size_of::<Entry<V>>() as u64 + PLACE_BYTES
}

/// Entries in arrival order.
struct Ordered<V> {
    segments: Vec<Vec<Entry<V>>>,
    /// Partial hashes and positions of entries.
    places: HashTable<(u32, u32)>,
    bytes: u64,
}

/// The two generations of entries.
pub(super) struct Generations<V> {
    young: Ordered<V>,
    old: Ordered<V>,
}

/// The generation in which a series was found.
pub(super) enum Found<'a, V> {
    Young(&'a V),
    /// The caller must keep it again, in the young generation.
    Old(&'a V),
}

/// Two generations of entries, shared by all threads.
pub(super) struct Seen<V> {
    generation_bytes_max: u64,
    generations: RwLock<Generations<V>>,
    /// Bytes of both generations.
    bytes: AtomicU64,
}

impl<V> Default for Ordered<V> {
    fn default() -> Self {
        Self { segments: Vec::new(), places: HashTable::new(), bytes: 0 }
    }
}

impl<V> Ordered<V> {
    #[inline]
    fn at(&self, place: u32) -> Option<&Entry<V>> {
        self.segments.get(place as usize / SEGMENT)?.get(place as usize % SEGMENT)
    }

    #[inline]
    fn find(&self, key: SeriesKey) -> Option<(u32, &V)> {
        let is_it = |(part, place): &(u32, u32)| {
            *part == key.part() && self.at(*place).is_some_and(|entry| entry.key == key)
        };
        let (_, place) = *self.places.find(key.hash(), is_it)?;
        Some((place, &self.at(place)?.known))
    }

    /// Adds an entry of this size for a key that is not present.
    fn add(&mut self, key: SeriesKey, known: V, bytes: u64) {
        let place = self.places.len() as u32;
        if self.segments.last().is_none_or(|last| last.len() == SEGMENT) {
            self.segments.push(Vec::with_capacity(SEGMENT));
        }
        let Some(last) = self.segments.last_mut() else { return };
        last.push(Entry { key, known });
        self.bytes += bytes;
        // The partial hash determines the full hash that the table uses.
        self.places.insert_unique(key.hash(), (key.part(), place), |(part, _)| hash_of_part(*part));
    }
}

impl<V> Generations<V> {
    /// Finds the value of a key. `next` is the expected position; after a hit in the young generation it
    /// is the position after the found one.
    #[inline]
    pub(super) fn get(&self, key: SeriesKey, next: &mut u32) -> Option<Found<'_, V>> {
        let expected = self.young.at(*next).filter(|entry| entry.key == key);
        let (place, known) = match expected {
            Some(entry) => (*next, &entry.known),
            None => match self.young.find(key) {
                Some(found) => found,
                None => return self.old.find(key).map(|(_, known)| Found::Old(known)),
            },
        };
        *next = place.wrapping_add(1);
        Some(Found::Young(known))
    }

    fn bytes(&self) -> u64 {
        self.young.bytes + self.old.bytes
    }
}

impl<V: Weighed> Seen<V> {
    /// Returns an empty set that takes at most twice `generation_bytes_max`.
    pub(super) fn new(generation_bytes_max: u64) -> Self {
        let generations = RwLock::new(Generations { young: Ordered::default(), old: Ordered::default() });
        Self { generation_bytes_max, generations, bytes: AtomicU64::new(0) }
    }

    /// Locks the generations for reading. Until the lock is released, no thread can keep entries, and its
    /// holder must not try to.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Generations<V>> {
        self.generations.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Generations<V>> {
        self.generations.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds those entries that the young generation does not have.
    pub(super) fn keep(&self, entries: impl IntoIterator<Item = (SeriesKey, V)>) {
        let mut gone: Vec<Ordered<V>> = Vec::new();
        let mut generations = self.write();
        for (key, known) in entries {
            let bytes = entry_bytes::<V>() + known.further_bytes();
            if bytes > self.generation_bytes_max || generations.young.find(key).is_some() {
                continue;
            }
            if generations.young.bytes + bytes > self.generation_bytes_max {
                let full = std::mem::take(&mut generations.young);
                gone.push(std::mem::replace(&mut generations.old, full));
            }
            generations.young.add(key, known, bytes);
        }
        self.bytes.store(generations.bytes(), Ordering::Relaxed);
        drop(generations);
        drop(gone);
    }

    /// Drops the old generation.
    pub(super) fn forget_old(&self) {
        let mut generations = self.write();
        let gone = std::mem::take(&mut generations.old);
        self.bytes.store(generations.bytes(), Ordering::Relaxed);
        drop(generations);
        drop(gone);
    }

    /// Returns the bytes of all entries.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
