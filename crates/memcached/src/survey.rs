//! Counts the items in memory by slab class, by scanning all of them.
//!
//! Invariant: a survey is reused for twenty times as long as it took, so that scans use at most a
//! twentieth of one CPU, however often surveys are requested. Small caches are always scanned again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandur_runtime::Env;

use crate::slab_classes::{CLASSES_MAX, SlabClasses};
use sandur_cache::Cache;

/// For how many times its own duration a survey is reused.
const REUSE: u32 = 20;
/// A survey that took no longer than this is not reused.
const QUICK: Duration = Duration::from_millis(2);
/// Assumed length of the key of an item on flash, whose key is not in memory.
const HEADER_KEY_BYTES: usize = 24;
/// Bytes that memcached keeps in memory of a value on flash, without the line end.
const HEADER_VALUE_BYTES: u64 = 10;
/// Width of the buckets of item sizes, in bytes.
pub(crate) const SIZE_STEP: u64 = 32;

/// The latest survey.
#[derive(Debug, Default)]
pub(crate) struct Survey(Mutex<Option<Taken>>);

#[derive(Debug)]
struct Taken {
    until: Duration,
    found: Arc<Found>,
}

/// The result of a survey.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub classes: Vec<ClassItems>,
    /// Number of items by size, in steps of [`SIZE_STEP`] bytes.
    pub sizes: BTreeMap<u64, u64>,
}

/// The items of one class.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClassItems {
    pub items: u64,
    /// Bytes of the items.
    pub bytes: u64,
    /// Number of chunks that they would use.
    pub chunks: u64,
    /// Number of items that were read since they were stored.
    pub fetched: u64,
    /// The time of the least recent access of any item, in seconds since the epoch.
    pub oldest: Option<u32>,
}

impl Survey {
    /// Returns a survey that is recent enough.
    pub fn of(&self, env: &Env, cache: &Cache, classes: &SlabClasses) -> Arc<Found> {
        let started = env.monotonic();
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = latest.as_ref().filter(|taken| started < taken.until) {
            return Arc::clone(&taken.found);
        }
        let found = Arc::new(survey(cache, classes));
        let took = env.monotonic() - started;
        let until = if took <= QUICK { started } else { started + took * (REUSE + 1) };
        *latest = Some(Taken { until, found: Arc::clone(&found) });
        found
    }
}

fn survey(cache: &Cache, classes: &SlabClasses) -> Found {
    // Removes expired items, which are not counted.
    for shard in 0..cache.shards() {
        cache.sweep(shard);
    }
    let mut found = Found { classes: vec![ClassItems::default(); CLASSES_MAX], ..Found::default() };
    let mut in_both = 0;
    cache.visit(|key, item| {
        in_both += u64::from(item.meta.on_flash);
        let bytes = classes.item_bytes(key.len(), item.length, item.flags);
        let class = &mut found.classes[classes.class(bytes)];
        class.items += 1;
        class.bytes += bytes;
        class.chunks += classes.chunks_taken(bytes);
        class.fetched += u64::from(item.meta.fetched);
        let accessed_at = item.meta.accessed_at;
        class.oldest = Some(class.oldest.map_or(accessed_at, |oldest| oldest.min(accessed_at)));
        *found.sizes.entry(bytes.div_ceil(SIZE_STEP) * SIZE_STEP).or_default() += 1;
        true
    });
    let records = cache.stats().flash.map_or(0, |flash| flash.device.records);
    count_headers(&mut found, classes, records.saturating_sub(in_both));
    found
}

/// Counts items that are only on flash: in memcached each has a small header in memory, counted in its
/// class.
fn count_headers(found: &mut Found, classes: &SlabClasses, count: u64) {
    let bytes = classes.item_bytes(HEADER_KEY_BYTES, HEADER_VALUE_BYTES, 0);
    let class = &mut found.classes[classes.class(bytes)];
    class.items += count;
    class.bytes += count * bytes;
    class.chunks += count;
}
