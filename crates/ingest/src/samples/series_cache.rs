//! Series that were seen: from a hash of the bytes that name them to their labels and id.
//!
//! Agents send the same series in every request, so labels are read, checked and hashed once. All threads
//! share the cache. It is cut into shards with a lock each, and a shard has two generations: when the young
//! one is full it becomes the old one, and what is found in the old one moves to the young one.
//!
//! Names of Graphite's stand apart ([`super::name_cache`]), without their labels: they are made of the name
//! for whoever looks at them, which of a known series nobody does.
//!
//! Both parts share the bytes of the cache: each may fill it, and old generations go where both want it.
//!
//! Entries are found by 128 bits of a hash with a seed that nobody outside knows, and the bytes are not kept:
//! two names with one hash are as unlikely as two series with one [`StreamId`].

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sandur_model::{Labels, StreamId};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::name_cache::{KnownName, NameCache, hash_of_part};

/// Locks: many more than threads, so that two seldom meet.
const SHARDS: usize = 64;
/// Bytes of an entry in a table that is half full.
const ENTRY_BYTES: u64 = 136;
/// Bytes of labels beside their text and ends: the header of an `Arc`, and what allocations round up.
const SHARED_BYTES: u64 = 72;
/// Bytes of a label beside its text: where its name and its value end.
const LABEL_BYTES: u64 = 8;

/// Finds series by the bytes that name them.
pub struct SeriesCache {
    seed: u64,
    bytes_max: u64,
    /// Bytes of one generation of one shard.
    generation_bytes_max: u64,
    shards: Box<[Mutex<Shard>]>,
    /// Bytes of all shards.
    of_shards: AtomicU64,
    names: NameCache,
}

/// What a series' name was hashed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SeriesKey(u128);

impl SeriesKey {
    /// What a table keeps of it.
    #[inline]
    pub(super) fn part(self) -> u32 {
        self.0 as u32
    }

    /// The hash by which a table finds its place, which the part tells.
    #[inline]
    pub(super) fn hash(self) -> u64 {
        hash_of_part(self.part())
    }
}

/// A series and what its limits are compared with.
#[derive(Clone, Debug)]
pub(crate) struct KnownSeries {
    pub(crate) labels: Arc<Labels>,
    pub(crate) id: StreamId,
    pub(crate) label_count: u32,
    /// Those of the labels that are nodes of a path of Graphite's.
    pub(crate) path_nodes: u32,
    pub(crate) longest_name: u32,
    pub(crate) longest_value: u32,
}

/// What the bytes are; part of the hash, because the same bytes may mean different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum SeriesNaming {
    /// `Label` messages of remote write 1.
    LabelMessages = 1,
    /// Names and values, each with a byte 0xFF behind.
    Pairs = 2,
    /// Hashes of the symbols that remote write 2 refers to.
    Symbols = 3,
    /// The text of a series in an exposition, and the labels that the request adds.
    Exposition = 4,
    /// The name of a series as Graphite's senders write it.
    Graphite = 5,
}

impl KnownSeries {
    /// The series of a label set.
    pub(crate) fn new(labels: Labels) -> Self {
        let KnownName { id, label_count, path_nodes, longest_name, longest_value } =
            KnownName::of(labels.stream_id(), &labels);
        Self { labels: Arc::new(labels), id, label_count, path_nodes, longest_name, longest_value }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        let text = self.labels.text_bytes() as u64 + u64::from(self.label_count) * LABEL_BYTES;
        text + SHARED_BYTES + ENTRY_BYTES
    }
}

impl SeriesCache {
    /// A cache of at most so many bytes. The seed is a random number.
    pub fn new(bytes_max: u64, seed: u64) -> Self {
        let generation_bytes_max = bytes_max / (2 * SHARDS as u64);
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let (of_shards, names) = (AtomicU64::new(0), NameCache::new(bytes_max / 2));
        Self { seed, bytes_max, generation_bytes_max, shards, of_shards, names }
    }

    /// The key of a series that these bytes name.
    #[inline]
    pub(crate) fn key(&self, naming: SeriesNaming, name: &[u8]) -> SeriesKey {
        SeriesKey(xxh3_128_with_seed(name, self.seed ^ naming as u64))
    }

    /// The hash of a symbol, of which names of series are made.
    #[inline]
    pub(crate) fn symbol(&self, symbol: &[u8]) -> u128 {
        xxh3_128_with_seed(symbol, self.seed)
    }

    /// The series, if it is known.
    #[inline]
    pub(crate) fn get(&self, key: SeriesKey) -> Option<KnownSeries> {
        let mut shard = self.shard(key);
        if let Some(series) = shard.young.series.get(&key) {
            return Some(series.clone());
        }
        let before = shard.bytes();
        let series = shard.moved(key, self.generation_bytes_max)?;
        let after = shard.bytes();
        drop(shard);
        self.note(before, after);
        Some(series)
    }

