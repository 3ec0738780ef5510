//! Names of Graphite's that were seen: from a hash of a name to what is stored of its series.
//!
//! A sender names its metrics in each point, and in the same order each time. Names stand in the order in
//! which they came, and the one behind the name before is looked at first: what is met in order is read in
//! order, and a million names take no walk through memory for each point. Others are found by a table of
//! parts of hashes and places.
//!
//! **Invariants.** There are two generations: when the young one is full it becomes the old one, and what is
//! found in the old one is added to the young one. What an entry takes is [`NAME_BYTES`] at most.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hashbrown::HashTable;
use sandur_model::{Labels, StreamId, graphite_level};

use super::series_cache::{KnownSeries, SeriesKey};

/// Bytes of a name: its entry, and its place in a table that has just grown.
pub(super) const NAME_BYTES: u64 = size_of::<Entry>() as u64 + 24;
/// Entries that are allocated together.
const SEGMENT: usize = 512;

/// What is kept of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownName {
    pub(crate) id: StreamId,
    pub(crate) label_count: u32,
    pub(crate) path_nodes: u32,
    pub(crate) longest_name: u32,
    pub(crate) longest_value: u32,
}

impl KnownName {
    /// What is known of a series by its labels.
    pub(crate) fn of(id: StreamId, labels: &Labels) -> Self {
        let longest_name = labels.iter().map(|(name, _)| name.len()).max().unwrap_or(0) as u32;
        let longest_value = labels.iter().map(|(_, value)| value.len()).max().unwrap_or(0) as u32;
        let levels = (0..).map_while(graphite_level).take_while(|level| labels.get(level).is_some());
        let path_nodes = levels.count() as u32;
        Self { id, label_count: labels.len() as u32, path_nodes, longest_name, longest_value }
    }
}

impl From<&KnownSeries> for KnownName {
    fn from(series: &KnownSeries) -> Self {
        let KnownSeries { id, label_count, path_nodes, longest_name, longest_value, .. } = *series;
        Self { id, label_count, path_nodes, longest_name, longest_value }
    }
}

#[derive(Clone, Copy)]
struct Entry {
    key: SeriesKey,
    known: KnownName,
}

/// Names that were seen.
pub(super) struct NameCache {
    generation_bytes_max: u64,
    generations: RwLock<Generations>,
}

#[derive(Default)]
struct Generations {
    young: Names,
    old: Names,
}

/// Names in the order in which they came.
#[derive(Default)]
struct Names {
    segments: Vec<Vec<Entry>>,
    /// Parts of hashes, and places.
    places: HashTable<(u32, u32)>,
}

impl Names {
    fn bytes(&self) -> u64 {
        self.places.len() as u64 * NAME_BYTES
    }

    #[inline]
    fn at(&self, place: u32) -> Option<&Entry> {
        self.segments.get(place as usize / SEGMENT)?.get(place as usize % SEGMENT)
    }

    #[inline]
    fn find(&self, key: SeriesKey) -> Option<(u32, KnownName)> {
        let is_it = |(part, place): &(u32, u32)| {
            *part == key.part() && self.at(*place).is_some_and(|entry| entry.key == key)
        };
        let (_, place) = *self.places.find(key.hash(), is_it)?;
        Some((place, self.at(place)?.known))
    }

    /// Adds a name that is not there.
    fn add(&mut self, key: SeriesKey, known: KnownName) {
        let place = self.places.len() as u32;
        if self.segments.last().is_none_or(|last| last.len() == SEGMENT) {
            self.segments.push(Vec::with_capacity(SEGMENT));
        }
        let Some(last) = self.segments.last_mut() else { return };
        last.push(Entry { key, known });
        let Self { places, .. } = self;
        // A part of a hash has the bits by which places are found.
        places.insert_unique(key.hash(), (key.part(), place), |(part, _)| hash_of_part(*part));
    }
}

/// The hash by which a table finds a place.
#[inline]
pub(super) fn hash_of_part(part: u32) -> u64 {
    // The table takes its lowest bits for a bucket, and the highest seven to tell names in it apart.
    u64::from(part) | u64::from(part) << 32
}

impl NameCache {
    pub(super) fn new(generation_bytes_max: u64) -> Self {
        Self { generation_bytes_max, generations: RwLock::default() }
    }

