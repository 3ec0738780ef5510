//! A cache of known series: from a hash of the bytes that name a series to its labels and id.
//!
//! Agents send the same series in every request, and in the same order. So labels are parsed, checked and
//! hashed once, and the entries of a sender's series are adjacent ([`super::seen`]). All threads share
//! the cache. A request looks series up with a [`SeriesReader`], which locks the cache once for many
//! lookups and adds new series when it unlocks it.
//!
//! Graphite names are stored separately ([`super::name_cache`]), without labels: the labels of a known
//! name are rarely read, and a reader creates them from the name.
//!
//! Both parts share the bytes of the cache. Each may use all of them; when both need room, old
//! generations are dropped.
//!
//! Entries are found by a 128-bit hash with a secret seed, and the bytes are not kept: a collision is as
//! unlikely as two series with one [`StreamId`].

use std::sync::{Arc, RwLockReadGuard};

use sandur_model::{Labels, StreamId};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::name_cache::{KnownName, NameCache};
use super::seen::{Found, Generations, Seen, Weighed, entry_bytes};
use super::series_key::{SeriesKey, SeriesNaming};

/// Lookups per lock of the cache, which is also the most new series that wait to be added.
const TOGETHER: u32 = 256;
/// Bytes of a label set in addition to its text and ends: the header of an `Arc`, and rounding of
/// allocations.
const SHARED_BYTES: u64 = 72;
/// Bytes of a label in addition to its text: the ends of its name and its value.
const LABEL_BYTES: u64 = 8;

/// Finds series by the bytes that name them.
pub struct SeriesCache {
    seed: u64,
    bytes_max: u64,
    series: Seen<KnownSeries>,
    names: NameCache,
}

/// A series, and the properties that its limits are compared with.
#[derive(Clone, Debug)]
pub(crate) struct KnownSeries {
    pub(crate) labels: Arc<Labels>,
    pub(crate) id: StreamId,
    pub(crate) label_count: u32,
    /// Number of labels that are nodes of a Graphite path.
    pub(crate) path_nodes: u32,
    pub(crate) longest_name: u32,
    pub(crate) longest_value: u32,
}

impl KnownSeries {
    /// Returns the series of a label set.
    pub(crate) fn new(labels: Labels) -> Self {
        let KnownName { id, label_count, path_nodes, longest_name, longest_value } =
            KnownName::of(labels.stream_id(), &labels);
        Self { labels: Arc::new(labels), id, label_count, path_nodes, longest_name, longest_value }
    }

    /// Returns the bytes of the series in the cache.
    pub(crate) fn bytes(&self) -> u64 {
        entry_bytes::<Self>() + self.further_bytes()
    }
}

impl From<&KnownSeries> for KnownName {
    fn from(series: &KnownSeries) -> Self {
        let KnownSeries { id, label_count, path_nodes, longest_name, longest_value, .. } = *series;
        Self { id, label_count, path_nodes, longest_name, longest_value }
    }
}

impl Weighed for KnownSeries {
    fn further_bytes(&self) -> u64 {
        let text = self.labels.text_bytes() as u64 + u64::from(self.label_count) * LABEL_BYTES;
        text + SHARED_BYTES
    }
}

impl SeriesCache {
    /// Returns an empty cache of at most `bytes_max` bytes. `seed` must be random and secret.
    pub fn new(bytes_max: u64, seed: u64) -> Self {
        Self { seed, bytes_max, series: Seen::new(bytes_max / 2), names: NameCache::new(bytes_max / 2) }
    }

    /// Returns the key of a series that these bytes name.
    #[inline]
    pub(crate) fn key(&self, naming: SeriesNaming, name: &[u8]) -> SeriesKey {
        SeriesKey::of(self.seed, naming, name)
    }

    /// Returns the hash of a symbol, from which the names of series are built.
    #[inline]
    pub(crate) fn symbol(&self, symbol: &[u8]) -> u128 {
        xxh3_128_with_seed(symbol, self.seed)
    }

    /// Returns a reader to look series up for one request.
    pub(crate) fn reader(&self) -> SeriesReader<'_> {
        SeriesReader { cache: self, locked: None, looks_left: 0, next: 0, fresh: Vec::new() }
    }

    /// Looks up one Graphite name per key and writes the results to `known`.
    pub(crate) fn names(&self, keys: impl Iterator<Item = SeriesKey>, known: &mut Vec<Option<KnownName>>) {
        self.names.get(keys, known);
    }

    /// Returns the bytes of all entries.
    pub fn bytes(&self) -> u64 {
        self.series.bytes() + self.names.bytes()
    }

    /// Drops old generations while the cache exceeds its bound.
    fn make_room(&self) {
        if self.bytes() > self.bytes_max {
            self.names.forget_old();
        }
        if self.bytes() > self.bytes_max {
            self.series.forget_old();
        }
    }
}