    /// Keeps a series.
    pub(crate) fn insert(&self, key: SeriesKey, series: &KnownSeries) {
        let mut shard = self.shard(key);
        let before = shard.bytes();
        shard.keep(key, series.clone(), self.generation_bytes_max);
        let after = shard.bytes();
        drop(shard);
        self.note(before, after);
        self.make_room();
    }

    /// What is known of names of Graphite's, one for each key.
    pub(crate) fn names(&self, keys: impl Iterator<Item = SeriesKey>, known: &mut Vec<Option<KnownName>>) {
        self.names.get(keys, known);
    }

    /// Keeps names of Graphite's.
    pub(crate) fn keep_names(&self, names: &[(SeriesKey, KnownName)]) {
        self.names.keep(names);
        self.make_room();
    }

    /// Bytes of all entries.
    pub fn bytes(&self) -> u64 {
        self.of_shards.load(Ordering::Relaxed) + self.names.bytes()
    }

    fn note(&self, before: u64, after: u64) {
        match after >= before {
            true => self.of_shards.fetch_add(after - before, Ordering::Relaxed),
            false => self.of_shards.fetch_sub(before - after, Ordering::Relaxed),
        };
    }

    /// Lets old generations go while there is more than there may be.
    fn make_room(&self) {
        if self.bytes() <= self.bytes_max {
            return;
        }
        self.names.forget_old();
        for shard in &self.shards {
            if self.bytes() <= self.bytes_max {
                return;
            }
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let before = shard.bytes();
            shard.old = Generation::default();
            let after = shard.bytes();
            drop(shard);
            self.note(before, after);
        }
    }

    fn shard(&self, key: SeriesKey) -> std::sync::MutexGuard<'_, Shard> {
        let shard = &self.shards[(key.0 >> 64) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Shard {
    young: Generation,
    old: Generation,
}

#[derive(Default)]
struct Generation {
    series: HashMap<SeriesKey, KnownSeries, BuildHasherDefault<KeyIsHash>>,
    bytes: u64,
}

impl Shard {
    fn bytes(&self) -> u64 {
        self.young.bytes + self.old.bytes
    }

    /// A series of the old generation, which is of the young one then.
    fn moved(&mut self, key: SeriesKey, bytes_max: u64) -> Option<KnownSeries> {
        let series = self.old.series.remove(&key)?;
        self.old.bytes -= series.bytes();
        self.keep(key, series.clone(), bytes_max);
        Some(series)
    }

    fn keep(&mut self, key: SeriesKey, series: KnownSeries, bytes_max: u64) {
        let bytes = series.bytes();
        if bytes > bytes_max {
            return;
        }
        if self.young.bytes + bytes > bytes_max {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.bytes += bytes;
        if let Some(replaced) = self.young.series.insert(key, series) {
            self.young.bytes -= replaced.bytes();
        }
    }
}

/// A key is a hash already.
#[derive(Default)]
struct KeyIsHash(u64);

impl Hasher for KeyIsHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are written as one number");
    }

    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(n: u64) -> KnownSeries {
        KnownSeries::new(Labels::from_pairs([("__name__", "m".to_owned()), ("n", n.to_string())]))
    }

    #[test]
    fn the_same_bytes_of_another_protocol_are_another_name() {
        let cache = SeriesCache::new(1 << 20, 7);
        let (a, b) = (cache.key(SeriesNaming::LabelMessages, b"x"), cache.key(SeriesNaming::Pairs, b"x"));
        cache.insert(a, &series(1));
        assert_eq!(cache.get(a).unwrap().id, series(1).id);
        assert!(cache.get(b).is_none());
        assert_ne!(SeriesCache::new(1 << 20, 8).key(SeriesNaming::Pairs, b"x"), b, "the seed has a say");
    }

    #[test]
    fn memory_is_bounded_and_the_used_stay() {
        let limit = 4 << 20;
        let cache = SeriesCache::new(limit, 7);
        let used = cache.key(SeriesNaming::Pairs, b"used");
        cache.insert(used, &series(0));
        for n in 0..100_000u64 {
            cache.insert(cache.key(SeriesNaming::Pairs, &n.to_le_bytes()), &series(n));
            assert!(cache.get(used).is_some(), "{n}");
        }
        assert!(cache.bytes() <= limit);
        let shards = cache.shards.iter().map(|shard| shard.lock().unwrap());
        let counted = shards.flat_map(|shard| {
            shard
                .young
                .series
                .values()
                .chain(shard.old.series.values())
                .map(KnownSeries::bytes)
                .collect::<Vec<_>>()
        });
        assert_eq!(counted.sum::<u64>(), cache.bytes());
    }
}
