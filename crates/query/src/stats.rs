//! Statistics of a query by phase: queue, index, cache, object store, execution.
//!
//! All tasks of the query add to them; they are read once at its end. Durations of parallel work add up,
//! so a phase may exceed the elapsed time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters that the tasks of a query increment.
        #[derive(Debug, Default)]
        pub struct QueryStats { $($(#[$doc])* pub $name: AtomicU64,)* }

        /// The counters at one moment.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct StatsSnapshot { $($(#[$doc])* pub $name: u64,)* }

        impl QueryStats {
            /// The current values of the counters.
            pub fn snapshot(&self) -> StatsSnapshot {
                StatsSnapshot { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Nanoseconds of waiting in the queue and for memory.
    queue_ns,
    /// Splits: pieces of time that were evaluated separately.
    splits,
    /// Shards: scans of a part of the data that ran in parallel.
    shards,
    /// Nanoseconds of selecting blocks and pages with footers, postings and needle filters, including
    /// reading them.
    index_ns,
    /// The part of `index_ns` that was spent on needle filters.
    filter_ns,
    /// Parts of block indexes (footers, counts, filters) that were in memory.
    index_cache_hits,
    /// Parts of block indexes that were on flash.
    index_flash_hits,
    /// Parts of block indexes that were read from the object store.
    index_cache_misses,
    /// Blocks of the tenant that overlap the time range.
    blocks_total,
    /// Blocks that were opened.
    blocks_opened,
    /// Streams that matched, counted per block.
    streams,
    /// Pages with matching time and streams.
    pages_total,
    /// Segments of needle filters that were tested.
    filters_asked,
    /// Pages that a needle filter ruled out.
    pages_filtered,
    /// Nanoseconds of waiting for pages from the object store or directory.
    store_ns,
    /// Requests to the object store, including those for indexes.
    store_requests,
    /// Bytes read from the object store, including those of indexes.
    store_bytes,
    /// Pages that were in memory.
    page_cache_hits,
    /// Bytes of pages read from memory.
    page_cache_bytes,
    /// Nanoseconds of looking up pages in memory.
    page_cache_ns,
    /// Pages that were on flash, completely or in part.
    page_flash_hits,
    /// Bytes of pages read from flash.
    page_flash_bytes,
    /// Nanoseconds of waiting for pages from flash.
    page_flash_ns,
    /// Pages that were read from blocks.
    pages_read,
    /// Compressed bytes of decoded pages.
    compressed_bytes,
    /// Line bytes of decoded pages.
    decompressed_bytes,
    /// Bytes of decoded structured metadata of pages of blocks.
    metadata_bytes,
    /// Heads (of this process and of followed writers) that were read.
    heads_asked,
    /// Pages that were read from heads.
    head_pages,
    /// Lines from heads.
    head_lines,
    /// Line bytes from heads.
    head_bytes,
    /// Bytes of structured metadata from heads.
    head_metadata_bytes,
    /// Nanoseconds of decoding, filtering and aggregating, summed over threads.
    execution_ns,
    /// Rows that were examined, including those of heads.
    lines_processed,
    /// Rows that pre-aggregated counts represent.
    lines_counted,
    /// Rows that passed all filters.
    post_filter_lines,
    /// Rows dropped as duplicates.
    duplicates,
    /// Entries of the result of a log query, series of other results.
    entries_returned,
    /// Units requested from the step cache.
    result_cache_requests,
    /// Units found in the step cache.
    result_cache_hits,
    /// Units stored in the step cache.
    result_cache_stored,
    /// Bytes of units read from the step cache.
    result_cache_bytes_received,
    /// Bytes of units stored in the step cache.
    result_cache_bytes_sent,
    /// Nanoseconds spent in the step cache.
    result_cache_ns,
    /// Nanoseconds of the query's time range that the step cache covered.
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
