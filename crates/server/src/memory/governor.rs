//! The governor: protects against what budgets do not count.
//!
//! Budgets bound what the program reserves; the allocator and the kernel decide what is resident. The
//! governor measures resident memory, more often the closer it is to the limit, and takes more expensive
//! steps the closer it is: it returns free pages to the kernel and lets caches shrink; it blocks
//! request bodies and refuses pushes; it cancels the query that holds the most memory. Its timer also
//! measures how late timers fire, which shows when computation blocks the I/O threads.

use std::time::Duration;

use sandur_base::units::{ByteSize, MIB};
use sandur_memory::MemoryPool;
use sandur_runtime::{Env, FairBudget, machine};
use sandur_service::{Pressure, Queries};
use tikv_jemalloc_ctl::{Access, AsName, arenas};

use sandur_http::ServerMetrics;

/// What the governor acts on. Cheap to clone: handles.
#[derive(Clone)]
pub struct Governed {
    /// Maximum resident bytes.
    pub limit: u64,
    /// Set while pushes are refused.
    pub pressure: Pressure,
    /// Counters.
    pub metrics: ServerMetrics,
    /// The memory of which caches give back what they borrowed.
    pub pool: MemoryPool,
    /// Memory of request bodies.
    pub bodies: FairBudget,
    /// Queries that can be ended, and steps that can be evaluated again.
    pub queries: Queries,
}

/// Watches resident memory; never returns.
pub async fn govern(env: Env, governed: Governed) {
    let Governed { limit, pressure, metrics, pool, bodies, queries } = governed;
    let mut judge = Decisions::new(limit);
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
                let (pool, surplus) = (pool.clone(), judge.surplus(resident));
                let recalled = env.run_blocking(move || pool.recall(surplus)).await;
                if recalled == 0 {
                    queries.steps().clear();
                }
            }
        }
        metrics.resident_bytes.set(resident as i64);
        if let Some(high) = judge.decide(resident) {
            pressure.set(high);
            bodies.set_paused(high);
            let (resident, limit) = (ByteSize(resident).to_string(), ByteSize(limit).to_string());
            if high {
                tracing::warn!(resident, limit, "memory is short: refusing pushes until usage falls");
            } else {
                tracing::info!(resident, limit, "memory usage is normal again: accepting pushes");
            }
        }
        if judge.wants_end(resident)
            && let Some(held) = queries.running().end_largest()
        {
            queries.metrics().starved.inc();
            let (resident, held) = (ByteSize(resident).to_string(), ByteSize(held).to_string());
            tracing::warn!(resident, held, "memory is short: aborting the query that uses the most");
        }
    }
}

/// The governor's decisions, without clock and kernel.
struct Decisions {
    limit: u64,
    high: bool,
}

impl Decisions {
    fn new(limit: u64) -> Self {
        Self { limit, high: false }
    }

    fn percent(&self, resident: u64) -> u64 {
        resident.saturating_mul(100) / self.limit.max(1)
    }

    /// Time until the next measurement. Near the limit it is 20 ms, in which 40 MB can be allocated at 2
    /// GB/s.
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

    /// Bytes above the usage at which nothing has to be done.
    fn surplus(&self, resident: u64) -> u64 {
        resident.saturating_sub(self.limit / 4 * 3)
    }

    /// The new state if it changes. The hysteresis prevents flapping.
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

/// Up to this limit, free pages are returned immediately, since memory is scarcer than CPU. The kernel
/// clears every page that is used again, which costs a fifth of the CPU time of ingest, so with larger
/// limits free pages stay for a second, unless the limit is near.
const TIGHT: u64 = 192 * MIB;

/// Milliseconds until the allocator returns a free page.
fn decay_ms(limit: u64) -> isize {
    if limit <= TIGHT { 0 } else { 1_000 }
}

/// Sets how long the allocator keeps free pages, by the limit.
pub fn tune_allocator(limit: u64) {
    let decay = decay_ms(limit);
    // For arenas that are created later; those that exist are set below.
    let _ = "arenas.dirty_decay_ms\0".name().write(decay);
    purge(decay);
}

/// Makes the allocator return all free pages: a decay time of zero purges immediately.
fn purge(decay_after: isize) {
    let count = arenas::narenas::read().unwrap_or(0);
    for arena in 0..count {
        let key = format!("arena.{arena}.dirty_decay_ms\0");
        // An arena that was never used has no settings and nothing to purge.
        for decay in [0, decay_after] {
            let _ = key.as_str().name().write(decay);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_does_not_flap_and_measurements_are_frequent_near_the_limit() {
        let mut judge = Decisions::new(1_000);
        let decided: Vec<Option<bool>> = [910, 920, 910, 850, 849, 910].map(|r| judge.decide(r)).into();
        assert_eq!(decided, [None, Some(true), None, None, Some(false), None]);
        assert!(judge.wants_purge(800) && !judge.wants_purge(799));
        assert!(judge.wants_end(960) && !judge.wants_end(959));
        assert!(judge.pause(900) < judge.pause(700) && judge.pause(700) < judge.pause(100));
    }
}
