//! What was seen, found by the hash of its name, in the order in which it came.
//!
//! A sender names its series in each request, and in the same order each time. The entry behind the one that
//! was found before is looked at first: what is met in order is read in order, and many series take no walk
//! through memory for each sample. Others are found by a table of parts of hashes and places.
//!
//! **Invariants.** There are two generations: when the young one is full it becomes the old one, and what is
//! found in the old one is added to the young one. The entries of each take at most half of the bytes, by
//! what [`Weighed`] says. What goes is dropped when nobody waits for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hashbrown::HashTable;

use super::series_key::{SeriesKey, hash_of_part};

/// Entries that are allocated together.
const SEGMENT: usize = 512;
/// Bytes of a place in a table that has just grown.
const PLACE_BYTES: u64 = 24;

/// What is kept of a series.
pub(super) trait Weighed: Clone {
    /// Bytes that it takes beside its entry.
    fn bytes_beside(&self) -> u64;
}

struct Entry<V> {
    key: SeriesKey,
    known: V,
}

/// Bytes of an entry and its place.
pub(super) const fn entry_bytes<V>() -> u64 {
    size_of::<Entry<V>>() as u64 + PLACE_BYTES
}

/// Entries in the order in which they came.
struct Ordered<V> {
    segments: Vec<Vec<Entry<V>>>,
    /// Parts of hashes, and places.
    places: HashTable<(u32, u32)>,
    bytes: u64,
}

/// What is found now.
pub(super) struct Generations<V> {
    young: Ordered<V>,
    old: Ordered<V>,
}

/// Where a series was found.
pub(super) enum Found<'a, V> {
    Young(&'a V),
    /// It is to be kept again.
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

    /// Adds an entry of so many bytes that is not there.
    fn add(&mut self, key: SeriesKey, known: V, bytes: u64) {
        let place = self.places.len() as u32;
        if self.segments.last().is_none_or(|last| last.len() == SEGMENT) {
            self.segments.push(Vec::with_capacity(SEGMENT));
        }
        let Some(last) = self.segments.last_mut() else { return };
        last.push(Entry { key, known });
        self.bytes += bytes;
        // A part of a hash has the bits by which places are found.
        self.places.insert_unique(key.hash(), (key.part(), place), |(part, _)| hash_of_part(*part));
    }
}

impl<V> Generations<V> {
    /// What is known of a key. `next` is where it is expected, and then where the one behind it is.
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
    /// One that takes at most twice so many bytes.
    pub(super) fn new(generation_bytes_max: u64) -> Self {
        let generations = RwLock::new(Generations { young: Ordered::default(), old: Ordered::default() });
        Self { generation_bytes_max, generations, bytes: AtomicU64::new(0) }
    }

    /// What is found now. While it is held nothing is kept, and its holder keeps nothing.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Generations<V>> {
        self.generations.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Generations<V>> {
        self.generations.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what the young generation does not have.
    pub(super) fn keep(&self, entries: impl IntoIterator<Item = (SeriesKey, V)>) {
        let mut gone: Vec<Ordered<V>> = Vec::new();
        let mut generations = self.write();
        for (key, known) in entries {
            let bytes = entry_bytes::<V>() + known.bytes_beside();
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

    /// Lets the old generation go.
    pub(super) fn forget_old(&self) {
        let mut generations = self.write();
        let gone = std::mem::take(&mut generations.old);
        self.bytes.store(generations.bytes(), Ordering::Relaxed);
        drop(generations);
        drop(gone);
    }

    /// Bytes of all entries.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
