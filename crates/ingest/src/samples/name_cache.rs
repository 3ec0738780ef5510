//! A cache of Graphite names: from the hash of a name to the stored properties of its series.
//!
//! The labels of a known name are rarely read, so they are not kept; a reader creates them from the name.
//! Many names are looked up together, in the order in which a sender writes them ([`super::seen`]).

use sandur_model::{Labels, StreamId, graphite_level};

use super::seen::{Found, Seen, Weighed};
use super::series_key::SeriesKey;

/// The stored properties of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownName {
    pub(crate) id: StreamId,
    pub(crate) label_count: u32,
    pub(crate) path_nodes: u32,
    pub(crate) longest_name: u32,
    pub(crate) longest_value: u32,
}

impl KnownName {
    /// Returns the properties of a series with these labels.
    pub(crate) fn of(id: StreamId, labels: &Labels) -> Self {
        let longest_name = labels.iter().map(|(name, _)| name.len()).max().unwrap_or(0) as u32;
        let longest_value = labels.iter().map(|(_, value)| value.len()).max().unwrap_or(0) as u32;
        let levels = (0..).map_while(graphite_level).take_while(|level| labels.get(level).is_some());
        let path_nodes = levels.count() as u32;
        Self { id, label_count: labels.len() as u32, path_nodes, longest_name, longest_value }
    }
}

impl Weighed for KnownName {
    fn further_bytes(&self) -> u64 {
        0
    }
}

/// The names of all senders.
pub(super) struct NameCache(Seen<KnownName>);

impl NameCache {
    pub(super) fn new(generation_bytes_max: u64) -> Self {
        Self(Seen::new(generation_bytes_max))
    }

    /// Looks up one name per key and writes the results to `known`.
    pub(super) fn get(&self, keys: impl Iterator<Item = SeriesKey>, known: &mut Vec<Option<KnownName>>) {
        known.clear();
        let mut moved: Vec<(SeriesKey, KnownName)> = Vec::new();
        {
            let (seen, mut next) = (self.0.read(), 0);
            known.extend(keys.map(|key| match seen.get(key, &mut next)? {
                Found::Young(name) => Some(*name),
                Found::Old(name) => {
                    moved.push((key, *name));
                    Some(*name)
                }
            }));
        }
        if !moved.is_empty() {
            self.keep(&moved);
        }
    }

    /// Adds names.
    pub(super) fn keep(&self, names: &[(SeriesKey, KnownName)]) {
        self.0.keep(names.iter().copied());
    }

    /// Drops the old generation.
    pub(super) fn forget_old(&self) {
        self.0.forget_old();
    }

    /// Returns the bytes of all entries.
    pub(super) fn bytes(&self) -> u64 {
        self.0.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::seen::entry_bytes;
    use super::super::series_cache::SeriesCache;
    use super::super::series_key::SeriesNaming;
    use super::*;

    const NAME_BYTES: u64 = entry_bytes::<KnownName>();

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
            Some(known) => (known == named(number)).then_some(1).expect("the requested name"),
            None => 0,
        };
        numbers.zip(known).map(right).sum()
    }

    #[test]
    fn names_are_found_in_any_order() {
        let cache = SeriesCache::new(4 << 20, 7);
        let all: Vec<_> = (0..10_000).map(|number| (key(&cache, number), named(number))).collect();
        all.chunks(700).for_each(|some| cache.reader().keep_names(some));
        cache.reader().keep_names(&all[..100]);
        assert_eq!(cache.bytes(), 10_000 * NAME_BYTES);
        assert_eq!(found(&cache, 0..20_000), 10_000);
        assert_eq!(found(&cache, (0..20_000).rev()), 10_000);
        assert_eq!(found(&cache, (0..10_000).map(|n| n * 7_919 % 10_000)), 10_000);
    }

    #[test]
    fn used_names_stay_and_memory_is_bounded() {
        let limit = 1 << 20;
        let cache = SeriesCache::new(limit, 7);
        cache.reader().keep_names(&[(key(&cache, 0), named(0))]);
        for number in 1..100_000 {
            cache.reader().keep_names(&[(key(&cache, number), named(number))]);
            assert_eq!(found(&cache, 0..1), 1, "{number}");
        }
        assert!(cache.bytes() <= limit && cache.bytes() > limit / 3, "{}", cache.bytes());
        let series = super::super::series_cache::KnownSeries::new(Default::default());
        for n in 0..100_000u64 {
            cache.reader().insert(cache.key(SeriesNaming::Pairs, &n.to_le_bytes()), &series);
        }
        assert!(cache.bytes() <= limit, "{}", cache.bytes());
    }
}
