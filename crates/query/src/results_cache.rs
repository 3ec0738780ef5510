//! A cache of the results of metric range queries, by runs of steps.
//!
//! A unit contains the series of one query over consecutive steps, and the version of all data that
//! these steps were computed from (see [`crate::Versions::holdings`]). It is returned only while the
//! version is the same. Late rows, deletes and retention change the version, so cached results never
//! differ from computed ones and need no rule of freshness.
//!
//! A budget bounds the memory. The least recently used units that are not in use are evicted first;
//! nothing is evicted if that would not free enough memory. The memory of a unit that is in use when the
//! cache is cleared counts until the last user drops it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use sandur_base::LruMap;
use sandur_memory::{MemoryBudget, Reservation};
use xxhash_rust::xxh3::Xxh3;

use crate::unit::Unit;

/// Identifies a run of steps of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnitKey {
    /// Hash of the tenants, the query and the grid of steps; see [`ResultsCache::identity`].
    pub query: u128,
    /// Position of the unit on the grid.
    pub number: i64,
}

/// A unit of the cache; its memory stays reserved until it is dropped.
#[derive(Clone)]
pub struct CachedUnit(Arc<(Unit, Reservation)>);

impl std::ops::Deref for CachedUnit {
    type Target = Unit;

    fn deref(&self) -> &Unit {
        &self.0.0
    }
}

/// Figures of a cache, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResultsFigures {
    /// Requests that found their unit.
    pub hits: u64,
    /// Requests that did not find their unit.
    pub misses: u64,
    /// Those of the misses that found a unit of an older version.
    pub outdated: u64,
    /// Units stored.
    pub stored: u64,
    /// Units evicted, including those removed by [`ResultsCache::clear`].
    pub evicted: u64,
    /// Units in the cache.
    pub units: u64,
    /// Bytes of memory in use.
    pub bytes: u64,
}

/// The results cache of the process. Cheap to clone: a handle.
#[derive(Clone)]
pub struct ResultsCache(Arc<Shared>);

struct Shared {
    budget: MemoryBudget,
    state: Mutex<State>,
    hits: AtomicU64,
    misses: AtomicU64,
    outdated: AtomicU64,
    stored: AtomicU64,
    evicted: AtomicU64,
}

#[derive(Default)]
struct State(LruMap<UnitKey, CachedUnit, RandomState>);

/// Bytes of a unit besides its own: in the map, in the order of last use, and in its shared allocation.
const ENTRY_BYTES: u64 = 136 + 64;
/// A unit may use at most the budget divided by this number, so that one result cannot evict all others.
const UNIT_PART: u64 = 8;

impl ResultsCache {
    /// An empty cache that reserves its memory in `budget`.
    pub fn new(budget: MemoryBudget) -> Self {
        Self(Arc::new(Shared {
            budget,
            state: Mutex::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            outdated: AtomicU64::new(0),
            stored: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
        }))
    }

