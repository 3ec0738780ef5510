//! What the scan keeps in memory between queries: open footers, their minute counts, needle filters.
//!
//! Decoded values have no stored form, so they lie beside the cache of pieces; but their memory is
//! taken from that cache's, so that one limit holds for both: its items make way for them, up to seven
//! eighths of it. A query opens the footers of all its blocks, so a limit below that makes each query decode
//! them again, while pages that are not kept cost a read.
//!
//! Least recently used goes first; the sum of the weights stays within the limit. Keys are
//! immutable (block, piece), so nothing in here is ever stale. The values are handles: dropping
//! one from the cache does not take it from a query that uses it.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sandur_base::account::Account;
use sandur_base::{Id, LruMap};
use sandur_cache::{Cache, Reserved};

/// Which part of a block a cached value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Piece {
    /// The decoded footer.
    Footer,
    /// The decoded minute counts.
    Counts,
    /// The filter segment that begins at this offset.
    Filter(u64),
    /// The head of the group of sample pages that begins at this offset.
    GroupHead(u64),
    /// The lists of times that begin at this offset.
    Times(u64),
    /// The page of series with this number.
    Series(u32),
    /// The page of texts with this address in its index.
    Texts(u64),
    /// The same of a page in the order of texts, with the numbers of texts.
    SortedTexts(u64),
    /// What the series of the page with this number hold.
    Spans(u32),
    /// The column with this address in its index.
    Column(u64),
}

/// Decodes what is kept from then on: it is the cache's and outlives the query, whose account is not charged.
pub fn for_the_cache<T>(decode: impl FnOnce() -> T) -> T {
    Account::run_on(None, decode)
}

/// A cached value: of which type it is follows from the piece and the signal of the block.
type Value = Arc<dyn Any + Send + Sync>;

type Key = (Id, Piece);

/// A bounded, shared cache.
pub struct BlockCache {
    inner: Mutex<Inner>,
    memory: Cache,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Default)]
struct Inner {
    entries: LruMap<Key, (Value, Reserved), foldhash::fast::RandomState>,
    bytes: u64,
}

impl BlockCache {
    /// A cache in the memory of `memory`.
    pub fn new(memory: Cache) -> Self {
        Self { inner: Mutex::default(), memory, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    /// The value, if it is there; it becomes the most recently used.
    pub fn get<T: Any + Send + Sync>(&self, block: Id, piece: Piece) -> Option<Arc<T>> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let value = inner.entries.get(&(block, piece)).and_then(|(value, _)| value.clone().downcast().ok());
        let counter = if value.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        value
    }

    /// Keeps a value that takes `bytes` of memory; values larger than an eighth of the cache are not kept.
    pub fn insert<T: Any + Send + Sync>(&self, block: Id, piece: Piece, value: Arc<T>, bytes: u64) {
        let limit = self.memory.memory_limit() / 8 * 7;
        if bytes > limit / 8 {
            return;
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, memory)) = inner.entries.remove(&(block, piece)) {
            inner.bytes -= memory.bytes();
        }
        while inner.bytes + bytes > limit {
            let Some((_, (_, memory))) = inner.entries.pop_least_recent() else { break };
            inner.bytes -= memory.bytes();
        }
        let Some(memory) = self.memory.reserve(bytes) else { return };
        inner.entries.insert((block, piece), (value, memory));
        inner.bytes += bytes;
    }

    /// Whether so many bytes more leave half of the room to what is asked for next.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.bytes().saturating_add(bytes) <= self.memory.memory_limit() / 16 * 7
    }

    /// Bytes held now.
    pub fn bytes(&self) -> u64 {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// Requests that were answered, and that were not.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(cache: &BlockCache, n: u128) -> bool {
        cache.get::<u64>(Id(n), Piece::Counts).is_some()
    }

    fn keep(cache: &BlockCache, n: u128, size: u64) {
        cache.insert(Id(n), Piece::Counts, Arc::new(size), size);
    }

    #[test]
    fn the_least_recently_used_goes_first_and_the_limit_holds() {
        let env = sandur_base::Env::simulated(1, 0);
        let memory = Cache::in_memory(&env, 8 << 20);
        let cache = BlockCache::new(memory.clone());
        const UNIT: u64 = (8 << 20) / 8 * 7 / 8;
        for n in 0..8 {
            keep(&cache, n, UNIT);
        }
        assert!(bytes(&cache, 0), "all fit");
        assert_eq!(memory.stats().memory_used, cache.bytes() + memory.stats().bytes);
        keep(&cache, 8, UNIT);
        assert!(bytes(&cache, 0) && !bytes(&cache, 1), "1 was the oldest after 0 was used");
        keep(&cache, 9, UNIT + 1);
        assert!(!bytes(&cache, 9), "larger than an eighth");
        keep(&cache, 8, UNIT / 2);
        assert_eq!(cache.bytes(), UNIT * 15 / 2, "a replaced value counts once");
        assert_eq!(cache.hits_and_misses(), (2, 2));
    }
}
