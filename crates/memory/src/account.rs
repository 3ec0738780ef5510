//! Counts the bytes that a piece of work allocates: a global allocator that charges them to an account.
//!
//! A reservation states in advance how much memory work will use; an [`Account`] measures how much it
//! used. Each thread charges at most one account at a time. [`Account::charge`] makes a future charge
//! its own account, and the CPU pool charges the account of the caller while it runs a job. An
//! allocation adds to the account of the thread, a deallocation subtracts from it. Each thread keeps a
//! sum and adds it to the account when it reaches [`BATCH_BYTES`], so that counting one allocation costs
//! one addition. Allocated bytes also count as work of the running job, so that a job that allocates
//! much is soon checked by its owner (see [`job`](crate::job)).
//!
//! **What it is not.** An exact record of ownership. Memory that is allocated under one account and
//! freed under another stays charged to the first and is subtracted from the second. Accounts are exact
//! for work that frees what it allocates, and approximate for all other work.
//!
//! **Invariants.** Counting never allocates. Unless [`Counting`] is the global allocator, all accounts
//! stay at zero.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};

use crate::units_left::allocated;

/// Bytes that a thread counts before it adds them to its account.
pub const BATCH_BYTES: i64 = 64 << 10;

/// The bytes that one piece of work holds. Cheap to clone: a handle.
#[derive(Clone, Debug, Default)]
pub struct Account(Arc<Sums>);

#[derive(Debug, Default)]
struct Sums {
    used: AtomicI64,
    peak: AtomicI64,
}

impl Sums {
    fn add(&self, bytes: i64) {
        let now = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(now, Ordering::Relaxed);
    }
}

thread_local! {
    /// Bytes that are not added to an account yet. It has no destructor, so the allocator may use it at
    /// any time.
    static PENDING: Cell<i64> = const { Cell::new(0) };
    /// Whether the thread has an account. Without one, counted bytes are discarded.
    static IS_CHARGED: Cell<bool> = const { Cell::new(false) };
    /// The account of the thread.
    static CURRENT: RefCell<Option<Account>> = const { RefCell::new(None) };
}

/// Counts bytes that this thread allocates (positive) or frees (negative). The allocator calls it.
#[inline]
fn count(bytes: i64) {
    // The locals of a thread are gone while it ends; its last bytes need no account.
    let _ = PENDING.try_with(|pending| {
        let sum = pending.get() + bytes;
        pending.set(sum);
        if sum.abs() >= BATCH_BYTES {
            hand_over();
        }
    });
}

/// Adds the bytes that this thread counted to its account.
#[cold]
fn hand_over() {
    let charged = IS_CHARGED.try_with(Cell::get).unwrap_or(false);
    if !charged {
        let _ = PENDING.try_with(|pending| pending.set(0));
        return;
    }
    let _ = CURRENT.try_with(|current| {
        // `switch` holds the borrow while it changes the account; it has handed over already.
        if let Ok(current) = current.try_borrow()
            && let Some(account) = &*current
        {
            let bytes = PENDING.replace(0);
            account.0.add(bytes);
            allocated(u64::try_from(bytes).unwrap_or(0));
        }
    });
}

/// Makes `account` (or none) the account of this thread; returns the previous one.
fn switch(account: Option<Account>) -> Option<Account> {
    hand_over();
    IS_CHARGED.set(account.is_some());
    let before = CURRENT.with(|current| current.replace(account));
    PENDING.set(0);
    before
}

/// Restores the previous account of the thread when it is dropped.
struct Charged(Option<Account>);

impl Drop for Charged {
    fn drop(&mut self) {
        drop(switch(self.0.take()));
    }
}

impl Account {
    /// The account that this thread charges.
    pub fn current() -> Option<Self> {
        CURRENT.with(|current| current.borrow().clone())
    }