    /// A hash of all texts and numbers that determine a result.
    pub fn identity(texts: &[&str], numbers: &[i64]) -> u128 {
        let mut hasher = Xxh3::new();
        for text in texts {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        for number in numbers {
            hasher.update(&number.to_le_bytes());
        }
        hasher.digest128()
    }

    /// The budget of the cache.
    pub fn budget(&self) -> &MemoryBudget {
        &self.0.budget
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The unit, if it contains all steps from `first` to `last` and has this version.
    pub fn get(&self, key: UnitKey, version: u128, (first, last): (i64, i64)) -> Option<CachedUnit> {
        let mut state = self.lock();
        let found = state.touch(key, version, (first, last));
        let counter = match &found {
            Found::Hit(_) => &self.0.hits,
            Found::Nothing => &self.0.misses,
            Found::Outdated => {
                self.0.outdated.fetch_add(1, Ordering::Relaxed);
                &self.0.misses
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
        match found {
            Found::Hit(unit) => Some(unit),
            Found::Nothing | Found::Outdated => None,
        }
    }

    /// Stores a unit if there is memory for it; returns whether it was stored.
    pub fn insert(&self, key: UnitKey, unit: Unit) -> bool {
        let bytes = unit.memory_bytes() + ENTRY_BYTES;
        if bytes > self.0.budget.limit() / UNIT_PART {
            return false;
        }
        let mut state = self.lock();
        state.0.remove(&key);
        let missing = bytes.saturating_sub(self.0.budget.available());
        let Some(evicted) = state.least_recent(missing) else { return false };
        evicted.iter().for_each(|key| drop(state.0.remove(key)));
        self.0.evicted.fetch_add(evicted.len() as u64, Ordering::Relaxed);
        let Ok(memory) = self.0.budget.reserve(bytes) else { return false };
        state.0.insert(key, CachedUnit(Arc::new((unit, memory))));
        self.0.stored.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Removes all units.
    pub fn clear(&self) {
        let mut state = self.lock();
        let units = state.0.len() as u64;
        state.0.clear();
        drop(state);
        self.0.evicted.fetch_add(units, Ordering::Relaxed);
    }

    /// The current figures.
    pub fn figures(&self) -> ResultsFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ResultsFigures {
            hits: read(&self.0.hits),
            misses: read(&self.0.misses),
            outdated: read(&self.0.outdated),
            stored: read(&self.0.stored),
            evicted: read(&self.0.evicted),
            units: self.lock().0.len() as u64,
            bytes: self.0.budget.used(),
        }
    }
}

enum Found {
    Hit(CachedUnit),
    Nothing,
    Outdated,
}

impl State {
    fn touch(&mut self, key: UnitKey, version: u128, (first, last): (i64, i64)) -> Found {
        let Some(unit) = self.0.peek(&key) else { return Found::Nothing };
        if unit.version != version {
            self.0.remove(&key);
            return Found::Outdated;
        }
        if first < unit.first || last > unit.last {
            return Found::Nothing;
        }
        self.0.get(&key).map_or(Found::Nothing, |unit| Found::Hit(unit.clone()))
    }

    /// The least recently used units whose eviction frees `bytes`; `None` when all together do not.
    /// Skips units in use, since evicting them frees nothing.
    fn least_recent(&self, bytes: u64) -> Option<Vec<UnitKey>> {
        let (mut keys, mut freed) = (Vec::new(), 0);
        let mut oldest = self.0.from_least_recent();
        while freed < bytes {
            let (key, unit) = oldest.next()?;
            if Arc::strong_count(&unit.0) == 1 {
                freed += unit.0.1.bytes();
                keys.push(*key);
            }
        }
        Some(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Sample;
    use crate::unit::label_bytes;

    fn unit(version: u128, series: usize) -> Unit {
        let mut unit = Unit::with_room((0, 9), 1, version, (series, series));
        for n in 0..series {
            let labels = Arc::new(vec![("app".into(), n.to_string().into())]);
            unit.add(&labels, label_bytes(&labels), &[Sample { timestamp_ms: 1, value: 2.0 }]);
        }
        unit
    }

    fn key(number: i64) -> UnitKey {
        UnitKey { query: 1, number }
    }

    #[test]
    fn a_unit_is_found_only_with_its_version_and_its_steps() {
        let cache = ResultsCache::new(MemoryBudget::root("results", 1 << 20));
        assert!(cache.insert(key(0), unit(5, 1)));
        assert_eq!(cache.get(key(0), 5, (2, 9)).unwrap().series().count(), 1);
        assert!(cache.get(key(0), 5, (2, 10)).is_none());
        assert!(cache.get(key(1), 5, (2, 9)).is_none());
        assert!(cache.get(key(0), 6, (2, 9)).is_none(), "another version");
        assert!(cache.get(key(0), 5, (2, 9)).is_none(), "an outdated unit is removed");
        let figures = cache.figures();
        assert_eq!((figures.hits, figures.misses, figures.outdated, figures.bytes), (1, 4, 1, 0));
    }

    #[test]
    fn memory_is_bounded_and_the_least_recently_used_is_evicted_first() {
        let size = unit(1, 1).memory_bytes() + ENTRY_BYTES;
        let cache = ResultsCache::new(MemoryBudget::root("results", size * 10 + size / 2));
        for n in 0..10 {
            assert!(cache.insert(key(n), unit(1, 1)));
        }
        let held = cache.get(key(0), 1, (0, 9)).unwrap();
        assert!(cache.insert(key(10), unit(1, 1)));
        assert!(cache.get(key(1), 1, (0, 9)).is_none() && cache.get(key(0), 1, (0, 9)).is_some());
        assert_eq!(cache.figures().evicted, 1);
        assert!(!cache.insert(key(11), unit(1, 50)), "too large for one unit");
        cache.clear();
        assert_eq!(cache.budget().used(), size, "a unit in use still counts");
        drop(held);
        assert_eq!(cache.budget().used(), 0);
    }

    #[test]
    fn units_in_use_are_not_evicted_and_useless_evictions_are_avoided() {
        let size = unit(1, 1).memory_bytes() + ENTRY_BYTES;
        let cache = ResultsCache::new(MemoryBudget::root("results", size * 10 + size / 2));
        let mut held = Vec::new();
        for n in 0..10 {
            assert!(cache.insert(key(n), unit(1, 1)));
            held.extend(cache.get(key(n), 1, (0, 9)).filter(|_| n < 9));
        }
        assert!(cache.insert(key(10), unit(1, 1)), "one unit is not in use");
        assert!((0..9).all(|n| cache.get(key(n), 1, (0, 9)).is_some()), "units in use are kept");
        assert!(cache.get(key(9), 1, (0, 9)).is_none());
        held.extend(cache.get(key(10), 1, (0, 9)));
        assert!(!cache.insert(key(11), unit(1, 1)));
        let figures = cache.figures();
        assert_eq!((figures.units, figures.evicted), (10, 1));
    }
}
