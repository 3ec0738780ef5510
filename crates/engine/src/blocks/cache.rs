//! The cache of decoded indexes between queries: open footers, minute counts, needle filters, index pages.
//!
//! Decoded values are not bytes, so they are not in the cache of pieces. Their memory is reserved from
//! that cache, so that one limit holds for both: pieces are evicted to make room for them, up to seven
//! eighths of the limit. A query opens the footers of all its blocks. A lower limit would make each
//! query decode them again, while a page that is not cached costs only a read.
//!
//! Eviction is least recently used; the sum of the weights stays within the limit. Keys are immutable
//! (block, piece), so no value is ever stale. The values are shared handles: evicting one does not
//! affect a query that uses it.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sandur_base::{Id, LruMap};
use sandur_cache::Cache;
use sandur_memory::account::Account;
use sandur_memory::{Lender, Reservation};

/// The part of a block that a cached value was decoded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Piece {
    /// The decoded footer.
    Footer,
    /// The decoded minute counts.
    Counts,
    /// The filter segment that begins at this offset.
    Filter(u64),
    /// The header of the group of sample pages that begins at this offset.
    GroupHead(u64),
    /// The lists of times that begin at this offset.
    Times(u64),
    /// The page of series with this number.
    Series(u32),
    /// The page of texts with this address in its block's index.
    Texts(u64),
    /// The page of texts in their order with this address, with the numbers of the texts.
    SortedTexts(u64),
    /// The spans of the series on the page with this number.
    Spans(u32),
    /// The column with this address in its block's index.
    Column(u64),
    /// The rows that the block and this other one have in common.
    CommonRows(Id),
}

/// Decodes a value for the cache. It outlives the query, so the query's account is not charged.
pub fn for_the_cache<T>(decode: impl FnOnce() -> T) -> T {
    Account::run_on(None, decode)
}

/// A cached value. Its type follows from the piece and the signal of the block.
type Value = Arc<dyn Any + Send + Sync>;

type Key = (Id, Piece);

/// A bounded, shared cache of decoded values.
pub struct BlockCache {
    inner: Mutex<Inner>,
    memory: Cache,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Default)]
struct Inner {
    entries: LruMap<Key, (Value, Reservation), foldhash::fast::RandomState>,
    bytes: u64,
}

impl BlockCache {
    /// A cache that reserves its memory from `memory`.
    pub fn new(memory: Cache) -> Self {
        Self { inner: Mutex::default(), memory, hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    /// Returns the value, if it is cached, and marks it as the most recently used.
    pub fn get<T: Any + Send + Sync>(&self, block: Id, piece: Piece) -> Option<Arc<T>> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let value = inner.entries.get(&(block, piece)).and_then(|(value, _)| value.clone().downcast().ok());
        let counter = if value.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        value
    }

    /// Caches a value that takes `bytes` of memory. A value larger than an eighth of the limit is not
    /// cached.
    pub fn insert<T: Any + Send + Sync>(&self, block: Id, piece: Piece, value: Arc<T>, bytes: u64) {
        let limit = self.limit();
        if !self.accepts(bytes) {
            return;
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, memory)) = inner.entries.remove(&(block, piece)) {
            inner.bytes -= memory.bytes();
        }
        while inner.bytes + bytes > limit && inner.evict_one() {}
        // Others may hold memory below the limit: then the cache makes room by itself.
        let memory = loop {
            match self.memory.reserve(bytes) {
                Some(memory) => break memory,
                None if !inner.evict_one() => return,
                None => {}
            }
        };
        inner.entries.insert((block, piece), (value, memory));
        inner.bytes += bytes;
    }

    fn limit(&self) -> u64 {
        self.memory.memory_limit() / 8 * 7
    }

    /// Whether a value of this size can be cached.
    fn accepts(&self, bytes: u64) -> bool {
        bytes <= self.limit() / 8
    }

    /// Whether a value of this size can be cached, and half of the limit stays free after it.
    pub fn has_room_for_one(&self, bytes: u64) -> bool {
        self.accepts(bytes) && self.has_room(bytes)
    }

    /// Whether half of the limit stays free after `bytes` more.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.bytes().saturating_add(bytes) <= self.memory.memory_limit() / 16 * 7
    }

    /// Bytes of the cached values.
    pub fn bytes(&self) -> u64 {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// Number of requests that the cache answered, and that it did not.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }
}

impl Inner {
    /// Evicts the least recently used value; false without any.
    fn evict_one(&mut self) -> bool {
        let Some((_, (_, memory))) = self.entries.pop_least_recent() else { return false };
        self.bytes -= memory.bytes();
        true
    }
}

impl Lender for BlockCache {
    fn lent(&self) -> u64 {
        self.memory.budget().lent()
    }

    /// Evicts parts of blocks first, which are read again faster than indexes are decoded.
    fn release(&self, bytes: u64) {
        let budget = self.memory.budget();
        let goal = budget.used().saturating_sub(bytes);
        self.memory.release(bytes);
        let Ok(mut inner) = self.inner.try_lock() else { return };
        while budget.used() > goal && inner.evict_one() {}
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
    fn the_least_recently_used_value_is_evicted_and_the_limit_holds() {
        let env = sandur_runtime::Env::simulated(1, 0);
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
        let empty = BlockCache::new(Cache::in_memory(&env, 8 << 20));
        assert!(empty.has_room(UNIT + 1) && !empty.has_room_for_one(UNIT + 1));
        assert!(empty.has_room_for_one(UNIT) && !cache.has_room_for_one(1), "the other one is full");
        keep(&cache, 8, UNIT / 2);
        assert_eq!(cache.bytes(), UNIT * 15 / 2, "a replaced value counts once");
        assert_eq!(cache.hits_and_misses(), (2, 2));
    }
}