    /// Bytes held: allocated bytes minus freed bytes. Includes what the calling thread has counted;
    /// other threads may have up to [`BATCH_BYTES`] each that are not added yet.
    pub fn used(&self) -> u64 {
        let own = CURRENT.with(|current| {
            current.borrow().as_ref().is_some_and(|account| Arc::ptr_eq(&account.0, &self.0))
        });
        if own {
            hand_over();
        }
        u64::try_from(self.0.used.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// The most bytes held at once, measured whenever a thread adds its sum.
    pub fn peak(&self) -> u64 {
        u64::try_from(self.0.peak.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Removes `bytes` from the account: memory that was allocated under it and will be freed under no
    /// account, such as a piece of a response that is being sent.
    pub fn hand_over(&self, bytes: usize) {
        self.0.used.fetch_sub(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// Runs `work` and charges this account.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        Self::run_on(Some(self.clone()), work)
    }

    /// Runs `work` and charges an account, or none.
    pub fn run_on<T>(account: Option<Self>, work: impl FnOnce() -> T) -> T {
        let _charged = Charged(switch(account));
        work()
    }

    /// A future that charges this account whenever it is polled.
    pub fn charge<F: Future>(&self, future: F) -> Charging<F> {
        Charging { account: Some(self.clone()), future: Box::pin(future) }
    }
}

/// A future that charges no account when it is polled or dropped: for results that outlive the work,
/// such as values of a cache.
pub fn uncharged<F: Future>(future: F) -> Charging<F> {
    Charging { account: None, future: Box::pin(future) }
}

/// See [`Account::charge`].
pub struct Charging<F> {
    account: Option<Account>,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Charging<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _charged = Charged(switch(self.account.clone()));
        self.future.as_mut().poll(cx)
    }
}

/// An allocator that charges the account of the calling thread and passes each call to the allocator
/// `A`.
#[derive(Debug, Default)]
pub struct Counting<A>(pub A);

// The only place where memory is counted. Every method passes the call on unchanged.
#[allow(unsafe_code)]
// SAFETY: the inner allocator keeps the contract; counting neither allocates nor unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's contract is passed on.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's contract is passed on.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller's contract is passed on.
        unsafe { self.0.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: the caller's contract is passed on.
        unsafe { self.0.realloc(at, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;

    use super::*;
    use crate::budget::{MemoryBudget, OverBudget};
    use crate::job;

    #[global_allocator]
    static ALLOCATOR: Counting<System> = Counting(System);

    #[test]
    fn an_account_counts_what_its_work_allocates_and_frees() {
        let (account, other) = (Account::default(), Account::default());
        let kept = account.run(|| {
            let kept = vec![1u8; 1 << 20];
            drop(vec![1u8; 4 << 20]);
            let elsewhere = other.run(|| vec![0u8; 300_000]);
            assert_eq!(other.used(), 300_000);
            (kept, elsewhere)
        });
        assert_eq!(account.used(), 1 << 20);
        assert!(account.peak() >= 5 << 20);
        let unrelated = vec![0u8; 1 << 20];
        assert_eq!(account.used(), 1 << 20);
        account.run(|| drop(kept.0));
        assert_eq!((account.used(), other.used()), (0, 300_000));
        drop((kept.1, unrelated));
    }

    struct Bounded {
        account: Account,
        budget: MemoryBudget,
    }

    impl job::Owner for Bounded {
        fn goes_on(&self) -> bool {
            self.account.used() <= self.budget.limit()
        }
        fn budget(&self) -> &MemoryBudget {
            &self.budget
        }
        fn refused(&self, _: OverBudget) {}
    }

    /// Goal: a job that reports only steps is checked when it has allocated much.
    #[test]
    fn allocations_of_a_job_count_as_its_work() {
        let (account, budget) = (Account::default(), MemoryBudget::root("job", 1 << 20));
        let owner = Arc::new(Bounded { account: account.clone(), budget });
        let mut pieces: Vec<Vec<u8>> = Vec::with_capacity(1_000);
        let outcome = account.run(|| {
            job::run(owner, || {
                while pieces.len() < 1_000 && job::spend(1).is_ok() {
                    pieces.push(vec![1; 100_000]);
                }
            })
        });
        assert_eq!(outcome, Err(job::Stopped));
        assert!((10..20).contains(&pieces.len()), "{} pieces, each a tenth of the budget", pieces.len());
    }

    #[test]
    fn small_allocations_are_counted_to_the_byte() {
        let account = Account::default();
        let pieces: Vec<Box<[u8; 100]>> = account.run(|| (0..10_000).map(|_| Box::new([0; 100])).collect());
        let list = pieces.capacity() * size_of::<usize>();
        assert_eq!(account.used(), 1_000_000 + list as u64);
        account.run(|| drop(pieces));
        assert_eq!(account.used(), 0);
    }
}
