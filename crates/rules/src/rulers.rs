//! Evaluates stored rules: one [`Ruler`] for each tenant that has some.
//!
//! **Invariants.** Rules of a tenant are evaluated over its data only. A tenant without rules has no ruler,
//! once the series of its last rules have got stale markers. Rules of a tenant that had none begin with their
//! next evaluation: what another process would have done before is not made up.

use std::collections::BTreeMap;
use std::time::Duration;

use sandur_model::TenantId;
use sandur_runtime::{Env, ShutdownSignal, Task};

use crate::ruler::Ruler;
use crate::stored::StoredRules;

/// How soon a ruler that ended is started again if its tenant has got rules in that moment.
const REFRESH: Duration = Duration::from_secs(10);

/// Makes the ruler of a tenant.
pub type MakeRuler = Box<dyn Fn(TenantId) -> Ruler + Send + Sync>;

/// The evaluation of all stored rules.
pub struct Rulers {
    /// Clock and tasks.
    pub env: Env,
    /// The rules.
    pub stored: StoredRules,
    /// Makes a ruler for the stored rules of a tenant.
    pub make: MakeRuler,
}

impl Rulers {
    /// Runs until the server stops.
    pub async fn run(self, stopping: ShutdownSignal) {
        let mut changes = self.stored.changes();
        let mut running: BTreeMap<TenantId, Task<()>> = BTreeMap::new();
        // Before all rules were read once, a tenant may have rules that another process evaluates.
        let mut is_new = false;
        loop {
            running.retain(|_, task| !task.is_finished());
            let is_complete = self.stored.is_complete();
            for tenant in self.stored.tenants() {
                let ruler = || Ruler { is_new, ..(self.make)(tenant.clone()) };
                let start = || self.env.spawn("rules of a tenant", ruler().run(stopping.clone()));
                running.entry(tenant.clone()).or_insert_with(start);
            }
            is_new = is_complete;
            tokio::select! {
                () = stopping.triggered() => return,
                _ = changes.changed() => {}
                () = self.env.sleep(REFRESH) => {}
            }
        }
    }
}
