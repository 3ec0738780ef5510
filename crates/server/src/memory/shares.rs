//! How much each part of the process may reserve.
//!
//! The limit minus the fixed usage of the process is divided. The remainder is for memory that no budget
//! counts: buffers of flushes, merges and uploads, and free memory of the allocator.

use sandur_base::units::{ByteSize, MIB};
use sandur_memory::MemoryBudget;
use sandur_query::ResultsCache;
use sandur_runtime::{Env, FairBudget};
use sandur_service::writes::BODY_PATIENCE;

/// The minimum limit: with less, the shares are too small for usual pushes and queries.
pub const LIMIT_MIN: u64 = 128 * MIB;
/// Fixed memory usage of the process: code, stacks, caches of threads, the allocator itself.
const FIXED: u64 = 40 * MIB;
/// Estimated buffers of one block that is being flushed, together with concurrent usage of other parts.
const FLUSHED_BLOCK: u64 = 128 * MIB;

/// Memory of an idle connection: its first buffer, its state, its timers.
const CONNECTION_BYTES: u64 = 16 << 10;

/// The shares in bytes.
pub struct Shares {
    limit: u64,
    /// Rows in memory that are not in blocks yet, and flushes.
    pub write: u64,
    /// Merges of blocks.
    pub compaction: u64,
    /// Queries.
    pub query: u64,
    /// Footers and pages of blocks.
    pub cache: u64,
    /// Compiled queries of delete requests.
    pub filters: u64,
    /// The step cache.
    pub results: u64,
    /// The cache of series of pushes.
    pub series: u64,
    /// The state of series of delta temporality.
    pub deltas: u64,
    /// Request bodies while they are received and decoded.
    pub requests: u64,
    /// Connections and the heads of requests: half for each.
    pub connections: u64,
}

impl Shares {
    /// Divides the limit. Of what exceeds the fixed 40 MiB, 27 % are for writes, 9 % for compaction, 20 %
    /// for queries, 13 % for the cache, 2 % for filters of delete requests, 2 % for the step cache, 4 %
    /// for series, 2 % for series of delta temporality, 13 % for requests, 4 % for connections; 4 %
    /// remain. The error names the minimum limit.
    pub fn of(limit: u64) -> Result<Self, String> {
        if limit < LIMIT_MIN {
            return Err(format!(
                "memory_limit is {}, which is too small: set --memory-limit to {} or more",
                ByteSize(limit),
                ByteSize(LIMIT_MIN)
            ));
        }
        let part = |percent: u64| (limit - FIXED) / 100 * percent;
        Ok(Self {
            limit,
            write: part(27),
            compaction: part(9),
            query: part(20),
            cache: part(13),
            filters: part(2),
            results: part(2),
            series: part(4),
            deltas: part(2),
            requests: part(13),
            connections: part(4),
        })
    }

    /// The budget of queries.
    pub fn query_budget(&self) -> MemoryBudget {
        MemoryBudget::root("all queries", self.query)
    }

    /// The memory of compiled queries of delete requests.
    pub fn filter_budget(&self) -> MemoryBudget {
        MemoryBudget::root("filters of delete requests", self.filters)
    }

    /// The step cache.
    pub fn results_cache(&self) -> ResultsCache {
        ResultsCache::new(MemoryBudget::root("results", self.results))
    }

    /// The memory that request bodies share.
    pub fn request_memory(&self, env: &Env) -> FairBudget {
        FairBudget::new(env.clone(), MemoryBudget::root("request bodies", self.requests), BODY_PATIENCE)
    }

    /// The memory of series of delta temporality.
    pub fn delta_budget(&self) -> MemoryBudget {
        MemoryBudget::root("series of delta temporality", self.deltas)
    }

    /// The number of connections for which there is memory.
    pub fn connections_max(&self) -> u64 {
        self.connections / 2 / CONNECTION_BYTES
    }

    /// The memory for the heads of requests.
    pub fn heads_budget(&self) -> MemoryBudget {
        MemoryBudget::root("heads of requests", self.connections / 2)
    }

    /// Number of blocks that a flush writes concurrently.
    pub fn flush_parallelism(&self) -> usize {
        usize::try_from(self.limit / FLUSHED_BLOCK).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_leave_room_at_every_limit() {
        for limit in [LIMIT_MIN, 256 * MIB, 1 << 30, 1 << 40] {
            let shares = Shares::of(limit).unwrap();
            let kept = shares.cache + shares.results + shares.series + shares.deltas + shares.filters;
            let asked = shares.requests + shares.connections;
            let sum = shares.write + shares.compaction + shares.query + kept + asked;
            assert!(sum + FIXED <= limit && sum >= (limit - FIXED) / 100 * 89, "{limit}");
            assert!(shares.flush_parallelism() >= 1);
        }
    }

    #[test]
    fn a_limit_that_is_too_small_is_refused_with_the_minimum() {
        let refused = Shares::of(LIMIT_MIN - 1).err().unwrap();
        assert!(refused.contains("--memory-limit to 128MiB"), "{refused}");
    }
}
