//! What a process can be asked: a source for each signal.

use std::sync::Arc;

use crate::sample_source::SampleSource;
use crate::source::LogSource;
use crate::tenants::TenantsSource;

/// Sources of all signals.
#[derive(Clone)]
pub struct Sources {
    /// Log rows.
    pub logs: Arc<dyn LogSource>,
    /// Series of samples.
    pub samples: Arc<dyn SampleSource>,
}

impl Sources {
    /// The same, which also answer for several tenants at once.
    pub fn of_several_tenants(self) -> Self {
        let (logs, samples) = (TenantsSource::new(self.logs), TenantsSource::new(self.samples));
        Self { logs: Arc::new(logs), samples: Arc::new(samples) }
    }
}