    fn read(&self) -> RwLockReadGuard<'_, Generations> {
        self.generations.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Generations> {
        self.generations.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of names, one for each key.
    pub(super) fn get(&self, keys: impl Iterator<Item = SeriesKey>, known: &mut Vec<Option<KnownName>>) {
        known.clear();
        let mut moved: Vec<(SeriesKey, KnownName)> = Vec::new();
        {
            let generations = self.read();
            let Generations { young, old } = &*generations;
            let mut next = 0;
            for key in keys {
                let expected = young.at(next).filter(|entry| entry.key == key);
                let found = match expected {
                    Some(entry) => Some((next, entry.known)),
                    None => young.find(key),
                };
                if let Some((place, name)) = found {
                    next = place.wrapping_add(1);
                    known.push(Some(name));
                    continue;
                }
                let of_old = old.find(key).map(|(_, name)| name);
                moved.extend(of_old.map(|name| (key, name)));
                known.push(of_old);
            }
        }
        if !moved.is_empty() {
            self.keep(&moved);
        }
    }

    /// Keeps names.
    pub(super) fn keep(&self, names: &[(SeriesKey, KnownName)]) {
        let mut generations = self.write();
        for (key, known) in names {
            if generations.young.find(*key).is_some() {
                continue;
            }
            if generations.young.bytes() + NAME_BYTES > self.generation_bytes_max {
                generations.old = std::mem::take(&mut generations.young);
            }
            if NAME_BYTES <= self.generation_bytes_max {
                generations.young.add(*key, *known);
            }
        }
    }

    /// Lets the old generation go.
    pub(super) fn forget_old(&self) {
        self.write().old = Names::default();
    }

    /// Bytes of all entries.
    pub(super) fn bytes(&self) -> u64 {
        let generations = self.read();
        generations.young.bytes() + generations.old.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::series_cache::{SeriesCache, SeriesNaming};
    use super::*;

    fn named(number: u64) -> KnownName {
        let id = StreamId(u128::from(number));
        KnownName { id, label_count: 1, path_nodes: 1, longest_name: 1, longest_value: 1 }
    }

    fn key(cache: &SeriesCache, number: u64) -> SeriesKey {
        cache.key(SeriesNaming::Graphite, &number.to_le_bytes())
    }

    fn found(cache: &SeriesCache, numbers: impl Iterator<Item = u64> + Clone) -> u64 {
        let mut known = Vec::new();
        cache.names(numbers.clone().map(|number| key(cache, number)), &mut known);
        let right = |(number, known): (u64, Option<KnownName>)| match known {
            Some(known) => (known == named(number)).then_some(1).expect("it is another name"),
            None => 0,
        };
        numbers.zip(known).map(right).sum()
    }

    #[test]
    fn names_are_found_in_every_order() {
        let cache = SeriesCache::new(4 << 20, 7);
        let all: Vec<_> = (0..10_000).map(|number| (key(&cache, number), named(number))).collect();
        all.chunks(700).for_each(|some| cache.keep_names(some));
        cache.keep_names(&all[..100]);
        assert_eq!(cache.bytes(), 10_000 * NAME_BYTES);
        assert_eq!(found(&cache, 0..20_000), 10_000);
        assert_eq!(found(&cache, (0..20_000).rev()), 10_000);
        assert_eq!(found(&cache, (0..10_000).map(|n| n * 7_919 % 10_000)), 10_000);
    }

    #[test]
    fn the_used_stay_and_all_of_it_is_bounded() {
        let limit = 1 << 20;
        let cache = SeriesCache::new(limit, 7);
        cache.keep_names(&[(key(&cache, 0), named(0))]);
        for number in 1..100_000 {
            cache.keep_names(&[(key(&cache, number), named(number))]);
            assert_eq!(found(&cache, 0..1), 1, "{number}");
        }
        assert!(cache.bytes() <= limit && cache.bytes() > limit / 3, "{}", cache.bytes());
        let series = super::super::series_cache::KnownSeries::new(Default::default());
        (0..100_000u64).for_each(|n| cache.insert(cache.key(SeriesNaming::Pairs, &n.to_le_bytes()), &series));
        assert!(cache.bytes() <= limit, "{}", cache.bytes());
    }
}
