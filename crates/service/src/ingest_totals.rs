//! What each tenant has written since the process started: accepted rows, and refused pushes by reason.
//!
//! **Invariants.** At most [`TENANTS_MAX`] tenants are counted by name; all further ones are counted
//! together, so that clients that invent tenants cannot grow the table. Reasons are those of the program,
//! which are few.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use foldhash::HashMap;
use sandur_model::TenantId;
use sandur_runtime::Env;

/// The most tenants that are counted by name.
pub const TENANTS_MAX: usize = 1_000;
/// The name of all further tenants.
pub const OTHERS: &str = "(others)";

/// Refusals of one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Pushes that were refused as a whole or in part.
    pub pushes: u64,
    /// Lines or samples that were refused; 0 for pushes that were not decoded.
    pub entries: u64,
}

/// The totals of one tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Accepted lines.
    pub lines: u64,
    /// Bytes of accepted lines.
    pub line_bytes: u64,
    /// Accepted float samples.
    pub samples: u64,
    /// Accepted native histograms.
    pub histograms: u64,
    /// Accepted exemplars.
    pub exemplars: u64,
    /// When rows were accepted last, in nanoseconds since the epoch; 0: never.
    pub accepted_ns: i64,
    /// Refusals by reason.
    pub refused: BTreeMap<&'static str, Refusals>,
}

/// The totals of all tenants.
pub struct IngestTotals {
    env: Env,
    since_ns: i64,
    tenants: Mutex<HashMap<String, Totals>>,
}

impl IngestTotals {
    /// An empty table that reads the clock of `env`.
    pub fn new(env: Env) -> Self {
        Self { since_ns: env.now_ns(), env, tenants: Mutex::default() }
    }

    /// When counting began, in nanoseconds since the epoch.
    pub fn since_ns(&self) -> i64 {
        self.since_ns
    }

    /// Counts accepted lines.
    pub fn accept_lines(&self, tenant: &TenantId, lines: u64, bytes: u64) {
        let now = self.env.now_ns();
        self.change(tenant, |totals| {
            totals.lines += lines;
            totals.line_bytes += bytes;
            totals.accepted_ns = now;
        });
    }

    /// Counts accepted samples: floats, histograms and exemplars.
    pub fn accept_samples(&self, tenant: &TenantId, [samples, histograms, exemplars]: [u64; 3]) {
        let now = self.env.now_ns();
        self.change(tenant, |totals| {
            totals.samples += samples;
            totals.histograms += histograms;
            totals.exemplars += exemplars;
            totals.accepted_ns = now;
        });
    }

    /// Counts a push that was refused, or `entries` of it.
    pub fn refuse(&self, tenant: &TenantId, reason: &'static str, entries: u64) {
        self.change(tenant, |totals| {
            let refusals = totals.refused.entry(reason).or_default();
            refusals.pushes += 1;
            refusals.entries += entries;
        });
    }

    fn change(&self, tenant: &TenantId, change: impl FnOnce(&mut Totals)) {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(totals) = tenants.get_mut(tenant.as_str()) {
            return change(totals);
        }
        let name = if tenants.len() < TENANTS_MAX { tenant.as_str() } else { OTHERS };
        change(tenants.entry(name.to_owned()).or_default());
    }

    /// The totals of a tenant; zeros if it has written nothing.
    pub fn of(&self, tenant: &TenantId) -> Totals {
        let tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        tenants.get(tenant.as_str()).cloned().unwrap_or_default()
    }

    /// The totals of all tenants, by name.
    pub fn all(&self) -> Vec<(String, Totals)> {
        let tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = tenants.iter().map(|(name, totals)| (name.clone(), totals.clone())).collect();
        drop(tenants);
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).unwrap()
    }

    fn totals() -> IngestTotals {
        IngestTotals::new(Env::simulated(1, 0))
    }

    #[test]
    fn rows_and_refusals_are_counted_by_tenant() {
        let all = totals();
        all.accept_lines(&tenant("a"), 3, 30);
        all.accept_lines(&tenant("a"), 2, 20);
        all.accept_samples(&tenant("b"), [5, 1, 2]);
        all.refuse(&tenant("a"), "line_too_long", 4);
        all.refuse(&tenant("a"), "line_too_long", 1);
        all.refuse(&tenant("a"), "rate_limited", 0);
        let a = all.of(&tenant("a"));
        assert_eq!((a.lines, a.line_bytes, a.samples), (5, 50, 0));
        assert_eq!(a.refused["line_too_long"], Refusals { pushes: 2, entries: 5 });
        assert_eq!(a.refused["rate_limited"], Refusals { pushes: 1, entries: 0 });
        let b = all.of(&tenant("b"));
        assert_eq!((b.samples, b.histograms, b.exemplars, b.refused.len()), (5, 1, 2, 0));
        assert_eq!(all.of(&tenant("c")), Totals::default());
        assert_eq!(all.all().into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn invented_tenants_do_not_grow_the_table() {
        let all = totals();
        for n in 0..5_000 {
            all.refuse(&tenant(&format!("t{n}")), "rate_limited", 1);
        }
        let found = all.all();
        assert_eq!(found.len(), TENANTS_MAX + 1);
        let others = &found.iter().find(|(name, _)| name == OTHERS).unwrap().1;
        assert_eq!(others.refused["rate_limited"].pushes, 4_000);
        all.accept_lines(&tenant("t0"), 1, 1);
        assert_eq!(all.of(&tenant("t0")).lines, 1, "tenants that are known stay");
    }
}
