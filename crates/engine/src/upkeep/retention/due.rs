//! The retention that holds for each dataset now.
//!
//! A retention that is new or has changed removes nothing until it has been unchanged for a while. So a
//! limits file that is being written, or a mistake that is noticed in time, costs no data. Removal is
//! permanent.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sandur_catalog::Snapshot;
use sandur_model::Dataset;
use sandur_runtime::Env;

use super::clock::RetentionClock;
use crate::options::MaintenanceOptions;
use crate::policy::retention::Expiry;

/// Observes the retention of all datasets in every round.
#[derive(Debug)]
pub(crate) struct DueRetention {
    clock: RetentionClock,
    /// The version of each dataset's retention, and the monotonic time since which it holds.
    since: HashMap<Dataset, (u64, Duration)>,
}

/// Retention by dataset.
pub(crate) type Expiries = HashMap<Dataset, Arc<Expiry>>;

impl DueRetention {
    pub(crate) fn new() -> Self {
        Self { clock: RetentionClock::new(), since: HashMap::new() }
    }

    /// The retention by which rows may be removed now. Leaves out datasets whose retention has just changed.
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
