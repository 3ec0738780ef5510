//! The bytes of a tier that each tenant holds, and its cap.
//!
//! **Invariants.** Memory is fixed: there are [`SLOTS`] counters, and a tenant keeps the counter that it
//! gets with its first value. Tenants with caps of their own have counters from the start. When all are
//! taken, further tenants share a counter with another one, so that a cap can take effect too early, but
//! never too late. A cap is in force only while the tier is full: free space is refused to no tenant.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of counters: 16 KiB.
const SLOTS: usize = 1_024;
/// The tenant of a free counter.
const NO_TENANT: u64 = u64::MAX;

/// Caps as shares of the capacity.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantCaps {
    /// For tenants without a cap of their own; 1.0 for no cap.
    pub default: f64,
    /// Tenants with their own caps.
    pub named: Vec<(u32, f64)>,
}

impl Default for TenantCaps {
    fn default() -> Self {
        Self { default: 1.0, named: Vec::new() }
    }
}

impl TenantCaps {
    /// The first cap that is not between 0 and 1, with its tenant; `None` for the default.
    pub fn first_wrong(&self) -> Option<(Option<u32>, f64)> {
        let named = self.named.iter().map(|(tenant, cap)| (Some(*tenant), *cap));
        let mut all = std::iter::once((None, self.default)).chain(named);
        all.find(|(_, cap)| !(0.0..=1.0).contains(cap))
    }
}

/// Bytes held by tenant, and their caps.
#[derive(Debug)]
pub(crate) struct TenantShares {
    counters: Vec<Counter>,
    default: f64,
    /// Sorted by tenant.
    named: Vec<(u32, f64)>,
}

#[derive(Debug)]
struct Counter {
    /// The tenant that has this counter.
    tenant: AtomicU64,
    bytes: AtomicU64,
}

impl TenantShares {
    pub(crate) fn new(mut caps: TenantCaps) -> Self {
        caps.named.sort_by_key(|(tenant, _)| *tenant);
        let counter = |_| Counter { tenant: AtomicU64::new(NO_TENANT), bytes: AtomicU64::new(0) };
        let shares =
            Self { counters: (0..SLOTS).map(counter).collect(), default: caps.default, named: caps.named };
        shares.named.iter().for_each(|(tenant, _)| shares.add(*tenant, 0));
        shares
    }

    /// Whether `bytes` more would put the tenant above its share of `capacity`.
    pub(crate) fn exceeds(&self, tenant: u32, bytes: u64, capacity: u64) -> bool {
        let cap = match self.named.binary_search_by_key(&tenant, |(tenant, _)| *tenant) {
            Ok(at) => self.named[at].1,
            Err(_) => self.default,
        };
        cap < 1.0 && (self.held(tenant) + bytes) as f64 > cap * capacity as f64
    }

    /// Bytes that the tenant holds.
    pub(crate) fn held(&self, tenant: u32) -> u64 {
        let (counter, is_taken) = self.find(tenant);
        if is_taken { counter.bytes.load(Relaxed) } else { 0 }
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.counters.capacity() * size_of::<Counter>() + self.named.capacity() * size_of::<(u32, f64)>()
    }

    pub(crate) fn add(&self, tenant: u32, bytes: u64) {
        self.take(tenant).bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn subtract(&self, tenant: u32, bytes: u64) {
        // Never below zero: after a restart, recovered records may be counted late.
        let held = &self.take(tenant).bytes;
        let _ = held.fetch_update(Relaxed, Relaxed, |held| Some(held.saturating_sub(bytes)));
    }

    /// The counter of a tenant. A free one becomes its own.
    fn take(&self, tenant: u32) -> &Counter {
        loop {
            let (counter, is_taken) = self.find(tenant);
            let name = u64::from(tenant);
            if is_taken || counter.tenant.compare_exchange(NO_TENANT, name, Relaxed, Relaxed).is_ok() {
                return counter;
            }
        }
    }

    /// The counter of a tenant and `true`, or the free one that it would get and `false`.
    fn find(&self, tenant: u32) -> (&Counter, bool) {
        let home = tenant as usize % SLOTS;
        for at in home..home + SLOTS {
            let counter = &self.counters[at % SLOTS];
            let name = counter.tenant.load(Relaxed);
            if name == u64::from(tenant) || name == NO_TENANT {
                return (counter, name != NO_TENANT);
            }
        }
        (&self.counters[home], true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_share_counters_only_when_all_are_taken() {
        let shares = TenantShares::new(TenantCaps { default: 0.5, named: vec![(u32::MAX, 0.1)] });
        // The searches of all these tenants begin at the same counter.
        let tenants = (0..SLOTS as u32).map(|n| n * SLOTS as u32);
        tenants.clone().take(SLOTS - 1).for_each(|tenant| shares.add(tenant, u64::from(tenant) + 1));
        for tenant in tenants.take(SLOTS - 1) {
            assert_eq!(shares.held(tenant), u64::from(tenant) + 1);
        }
        assert_eq!(shares.held(u32::MAX), 0, "its own counter from the start");
        let late = (SLOTS * SLOTS - SLOTS) as u32;
        assert_eq!(shares.held(late), 1, "the counter of the first");
        shares.add(late, 100);
        assert_eq!((shares.held(late), shares.held(0)), (101, 101));
        shares.subtract(late, 100);
        shares.subtract(0, 100);
        assert_eq!((shares.held(late), shares.held(0)), (0, 0));
        assert!(shares.exceeds(u32::MAX, 11, 100) && !shares.exceeds(0, 50, 100));
    }

    #[test]
    fn caps_are_between_zero_and_one() {
        let caps = |default, named| TenantCaps { default, named };
        assert_eq!(caps(0.0, vec![(1, 1.0)]).first_wrong(), None);
        assert_eq!(caps(1.01, Vec::new()).first_wrong(), Some((None, 1.01)));
        assert_eq!(caps(0.5, vec![(1, 0.5), (7, -0.1)]).first_wrong(), Some((Some(7), -0.1)));
        assert!(caps(0.5, vec![(1, f64::NAN)]).first_wrong().is_some());
    }
}
