//! The governor: the net beneath all budgets.
//!
//! Budgets bound what the program asks for; the allocator and the kernel decide what is resident. The
//! governor looks at that, the more often the nearer the limit is, and takes steps that cost more the nearer
//! it is: free pages are given back and the step cache is emptied; bodies wait and pushes are refused;
//! the query that holds most ends. Its looks also tell how late timers are: the threads that drive I/O are
//! behind when something computes on them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_base::units::{ByteSize, MIB};
use sandur_base::{Env, FairMemory, machine};
use sandur_query::{QueryContext, ResultsCache, WatchedQuery};
use tikv_jemalloc_ctl::{Access, AsName, arenas};

use crate::server_metrics::ServerMetrics;

/// Whether resident memory is too close to its limit to take more data. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Pressure(Arc<AtomicBool>);

impl Pressure {
    /// Whether pushes shall be refused now.
    pub fn is_high(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Says whether it is too close.
    pub fn set(&self, high: bool) {
        self.0.store(high, Ordering::Relaxed);
    }
}

/// Queries that run, for the code that has to end one. Cheap to clone.
#[derive(Clone, Default)]
pub struct RunningQueries(Arc<Mutex<Vec<WatchedQuery>>>);

impl RunningQueries {
    fn lock(&self) -> MutexGuard<'_, Vec<WatchedQuery>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a query until it is over.
    pub fn add(&self, context: &QueryContext) {
        let mut all = self.lock();
        all.retain(|query| !query.is_over());
        all.push(context.watch());
    }

