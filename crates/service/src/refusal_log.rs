//! Logs refused pushes: for each tenant and reason at most one line a minute, with the number of refusals
//! since the last line. Clients can increase neither the number of lines nor the memory beyond a bound.
//! Every refusal is also in the totals of its tenant.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use foldhash::HashMap;
use sandur_model::TenantId;
use sandur_runtime::Env;

use crate::ingest_totals::IngestTotals;

/// Minimum time between two lines of one tenant and reason.
const LINE_EVERY: Duration = Duration::from_secs(60);
/// Maximum number of pairs of tenant and reason that are remembered; further tenants share one entry per
/// reason.
const PAIRS_MAX: usize = 1_000;
/// Maximum bytes of an example: the message of a refusal may contain a stream's labels.
const EXAMPLE_MAX: usize = 300;
/// The name in the log for tenants beyond [`PAIRS_MAX`].
const OTHERS: &str = "(others)";

/// Counts of refusals, and when each pair was logged last.
pub struct RefusalLog {
    env: Env,
    totals: Arc<IngestTotals>,
    pairs: Mutex<HashMap<(String, &'static str), Pair>>,
}

#[derive(Clone, Copy, Default)]
struct Pair {
    /// Monotonic time of its last line.
    written: Option<Duration>,
    /// Pushes refused since then.
    pushes: u64,
    entries: u64,
}

/// A line to log.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Due {
    tenant: String,
    pushes: u64,
    entries: u64,
}

impl RefusalLog {
    /// An empty log that reads the clock of `env` and adds refusals to `totals`.
    pub fn new(env: Env, totals: Arc<IngestTotals>) -> Self {
        Self { env, totals, pairs: Mutex::default() }
    }

    /// Counts a refused push, or refused entries of one, and logs a line if one is due. `example` is the
    /// text that the client gets.
    pub fn note(&self, tenant: &TenantId, reason: &'static str, entries: u64, example: &str) {
        self.totals.refuse(tenant, reason, entries);
        let Some(due) = self.due(tenant.as_str(), reason, entries) else { return };
        let end = (0..=EXAMPLE_MAX.min(example.len())).rev().find(|&at| example.is_char_boundary(at));
        let example = example[..end.unwrap_or(0)].trim_end();
        let Due { tenant, pushes, entries } = due;
        tracing::warn!(tenant, reason, pushes, entries, example, "refused pushes since the last such line");
    }

    fn due(&self, tenant: &str, reason: &'static str, entries: u64) -> Option<Due> {
        let now = self.env.monotonic();
        let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = (tenant.to_owned(), reason);
        if !pairs.contains_key(&key) && pairs.len() >= PAIRS_MAX {
            // Pairs without pending counts make room.
            pairs.retain(|_, pair| pair.pushes > 0 || pair.written.is_some_and(|at| now - at < LINE_EVERY));
            if pairs.len() >= PAIRS_MAX {
                OTHERS.clone_into(&mut key.0);
            }
        }
        let pair = pairs.entry(key.clone()).or_default();
        pair.pushes += 1;
        pair.entries += entries;
        if pair.written.is_some_and(|at| now - at < LINE_EVERY) {
            return None;
        }
        let due = Due { tenant: key.0, pushes: pair.pushes, entries: pair.entries };
        *pair = Pair { written: Some(now), ..Pair::default() };
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paused<T>(future: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap().block_on(future)
    }

    #[test]
    fn a_flood_of_refusals_is_one_line_a_minute_with_their_number() {
        paused(async {
            let env = Env::simulated(1, 0);
            let log = RefusalLog::new(env.clone(), Arc::new(IngestTotals::new(env.clone())));
            let first = log.due("a", "line_too_long", 3);
            assert_eq!(first, Some(Due { tenant: "a".to_owned(), pushes: 1, entries: 3 }));
            for _ in 0..100 {
                assert_eq!(log.due("a", "line_too_long", 2), None);
            }
            assert!(log.due("a", "rate_limited", 1).is_some() && log.due("b", "line_too_long", 1).is_some());
            env.sleep(LINE_EVERY).await;
            let later = log.due("a", "line_too_long", 1).unwrap();
            assert_eq!((later.pushes, later.entries), (101, 201));
        });
    }

    #[test]
    fn invented_tenants_do_not_grow_the_log() {
        paused(async {
            let env = Env::simulated(1, 0);
            let log = RefusalLog::new(env.clone(), Arc::new(IngestTotals::new(env.clone())));
            let written = (0..5_000).filter(|n| log.due(&n.to_string(), "no_tenant", 1).is_some()).count();
            assert_eq!(written, PAIRS_MAX + 1, "one line for all tenants beyond the bound");
            assert!(log.pairs.lock().unwrap().len() <= PAIRS_MAX + 1);
            env.sleep(LINE_EVERY).await;
            assert_eq!(log.due("new", "no_tenant", 1).map(|due| due.tenant), Some("new".to_owned()));
        });
    }
}
