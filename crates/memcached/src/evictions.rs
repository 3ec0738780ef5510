//! Counts evicted, expired and flushed items by slab class for `stats items`, and publishes them to
//! watchers.
//!
//! Invariant: called under a shard's lock, so it only adds to counters, unless evictions are watched.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sandur_cache::{RemovalListener, RemovalReason, RemovedItem};

use super::slab_classes::{CLASSES_MAX, SlabClasses};
use super::watch::{Event, Stream, Watchers};

/// Counts of one slab class since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EvictionCounts {
    pub evicted: u64,
    /// Of these, the number that had an expiry.
    pub evicted_nonzero: u64,
    /// Of these, the number that were never read.
    pub evicted_unfetched: u64,
    /// Seconds between the last access and the eviction of the latest one.
    pub evicted_time: u64,
    /// Of these, the number that were accessed within the last minute.
    pub evicted_active: u64,
    pub expired_unfetched: u64,
    /// Expired items whose memory was reused.
    pub reclaimed: u64,
}

/// Seconds since the last access within which an evicted item counts as active.
const ACTIVE_S: u32 = 60;

const EVICTED: usize = 0;
const EVICTED_NONZERO: usize = 1;
const EVICTED_UNFETCHED: usize = 2;
const EVICTED_TIME: usize = 3;
const EVICTED_ACTIVE: usize = 4;
const EXPIRED_UNFETCHED: usize = 5;
const RECLAIMED: usize = 6;

/// Receives removals from the cache and counts them.
#[derive(Debug)]
pub(super) struct Evictions {
    classes: SlabClasses,
    watchers: Arc<Watchers>,
    counts: Box<[[AtomicU64; 7]]>,
}

impl Evictions {
    pub fn new(classes: SlabClasses, watchers: Arc<Watchers>) -> Self {
        let counts = (0..CLASSES_MAX).map(|_| Default::default()).collect();
        Self { classes, watchers, counts }
    }

    /// Returns the counts of a class.
    pub fn of(&self, class: usize) -> EvictionCounts {
        let counts = &self.counts[class];
        let get = |which: usize| counts[which].load(Ordering::Relaxed);
        EvictionCounts {
            evicted: get(EVICTED),
            evicted_nonzero: get(EVICTED_NONZERO),
            evicted_unfetched: get(EVICTED_UNFETCHED),
            evicted_time: get(EVICTED_TIME),
            evicted_active: get(EVICTED_ACTIVE),
            expired_unfetched: get(EXPIRED_UNFETCHED),
            reclaimed: get(RECLAIMED),
        }
    }

    /// Returns the counts of all classes, including class 0.
    pub fn all(&self) -> Vec<EvictionCounts> {
        (0..CLASSES_MAX).map(|class| self.of(class)).collect()
    }
}

impl EvictionCounts {
    /// Returns the counts since `base`. The time of the latest eviction is not changed.
    pub fn since(self, base: &Self) -> Self {
        Self {
            evicted: self.evicted - base.evicted,
            evicted_nonzero: self.evicted_nonzero - base.evicted_nonzero,
            evicted_unfetched: self.evicted_unfetched - base.evicted_unfetched,
            evicted_time: self.evicted_time,
            evicted_active: self.evicted_active - base.evicted_active,
            expired_unfetched: self.expired_unfetched - base.expired_unfetched,
            reclaimed: self.reclaimed - base.reclaimed,
        }
    }
}

impl RemovalListener for Evictions {
    fn removed(&self, item: &RemovedItem<'_>) {
        let class = self.classes.class(self.classes.item_bytes(item.key.len(), item.length, item.flags));
        let counts = &self.counts[class];
        let add = |which: usize| counts[which].fetch_add(1, Ordering::Relaxed);
        let idle = item.now.saturating_sub(item.accessed_at);
        if item.why != RemovalReason::Evicted {
            if !item.looked_up {
                add(RECLAIMED);
            }
            if item.why == RemovalReason::Expired && !item.fetched {
                add(EXPIRED_UNFETCHED);
            }
            return;
        }
        add(EVICTED);
        counts[EVICTED_TIME].store(u64::from(idle), Ordering::Relaxed);
        if item.expires_at != 0 {
            add(EVICTED_NONZERO);
        }
        if !item.fetched {
            add(EVICTED_UNFETCHED);
        } else if idle < ACTIVE_S {
            add(EVICTED_ACTIVE);
        }
        if self.watchers.wants(Stream::Evictions) {
            let ttl =
                if item.expires_at == 0 { -1 } else { i64::from(item.expires_at) - i64::from(item.now) };
            let (key, fetched, size) = (item.key, item.fetched, item.length);
            let event = Event::Eviction { key, fetched, ttl, idle, class, size };
            self.watchers.publish(Stream::Evictions, &event, i64::from(item.now) * 1_000_000_000);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removals_are_counted_by_class_and_reason() {
        let classes = SlabClasses::new(1.25, 48, 512 << 10, true);
        let evictions = Evictions::new(classes, Arc::default());
        let item = RemovedItem {
            key: b"key",
            length: 66_560,
            flags: 0,
            expires_at: 0,
            accessed_at: 10,
            fetched: false,
            why: RemovalReason::Evicted,
            looked_up: false,
            now: 15,
        };
        evictions.removed(&item);
        evictions.removed(&RemovedItem { why: RemovalReason::Expired, expires_at: 12, ..item });
        evictions.removed(&RemovedItem { why: RemovalReason::Flushed, looked_up: true, ..item });
        let expected = EvictionCounts {
            evicted: 1,
            evicted_unfetched: 1,
            evicted_time: 5,
            expired_unfetched: 1,
            reclaimed: 1,
            ..EvictionCounts::default()
        };
        assert_eq!(evictions.of(31), expected);
        assert_eq!(evictions.of(1), EvictionCounts::default());
    }
}
