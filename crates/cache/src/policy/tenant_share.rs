//! How much of a tier each tenant holds, and how much it may.
//!
//! **Invariants.** Memory is fixed: [`SLOTS`] counters by tenant number. Tenants that share a counter
//! share what is counted, so with more tenants than slots a cap can take effect early, never late.
//! A cap holds only while the tier is full: space that nobody needs is refused to nobody.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters: 8 KiB.
const SLOTS: usize = 1_024;

/// Caps in parts of the capacity.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantCaps {
    /// For tenants that are not named; 1.0 for no cap.
    pub default: f64,
    /// For single tenants.
    pub named: Vec<(u32, f64)>,
}

impl Default for TenantCaps {
    fn default() -> Self {
        Self { default: 1.0, named: Vec::new() }
    }
}

/// Bytes held by tenant, and their caps.
#[derive(Debug)]
pub(crate) struct TenantShares {
    held: Vec<AtomicU64>,
    default: f64,
    /// Sorted by tenant.
    named: Vec<(u32, f64)>,
}

impl TenantShares {
    pub(crate) fn new(mut caps: TenantCaps) -> Self {
        caps.named.sort_by_key(|(tenant, _)| *tenant);
        let held = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Self { held, default: caps.default, named: caps.named }
    }

    /// Whether `bytes` more would put the tenant above its part of `capacity`.
    pub(crate) fn exceeds(&self, tenant: u32, bytes: u64, capacity: u64) -> bool {
        let cap = match self.named.binary_search_by_key(&tenant, |(tenant, _)| *tenant) {
            Ok(at) => self.named[at].1,
            Err(_) => self.default,
        };
        cap < 1.0 && (self.held(tenant) + bytes) as f64 > cap * capacity as f64
    }

    /// Bytes that the tenant holds.
    pub(crate) fn held(&self, tenant: u32) -> u64 {
        self.slot(tenant).load(Relaxed)
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.held.capacity() * size_of::<AtomicU64>() + self.named.capacity() * size_of::<(u32, f64)>()
    }

    pub(crate) fn add(&self, tenant: u32, bytes: u64) {
        self.slot(tenant).fetch_add(bytes, Relaxed);
    }

    pub(crate) fn subtract(&self, tenant: u32, bytes: u64) {
        // Never below zero: after a restart, what was recovered may be counted late.
        let _ = self.slot(tenant).fetch_update(Relaxed, Relaxed, |held| Some(held.saturating_sub(bytes)));
    }

    fn slot(&self, tenant: u32) -> &AtomicU64 {
        &self.held[tenant as usize % SLOTS]
    }
}
