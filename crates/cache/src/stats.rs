//! Counters of a cache.
//!
//! Invariant: every lookup is counted once, as a hit or as a miss with its reason. Every item that
//! leaves is counted once, with its reason.

use crate::flash::FlashStats;
use crate::latency::Latencies;
use crate::policy::Refusal;

/// All counters and sizes of a cache.
#[derive(Clone, Debug, Default)]
pub struct CacheStats {
    /// The RAM tier's counters.
    pub ram: RamCounts,
    /// Number of items in the RAM tier.
    pub items: u64,
    /// Bytes of the items in the RAM tier, including their entries in its tables.
    pub bytes: u64,
    /// Bytes in use that count against the memory limit.
    pub memory_used: u64,
    /// The memory limit in bytes.
    pub memory_limit: u64,
    /// Writes that were stored.
    pub stored: u64,
    /// Durations of lookups answered from memory; one in 64 is measured.
    pub ram_latency: Latencies,
    /// The flash tier, if there is one.
    pub flash: Option<FlashTierStats>,
}

/// Counters of the flash tier.
#[derive(Clone, Debug)]
pub struct FlashTierStats {
    /// Counters of the device and its segments.
    pub device: FlashStats,
    /// Lookups answered from flash.
    pub hits: u64,
    /// Lookups that the index sent to flash in vain: the record belonged to another key, had expired, or
    /// could not be read.
    pub misses: u64,
    /// Durations of lookups answered from flash.
    pub latency: Latencies,
    /// Misses of items that had been evicted from flash, as far as their keys are remembered.
    pub missed_evicted: u64,
    /// Bytes of the segments that are kept free.
    pub reserve_bytes: u64,
    /// Items copied from flash into memory because they were read again.
    pub promoted: u64,
    /// Number of values that admission refused, by reason.
    pub refused: Vec<(Refusal, u64)>,
}

/// Counters of the RAM tier since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RamCounts {
    /// Lookups answered from memory.
    pub hits: u64,
    /// Bytes of the items of these lookups, as [`crate::predict`] sizes them in the tier that it models.
    pub hit_bytes: u64,
    /// Bytes of the values stored under keys that were in no tier, sized in the same way.
    pub filled_bytes: u64,
    /// Lookups of keys that were in no tier.
    pub absent: u64,
    /// Lookups of items that had expired.
    pub found_expired: u64,
    /// Lookups of items that a `flush_all` had voided.
    pub found_flushed: u64,
    /// Live items that were evicted and are not on flash.
    pub evicted: u64,
    /// Those of them that were never read.
    pub evicted_unfetched: u64,
    /// Those of them that had an expiry.
    pub evicted_with_expiry: u64,
    /// Bytes of the evicted records.
    pub evicted_bytes: u64,
    /// Items removed because they had expired.
    pub expired: u64,
    /// Those of them that were never read.
    pub expired_unfetched: u64,
    /// Items removed because a `flush_all` had voided them.
    pub flushed: u64,
    /// Dead items (expired or voided) whose memory was reused for a new item.
    pub reclaimed: u64,
    /// Items that a new value replaced.
    pub replaced: u64,
    /// Items removed by a call for their key.
    pub removed: u64,
    /// Writes refused because no memory could be freed.
    pub refused: u64,
    /// Items evicted from memory of which flash had a copy already.
    pub dropped_clean: u64,
    /// Items evicted from memory that were written to flash.
    pub demoted: u64,
    /// Items of another key with the same hash that a new item displaced.
    pub displaced: u64,
}

impl RamCounts {
    /// Lookups that missed.
    pub fn misses(&self) -> u64 {
        self.absent + self.found_expired + self.found_flushed
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let Self { hits, hit_bytes, filled_bytes, absent, found_expired, found_flushed, evicted, .. } = other;
        self.hits += hits;
        self.hit_bytes += hit_bytes;
        self.filled_bytes += filled_bytes;
        self.absent += absent;
        self.found_expired += found_expired;
        self.found_flushed += found_flushed;
        self.evicted += evicted;
        let Self { evicted_unfetched, evicted_with_expiry, evicted_bytes, expired, .. } = other;
        self.evicted_unfetched += evicted_unfetched;
        self.evicted_with_expiry += evicted_with_expiry;
        self.evicted_bytes += evicted_bytes;
        self.expired += expired;
        let Self { expired_unfetched, flushed, reclaimed, replaced, .. } = other;
        self.expired_unfetched += expired_unfetched;
        self.flushed += flushed;
        self.reclaimed += reclaimed;
        self.replaced += replaced;
        let Self { removed, refused, displaced, dropped_clean, demoted, .. } = other;
        self.dropped_clean += dropped_clean;
        self.demoted += demoted;
        self.removed += removed;
        self.refused += refused;
        self.displaced += displaced;
    }
}