/// Looks series up in the order of a request. A thread that uses two readers alternately must not add
/// series with either: adding waits until all other readers have unlocked the cache.
pub(crate) struct SeriesReader<'a> {
    cache: &'a SeriesCache,
    /// While this lock is held, no series can be added.
    locked: Option<RwLockReadGuard<'a, Generations<KnownSeries>>>,
    /// Number of lookups before the lock is released, so that other threads can add series.
    looks_left: u32,
    /// The expected position of the next series.
    next: u32,
    /// Series to add when the lock is released.
    fresh: Vec<(SeriesKey, KnownSeries)>,
}

impl<'a> SeriesReader<'a> {
    /// Returns the cache, for keys and names.
    pub(crate) fn cache(&self) -> &'a SeriesCache {
        self.cache
    }

    /// Returns the series if it is known.
    #[inline]
    pub(crate) fn get(&mut self, key: SeriesKey) -> Option<KnownSeries> {
        if self.looks_left == 0 {
            self.unlock();
            self.looks_left = TOGETHER;
        }
        self.looks_left -= 1;
        let locked = self.locked.get_or_insert_with(|| self.cache.series.read());
        match locked.get(key, &mut self.next)? {
            Found::Young(series) => Some(series.clone()),
            Found::Old(series) => {
                self.fresh.push((key, series.clone()));
                Some(series.clone())
            }
        }
    }

    /// Adds a series that was not known.
    pub(crate) fn insert(&mut self, key: SeriesKey, series: &KnownSeries) {
        self.fresh.push((key, series.clone()));
    }

    /// Adds Graphite names.
    pub(crate) fn keep_names(&mut self, names: &[(SeriesKey, KnownName)]) {
        self.unlock();
        self.cache.names.keep(names);
        self.cache.make_room();
    }

    fn unlock(&mut self) {
        self.locked = None;
        if !self.fresh.is_empty() {
            self.cache.series.keep(self.fresh.drain(..));
            self.cache.make_room();
        }
    }
}

impl Drop for SeriesReader<'_> {
    fn drop(&mut self) {
        self.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(n: u64) -> KnownSeries {
        KnownSeries::new(Labels::from_pairs([("__name__", "m".to_owned()), ("n", n.to_string())]))
    }

    /// Adds a series.
    fn insert(cache: &SeriesCache, key: SeriesKey, series: &KnownSeries) {
        cache.reader().insert(key, series);
    }

    #[test]
    fn equal_bytes_of_another_protocol_have_another_key() {
        let cache = SeriesCache::new(1 << 20, 7);
        let (a, b) = (cache.key(SeriesNaming::LabelMessages, b"x"), cache.key(SeriesNaming::Pairs, b"x"));
        insert(&cache, a, &series(1));
        assert_eq!(cache.reader().get(a).unwrap().id, series(1).id);
        assert!(cache.reader().get(b).is_none());
        assert_ne!(SeriesCache::new(1 << 20, 8).key(SeriesNaming::Pairs, b"x"), b, "the seed matters");
    }

    #[test]
    fn memory_is_bounded_and_used_series_stay() {
        let limit = 4 << 20;
        let cache = SeriesCache::new(limit, 7);
        let used = cache.key(SeriesNaming::Pairs, b"used");
        insert(&cache, used, &series(0));
        for n in 0..100_000u64 {
            insert(&cache, cache.key(SeriesNaming::Pairs, &n.to_le_bytes()), &series(n));
            assert!(cache.reader().get(used).is_some(), "{n}");
        }
        assert!(cache.bytes() <= limit && cache.bytes() > limit / 3, "{}", cache.bytes());
    }

    #[test]
    fn series_are_found_in_any_order_once_their_reader_is_dropped() {
        let cache = SeriesCache::new(16 << 20, 7);
        let key = |n: u64| cache.key(SeriesNaming::Pairs, &n.to_le_bytes());
        let mut reader = cache.reader();
        for n in 0..2_000 {
            assert!(reader.get(key(n)).is_none());
            reader.insert(key(n), &series(n));
        }
        drop(reader);
        let in_order: Vec<u64> = (0..2_000).collect();
        let far: Vec<u64> = (0..2_000).map(|n| n * 7_919 % 2_000).collect();
        for order in [in_order.clone(), in_order.into_iter().rev().collect(), far] {
            let mut reader = cache.reader();
            for n in order {
                assert_eq!(reader.get(key(n)).map(|known| known.id), Some(series(n).id));
            }
        }
        assert_eq!(cache.bytes(), (0..2_000).map(|n| series(n).bytes()).sum::<u64>(), "stored once each");
    }

    #[test]
    fn a_busy_reader_lets_other_threads_add_series() {
        let cache = SeriesCache::new(1 << 20, 7);
        let key = |n: u64| cache.key(SeriesNaming::Pairs, &n.to_le_bytes());
        let mut reader = cache.reader();
        reader.get(key(0));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| insert(&cache, key(1), &series(1)));
            while !other.is_finished() {
                reader.get(key(0));
            }
        });
        assert!(reader.get(key(1)).is_some());
    }
}
