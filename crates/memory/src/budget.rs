//! Memory budgets: memory is reserved before it is used, and the error names the exhausted budget.
//!
//! Budgets form a tree: a query's budget is a child of the global query budget, which is a child of the
//! process budget. A reservation counts against its budget and every ancestor, all or nothing. Counters
//! are atomics: there is no lock, and no ordering between unrelated reservations.
//!
//! A budget can keep bytes reserved in its ancestors while it does not use them
//! ([`MemoryBudget::keep`]). Work that has begun and must not fail because other work exhausted the
//! ancestors takes its memory from these spare bytes.
//!
//! A budget of a [`MemoryPool`](crate::MemoryPool) asks the pool's lenders to give memory back when its
//! parent refuses.
//!
//! Memory that is allocated already is counted even above a limit ([`Reservation::resize_anyway`]); its
//! owner then frees the excess before it reserves more.
//!
//! **Invariants.** The bytes that a budget holds of its parent are the bytes used in it plus its spare
//! bytes. Bytes move between used, spare and the parent; none is counted twice or lost. The bytes used
//! never exceed the limit, except those of [`Reservation::resize_anyway`] and after
//! [`MemoryBudget::set_limit`] lowered it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sandur_base::units::ByteSize;

use crate::lenders::Lenders;

/// How often a request makes lenders give memory back before it is refused.
const RECALLS_MAX: usize = 8;

/// A bounded amount of memory that reservations are taken from. Cheap to clone: a handle.
#[derive(Clone)]
pub struct MemoryBudget(Arc<Node>);

struct Node {
    name: Arc<str>,
    limit: AtomicU64,
    used: AtomicU64,
    peak: AtomicU64,
    /// Bytes reserved in the parent and not used here.
    spare: AtomicU64,
    /// Released bytes stay here as spare bytes while used and spare bytes together are below this
    /// number.
    keep: AtomicU64,
    parent: Option<MemoryBudget>,
    /// Holders of the parent's memory that give it back on request.
    lenders: Option<Arc<Lenders>>,
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(parent) = &self.parent {
            parent.give_back(*self.spare.get_mut());
        }
    }
}

/// A reservation was refused because a budget is exhausted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "memory budget '{budget}' exhausted: {} requested, {} of {} in use; \
     narrow the request (time range, selector) or raise the budget",
    ByteSize(*.asked), ByteSize(*.used), ByteSize(*.limit)
)]
pub struct OverBudget {
    /// Name of the budget that refused.
    pub budget: Arc<str>,
    /// Bytes that were requested.
    pub asked: u64,
    /// Bytes in use when the reservation was refused.
    pub used: u64,
    /// The budget's limit in bytes.
    pub limit: u64,
}

impl MemoryBudget {
    /// A budget of `limit` bytes without a parent.
    pub fn root(name: impl Into<Arc<str>>, limit: u64) -> Self {
        Self::new(name.into(), limit, None, None)
    }

    /// A budget of at most `limit` bytes whose use also counts against `self`.
    pub fn child(&self, name: impl Into<Arc<str>>, limit: u64) -> Self {
        Self::new(name.into(), limit, Some(self.clone()), None)
    }

    /// A child whose requests make `lenders` give back memory of `self`.
    pub(crate) fn child_that_recalls(&self, name: Arc<str>, limit: u64, lenders: &Arc<Lenders>) -> Self {
        Self::new(name, limit, Some(self.clone()), Some(Arc::clone(lenders)))
    }

    fn new(name: Arc<str>, limit: u64, parent: Option<MemoryBudget>, lenders: Option<Arc<Lenders>>) -> Self {
        let [used, peak, spare, keep] = [(); 4].map(|()| AtomicU64::new(0));
        let limit = AtomicU64::new(limit);
        Self(Arc::new(Node { name, limit, used, peak, spare, keep, parent, lenders }))
    }

    /// The name that errors show.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.0.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit. Bytes in use above the new limit stay reserved.
    pub fn set_limit(&self, limit: u64) {
        self.0.limit.store(limit, Ordering::Relaxed);
    }

