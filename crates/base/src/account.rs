//! What a piece of work really allocates: a counting allocator that charges the account of the work that
//! runs.
//!
//! Reservations say beforehand what work will take; an [`Account`] says what it took, whether anyone thought
//! of it or not. A thread has one account at a time: a future carries its own with [`Account::charge`], the
//! CPU pool hands the caller's on to its jobs. What a thread allocates is added to its account, what it frees
//! is subtracted; sums are kept per thread and handed over when they reach [`BATCH_BYTES`], so that counting
//! costs an addition. What a job allocates counts as its work as well, so that a job which allocates much is
//! soon asked whether it may (see [`job`]).
//!
//! **What it is not.** Memory that one account allocates and another frees stays with the first and is
//! missing in the second: accounts are right for work that cleans up after itself, and about right for all
//! other.
//!
//! **Invariants.** Counting never allocates. Without [`Counting`] as the global allocator all accounts stay
//! at zero.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};

use crate::job;

/// Bytes that a thread counts before it hands them to the account.
pub const BATCH_BYTES: i64 = 64 << 10;

/// What one piece of work holds. Cheap to clone: a handle.
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
    /// Bytes that are not handed over yet. Without a destructor, so that the allocator may use it at any
    /// time.
    static PENDING: Cell<i64> = const { Cell::new(0) };
    /// Whether an account is charged: what is charged to none is forgotten.
    static IS_CHARGED: Cell<bool> = const { Cell::new(false) };
    /// Who is charged.
    static CURRENT: RefCell<Option<Account>> = const { RefCell::new(None) };
}

/// Counts bytes of this thread; called by the allocator.
#[inline]
fn count(bytes: i64) {
    // A thread that ends has no locals any more; no account needs its last bytes.
    let _ = PENDING.try_with(|pending| {
        let sum = pending.get() + bytes;
        pending.set(sum);
        if sum.abs() >= BATCH_BYTES {
            hand_over();
        }
    });
}

/// Gives what this thread counted to its account.
#[cold]
fn hand_over() {
    let charged = IS_CHARGED.try_with(Cell::get).unwrap_or(false);
    if !charged {
        let _ = PENDING.try_with(|pending| pending.set(0));
        return;
    }
    let _ = CURRENT.try_with(|current| {
        // Borrowed when the account is being changed: the change hands over.
        if let Ok(current) = current.try_borrow()
            && let Some(account) = &*current
        {
            let bytes = PENDING.replace(0);
            account.0.add(bytes);
            job::allocated(u64::try_from(bytes).unwrap_or(0));
        }
    });
}

/// Makes an account, or none, that of this thread; gives the one before.
fn switch(account: Option<Account>) -> Option<Account> {
    hand_over();
    IS_CHARGED.set(account.is_some());
    let before = CURRENT.with(|current| current.replace(account));
    PENDING.set(0);
    before
}

/// The account of this thread until it is dropped.
struct Charged(Option<Account>);

impl Drop for Charged {
    fn drop(&mut self) {
        drop(switch(self.0.take()));
    }
}

impl Account {
    /// The account that this thread charges now.
    pub fn current() -> Option<Self> {
        CURRENT.with(|current| current.borrow().clone())
    }

    /// Bytes that are held: what was allocated less what was freed. What the calling thread has counted is in
    /// it.
    pub fn used(&self) -> u64 {
        let own = CURRENT.with(|current| {
            current.borrow().as_ref().is_some_and(|account| Arc::ptr_eq(&account.0, &self.0))
        });
        if own {
            hand_over();
        }
        u64::try_from(self.0.used.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// The most bytes that were held at once, as far as batches tell.
    pub fn peak(&self) -> u64 {
        u64::try_from(self.0.peak.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Bytes that were allocated on this account and belong to somebody else from now on, who frees them on
    /// none: a piece of an answer that is sent.
    pub fn hand_over(&self, bytes: usize) {
        self.0.used.fetch_sub(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// Runs work on this account.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        Self::run_on(Some(self.clone()), work)
    }

    /// Runs work on an account, or on none.
    pub fn run_on<T>(account: Option<Self>, work: impl FnOnce() -> T) -> T {
        let _charged = Charged(switch(account));
        work()
    }

    /// A future whose polls are charged to this account.
    pub fn charge<F: Future>(&self, future: F) -> Charging<F> {
        Charging { account: Some(self.clone()), future: Box::pin(future) }
    }
}

/// A future whose polls, and whose end, are charged to no account: for what outlives the work, such as what a
/// cache keeps.
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

/// An allocator that counts for the account of the thread.
#[derive(Debug, Default)]
pub struct Counting<A>(pub A);

// The one place where memory is counted: every method passes the call on unchanged.
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
    use crate::cpu::{CpuPool, Lane};

    #[global_allocator]
    static ALLOCATOR: Counting<System> = Counting(System);

    #[test]
    fn an_account_holds_what_its_work_holds() {
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

    /// Goal: a job that tells of steps alone is asked when it has allocated much.
    #[test]
    fn what_a_job_allocates_counts_as_its_work() {
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
        assert!((10..20).contains(&pieces.len()), "{} pieces of a tenth of the budget", pieces.len());
    }

    #[test]
    fn small_pieces_are_counted_to_the_byte() {
        let account = Account::default();
        let pieces: Vec<Box<[u8; 100]>> = account.run(|| (0..10_000).map(|_| Box::new([0; 100])).collect());
        let list = pieces.capacity() * size_of::<usize>();
        assert_eq!(account.used(), 1_000_000 + list as u64);
        account.run(|| drop(pieces));
        assert_eq!(account.used(), 0);
    }

    #[test]
    fn futures_and_jobs_of_the_pool_are_charged_to_their_callers() {
        let pool = CpuPool::start(1);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (account, other) = (Account::default(), Account::default());
        let make = |bytes: usize| {
            let pool = pool.clone();
            async move {
                let own = vec![1u8; bytes];
                let of_job = pool.run(Lane::Query, move || vec![1u8; bytes]).await;
                (own, of_job)
            }
        };
        let held = runtime.block_on(async {
            tokio::join!(account.charge(make(1 << 20)), other.charge(make(1 << 19)), make(1 << 18))
        });
        let near = |account: &Account, bytes: u64| account.used().abs_diff(bytes) < BATCH_BYTES as u64;
        assert!(near(&account, 2 << 20) && near(&other, 1 << 20), "{account:?} {other:?}");
        drop(held);
        pool.close();
    }
}
