//! Bounds the memory of the queries of one tenant.
//!
//! They may hold at most three quarters of the memory of all queries together, so that a query of another
//! tenant finds memory at any time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sandur_memory::MemoryBudget;
use sandur_model::TenantId;

/// Number of budgets of tenants from which unused ones are removed.
const REMEMBERED: usize = 64;

/// The memory that all queries share. Cheap to clone.
#[derive(Clone)]
pub struct QueryMemory {
    all: MemoryBudget,
    tenants: Arc<Mutex<HashMap<TenantId, MemoryBudget>>>,
}

impl QueryMemory {
    /// Memory of all queries, bounded by this budget.
    pub fn new(all: MemoryBudget) -> Self {
        Self { all, tenants: Arc::default() }
    }

    /// The budget of all queries.
    pub fn all(&self) -> &MemoryBudget {
        &self.all
    }

    /// The budget of all queries of a tenant.
    pub fn of(&self, tenant: &TenantId) -> MemoryBudget {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(budget) = tenants.get(tenant) {
            return budget.clone();
        }
        if tenants.len() >= REMEMBERED {
            tenants.retain(|_, budget| budget.used() > 0);
        }
        let budget = self.all.child("queries of the tenant", self.all.limit() / 4 * 3);
        tenants.insert(tenant.clone(), budget.clone());
        budget
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_with_many_queries_leaves_room_for_others() {
        let memory = QueryMemory::new(MemoryBudget::root("all queries", 1_000));
        let tenant = |name: &str| TenantId::new(name).unwrap();
        let query = |name: &str| memory.of(&tenant(name)).child("query", 500);
        let held: Vec<_> = (0..3).map_while(|_| query("greedy").reserve(300).ok()).collect();
        assert_eq!(held.len(), 2, "600 of 750 bytes");
        let refused = query("greedy").reserve(300).unwrap_err();
        assert_eq!(&*refused.budget, "queries of the tenant");
        assert!(query("modest").reserve(250).is_ok());
        for other in 0..200 {
            drop(query(&format!("tenant-{other}")));
        }
        assert!(memory.tenants.lock().unwrap().len() <= REMEMBERED + 1);
        assert!(query("greedy").reserve(300).is_err(), "budgets with usage are not forgotten");
    }
}