    /// Bytes by which use exceeds the limit.
    pub fn excess(&self) -> u64 {
        self.used().saturating_sub(self.limit())
    }

    /// The most bytes that could be reserved here if nothing else were reserved, here or in the
    /// ancestors.
    pub fn capacity(&self) -> u64 {
        self.0.parent.as_ref().map_or(self.limit(), |parent| self.limit().min(parent.capacity()))
    }

    /// Bytes reserved now.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The most bytes that were reserved at once since the budget was made.
    pub fn peak(&self) -> u64 {
        self.0.peak.load(Ordering::Relaxed)
    }

    /// Bytes that could still be reserved here, ancestors and what lenders would give back included.
    pub fn available(&self) -> u64 {
        let own = self.limit().saturating_sub(self.used());
        let Some(parent) = &self.0.parent else { return own };
        let recalled = self.0.lenders.as_ref().map_or(0, |lenders| lenders.lent());
        let spare = self.0.spare.load(Ordering::Relaxed);
        own.min(parent.available().saturating_add(spare).saturating_add(recalled))
    }

    /// Bytes that this budget could hold now: those in use and those available.
    pub fn attainable(&self) -> u64 {
        self.used().saturating_add(self.available())
    }

    /// Bytes in use beyond those that are kept for this budget.
    pub fn lent(&self) -> u64 {
        self.used().saturating_sub(self.kept())
    }

    /// Bytes that are kept for this budget whether it uses them or not.
    pub fn kept(&self) -> u64 {
        self.0.keep.load(Ordering::Acquire)
    }

    /// Reserves `bytes` in the ancestors (at most this budget's limit), whether they are used or not,
    /// until the next call. 0 ends this. Changes nothing when it fails.
    pub fn keep(&self, bytes: u64) -> Result<(), OverBudget> {
        let (node, bytes) = (&*self.0, bytes.min(self.limit()));
        let Some(parent) = &node.parent else { return Ok(()) };
        let spare = node.spare.swap(0, Ordering::AcqRel);
        let wanted = bytes.saturating_sub(self.used());
        if let Err(refusal) = self.take_of(parent, wanted.saturating_sub(spare)) {
            node.spare.fetch_add(spare, Ordering::AcqRel);
            return Err(refusal);
        }
        node.keep.store(bytes, Ordering::Release);
        node.spare.fetch_add(wanted, Ordering::AcqRel);
        parent.give_back(spare.saturating_sub(wanted));
        Ok(())
    }

    /// Keeps every byte that is released from now on, so that later reservations up to the peak use take
    /// nothing from the ancestors.
    pub fn keep_what_is_freed(&self) {
        self.0.keep.store(self.limit(), Ordering::Release);
    }

    /// Whether an ancestor of this budget refused, which means that other work holds the memory.
    pub fn is_held_by_others(&self, refusal: &OverBudget) -> bool {
        let mut above = std::iter::successors(self.0.parent.as_ref(), |budget| budget.0.parent.as_ref());
        above.any(|budget| *budget.name() == *refusal.budget)
    }

