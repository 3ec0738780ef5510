//! Feeds accesses of a running cache to its [`Predictor`] and returns the predictor's reports.
//!
//! A lookup is reported when its answer is known, with the bytes that the item occupies in the modelled
//! tier: flash, or memory without flash. A value that is stored under a key that was in no tier counts
//! as the answer to a miss, unless it is newly written data.
//!
//! Invariants: a key outside of the sample costs one comparison and some sums under locks that are held
//! anyway. The predictor's memory is reserved before it is allocated; a cache that is too small for it
//! has no predictor.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sandur_memory::{MemoryBudget, Reservation};

use crate::flash::record_footprint;
use crate::hint::Hint;
use crate::model::TierOptions;
use crate::options::CacheOptions;
use crate::policy::{Reinsertion, TenantCaps};
use crate::predict::{Event, MEMORY_BYTES_MAX, Observed, Predictor, Report, Totals};
use crate::ram::Record;
use crate::stats::RamCounts;

/// Smallest memory limit of a cache with a predictor, which takes a sixteenth of it.
const LEAST_MEMORY: u64 = 16 * MEMORY_BYTES_MAX as u64;
/// Bytes of an item in memory in addition to its record: see "Memory" of [`crate::policy::S3Fifo`].
const ENTRY_BYTES: u64 = 144;
/// The weight of an access halves each hour, so that the report follows the load of the day.
const HALF_LIFE_S: u32 = 3600;
/// Smallest number of segments of the modelled flash. Real segments may be larger than the model can
/// resolve.
const SEGMENTS: u64 = 128;

#[derive(Debug)]
pub(crate) struct Forecaster {
    predictor: Predictor,
    models_flash: bool,
    flash_hits: AtomicU64,
    flash_hit_bytes: AtomicU64,
    flash_misses: AtomicU64,
    _memory: Reservation,
}

impl Forecaster {
    /// For a cache with `flash` bytes of flash, 0 for none. `None` when the cache's memory is too small.
    pub fn new(memory: &MemoryBudget, options: &CacheOptions, flash: u64, now: u32) -> Option<Self> {
        if options.memory < LEAST_MEMORY {
            return None;
        }
        let reserved = memory.reserve(MEMORY_BYTES_MAX as u64).ok()?;
        let tiers = TierOptions {
            ram_bytes: memory.limit() - memory.used(),
            flash_bytes: flash,
            segment_bytes: (flash / SEGMENTS).max(1),
            write_bytes_per_day: options.flash_write_bytes_per_day,
            reinsertion: Reinsertion::default(),
            // Lookups do not name the tenant of a key.
            tenants: TenantCaps::default(),
            seed: 1,
        };
        Some(Self {
            predictor: Predictor::new(&tiers, HALF_LIFE_S, now),
            models_flash: flash > 0,
            flash_hits: AtomicU64::new(0),
            flash_hit_bytes: AtomicU64::new(0),
            flash_misses: AtomicU64::new(0),
            _memory: reserved,
        })
    }

    /// Bytes that an item occupies in the modelled tier.
    pub fn footprint(&self, key: usize, value: u64) -> u32 {
        let value = usize::try_from(value).unwrap_or(usize::MAX);
        let bytes = if self.models_flash {
            record_footprint(key, value)
        } else {
            Record::weight_of(key, value) + ENTRY_BYTES
        };
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// Reports an event of a key.
    #[inline]
    pub fn saw(&self, hash: u64, event: Event, hint: Hint, now_s: u32) {
        self.predictor.observe(&Observed { hash, event, hint, tenant: 0, now_s });
    }

    /// Reports the end of a lookup that needed the device, with the bytes that the item occupies if it
    /// was found.
    pub fn flash_answered(&self, hash: u64, found: Option<u32>, hint: Hint, now_s: u32) {
        match found {
            Some(bytes) => {
                self.flash_hits.fetch_add(1, Relaxed);
                self.flash_hit_bytes.fetch_add(u64::from(bytes), Relaxed);
                self.saw(hash, Event::Hit { bytes }, hint, now_s);
            }
            None => {
                self.flash_misses.fetch_add(1, Relaxed);
                self.saw(hash, Event::Miss, hint, now_s);
            }
        }
    }

    /// Estimates hit ratios at other sizes.
    pub fn report(&self, ram: &RamCounts, now_s: u32) -> Report {
        let hits = ram.hits + self.flash_hits.load(Relaxed);
        let hit_bytes = ram.hit_bytes + self.flash_hit_bytes.load(Relaxed);
        let reads = hits + ram.misses() + self.flash_misses.load(Relaxed);
        let totals = Totals { reads, hits, read_bytes: hit_bytes + ram.filled_bytes, hit_bytes };
        self.predictor.report(totals, now_s)
    }
}
