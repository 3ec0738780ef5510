//! The sources of all signals of a process.

use std::sync::Arc;

use crate::sample_source::SampleSource;
use crate::source::LogSource;
use crate::tenants::TenantsSource;

/// One source for each signal.
#[derive(Clone)]
pub struct Sources {
    /// The source of log rows.
    pub logs: Arc<dyn LogSource>,
    /// The source of series with samples.
    pub samples: Arc<dyn SampleSource>,
}

impl Sources {
    /// The same sources, which also support queries over several tenants.
    pub fn of_several_tenants(self) -> Self {
        let (logs, samples) = (TenantsSource::new(self.logs), TenantsSource::new(self.samples));
        Self { logs: Arc::new(logs), samples: Arc::new(samples) }
    }
}
