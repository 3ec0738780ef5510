//! Which retention holds for which dataset now.
//!
//! A retention that is new or has changed removes nothing before it stood for a while: a file of limits that
//! is just being written, or a slip that is noticed, costs no history. Everything removed is gone for good.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sandur_base::Env;
use sandur_catalog::Snapshot;
use sandur_model::Dataset;

use super::Expiry;
use super::clock::RetentionClock;
use crate::options::MaintenanceOptions;

/// Looks at the retention of all datasets, round after round.
#[derive(Debug)]
pub(crate) struct DueRetention {
    clock: RetentionClock,
    /// Since when each dataset has the retention that it has.
    since: HashMap<Dataset, (u64, Duration)>,
}

/// Retention by dataset.
pub(crate) type Expiries = HashMap<Dataset, Arc<Expiry>>;

impl DueRetention {
    pub(crate) fn new() -> Self {
        Self { clock: RetentionClock::new(), since: HashMap::new() }
    }

    /// What may be removed of each dataset now; those are left out whose retention has just changed.
    pub(crate) fn look(&mut self, env: &Env, snapshot: &Snapshot, options: &MaintenanceOptions) -> Expiries {
        let (now_ns, monotonic) = (self.clock.now_ns(env), env.monotonic());
        let mut since = HashMap::new();
        let mut due = Expiries::new();
        for dataset in snapshot.datasets() {
            let expiry = Expiry::new((options.retention_of)(dataset), now_ns);
            let before = self.since.get(dataset).filter(|(version, _)| *version == expiry.version);
            let stands_since = before.map_or(monotonic, |(_, at)| *at);
            since.insert(dataset.clone(), (expiry.version, stands_since));
            if monotonic.saturating_sub(stands_since) >= options.retention_change_delay {
                due.insert(dataset.clone(), Arc::new(expiry));
            }
        }
        self.since = since;
        due
    }
}
