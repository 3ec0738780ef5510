//! The totals of all series of delta temporality, by tenant.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::HashMap;
use sandur_memory::{MemoryBudget, OverBudget};
use sandur_model::{MetricLimits, TenantId};
use sandur_runtime::{KeyedTurns, Place};
use xxhash_rust::xxh3::xxh3_64;

use super::added::Added;
use super::table::Tenant;
use crate::samples::DecodedSamples;

/// The totals of all series of delta temporality, in memory.
pub struct DeltaStreams {
    turns: KeyedTurns,
    budget: MemoryBudget,
    tenants: Mutex<HashMap<TenantId, Arc<Tenant>>>,
}

impl DeltaStreams {
    /// Returns an empty set whose memory comes from `budget`.
    pub fn new(budget: MemoryBudget) -> Self {
        Self { turns: KeyedTurns::default(), budget, tenants: Mutex::default() }
    }

    /// Whether a batch has points of delta temporality.
    pub fn concern(decoded: &DecodedSamples) -> bool {
        !decoded.deltas.is_empty()
    }

    /// Queues a batch after those with points of the same series.
    pub fn queue(&self, decoded: &DecodedSamples) -> Place {
        let batch = &decoded.batch;
        // If two series have one key, their batches only wait for each other.
        let tenant = xxh3_64(batch.tenant.as_str().as_bytes());
        let ids = decoded.deltas.iter().filter_map(|delta| batch.series.get(delta.series as usize));
        self.turns.queue(ids.map(|series| series.id.0 as u64 ^ tenant))
    }

    /// Replaces differences with totals in a batch whose turn has come. Leaves out points that cannot be
    /// added. `now` is the monotonic time.
    pub fn add_up(
        &self,
        place: Place,
        limits: &MetricLimits,
        now: Duration,
        decoded: &mut DecodedSamples,
    ) -> Result<Added, OverBudget> {
        let tenant = self.tenant(&decoded.batch.tenant)?;
        let mut added = Added::new(tenant, self.budget.reserve(0)?, now, place);
        added.add_up(limits, decoded);
        Ok(added)
    }

    /// Forgets series without a point for [`super::DELTA_STALE_AFTER`].
    pub fn forget_stale(&self, now: Duration) {
        let mut tenants = self.tenants();
        tenants.retain(|_, tenant| {
            let mut table = tenant.table();
            table.forget_stale(now);
            !table.is_empty() || Arc::strong_count(tenant) > 1
        });
    }

    /// Returns the number of series that are kept.
    pub fn series(&self) -> u64 {
        self.tenants().values().map(|tenant| tenant.table().series()).sum()
    }

    /// The budget that the totals are reserved from.
    pub fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    fn tenant(&self, id: &TenantId) -> Result<Arc<Tenant>, OverBudget> {
        let mut tenants = self.tenants();
        if let Some(tenant) = tenants.get(id) {
            return Ok(Arc::clone(tenant));
        }
        let tenant = Arc::new(Tenant::new(&self.budget)?);
        tenants.insert(id.clone(), Arc::clone(&tenant));
        Ok(tenant)
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<TenantId, Arc<Tenant>>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
