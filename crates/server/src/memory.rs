//! Memory of the process: shares of the one limit, and the governor that keeps resident memory below it.
//!
//! Budgets bound what the program asks for; the allocator and the kernel decide what is resident.
//! The governor watches the difference: near the limit it makes the allocator give free pages back, then lets
//! kept results go, and if that does not help, pushes are refused with 429 until memory falls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sandur_base::units::ByteSize;
use sandur_base::{Env, FairMemory, MemoryBudget, machine};
use sandur_query::ResultsCache;
use tikv_jemalloc_ctl::{Access, AsName, arenas};

use crate::config::Http;
use crate::http::{BODY_PATIENCE, CONNECTION_BYTES, Connections, ServerMetrics};

/// What each part of the process may reserve. The rest is for code, stacks, buffers of the
/// network and what the allocator holds back.
pub struct Shares {
    /// Rows in memory that are not in blocks yet, and flushing them.
    pub write: u64,
    /// Merging blocks.
    pub compaction: u64,
    /// Queries.
    pub query: u64,
    /// Blocks' footers and pages.
    pub cache: u64,
    /// Results of metric queries.
    pub results: u64,
    /// Request bodies while they are received and decoded.
    pub requests: u64,
    /// Connections and the heads of requests: half for either.
    pub connections: u64,
}

impl Shares {
    /// Splits the limit: 28 % write, 10 % compaction, 22 % queries, 14 % cache, 2 % results, 8 % requests;
    /// 4 % connections, 12 % are the rest.
    pub fn of(limit: u64) -> Self {
        let part = |percent: u64| limit / 100 * percent;
        let (write, compaction, query) = (part(28), part(10), part(22));
        let (cache, results, requests, connections) = (part(14), part(2), part(8), part(4));
        Self { write, compaction, query, cache, results, requests, connections }
    }

    /// The budget of queries.
    pub fn query_budget(&self) -> MemoryBudget {
        MemoryBudget::root("all queries", self.query)
    }

    /// The cache of results.
    pub fn results_cache(&self) -> ResultsCache {
        ResultsCache::new(MemoryBudget::root("results", self.results))
    }

    /// The memory that request bodies share.
    pub fn request_memory(&self, env: &Env) -> FairMemory {
        FairMemory::new(env.clone(), MemoryBudget::root("request bodies", self.requests), BODY_PATIENCE)
    }

    /// Who may be connected: no more than memory is there for.
    pub fn connections(&self, env: &Env, http: &Http, metrics: ServerMetrics) -> Connections {
        let most = http.max_connections.min(self.connections / 2 / CONNECTION_BYTES);
        let heads = MemoryBudget::root("heads of requests", self.connections / 2);
        Connections::new(env.clone(), (most, http.max_connections_per_address), heads, metrics)
    }
}

/// Whether resident memory is too close to its limit to take more data. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Pressure(Arc<AtomicBool>);

impl Pressure {
    /// Whether pushes shall be refused now.
    pub fn is_high(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How often the governor looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Watches resident memory for ever.
pub async fn govern(env: Env, limit: u64, pressure: Pressure, metrics: ServerMetrics, results: ResultsCache) {
    let mut judge = Judge::new(limit);
    loop {
        env.sleep(LOOK_EVERY).await;
        let Some(mut resident) = machine::resident_bytes() else { return };
        if judge.wants_purge(resident) {
            env.run_blocking(purge).await;
            resident = machine::resident_bytes().unwrap_or(resident);
            if judge.wants_purge(resident) {
                results.clear();
            }
        }
        metrics.resident_bytes.set(resident as i64);
        if let Some(high) = judge.decide(resident) {
            pressure.0.store(high, Ordering::Relaxed);
            let (resident, limit) = (ByteSize(resident).to_string(), ByteSize(limit).to_string());
            if high {
                tracing::warn!(resident, limit, "memory is short: refusing pushes until it falls");
            } else {
                tracing::info!(resident, limit, "memory is fine again: accepting pushes");
            }
        }
    }
}

/// The governor's decisions, apart from the clock and the kernel.
struct Judge {
    limit: u64,
    high: bool,
}

impl Judge {
    fn new(limit: u64) -> Self {
        Self { limit, high: false }
    }

    fn percent(&self, resident: u64) -> u64 {
        resident.saturating_mul(100) / self.limit.max(1)
    }

    fn wants_purge(&self, resident: u64) -> bool {
        self.percent(resident) >= 85
    }

    /// The new state, when it changes. The gap keeps it from flapping.
    fn decide(&mut self, resident: u64) -> Option<bool> {
        let high = self.percent(resident) >= if self.high { 88 } else { 96 };
        (high != self.high).then(|| {
            self.high = high;
            high
        })
    }
}

/// Milliseconds until the allocator gives a free page back by itself.
const DECAY_MS: isize = 1_000;

/// Makes the allocator give all free pages back: a decay time of zero purges at once.
fn purge() {
    let count = arenas::narenas::read().unwrap_or(0);
    for arena in 0..count {
        let key = format!("arena.{arena}.dirty_decay_ms\0");
        // An arena that was never used has no settings; nothing is to be purged there.
        for decay in [0, DECAY_MS] {
            let _ = key.as_str().name().write(decay);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_leave_room_and_pressure_does_not_flap() {
        let shares = Shares::of(1 << 30);
        let kept = shares.cache + shares.results;
        let asked = shares.requests + shares.connections;
        let sum = shares.write + shares.compaction + shares.query + kept + asked;
        assert!(sum <= (1 << 30) / 100 * 88);
        let mut judge = Judge::new(1_000);
        let decided: Vec<Option<bool>> = [950, 960, 950, 880, 879, 950].map(|r| judge.decide(r)).into();
        assert_eq!(decided, [None, Some(true), None, None, Some(false), None]);
        assert!(judge.wants_purge(850) && !judge.wants_purge(849));
    }
}
