//! The cost of a query: its counters and times, for the log of queries and the statistics of answers.

use std::time::Duration;

use sandur_query::StatsSnapshot;

/// The step cache of a query; Loki counts each kind of query separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultCache {
    /// Range queries.
    #[default]
    Range,
    /// Metric queries at one instant.
    InstantMetric,
    /// `index/stats`.
    Stats,
    /// `index/volume` and `index/volume_range`.
    Volume,
    /// `series`.
    Series,
    /// `labels` and `label/NAME/values`.
    Labels,
}

/// The cost of one query.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    /// Counters of the query.
    pub counters: StatsSnapshot,
    /// Time from the request to the answer, without the queue.
    pub execution: Duration,
    /// The cache whose fields have the counters of cached results.
    pub result_cache: ResultCache,
}

impl Cost {
    /// Bytes of lines and structured metadata that were decoded and examined.
    pub fn bytes(&self) -> u64 {
        self.counters.head_bytes + self.counters.decompressed_bytes + self.metadata_bytes()
    }

    /// The structured metadata within [`bytes`](Self::bytes).
    pub fn metadata_bytes(&self) -> u64 {
        self.counters.metadata_bytes + self.counters.head_metadata_bytes
    }

    /// Lines that were examined; lines counted from footers are not included.
    pub fn lines(&self) -> u64 {
        self.counters.lines_processed
    }

    /// `amount` per second of execution.
    pub fn per_second(&self, amount: u64) -> u64 {
        let seconds = self.execution.as_secs_f64();
        if seconds > 0.0 { (amount as f64 / seconds) as u64 } else { 0 }
    }

    /// Time in the queue.
    pub fn queue(&self) -> Duration {
        Duration::from_nanos(self.counters.queue_ns)
    }

    /// Pages that were requested from the cache; missing ones were read from the store.
    pub fn pages_wanted(&self) -> u64 {
        self.counters.pages_read.max(self.pages_found())
    }

    /// Pages found in memory or on flash.
    pub fn pages_found(&self) -> u64 {
        self.counters.page_cache_hits + self.counters.page_flash_hits
    }

    /// Time spent reading pages from cache and store, nanoseconds.
    pub fn download_ns(&self) -> u64 {
        self.counters.store_ns + self.counters.page_cache_ns + self.counters.page_flash_ns
    }
}
