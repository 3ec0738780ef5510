//! The series of one tenant in a head.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use foldhash::fast::RandomState;
use sandur_model::{Labels, Matcher, StreamId};

use super::beside::Beside;
use super::memory::SERIES_BYTES;
use super::series::HeadSeries;
use super::symbols::{PAIR_BYTES, Pair, Symbols, Texts};
use crate::growing::Growing;

/// The samples of one tenant.
pub(super) struct TenantSamples {
    first_ms: AtomicI64,
    last_ms: AtomicI64,
    rows: AtomicU64,
    series: RwLock<AllSeries>,
    beside: Mutex<Beside>,
}

#[derive(Default)]
struct AllSeries {
    by_id: HashMap<Key, u32, RandomState>,
    list: Growing<Arc<HeadSeries>>,
    symbols: Symbols,
}

/// An id in parts: entries of the map take 20 bytes, with a number of 16 bytes they would take 32.
type Key = [u32; 4];

fn key_of(id: StreamId) -> Key {
    std::array::from_fn(|n| (id.0 >> (32 * n)) as u32)
}

/// All series of a moment.
pub(super) struct Snapshot {
    pub(super) list: Growing<Arc<HeadSeries>>,
    pub(super) texts: Texts,
}

impl Default for TenantSamples {
    fn default() -> Self {
        let (first_ms, last_ms) = (AtomicI64::new(i64::MAX), AtomicI64::new(i64::MIN));
        let (series, beside) = (RwLock::default(), Mutex::default());
        Self { first_ms, last_ms, rows: AtomicU64::new(0), series, beside }
    }
}

impl TenantSamples {
    /// The series with these labels, and the bytes that it takes if it is new.
    pub(super) fn intern(&self, id: StreamId, labels: &Labels) -> (Arc<HeadSeries>, u64) {
        let key = key_of(id);
        if let Some(found) =
            self.read(|all| all.by_id.get(&key).map(|at| Arc::clone(all.list.get(*at as usize))))
        {
            return (found, 0);
        }
        let mut all = self.series.write().unwrap_or_else(PoisonError::into_inner);
        let before = all.symbols.bytes();
        let series = Arc::new(HeadSeries::new(id, all.symbols.pairs(labels)));
        let at = all.list.len() as u32;
        all.by_id.insert(key, at);
        all.list.push(Arc::clone(&series));
        let strings = all.symbols.bytes() - before;
        (series, SERIES_BYTES + labels.len() as u64 * PAIR_BYTES + strings)
    }

    /// Its exemplars and metadata.
    pub(super) fn beside(&self) -> MutexGuard<'_, Beside> {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, look: impl FnOnce(&AllSeries) -> T) -> T {
        look(&self.series.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes that a sample of this time is about to come.
    pub(super) fn widen(&self, (first_ms, last_ms): (i64, i64)) {
        self.first_ms.fetch_min(first_ms, Ordering::AcqRel);
        self.last_ms.fetch_max(last_ms, Ordering::AcqRel);
    }

    /// Counts samples that were appended; a reader that sees the count sees them.
    pub(super) fn count(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::AcqRel);
    }

    /// Samples.
    pub(super) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Acquire)
    }

    /// First and last time; `None` without samples.
    pub(super) fn bounds_ms(&self) -> Option<(i64, i64)> {
        let (first, last) = (self.first_ms.load(Ordering::Acquire), self.last_ms.load(Ordering::Acquire));
        (first <= last).then_some((first, last))
    }

    /// All series of now.
    pub(super) fn snapshot(&self) -> Snapshot {
        self.read(|all| Snapshot { list: all.list.clone(), texts: all.symbols.texts() })
    }
}

impl Snapshot {
    /// The series that pass all matchers. What a matcher says of a value is found out once.
    pub(super) fn matching(&self, matchers: &[Matcher]) -> Vec<Arc<HeadSeries>> {
        let mut known: Vec<HashMap<u32, bool, RandomState>> = vec![HashMap::default(); matchers.len()];
        let mut passes = |series: &HeadSeries| {
            matchers.iter().zip(&mut known).all(|(matcher, known)| {
                let pair = series.labels.iter().find(|(name, _)| self.texts.get(*name) == matcher.name());
                match pair {
                    None => matcher.matches_empty(),
                    Some((_, value)) => {
                        *known.entry(*value).or_insert_with(|| matcher.matches(self.texts.get(*value)))
                    }
                }
            })
        };
        self.list.iter().filter(|series| passes(series)).cloned().collect()
    }

    /// Orders series as their label sets are ordered.
    pub(super) fn compare(&self, a: &HeadSeries, b: &HeadSeries) -> std::cmp::Ordering {
        let text = |(name, value): &Pair| (self.texts.get(*name), self.texts.get(*value));
        a.labels.iter().map(text).cmp(b.labels.iter().map(text))
    }
}
