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
    /// Pieces of time that the query was cut into and that were run apart.
    splits,
    /// Pieces of work (scans of a part of the data) that were run side by side.
    shards,
    /// Nanoseconds spent choosing blocks and pages: footers, postings, needle filters, reading them included.
    index_ns,
    /// The part of `index_ns` that went into needle filters.
    filter_ns,
    /// Parts of blocks' indexes (footers, counts, filters) that were in memory.
    index_cache_hits,
    /// Parts of blocks' indexes that were on flash.
    index_flash_hits,
    /// Parts of blocks' indexes that had to be read from the object store.
    index_cache_misses,
    /// Blocks whose time and tenant fit.
    blocks_total,
    /// Blocks that were opened.
    blocks_opened,
    /// Streams that matched, counted per block.
    streams,
    /// Pages whose time and streams fit.
    pages_total,
    /// Segments of needle filters that were asked.
    filters_asked,
    /// Pages that a needle filter ruled out.
    pages_filtered,
    /// Nanoseconds spent waiting for pages from the object store or directory.
    store_ns,
    /// Requests to the object store, those for indexes included.
    store_requests,
    /// Bytes that came from the object store, those of indexes included.
    store_bytes,
    /// Pages that were in memory.
    page_cache_hits,
    /// Bytes of pages that came from memory.
    page_cache_bytes,
    /// Nanoseconds spent asking memory for pages.
    page_cache_ns,
    /// Pages that were on flash, in whole or in part.
    page_flash_hits,
    /// Bytes of pages that came from flash.
    page_flash_bytes,
    /// Nanoseconds spent waiting for pages from flash.
    page_flash_ns,
    /// Pages that were read from blocks.
    pages_read,
    /// Compressed bytes of pages that were decoded.
    compressed_bytes,
    /// Line bytes of pages that were decoded.
    decompressed_bytes,
    /// Bytes of structured metadata of pages of blocks, as decoded.
    metadata_bytes,
    /// Heads (of this process and of followed writers) that were asked.
    heads_asked,
    /// Pages that were read from the heads.
    head_pages,
    /// Lines from the heads.
    head_lines,
    /// Line bytes from the heads.
    head_bytes,
    /// Bytes of structured metadata from the heads.
    head_metadata_bytes,
    /// Nanoseconds of decoding, filtering and aggregating, summed over threads.
    execution_ns,
    /// Rows looked at, those of heads included.
    lines_processed,
    /// Rows answered by pre-aggregated counts.
    lines_counted,
    /// Rows that passed all filters.
    post_filter_lines,
    /// Rows dropped because they were stored twice.
    duplicates,
    /// Entries of a log answer, series of others.
    entries_returned,
    /// Extents that the step cache was asked for.
    result_cache_requests,
    /// Extents that it had.
    result_cache_hits,
    /// Extents that were put into it.
    result_cache_stored,
    /// Bytes that came from it.
    result_cache_bytes_received,
    /// Bytes that were put into it.
    result_cache_bytes_sent,
    /// Nanoseconds spent asking it.
    result_cache_ns,
    /// Nanoseconds of the query's range that it answered.
    result_cache_length_ns,
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
