//! How much each part of the process may reserve.
//!
//! The limit minus the fixed usage of the process is divided. Most of it is one pool: each share of the pool
//! has a guarantee, and what is not guaranteed is lent to the share that needs it ([`MemoryPool`]). Caches
//! give what they borrowed back at once when another share needs it. Nine percent or more remain for memory
//! that no budget counts: buffers of flushes, merges and uploads, and free memory of the allocator.

use std::sync::Arc;

use sandur_base::units::{ByteSize, MIB};
use sandur_memory::{MemoryBudget, MemoryPool};
use sandur_query::ResultsCache;
use sandur_runtime::{Env, FairBudget};
use sandur_service::writes::BODY_PATIENCE;

/// The minimum limit: with less, the shares are too small for usual pushes and queries.
pub const LIMIT_MIN: u64 = 128 * MIB;
/// Fixed memory usage of the process: code, stacks, caches of threads, the allocator itself.
const FIXED: u64 = 40 * MIB;
/// Estimated buffers of one block that is being flushed, together with concurrent usage of other parts.
const FLUSHED_BLOCK: u64 = 128 * MIB;

/// Pieces of blocks for other processes may take this fraction of the memory of queries (an eighth).
const PIECES_FOR_PEERS_PART: u64 = 8;
/// Memory of an idle connection: its first buffer, its state, its timers.
const CONNECTION_BYTES: u64 = 16 << 10;

/// A share of the pool: what it always has and the most that it uses when others do not, in percent of the
/// limit minus [`FIXED`].
struct Part {
    name: &'static str,
    guarantee: u64,
    most: u64,
}

const WRITE: Part = Part { name: "write", guarantee: 22, most: 45 };
const COMPACTION: Part = Part { name: "compaction", guarantee: 9, most: 20 };
const QUERY: Part = Part { name: "all queries", guarantee: 10, most: 33 };
const CACHE: Part = Part { name: "cache", guarantee: 5, most: 26 };
const RESULTS: Part = Part { name: "results", guarantee: 1, most: 16 };
const REQUESTS: Part = Part { name: "request bodies", guarantee: 8, most: 16 };

/// Percent of the pool: the guarantees of its shares, and 23 that are lent.
const POOL: u64 = 78;
/// Percent of parts that are not shared with others.
const FILTERS: u64 = 2;
const SERIES: u64 = 4;
const DELTAS: u64 = 2;
const CONNECTIONS: u64 = 4;
const SLOW_QUERIES: u64 = 1;
/// Maximum memory of the list of slow queries: enough for its 1,000 queries with texts of 2 KiB each.
const SLOW_QUERIES_MAX: u64 = 4 * MIB;
/// Percent from which the sizes of the cache's buffers are derived.
const CACHE_NOMINAL: u64 = 13;

/// The memory of each part of the process.
pub struct Shares {
    limit: u64,
    /// The memory that the shares below share.
    pub pool: MemoryPool,
    /// Rows in memory that are not in blocks yet, and flushes.
    pub write: MemoryBudget,
    /// Merges of blocks.
    pub compaction: MemoryBudget,
    /// Queries.
    pub query: MemoryBudget,
    /// Footers and pages of blocks.
    pub cache: MemoryBudget,
    /// Bytes from which the sizes of the cache's buffers are derived.
    pub cache_nominal: u64,
    /// The step cache.
    pub results: MemoryBudget,
    /// Request bodies while they are received and decoded.
    pub requests: MemoryBudget,
    /// Compiled queries of delete requests.
    pub filters: MemoryBudget,
    /// The state of series of delta temporality.
    pub deltas: MemoryBudget,
    /// The list of slow queries.
    pub slow_queries: MemoryBudget,
    /// Bytes of the cache of series of pushes.
    pub series: u64,
    /// Bytes of connections and the heads of requests: half for each.
    pub connections: u64,
}

