//! Bounds the number of clients that follow new lines: each holds a connection and a queue without a time
//! limit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandur_base::ErrorKind;
use sandur_model::TenantId;

use crate::failure::Failure;

/// Followers per tenant. Cheap to clone: a handle.
#[derive(Clone, Default)]
pub struct Followers(Arc<Mutex<HashMap<TenantId, u64>>>);

/// The place of one follower; dropping it frees the place.
pub struct Following {
    followers: Followers,
    tenant: TenantId,
}

impl Followers {
    /// Adds a follower of the tenant. Fails if the tenant has `limit` followers already (0: no limit).
    pub fn enter(&self, tenant: &TenantId, limit: u64) -> Result<Following, Failure> {
        let mut counts = self.counts();
        let count = counts.entry(tenant.clone()).or_default();
        if limit > 0 && *count >= limit {
            let text = format!(
                "max concurrent tail requests limit exceeded, count > limit ({} > {limit})",
                *count + 1
            );
            return Err(Failure::new(ErrorKind::Limit, text));
        }
        *count += 1;
        Ok(Following { followers: self.clone(), tenant: tenant.clone() })
    }

    /// Returns the number of followers of all tenants.
    pub fn total(&self) -> u64 {
        self.counts().values().sum()
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<TenantId, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut counts = self.followers.counts();
        if let Some(count) = counts.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.tenant);
            }
        }
    }
}