    /// Reserves `bytes` in this budget and its ancestors, or nothing.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation, OverBudget> {
        self.take(bytes)?;
        Ok(Reservation { budget: self.clone(), bytes })
    }

    /// A reservation of no bytes, which never fails.
    pub fn empty(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }

    fn take(&self, bytes: u64) -> Result<(), OverBudget> {
        let (node, limit) = (&*self.0, self.limit());
        let grow = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= limit);
        match node.used.fetch_update(Ordering::AcqRel, Ordering::Relaxed, grow) {
            Ok(before) => node.raise_peak(before + bytes),
            Err(used) => {
                return Err(OverBudget { budget: Arc::clone(&node.name), asked: bytes, used, limit });
            }
        }
        if let Some(parent) = &node.parent {
            let kept = node.use_spare(bytes);
            if kept < bytes
                && let Err(refusal) = self.take_of(parent, bytes - kept)
            {
                node.used.fetch_sub(bytes, Ordering::AcqRel);
                parent.give_back(kept - node.keep_spare(kept));
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// Takes bytes of the parent; lenders give memory back for it if that is necessary.
    fn take_of(&self, parent: &MemoryBudget, bytes: u64) -> Result<(), OverBudget> {
        let mut outcome = parent.take(bytes);
        let Some(lenders) = &self.0.lenders else { return outcome };
        // Others may take what was given back, so it is tried some times.
        for _ in 0..RECALLS_MAX {
            if outcome.is_ok() || lenders.recall(bytes.saturating_sub(parent.available()).max(1)) == 0 {
                break;
            }
            outcome = parent.take(bytes);
        }
        outcome
    }

    /// Counts `bytes` in this budget and its ancestors, above their limits if necessary.
    fn take_anyway(&self, bytes: u64) {
        let (mut budget, mut bytes) = (Some(self), bytes);
        while let Some(MemoryBudget(node)) = budget.filter(|_| bytes > 0) {
            let before = node.used.fetch_add(bytes, Ordering::AcqRel);
            node.raise_peak(before + bytes);
            bytes -= node.use_spare(bytes);
            budget = node.parent.as_ref();
        }
    }

    fn give_back(&self, bytes: u64) {
        let (mut budget, mut bytes) = (Some(self), bytes);
        while let Some(MemoryBudget(node)) = budget.filter(|_| bytes > 0) {
            node.used.fetch_sub(bytes, Ordering::AcqRel);
            bytes -= node.keep_spare(bytes);
            budget = node.parent.as_ref();
        }
    }
}

impl Node {
    /// Notes that `used` bytes were in use. Reads first, because a write would take the cache line from
    /// other processors.
    fn raise_peak(&self, used: u64) {
        if used > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(used, Ordering::Relaxed);
        }
    }

    /// Takes up to `bytes` from the spare bytes; returns how many.
    fn use_spare(&self, bytes: u64) -> u64 {
        if self.spare.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let less = |spare: u64| Some(spare.saturating_sub(bytes));
        self.spare.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).map_or(0, |spare| spare.min(bytes))
    }

    /// Keeps up to `bytes` of released bytes, which are not counted as used any more, as spare; returns how
    /// many. Of concurrent releases the last one sees what all of them left in use, so none is lost.
    fn keep_spare(&self, bytes: u64) -> u64 {
        let keep = self.keep.load(Ordering::Acquire);
        if keep == 0 || self.parent.is_none() {
            return 0;
        }
        let used = self.used.load(Ordering::Acquire);
        let room = |spare: u64| bytes.min(keep.saturating_sub(used.saturating_add(spare)));
        let more = |spare: u64| Some(spare + room(spare));
        self.spare.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).map_or(0, room)
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} of {}", self.0.name, ByteSize(self.used()), ByteSize(self.limit()))
    }
}

/// Bytes reserved in a budget; dropping it releases them.
#[derive(Debug)]
pub struct Reservation {
    budget: MemoryBudget,
    bytes: u64,
}

impl Reservation {
    /// Bytes reserved.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The budget that the bytes are reserved in.
    pub fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// Reserves `more` additional bytes, or changes nothing.
    pub fn grow(&mut self, more: u64) -> Result<(), OverBudget> {
        self.budget.take(more)?;
        self.bytes += more;
        Ok(())
    }

    /// Releases `less` bytes (at most what is held).
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

