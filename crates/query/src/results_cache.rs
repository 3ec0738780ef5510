//! A cache of the results of metric range queries, by runs of steps.
//!
//! A unit contains the series of one query over consecutive steps, and the versions of the data that
//! these steps were computed from (see [`crate::Versions::holdings`]). It is used only as far as the
//! versions are the same. Late rows, deletes and retention change the version, so cached results never
//! differ from computed ones and need no rule of freshness.
//!
//! A budget bounds the memory. The least recently used units that are not in use are evicted first;
//! nothing is evicted if that would not free enough memory. The memory of a unit that is in use when the
//! cache is cleared counts until the last user drops it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use sandur_base::LruMap;
use sandur_memory::{Lender, MemoryBudget, Reservation};
use sandur_runtime::single_flight::SingleFlight;
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
    flights: SingleFlight<(u128, i64), ()>,
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
            flights: SingleFlight::default(),
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

    /// The units of these keys, which count as used now. The caller checks their versions.
    pub fn units(&self, keys: impl Iterator<Item = UnitKey>) -> Vec<Option<CachedUnit>> {
        let mut state = self.lock();
        keys.map(|key| state.0.get(&key).cloned()).collect()
    }

    /// Counts what became of requests for units: `hits` of them found all steps, `outdated` of the others
    /// found a unit of another version.
    pub fn count(&self, hits: u64, requests: u64, outdated: u64) {
        self.0.hits.fetch_add(hits, Ordering::Relaxed);
        self.0.misses.fetch_add(requests.saturating_sub(hits), Ordering::Relaxed);
        self.0.outdated.fetch_add(outdated, Ordering::Relaxed);
    }

    /// The evaluations in progress, by query and first missing step.
    pub fn flights(&self) -> &SingleFlight<(u128, i64), ()> {
        &self.0.flights
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
        let (evicted, freed) = state.least_recent(missing);
        if freed < missing {
            return false;
        }
        self.evict(&mut state, &evicted);
        let Ok(memory) = self.0.budget.reserve(bytes) else { return false };
        state.0.insert(key, CachedUnit(Arc::new((unit, memory))));
        self.0.stored.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn evict(&self, state: &mut State, units: &[UnitKey]) {
        units.iter().for_each(|key| drop(state.0.remove(key)));
        self.0.evicted.fetch_add(units.len() as u64, Ordering::Relaxed);
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

impl Lender for ResultsCache {
    fn lent(&self) -> u64 {
        self.0.budget.lent()
    }

    fn release(&self, bytes: u64) {
        let Ok(mut state) = self.0.state.try_lock() else { return };
        let (units, _) = state.least_recent(bytes);
        self.evict(&mut state, &units);
    }
}

impl State {
    /// The least recently used units whose eviction frees `bytes`, or all that there are, and the bytes
    /// that their eviction frees. Skips units in use, since evicting them frees nothing.
    fn least_recent(&self, bytes: u64) -> (Vec<UnitKey>, u64) {
        let (mut keys, mut freed) = (Vec::new(), 0);
        for (key, unit) in self.0.from_least_recent() {
            if freed >= bytes {
                break;
            }
            if Arc::strong_count(&unit.0) == 1 {
                freed += unit.0.1.bytes();
                keys.push(*key);
            }
        }
        (keys, freed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Sample;
    use crate::unit::{UnitVersions, label_bytes};

    fn unit(series: usize) -> Unit {
        let mut unit = Unit::with_room((0, 9), 1, UnitVersions::Whole(1), (series, series));
        for n in 0..series {
            let labels = Arc::new(vec![("app".into(), n.to_string().into())]);
            unit.add(&labels, label_bytes(&labels), &[Sample { timestamp_ms: 1, value: 2.0 }]);
        }
        unit
    }

    fn key(number: i64) -> UnitKey {
        UnitKey { query: 1, number }
    }

    fn get(cache: &ResultsCache, number: i64) -> Option<CachedUnit> {
        cache.units(std::iter::once(key(number))).pop().unwrap()
    }

    #[test]
    fn a_unit_is_found_by_its_key_and_replaced() {
        let cache = ResultsCache::new(MemoryBudget::root("results", 1 << 20));
        assert!(cache.insert(key(0), unit(1)) && cache.insert(key(2), unit(3)));
        let found = cache.units((0..3).map(key));
        let series: Vec<_> =
            found.iter().map(|unit| unit.as_ref().map(|unit| unit.series().count())).collect();
        assert_eq!(series, [Some(1), None, Some(3)]);
        drop(found);
        assert!(cache.insert(key(2), unit(1)));
        assert_eq!(cache.budget().used(), 2 * (unit(1).memory_bytes() + ENTRY_BYTES));
        cache.count(1, 4, 2);
        let figures = cache.figures();
        assert_eq!((figures.hits, figures.misses, figures.outdated), (1, 3, 2));
    }

    #[test]
    fn memory_is_bounded_and_the_least_recently_used_is_evicted_first() {
        let size = unit(1).memory_bytes() + ENTRY_BYTES;
        let cache = ResultsCache::new(MemoryBudget::root("results", size * 10 + size / 2));
        for n in 0..10 {
            assert!(cache.insert(key(n), unit(1)));
        }
        let held = get(&cache, 0).unwrap();
        assert!(cache.insert(key(10), unit(1)));
        assert!(get(&cache, 1).is_none() && get(&cache, 0).is_some());
        assert_eq!(cache.figures().evicted, 1);
        assert!(!cache.insert(key(11), unit(50)), "too large for one unit");
        cache.clear();
        assert_eq!(cache.budget().used(), size, "a unit in use still counts");
        drop(held);
        assert_eq!(cache.budget().used(), 0);
    }

    #[test]
    fn units_in_use_are_not_evicted_and_useless_evictions_are_avoided() {
        let size = unit(1).memory_bytes() + ENTRY_BYTES;
        let cache = ResultsCache::new(MemoryBudget::root("results", size * 10 + size / 2));
        let mut held = Vec::new();
        for n in 0..10 {
            assert!(cache.insert(key(n), unit(1)));
            held.extend(get(&cache, n).filter(|_| n < 9));
        }
        assert!(cache.insert(key(10), unit(1)), "one unit is not in use");
        assert!((0..9).all(|n| get(&cache, n).is_some()), "units in use are kept");
        assert!(get(&cache, 9).is_none());
        held.extend(get(&cache, 10));
        assert!(!cache.insert(key(11), unit(1)));
        let figures = cache.figures();
        assert_eq!((figures.units, figures.evicted), (10, 1));
    }

    #[test]
    fn a_recall_evicts_as_much_as_is_asked_and_nothing_in_use() {
        let size = unit(1).memory_bytes() + ENTRY_BYTES;
        let pool = sandur_memory::MemoryPool::new("process", size * 20);
        let queries = pool.share("queries", size, size * 20);
        let cache = ResultsCache::new(pool.lenders_share("results", size, size * 19));
        pool.lend_to(Arc::new(cache.clone()));
        for n in 0..19 {
            assert!(cache.insert(key(n), unit(1)));
        }
        let used = get(&cache, 0).unwrap();
        let memory = queries.reserve(size * 5).unwrap();
        assert_eq!(cache.figures().units, 15);
        assert!(get(&cache, 0).is_some() && get(&cache, 4).is_none() && get(&cache, 5).is_some());
        drop(memory);
        assert!(queries.reserve(size * 20).is_err(), "a unit is in use, and one is guaranteed");
        drop(used);
    }
}
