//! Memory budgets: memory is reserved before it is used, and the error names the budget.
//!
//! Budgets form a tree: a query's budget is a child of the global query budget, which is a child
//! of the process budget. A reservation counts against its budget and every ancestor, all or
//! nothing. Counting is by atomics: no lock, and no ordering between unrelated reservations.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::units::ByteSize;

/// A bounded amount of memory that reservations are taken from. Cheap to clone: a handle.
#[derive(Clone)]
pub struct MemoryBudget(Arc<Node>);

struct Node {
    name: String,
    limit: u64,
    used: AtomicU64,
    peak: AtomicU64,
    parent: Option<MemoryBudget>,
}

/// A reservation was refused because a budget is exhausted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "memory budget '{budget}' exhausted: {} asked, {} of {} in use; \
     narrow the request (time range, selector) or raise the budget",
    ByteSize(*.asked), ByteSize(*.used), ByteSize(*.limit)
)]
pub struct OverBudget {
    /// Name of the budget that refused.
    pub budget: String,
    /// Bytes that were asked for.
    pub asked: u64,
    /// Bytes in use when the reservation was refused.
    pub used: u64,
    /// The budget's limit in bytes.
    pub limit: u64,
}

impl MemoryBudget {
    /// A budget of its own with `limit` bytes.
    pub fn root(name: impl Into<String>, limit: u64) -> Self {
        Self::new(name.into(), limit, None)
    }

    /// A budget of at most `limit` bytes whose use also counts against `self`.
    pub fn child(&self, name: impl Into<String>, limit: u64) -> Self {
        Self::new(name.into(), limit, Some(self.clone()))
    }

    fn new(name: String, limit: u64, parent: Option<MemoryBudget>) -> Self {
        let (used, peak) = (AtomicU64::new(0), AtomicU64::new(0));
        Self(Arc::new(Node { name, limit, used, peak, parent }))
    }

    /// The name that errors carry.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// The most bytes that could be reserved here when nothing else is, ancestors included.
    pub fn capacity(&self) -> u64 {
        self.0.parent.as_ref().map_or(self.0.limit, |parent| self.0.limit.min(parent.capacity()))
    }

    /// Bytes reserved now.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The most bytes that were ever reserved at once.
    pub fn peak(&self) -> u64 {
        self.0.peak.load(Ordering::Relaxed)
    }

    /// Bytes that could still be reserved here, ancestors included.
    pub fn available(&self) -> u64 {
        let own = self.0.limit.saturating_sub(self.used());
        self.0.parent.as_ref().map_or(own, |p| own.min(p.available()))
    }

    /// Takes `bytes` from this budget and its ancestors, or nothing at all.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation, OverBudget> {
        self.take(bytes)?;
        Ok(Reservation { budget: self.clone(), bytes })
    }

    fn take(&self, bytes: u64) -> Result<(), OverBudget> {
        let node = &*self.0;
        let grow = |used: u64| used.checked_add(bytes).filter(|&n| n <= node.limit);
        match node.used.fetch_update(Ordering::AcqRel, Ordering::Relaxed, grow) {
            Ok(before) => node.peak.fetch_max(before + bytes, Ordering::Relaxed),
            Err(used) => {
                let budget = node.name.clone();
                return Err(OverBudget { budget, asked: bytes, used, limit: node.limit });
            }
        };
        if let Some(parent) = &node.parent
            && let Err(refusal) = parent.take(bytes)
        {
            node.used.fetch_sub(bytes, Ordering::AcqRel);
            return Err(refusal);
        }
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        let mut budget = Some(self);
        while let Some(b) = budget {
            b.0.used.fetch_sub(bytes, Ordering::AcqRel);
            budget = b.0.parent.as_ref();
        }
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} of {}", self.0.name, ByteSize(self.used()), ByteSize(self.limit()))
    }
}

/// Bytes taken from a budget; dropping it gives them back.
#[derive(Debug)]
pub struct Reservation {
    budget: MemoryBudget,
    bytes: u64,
}

impl Reservation {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes `more` bytes in addition, or changes nothing.
    pub fn grow(&mut self, more: u64) -> Result<(), OverBudget> {
        self.budget.take(more)?;
        self.bytes += more;
        Ok(())
    }

    /// Gives back `less` bytes (at most what is held).
    pub fn shrink(&mut self, less: u64) {
        let less = less.min(self.bytes);
        self.budget.give_back(less);
        self.bytes -= less;
    }

    /// Makes the reservation exactly `bytes`: grows or shrinks it.
    pub fn resize(&mut self, bytes: u64) -> Result<(), OverBudget> {
        if bytes > self.bytes {
            return self.grow(bytes - self.bytes);
        }
        self.shrink(self.bytes - bytes);
        Ok(())
    }

    /// Whether both are of one budget.
    pub fn is_of_budget_of(&self, other: &Reservation) -> bool {
        Arc::ptr_eq(&self.budget.0, &other.budget.0)
    }

    /// Takes over what `other` holds of the same budget.
    ///
    /// # Panics
    /// When it is of another budget: ask [`Reservation::is_of_budget_of`] first.
    pub fn absorb(&mut self, mut other: Reservation) {
        assert!(self.is_of_budget_of(&other), "reservations of two budgets");
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Splits off `bytes` (at most what is held) into a reservation of its own.
    pub fn split(&mut self, bytes: u64) -> Reservation {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Reservation { budget: self.budget.clone(), bytes }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_reservation_names_the_budget_and_takes_nothing() {
        let process = MemoryBudget::root("process", 100);
        let query = process.child("query", 80);
        let held = query.reserve(70).unwrap();
        let refusal = query.reserve(20).unwrap_err();
        assert_eq!((refusal.budget.as_str(), refusal.asked, refusal.used), ("query", 20, 70));
        assert!(refusal.to_string().contains("memory budget 'query' exhausted"));
        let other = process.reserve(30).unwrap();
        let refusal = query.reserve(5).unwrap_err();
        assert_eq!(refusal.budget, "process");
        assert_eq!((query.used(), process.used()), (70, 100));
        drop((held, other));
        assert_eq!((query.used(), process.used(), process.peak()), (0, 0, 100));
    }

    #[test]
    fn growing_shrinking_and_splitting_keep_the_sum() {
        let budget = MemoryBudget::root("b", 100);
        let mut whole = budget.reserve(10).unwrap();
        whole.grow(50).unwrap();
        assert!(whole.grow(50).is_err());
        let part = whole.split(20);
        whole.shrink(15);
        assert_eq!((whole.bytes(), part.bytes(), budget.used()), (25, 20, 45));
        whole.resize(5).unwrap();
        drop(part);
        assert_eq!((budget.used(), budget.available()), (5, 95));
    }
}
