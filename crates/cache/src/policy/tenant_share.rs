//! How much of a tier each tenant holds, and how much it may.
//!
//! **Invariants.** Memory is fixed: [`SLOTS`] counters, which tenants take as they come and keep; those with
//! caps of their own have theirs from the start. Tenants that come when all are taken share a counter with
//! another, so a cap can take effect early then, never late. A cap holds only while the tier is full: space
//! that nobody needs is refused to nobody.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters: 16 KiB.
const SLOTS: usize = 1_024;
/// Names of a counter that nobody has taken.
const NOBODY: u64 = u64::MAX;

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

impl TenantCaps {
    /// The first cap that is no part of a whole, and whose it is; `None` for the default.
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
    /// The tenant that took it.
    tenant: AtomicU64,
    bytes: AtomicU64,
}

impl TenantShares {
    pub(crate) fn new(mut caps: TenantCaps) -> Self {
        caps.named.sort_by_key(|(tenant, _)| *tenant);
        let counter = |_| Counter { tenant: AtomicU64::new(NOBODY), bytes: AtomicU64::new(0) };
        let shares =
            Self { counters: (0..SLOTS).map(counter).collect(), default: caps.default, named: caps.named };
        shares.named.iter().for_each(|(tenant, _)| shares.add(*tenant, 0));
        shares
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
        let (counter, is_taken) = self.find(tenant);
        if is_taken { counter.bytes.load(Relaxed) } else { 0 }
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.counters.capacity() * size_of::<Counter>() + self.named.capacity() * size_of::<(u32, f64)>()
    }

    pub(crate) fn add(&self, tenant: u32, bytes: u64) {
        self.take(tenant).bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn subtract(&self, tenant: u32, bytes: u64) {
        // Never below zero: after a restart, what was recovered may be counted late.
        let held = &self.take(tenant).bytes;
        let _ = held.fetch_update(Relaxed, Relaxed, |held| Some(held.saturating_sub(bytes)));
    }

    /// The counter of a tenant, which is its own from now on if one is left.
    fn take(&self, tenant: u32) -> &Counter {
        loop {
            let (counter, is_taken) = self.find(tenant);
            let name = u64::from(tenant);
            if is_taken || counter.tenant.compare_exchange(NOBODY, name, Relaxed, Relaxed).is_ok() {
                return counter;
            }
        }
    }

    /// The counter of a tenant and `true`, or the one that it would take.
    fn find(&self, tenant: u32) -> (&Counter, bool) {
        let home = tenant as usize % SLOTS;
        for at in home..home + SLOTS {
            let counter = &self.counters[at % SLOTS];
            let name = counter.tenant.load(Relaxed);
            if name == u64::from(tenant) || name == NOBODY {
                return (counter, name != NOBODY);
            }
        }
        (&self.counters[home], true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_are_counted_apart_while_counters_last_and_together_after() {
        let shares = TenantShares::new(TenantCaps { default: 0.5, named: vec![(u32::MAX, 0.1)] });
        // All of them begin to look at the same counter.
        let tenants = (0..SLOTS as u32).map(|n| n * SLOTS as u32);
        tenants.clone().take(SLOTS - 1).for_each(|tenant| shares.add(tenant, u64::from(tenant) + 1));
        for tenant in tenants.take(SLOTS - 1) {
            assert_eq!(shares.held(tenant), u64::from(tenant) + 1);
        }
        assert_eq!(shares.held(u32::MAX), 0, "its own from the start");
        let late = (SLOTS * SLOTS - SLOTS) as u32;
        assert_eq!(shares.held(late), 1, "that of the first");
        shares.add(late, 100);
        assert_eq!((shares.held(late), shares.held(0)), (101, 101));
        shares.subtract(late, 100);
        shares.subtract(0, 100);
        assert_eq!((shares.held(late), shares.held(0)), (0, 0));
        assert!(shares.exceeds(u32::MAX, 11, 100) && !shares.exceeds(0, 50, 100));
    }

    #[test]
    fn caps_are_parts_of_a_whole() {
        let caps = |default, named| TenantCaps { default, named };
        assert_eq!(caps(0.0, vec![(1, 1.0)]).first_wrong(), None);
        assert_eq!(caps(1.01, Vec::new()).first_wrong(), Some((None, 1.01)));
        assert_eq!(caps(0.5, vec![(1, 0.5), (7, -0.1)]).first_wrong(), Some((Some(7), -0.1)));
        assert!(caps(0.5, vec![(1, f64::NAN)]).first_wrong().is_some());
    }
}