    /// Ends the query that holds most, if it holds enough to be worth that; gives what it holds.
    fn starve_largest(&self) -> Option<u64> {
        let all = self.lock();
        let held = all.iter().filter_map(|query| Some((query.used()?, query)));
        let (used, largest) = held.max_by_key(|(used, _)| *used).filter(|(used, _)| *used >= WORTH_ENDING)?;
        largest.starve();
        Some(used)
    }
}

/// A query that holds less is not what fills memory.
const WORTH_ENDING: u64 = MIB;

/// What the governor looks after.
pub struct Governed {
    /// Bytes that may be resident.
    pub limit: u64,
    /// Set while pushes shall be refused.
    pub pressure: Pressure,
    /// Counters.
    pub metrics: ServerMetrics,
    /// Results that can be had again.
    pub results: ResultsCache,
    /// Bodies on their way in.
    pub bodies: FairMemory,
    /// Queries that can be ended.
    pub queries: RunningQueries,
}

/// Watches resident memory for ever.
pub async fn govern(env: Env, governed: Governed) {
    let Governed { limit, pressure, metrics, results, bodies, queries } = governed;
    let mut judge = Judge::new(limit);
    let mut resident = 0;
    loop {
        let (asked, pause) = (env.monotonic(), judge.pause(resident));
        env.sleep(pause).await;
        let late = env.monotonic().saturating_sub(asked + pause);
        metrics.io_delay_seconds.observe(late.as_secs_f64());
        let Some(now_resident) = machine::resident_bytes() else { return };
        resident = now_resident;
        if judge.wants_purge(resident) {
            let decay = decay_ms(limit);
            env.run_blocking(move || purge(decay)).await;
            resident = machine::resident_bytes().unwrap_or(resident);
            if judge.wants_purge(resident) {
                results.clear();
            }
        }
        metrics.resident_bytes.set(resident as i64);
        if let Some(high) = judge.decide(resident) {
            pressure.set(high);
            bodies.set_paused(high);
            let (resident, limit) = (ByteSize(resident).to_string(), ByteSize(limit).to_string());
            if high {
                tracing::warn!(resident, limit, "memory is short: refusing pushes until it falls");
            } else {
                tracing::info!(resident, limit, "memory is fine again: accepting pushes");
            }
        }
        if judge.wants_end(resident)
            && let Some(held) = queries.starve_largest()
        {
            metrics.queries_starved.inc();
            let (resident, held) = (ByteSize(resident).to_string(), ByteSize(held).to_string());
            tracing::warn!(resident, held, "memory is short: ending the query that holds most");
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

    /// Time until the next look: at two gigabytes per second, what a look near the limit may miss is 40 MB.
    fn pause(&self, resident: u64) -> Duration {
        Duration::from_millis(match self.percent(resident) {
            0..60 => 250,
            60..75 => 100,
            _ => 20,
        })
    }

    fn wants_purge(&self, resident: u64) -> bool {
        self.percent(resident) >= 80
    }

    /// The new state, when it changes. The gap keeps it from flapping.
    fn decide(&mut self, resident: u64) -> Option<bool> {
        let high = self.percent(resident) >= if self.high { 85 } else { 92 };
        (high != self.high).then(|| {
            self.high = high;
            high
        })
    }

    fn wants_end(&self, resident: u64) -> bool {
        self.percent(resident) >= 96
    }
}

/// Up to this limit free pages are given back at once: what they would save is more than what is there. Every
/// page that is taken again is cleared by the kernel, which takes a fifth of the CPU time of ingest, so above
/// it they stay for a second, unless the limit is near.
const TIGHT: u64 = 192 * MIB;

/// Milliseconds until the allocator gives a free page back by itself.
fn decay_ms(limit: u64) -> isize {
    if limit <= TIGHT { 0 } else { 1_000 }
}

/// Makes the allocator hold back as little as the limit asks for.
pub fn tune_allocator(limit: u64) {
    let decay = decay_ms(limit);
    // For threads that come later; those that are there have arenas already.
    let _ = "arenas.dirty_decay_ms\0".name().write(decay);
    purge(decay);
}

/// Makes the allocator give all free pages back: a decay time of zero purges at once.
fn purge(decay_after: isize) {
    let count = arenas::narenas::read().unwrap_or(0);
    for arena in 0..count {
        let key = format!("arena.{arena}.dirty_decay_ms\0");
        // An arena that was never used has no settings; nothing is to be purged there.
        for decay in [0, decay_after] {
            let _ = key.as_str().name().write(decay);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;

    use sandur_base::MemoryBudget;
    use sandur_base::account::Counting;
    use sandur_model::TenantId;

    use super::*;

    #[global_allocator]
    static ALLOCATOR: Counting<System> = Counting(System);

    #[test]
    fn pressure_does_not_flap_and_looks_are_frequent_near_the_limit() {
        let mut judge = Judge::new(1_000);
        let decided: Vec<Option<bool>> = [910, 920, 910, 850, 849, 910].map(|r| judge.decide(r)).into();
        assert_eq!(decided, [None, Some(true), None, None, Some(false), None]);
        assert!(judge.wants_purge(800) && !judge.wants_purge(799));
        assert!(judge.wants_end(960) && !judge.wants_end(959));
        assert!(judge.pause(900) < judge.pause(700) && judge.pause(700) < judge.pause(100));
    }

    #[test]
    fn the_query_that_holds_most_is_ended_and_says_why() {
        let queries = RunningQueries::default();
        let context = || {
            let (env, tenant) = (Env::simulated(1, 0), TenantId::default_tenant());
            QueryContext::new(env, tenant, MemoryBudget::root("query", 1 << 30), Duration::from_secs(3_600))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (small, large) = (context(), context());
            queries.add(&small);
            queries.add(&large);
            assert_eq!(queries.starve_largest(), None, "nobody holds anything");
            let held: Vec<Vec<u8>> = [(&small, 2usize << 20), (&large, 4 << 20)]
                .map(|(context, bytes)| context.account().run(|| vec![0u8; bytes]))
                .into();
            assert_eq!(queries.starve_largest(), Some(4 << 20));
            assert!(small.check().is_ok());
            let refused = large.check().unwrap_err();
            assert!(refused.to_string().contains("short of memory"), "{refused}");
            assert_eq!(queries.starve_largest(), Some(2 << 20), "the next one, not the same again");
            drop((held, small, large));
            queries.add(&context());
            assert_eq!(queries.lock().len(), 1, "what is over is forgotten");
        });
    }
}
