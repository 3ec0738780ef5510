//! Results of metric range queries, kept by runs of steps.
//!
//! A unit holds the series of one query over consecutive steps, together with the version of everything
//! that these steps were computed from (see [`crate::Versions::holdings`]). It is given out only while the
//! version is the same, so that late rows, deletions and retention make it worthless by themselves: no
//! freshness rule is needed, and no answer from here differs from one that is computed anew.
//!
//! Memory is bounded by a budget: of the units that are not in use the least recently used go first, and
//! nothing goes when that would not make room. A unit that is in use when all are let go counts until it is
//! not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use sandur_base::{LruMap, MemoryBudget, Reservation};
use xxhash_rust::xxh3::Xxh3;

use crate::unit::Unit;

/// Which steps of which query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnitKey {
    /// Identity of tenants, query and grid of steps: see [`ResultsCache::identity`].
    pub query: u128,
    /// Number of the unit on the grid.
    pub number: i64,
}

/// A unit in use; its memory stays reserved as long.
#[derive(Clone)]
pub struct CachedUnit(Arc<(Unit, Reservation)>);

impl std::ops::Deref for CachedUnit {
    type Target = Unit;

    fn deref(&self) -> &Unit {
        &self.0.0
    }
}

/// How well a cache works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResultsFigures {
    /// Units that were asked for and given.
    pub hits: u64,
    /// Units that were asked for and not there.
    pub misses: u64,
    /// Units that were there, but of an older state of the data.
    pub outdated: u64,
    /// Units that were stored.
    pub stored: u64,
    /// Units that went because others needed their memory.
    pub evicted: u64,
    /// Units now.
    pub units: u64,
    /// Bytes now.
    pub bytes: u64,
}

/// The cache of one process. Cheap to clone: a handle.
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

/// Bytes that a unit takes beside its own: in the map, in the order of last use and where it is counted.
const ENTRY_BYTES: u64 = 136 + 64;
/// A unit may take this part of the cache at most: one answer shall not push out all others.
const UNIT_PART: u64 = 8;

impl ResultsCache {
    /// An empty cache that takes its memory from `budget`.
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

    /// Identity of texts and numbers that decide about an answer.
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

    /// The memory that the cache may take.
    pub fn budget(&self) -> &MemoryBudget {
        &self.0.budget
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The unit, if it has all steps from `first` to `last` and was computed from this version.
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

    /// Keeps a unit if there is memory for it; true when it was kept.
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

    /// Lets everything go.
    pub fn clear(&self) {
        let mut state = self.lock();
        let units = state.0.len() as u64;
        state.0.clear();
        drop(state);
        self.0.evicted.fetch_add(units, Ordering::Relaxed);
    }

    /// How well it works.
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

    /// The units whose eviction frees so many bytes, the least recently used first; `None` when there are not
    /// enough. Units in use would free nothing.
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
    fn a_unit_is_given_only_for_its_version_and_its_steps() {
        let cache = ResultsCache::new(MemoryBudget::root("results", 1 << 20));
        assert!(cache.insert(key(0), unit(5, 1)));
        assert_eq!(cache.get(key(0), 5, (2, 9)).unwrap().series().count(), 1);
        assert!(cache.get(key(0), 5, (2, 10)).is_none());
        assert!(cache.get(key(1), 5, (2, 9)).is_none());
        assert!(cache.get(key(0), 6, (2, 9)).is_none(), "another version");
        assert!(cache.get(key(0), 5, (2, 9)).is_none(), "what is outdated is gone");
        let figures = cache.figures();
        assert_eq!((figures.hits, figures.misses, figures.outdated, figures.bytes), (1, 4, 1, 0));
    }

    #[test]
    fn memory_is_bounded_and_the_least_used_goes_first() {
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
        assert_eq!(cache.budget().used(), size, "a unit in use counts");
        drop(held);
        assert_eq!(cache.budget().used(), 0);
    }

    #[test]
    fn units_in_use_stay_and_nothing_goes_in_vain() {
        let size = unit(1, 1).memory_bytes() + ENTRY_BYTES;
        let cache = ResultsCache::new(MemoryBudget::root("results", size * 10 + size / 2));
        let mut held = Vec::new();
        for n in 0..10 {
            assert!(cache.insert(key(n), unit(1, 1)));
            held.extend(cache.get(key(n), 1, (0, 9)).filter(|_| n < 9));
        }
        assert!(cache.insert(key(10), unit(1, 1)), "one unit is not in use");
        assert!((0..9).all(|n| cache.get(key(n), 1, (0, 9)).is_some()), "those in use free nothing");
        assert!(cache.get(key(9), 1, (0, 9)).is_none());
        held.extend(cache.get(key(10), 1, (0, 9)));
        assert!(!cache.insert(key(11), unit(1, 1)));
        let figures = cache.figures();
        assert_eq!((figures.units, figures.evicted), (10, 1));
    }
}
