//! What a cache counts.
//!
//! Invariant: every lookup is counted once, as a hit or as a miss with its reason; every item that
//! leaves is counted once, with the reason.

use crate::flash::FlashStats;
use crate::latency::Latencies;
use crate::policy::Refusal;

/// Everything that a cache can say of itself.
#[derive(Clone, Debug, Default)]
pub struct CacheStats {
    /// The RAM tier's counters.
    pub ram: RamCounts,
    /// Items in the RAM tier.
    pub items: u64,
    /// Bytes of items in the RAM tier, with their entries in its tables.
    pub bytes: u64,
    /// Bytes in use of all that counts against the memory limit.
    pub memory_used: u64,
    /// The memory limit in bytes.
    pub memory_limit: u64,
    /// Writes that happened.
    pub stored: u64,
    /// Time of lookups that memory answered; one in some dozens is measured.
    pub ram_latency: Latencies,
    /// The flash tier, if there is one.
    pub flash: Option<FlashTierStats>,
}

/// What the flash tier says of itself.
#[derive(Clone, Debug)]
pub struct FlashTierStats {
    /// Figures of the device and its segments.
    pub device: FlashStats,
    /// Lookups answered from it.
    pub hits: u64,
    /// Lookups that the index sent to it in vain: the record was another key's, had expired, or could
    /// not be read.
    pub misses: u64,
    /// Time of lookups that it answered.
    pub latency: Latencies,
    /// Lookups that found nothing because the item had to make way for others on flash, as far as that
    /// is remembered.
    pub missed_evicted: u64,
    /// Bytes of segments that are always kept free.
    pub reserve_bytes: u64,
    /// Items that were copied into memory because they were read again.
    pub promoted: u64,
    /// How often admission refused a value, by reason.
    pub refused: Vec<(Refusal, u64)>,
}

/// Counters of the RAM tier since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RamCounts {
    /// Lookups answered.
    pub hits: u64,
    /// What the items of these lookups take in the tier that [`crate::predict`] models.
    pub hit_bytes: u64,
    /// What values take that were stored under keys that were nowhere.
    pub filled_bytes: u64,
    /// Lookups of keys that were not there at all.
    pub absent: u64,
    /// Lookups of items that had expired.
    pub found_expired: u64,
    /// Lookups of items that a `flush_all` had voided.
    pub found_flushed: u64,
    /// Live items that made way for others and went nowhere.
    pub evicted: u64,
    /// Those of them that nobody had read.
    pub evicted_unfetched: u64,
    /// Those of them that had an expiry.
    pub evicted_with_expiry: u64,
    /// Bytes of records that made way for others.
    pub evicted_bytes: u64,
    /// Items that left because they had expired.
    pub expired: u64,
    /// Those of them that nobody had read.
    pub expired_unfetched: u64,
    /// Items that left because of a `flush_all`.
    pub flushed: u64,
    /// Dead items whose memory was taken for a new one.
    pub reclaimed: u64,
    /// Items that a new value replaced.
    pub replaced: u64,
    /// Items that were removed by name.
    pub removed: u64,
    /// Writes refused because no memory could be freed.
    pub refused: u64,
    /// Items that made way for others and lay on flash already.
    pub dropped_clean: u64,
    /// Items that made way for others and were written to flash.
    pub demoted: u64,
    /// Items of another key with the same hash that a new item displaced.
    pub displaced: u64,
}

impl RamCounts {
    /// Lookups that found nothing.
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