impl Shares {
    /// Divides the limit minus the fixed 40 MiB by the table above; nine percent of it or more remain for
    /// what no budget counts. The error names the minimum limit.
    pub fn of(limit: u64) -> Result<Self, String> {
        if limit < LIMIT_MIN {
            return Err(format!(
                "memory_limit is {}, which is too small: set --memory-limit to {} or more",
                ByteSize(limit),
                ByteSize(LIMIT_MIN)
            ));
        }
        let percent = |percent: u64| (limit - FIXED) / 100 * percent;
        let pool = MemoryPool::new("memory of all parts", percent(POOL));
        let share = |part: &Part| pool.share(part.name, percent(part.guarantee), percent(part.most));
        let lender = |part: &Part| pool.lenders_share(part.name, percent(part.guarantee), percent(part.most));
        Ok(Self {
            limit,
            write: share(&WRITE),
            compaction: share(&COMPACTION),
            query: share(&QUERY),
            cache: lender(&CACHE),
            cache_nominal: percent(CACHE_NOMINAL),
            results: lender(&RESULTS),
            requests: share(&REQUESTS),
            filters: MemoryBudget::root("filters of delete requests", percent(FILTERS)),
            deltas: MemoryBudget::root("series of delta temporality", percent(DELTAS)),
            slow_queries: MemoryBudget::root("slow queries", percent(SLOW_QUERIES).min(SLOW_QUERIES_MAX)),
            series: percent(SERIES),
            connections: percent(CONNECTIONS),
            pool,
        })
    }

    /// The step cache, which gives memory back to the pool.
    pub fn results_cache(&self) -> ResultsCache {
        let cache = ResultsCache::new(self.results.clone());
        self.pool.lend_to(Arc::new(cache.clone()));
        cache
    }

    /// The memory of pieces of blocks that are being sent to other processes: a part of that of queries.
    pub fn pieces_for_peers(&self) -> MemoryBudget {
        self.query.child("pieces for other processes", self.query.limit() / PIECES_FOR_PEERS_PART)
    }

    /// The memory that request bodies share.
    pub fn request_memory(&self, env: &Env) -> FairBudget {
        FairBudget::new(env.clone(), self.requests.clone(), BODY_PATIENCE)
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
            let own = shares.series + shares.connections + shares.deltas.limit() + shares.filters.limit();
            let own = own + shares.slow_queries.limit();
            let sum = shares.pool.all().limit() + own + FIXED;
            assert!(sum <= limit / 10 * 9 + FIXED && sum >= limit / 100 * 89, "{limit}");
            let lent = shares.pool.all().available();
            let rest = limit - FIXED;
            assert!((rest / 100 * 22..=rest / 100 * 23).contains(&lent), "{limit}: {lent}");
            for (share, percent) in [(&shares.write, 45), (&shares.query, 33), (&shares.compaction, 20)] {
                assert_eq!(share.available(), share.limit().min(share.kept() + lent), "{limit}");
                assert_eq!(share.limit(), rest / 100 * percent, "{limit}");
            }
            assert!(shares.flush_parallelism() >= 1);
        }
    }

    /// Goal: queries that hold all that is lent leave writes what they always have, and a cache gives back
    /// what it borrowed.
    #[test]
    fn what_is_lent_does_not_take_the_guarantee_of_writes() {
        let shares = Shares::of(512 * MIB).unwrap();
        let steps = shares.results_cache();
        let cached = steps.budget().reserve(steps.budget().available()).unwrap();
        assert_eq!(shares.pool.recall(u64::MAX), 0, "memory that is in use is not given back");
        drop(cached);
        let all = shares.query.reserve(shares.query.available()).unwrap();
        assert_eq!(all.bytes(), shares.query.limit());
        let rows = shares.write.reserve(shares.write.kept()).unwrap();
        assert!(shares.write.reserve(MIB).is_err());
        drop((all, rows));
    }

    #[test]
    fn a_limit_that_is_too_small_is_refused_with_the_minimum() {
        let refused = Shares::of(LIMIT_MIN - 1).err().unwrap();
        assert!(refused.contains("--memory-limit to 128MiB"), "{refused}");
    }
}
