//! Holders of memory that give it back on request, such as caches.
//!
//! **Invariant.** A request makes lenders give back at most what they use beyond their guarantees.

use std::cmp::Reverse;
use std::sync::{Arc, PoisonError, RwLock};

use crate::account::Account;

/// A holder of memory that can be given back at once.
///
/// Methods may be called on any thread, also on one that holds locks of the lender: they must use
/// `try_lock` and give back nothing when a lock is held.
pub trait Lender: Send + Sync {
    /// Bytes that it uses beyond its guarantee.
    fn lent(&self) -> u64;

    /// Releases up to about `bytes`.
    fn release(&self, bytes: u64);
}

/// The lenders of a pool.
#[derive(Default)]
pub(crate) struct Lenders(RwLock<Vec<Arc<dyn Lender>>>);

impl Lenders {
    pub(crate) fn add(&self, lender: Arc<dyn Lender>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(lender);
    }

    /// Bytes that lenders use beyond their guarantees.
    pub(crate) fn lent(&self) -> u64 {
        let lenders = self.0.read().unwrap_or_else(PoisonError::into_inner);
        lenders.iter().map(|lender| lender.lent()).sum()
    }

    /// Makes lenders give back `bytes`; returns how many they gave back. The memory is not that of the work
    /// that needs it, so its account does not change.
    pub(crate) fn recall(&self, bytes: u64) -> u64 {
        Account::run_on(None, || self.release(bytes))
    }

    fn release(&self, bytes: u64) -> u64 {
        let mut lenders = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        lenders.sort_by_key(|lender| Reverse(lender.lent()));
        let mut released = 0u64;
        for lender in lenders {
            let lent = lender.lent();
            let wanted = bytes.saturating_sub(released).min(lent);
            if wanted > 0 {
                lender.release(wanted);
                released = released.saturating_add(lent.saturating_sub(lender.lent()));
            }
        }
        released
    }
}
