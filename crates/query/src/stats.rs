//! What a query cost, by phase: queue, index, cache, object store, execution.
//!
//! Filled by everyone who works for the query, read once at its end. Durations of work that ran in
//! parallel add up, so a phase may exceed the wall time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters that many tasks fill.
        #[derive(Debug, Default)]
        pub struct QueryStats { $($(#[$doc])* pub $name: AtomicU64,)* }

        /// The counters at one moment.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct StatsSnapshot { $($(#[$doc])* pub $name: u64,)* }

        impl QueryStats {
            /// The counters now.
            pub fn snapshot(&self) -> StatsSnapshot {
                StatsSnapshot { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Nanoseconds from arrival to the start of work.
    queue_ns,
    /// Nanoseconds spent choosing blocks and pages (footers, postings, needle filters).
    index_ns,
    /// Nanoseconds spent waiting for the object store or directory.
    store_ns,
    /// Nanoseconds spent in the cache.
    cache_ns,
    /// Nanoseconds of decoding, filtering and aggregating.
    execution_ns,
    /// Blocks whose time and tenant fit.
    blocks_total,
    /// Blocks that were opened.
    blocks_opened,
    /// Streams that matched.
    streams,
    /// Pages whose time and streams fit.
    pages_total,
    /// Pages that a needle filter ruled out.
    pages_filtered,
    /// Pages that were read from blocks.
    pages_read,
    /// Pages that were read from the heads.
    head_pages,
    /// Lines from the heads.
    head_lines,
    /// Line bytes from the heads.
    head_bytes,
    /// Requests to the object store.
    store_requests,
    /// Bytes that came from the object store.
    store_bytes,
    /// Requests answered by the cache.
    cache_hits,
    /// Requests that the cache could not answer.
    cache_misses,
    /// Bytes that came from the cache.
    cache_bytes,
    /// Compressed bytes of pages that were decoded.
    compressed_bytes,
    /// Line bytes of pages that were decoded.
    decompressed_bytes,
    /// Rows looked at.
    lines_processed,
    /// Rows answered by pre-aggregated counts.
    lines_counted,
    /// Bytes of structured metadata looked at.
    metadata_bytes,
    /// Rows that passed all filters.
    post_filter_lines,
    /// Rows dropped because they were stored twice.
    duplicates,
    /// Entries in the answer.
    entries_returned,
}

impl QueryStats {
    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }

    /// Adds a duration to a counter of nanoseconds.
    pub fn add_time(counter: &AtomicU64, time: Duration) {
        counter.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }
}
