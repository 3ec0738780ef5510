//! The service of writes: decodes lines and samples of a tenant, applies its limits and rates, and stores
//! them.
//!
//! **Life of a push.** [`Writes::admits`] reports whether pushes are accepted at all. The protocol
//! passes the received body with its memory. A decoder of `sandur_ingest` runs on it in memory that is
//! reserved before it is used ([`decode_in_memory`]). Rows that break a limit of the tenant are left
//! out, and the others are charged to its rates and pushed. The call returns when they are durable and
//! can be queried.
//!
//! **Invariants.** A push is acknowledged only after the intake reported that it is durable. Rows that were
//! left out are named in the outcome, counted by reason, and logged at most once a minute.

mod decoding;
mod delta;
mod lines;
mod parts;
mod sample_push;
mod samples;
mod sharing;

use std::sync::Arc;

use sandur_ingest::{DeltaStreams, RateLimiter, SeriesCache};
use sandur_model::{Limits, TenantId};
use sandur_runtime::{Env, FairBudget};

use crate::failure::Failure;
use crate::ingest_totals::IngestTotals;
use crate::intake::Intake;
use crate::metrics::WriteMetrics;
use crate::pressure::Pressure;
use crate::queries::LimitsOf;
use crate::refusal_log::RefusalLog;

pub use decoding::{BodyHeaders, Decoded, NotDecoded, Received, decode_in_memory};
pub use lines::LineDecoder;
pub use sample_push::{SampleDecoder, Stored};
pub use sharing::{BODY_PATIENCE, RATE_WINDOW, lasting_parties, parties};

/// The parts of [`Writes`].
pub struct WriteParts {
    /// Clock, tasks and the CPU pool.
    pub env: Env,
    /// Where accepted batches go.
    pub intake: Arc<dyn Intake>,
    /// Limits of tenants.
    pub limits_of: LimitsOf,
    /// The cache of the series of earlier pushes.
    pub series: Arc<SeriesCache>,
    /// Cumulative sums of series of delta temporality.
    pub deltas: Arc<DeltaStreams>,
    /// Memory of bodies that are received and decoded.
    pub memory: FairBudget,
    /// Whether resident memory is close to its limit.
    pub pressure: Pressure,
    /// Counters.
    pub metrics: WriteMetrics,
}

/// The service of writes. Cheap to clone: a handle.
#[derive(Clone)]
pub struct Writes(Arc<Inner>);

struct Inner {
    parts: WriteParts,
    rates: RateLimiter,
    totals: Arc<IngestTotals>,
    refusals: RefusalLog,
}

impl Writes {
    /// Creates the service from its parts.
    pub fn new(parts: WriteParts) -> Self {
        let totals = Arc::new(IngestTotals::new(parts.env.clone()));
        let refusals = RefusalLog::new(parts.env.clone(), Arc::clone(&totals));
        Self(Arc::new(Inner { parts, rates: RateLimiter::default(), totals, refusals }))
    }

    /// Clock, tasks and the CPU pool.
    pub fn env(&self) -> &Env {
        &self.0.parts.env
    }

    /// Where accepted batches go.
    pub fn intake(&self) -> &Arc<dyn Intake> {
        &self.0.parts.intake
    }

    /// The limits of a tenant.
    pub fn limits(&self, tenant: &TenantId) -> Arc<Limits> {
        (self.0.parts.limits_of)(tenant)
    }

    /// The cache of the series of earlier pushes.
    pub fn series(&self) -> &Arc<SeriesCache> {
        &self.0.parts.series
    }

    /// Cumulative sums of series of delta temporality.
    pub fn deltas(&self) -> &Arc<DeltaStreams> {
        &self.0.parts.deltas
    }

    /// Memory of bodies that are received and decoded.
    pub fn memory(&self) -> &FairBudget {
        &self.0.parts.memory
    }

    /// Counters.
    pub fn metrics(&self) -> &WriteMetrics {
        &self.0.parts.metrics
    }

    /// Rate limits of tenants.
    pub fn rates(&self) -> &RateLimiter {
        &self.0.rates
    }

    /// What each tenant has written since the process started.
    pub fn totals(&self) -> &IngestTotals {
        &self.0.totals
    }

    /// The log of refusals.
    pub fn refusals(&self) -> &RefusalLog {
        &self.0.refusals
    }

    /// Fails when a push would be refused at once. Called before a body is read.
    pub fn admits(&self) -> Result<(), Failure> {
        self.intake().admits_pushes()?;
        self.has_memory()
    }

    /// Fails when resident memory is too close to its limit to accept more.
    pub fn has_memory(&self) -> Result<(), Failure> {
        if !self.pressure().is_high() {
            return Ok(());
        }
        self.metrics().pressure_refusals.inc();
        Err(Pressure::refusal())
    }

    /// Whether resident memory is too close to its limit to accept more.
    pub fn pressure(&self) -> &Pressure {
        &self.0.parts.pressure
    }

    /// Updates gauges before they are rendered.
    pub fn observe(&self) {
        self.intake().observe();
        self.metrics().delta_series.set(self.deltas().series() as i64);
    }
}