    /// Makes the reservation exactly `bytes`, above the limits if necessary: for memory that is allocated
    /// already.
    pub fn resize_anyway(&mut self, bytes: u64) {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.budget.take_anyway(more),
            None => self.budget.give_back(self.bytes - bytes),
        }
        self.bytes = bytes;
    }

    /// Whether both reservations belong to the same budget.
    pub fn is_of_budget_of(&self, other: &Reservation) -> bool {
        Arc::ptr_eq(&self.budget.0, &other.budget.0)
    }

    /// Takes over the bytes of `other`, a reservation of the same budget.
    ///
    /// # Panics
    /// When `other` belongs to another budget; check [`Reservation::is_of_budget_of`] first.
    pub fn absorb(&mut self, mut other: Reservation) {
        assert!(self.is_of_budget_of(&other), "the reservations belong to different budgets");
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Splits `bytes` (at most what is held) off into a new reservation.
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
        assert_eq!((&*refusal.budget, refusal.asked, refusal.used), ("query", 20, 70));
        assert!(refusal.to_string().contains("memory budget 'query' exhausted"));
        let other = process.reserve(30).unwrap();
        let refusal = query.reserve(5).unwrap_err();
        assert_eq!(&*refusal.budget, "process");
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

    #[test]
    fn allocated_memory_is_counted_above_the_limit_and_refuses_more() {
        let process = MemoryBudget::root("process", 1_000);
        let cache = process.child("cache", 100);
        let mut items = cache.reserve(60).unwrap();
        items.resize_anyway(105);
        assert_eq!((cache.used(), cache.excess(), process.used()), (105, 5, 105));
        assert!(cache.reserve(1).is_err());
        cache.set_limit(200);
        assert_eq!((cache.excess(), cache.reserve(95).unwrap().bytes()), (0, 95));
        cache.set_limit(10);
        items.resize_anyway(8);
        assert_eq!((cache.used(), cache.available(), process.used(), cache.peak()), (8, 2, 8, 200));
        drop(items);
        assert_eq!((cache.used(), process.used()), (0, 0));
    }

    #[test]
    fn kept_bytes_are_available_when_others_hold_the_rest() {
        let all = MemoryBudget::root("all", 100);
        let query = all.child("query", 60);
        query.keep(50).unwrap();
        assert_eq!((query.used(), all.used(), query.available()), (0, 50, 60));
        let others = all.reserve(50).unwrap();
        let held = query.reserve(50).unwrap();
        assert_eq!((query.used(), all.used()), (50, 100));
        let refusal = query.reserve(5).unwrap_err();
        assert!(query.is_held_by_others(&refusal), "{refusal}");
        assert!(!query.is_held_by_others(&query.reserve(11).unwrap_err()));
        drop(held);
        assert_eq!((query.used(), all.used()), (0, 100), "kept");
        assert!(query.keep(60).is_err());
        drop(query.reserve(50).unwrap());
        query.keep(20).unwrap();
        assert_eq!(all.used(), 70, "fewer bytes are kept");
        drop(others);
        query.keep_what_is_freed();
        drop(query.reserve(45).unwrap());
        assert_eq!((query.used(), all.used()), (0, 45), "the peak use is kept");
        query.keep(0).unwrap();
        assert_eq!(all.used(), 0);
        query.keep(1_000).unwrap();
        assert_eq!(all.used(), 60, "at most its own limit is kept");
        drop(query);
        assert_eq!(all.used(), 0);
    }

    /// Goal: no byte is counted twice or lost while threads reserve, release and keep bytes
    /// concurrently.
    #[test]
    fn kept_bytes_are_neither_lost_nor_counted_twice() {
        let all = MemoryBudget::root("all", 1_000);
        let query = all.child("query", 700);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (all, query) = (&all, &query);
                scope.spawn(move || {
                    let mut held = None;
                    for n in 0..20_000u64 {
                        let bytes = (n * 37 + thread * 101) % 300;
                        match n % 7 {
                            0 => _ = query.keep(bytes * 2),
                            1 => query.keep_what_is_freed(),
                            2 => _ = all.reserve(bytes),
                            _ => held = query.reserve(bytes).ok(),
                        }
                        assert!(all.used() <= 1_000);
                    }
                    drop(held);
                });
            }
        });
        assert_eq!(query.used(), 0);
        query.keep(0).unwrap();
        assert_eq!(all.used(), 0);
    }
}
