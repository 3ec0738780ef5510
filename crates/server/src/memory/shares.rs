//! What each part of the process may reserve.
//!
//! The limit less what the process takes in any case is split. What is left over is for what no budget
//! counts: buffers of flushes, merges and uploads, and what the allocator holds back.

use std::time::Duration;

use sandur_base::units::{ByteSize, MIB};
use sandur_base::{Env, FairMemory, MemoryBudget, Patience};
use sandur_query::ResultsCache;

/// The smallest limit that the process works with: below, the shares hold no usual push or query.
pub const LIMIT_MIN: u64 = 128 * MIB;
/// What the process takes in any case: code that ran, stacks, caches of threads, the allocator's own.
const FIXED: u64 = 40 * MIB;
/// What one block that is being flushed takes in buffers, times what other parts take at the same time.
const FLUSHED_BLOCK: u64 = 128 * MIB;

/// Time over which the rate of a client is measured, which is also the grace that a small body has.
pub const RATE_WINDOW: Duration = Duration::from_secs(10);

/// How bodies wait for memory: as long as a push waits for the heads, and no more than connections can be.
pub const BODY_PATIENCE: Patience =
    Patience { wait: Duration::from_secs(10), waiting_max: 4_096, receive: RATE_WINDOW };

/// Memory that an idle connection takes: its first buffer, its state, its timers.
const CONNECTION_BYTES: u64 = 16 << 10;

/// Bytes of each part.
pub struct Shares {
    limit: u64,
    /// Rows in memory that are not in blocks yet, and flushing them.
    pub write: u64,
    /// Merging blocks.
    pub compaction: u64,
    /// Queries.
    pub query: u64,
    /// Blocks' footers and pages.
    pub cache: u64,
    /// Compiled queries of delete requests.
    pub filters: u64,
    /// Results of metric queries.
    pub results: u64,
    /// Labels of series that pushes bring.
    pub series: u64,
    /// Series of delta temporality that are added up.
    pub deltas: u64,
    /// Request bodies while they are received and decoded.
    pub requests: u64,
    /// Connections and the heads of requests: half for either.
    pub connections: u64,
}

impl Shares {
    /// Splits the limit: of what is beyond the fixed 40 MiB 27 % write, 9 % compaction, 20 % queries, 13 %
    /// cache, 2 % filters of delete requests, 2 % results, 4 % series, 2 % series of delta temporality, 13 %
    /// requests, 4 % connections; 4 % are the rest. The error says what the least limit is.
    pub fn of(limit: u64) -> Result<Self, String> {
        if limit < LIMIT_MIN {
            return Err(format!(
                "memory_limit is {}, too little to work with: set --memory-limit to {} or more",
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
    pub fn request_memory(&self, env: &Env) -> FairMemory {
        FairMemory::new(env.clone(), MemoryBudget::root("request bodies", self.requests), BODY_PATIENCE)
    }

    /// The memory of series of delta temporality.
    pub fn delta_budget(&self) -> MemoryBudget {
        MemoryBudget::root("series of delta temporality", self.deltas)
    }

    /// How many connections there is memory for.
    pub fn connections_max(&self) -> u64 {
        self.connections / 2 / CONNECTION_BYTES
    }

    /// The memory for the heads of requests.
    pub fn heads_budget(&self) -> MemoryBudget {
        MemoryBudget::root("heads of requests", self.connections / 2)
    }

    /// Blocks that a flush writes at once.
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
    fn a_limit_that_is_too_small_to_work_with_is_refused_with_the_least_one() {
        let refused = Shares::of(LIMIT_MIN - 1).err().unwrap();
        assert!(refused.contains("--memory-limit to 128MiB"), "{refused}");
    }
}
