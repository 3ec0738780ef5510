//! One amount of memory that several budgets share: each has a guarantee, and what is not guaranteed is lent.
//!
//! A share is a budget below the pool. Its guarantee is kept for it at all times
//! ([`MemoryBudget::keep`]), also while it uses less. Beyond its guarantee, up to a limit, it uses memory
//! that nobody is guaranteed, as long as some is free.
//!
//! A **lender** is a share whose memory can be given back at once, such as a cache. When another share needs
//! memory and the pool has none left, lenders give back what they use beyond their guarantees; the one that
//! uses most beyond its guarantee is asked first. A lender itself never recalls the memory of others: it
//! evicts its own entries.
//!
//! **Invariants.** The bytes used and kept never exceed the pool. No share is refused memory within its
//! guarantee. Memory that cannot be given back at once never takes what is guaranteed to another share.

use std::fmt;
use std::sync::Arc;

use crate::budget::MemoryBudget;
use crate::lenders::{Lender, Lenders};

/// Memory that several budgets share. Cheap to clone: a handle.
#[derive(Clone)]
pub struct MemoryPool {
    all: MemoryBudget,
    lenders: Arc<Lenders>,
}

impl MemoryPool {
    /// A pool of `bytes`.
    pub fn new(name: &str, bytes: u64) -> Self {
        Self { all: MemoryBudget::root(name, bytes), lenders: Arc::default() }
    }

    /// The pool's memory. Bytes kept for shares count as used.
    pub fn all(&self) -> &MemoryBudget {
        &self.all
    }

    /// A share that always has `guarantee` bytes and never more than `most`.
    ///
    /// # Panics
    /// If the guarantees of all shares exceed the pool.
    pub fn share(&self, name: &str, guarantee: u64, most: u64) -> MemoryBudget {
        Self::guaranteed(
            self.all.child_that_recalls(name.into(), most.max(guarantee), &self.lenders),
            guarantee,
        )
    }

    /// The share of a lender; [`MemoryPool::lend_to`] registers the lender.
    ///
    /// # Panics
    /// If the guarantees of all shares exceed the pool.
    pub fn lenders_share(&self, name: &str, guarantee: u64, most: u64) -> MemoryBudget {
        Self::guaranteed(self.all.child(name, most.max(guarantee)), guarantee)
    }

    fn guaranteed(share: MemoryBudget, guarantee: u64) -> MemoryBudget {
        share.keep(guarantee).expect("the guarantees of a pool do not exceed it");
        share
    }

    /// Registers a lender, whose budget is a share of this pool.
    pub fn lend_to(&self, lender: Arc<dyn Lender>) {
        self.lenders.add(lender);
    }

    /// Makes lenders give back `bytes` of what they use beyond their guarantees; returns how many they gave
    /// back.
    pub fn recall(&self, bytes: u64) -> u64 {
        self.lenders.recall(bytes)
    }
}

impl fmt::Debug for MemoryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::account::Account;
    use crate::budget::Reservation;

    /// A cache of entries of ten bytes.
    struct Tens {
        budget: MemoryBudget,
        entries: Mutex<Vec<Reservation>>,
    }

    impl Tens {
        fn fill(&self) {
            let mut entries = self.entries.lock().unwrap();
            while let Ok(entry) = self.budget.reserve(10) {
                entries.push(entry);
            }
        }
    }

    impl Lender for Tens {
        fn lent(&self) -> u64 {
            self.budget.lent()
        }

        fn release(&self, bytes: u64) {
            let Ok(mut entries) = self.entries.try_lock() else { return };
            let count = entries.len().saturating_sub(bytes.div_ceil(10) as usize);
            entries.truncate(count);
        }
    }

    fn cache(pool: &MemoryPool, guarantee: u64, most: u64) -> Arc<Tens> {
        let budget = pool.lenders_share("cache", guarantee, most);
        let cache = Arc::new(Tens { budget, entries: Mutex::default() });
        pool.lend_to(Arc::clone(&cache) as Arc<dyn Lender>);
        cache
    }

    #[test]
    fn what_is_not_guaranteed_is_lent_and_guarantees_hold() {
        let pool = MemoryPool::new("process", 1_000);
        let (writes, queries) = (pool.share("writes", 300, 1_000), pool.share("queries", 200, 600));
        let held = queries.reserve(600).unwrap();
        assert_eq!(&*queries.reserve(1).unwrap_err().budget, "queries", "its own limit");
        assert_eq!((writes.available(), writes.attainable()), (400, 400));
        let rows = writes.reserve(400).unwrap();
        assert_eq!(&*writes.reserve(1).unwrap_err().budget, "process");
        drop(rows);
        let more = writes.reserve(399).unwrap();
        drop(held);
        let all = queries.reserve(600).unwrap();
        assert!(queries.reserve(1).is_err() && writes.reserve(2).is_err());
        drop((all, more));
        assert_eq!((pool.all().used(), writes.used(), queries.used()), (500, 0, 0), "the guarantees");
    }

    #[test]
    fn lenders_give_back_down_to_their_guarantees() {
        let pool = MemoryPool::new("process", 1_000);
        let queries = pool.share("queries", 200, 1_000);
        let (small, large) = (cache(&pool, 50, 300), cache(&pool, 100, 1_000));
        small.fill();
        large.fill();
        assert_eq!((small.budget.used(), large.budget.used()), (300, 500));
        assert_eq!(queries.available(), 850);
        let held = queries.reserve(500).unwrap();
        assert_eq!((small.budget.used(), large.budget.used()), (300, 200), "the larger one gave back");
        let rest = queries.reserve(350).unwrap();
        assert_eq!((small.budget.used(), large.budget.used()), (50, 100));
        assert!(queries.reserve(1).is_err());
        small.fill();
        assert_eq!(small.budget.used(), 50, "a lender does not recall");
        drop((held, rest));
        large.fill();
        assert_eq!(large.budget.used(), 750);
        assert_eq!((pool.recall(1), pool.recall(10_000)), (10, 640));
    }

    /// Goal: a query whose need evicts entries of a cache is still charged for what it allocates itself.
    #[test]
    fn what_a_lender_frees_is_not_subtracted_from_the_account_of_the_requester() {
        struct Large(MemoryBudget, Mutex<Option<(Vec<u8>, Reservation)>>);
        impl Lender for Large {
            fn lent(&self) -> u64 {
                self.0.lent()
            }
            fn release(&self, _: u64) {
                self.1.lock().unwrap().take();
            }
        }
        let pool = MemoryPool::new("process", 10 << 20);
        let queries = pool.share("queries", 0, 10 << 20);
        let budget = pool.lenders_share("cache", 0, 10 << 20);
        let held = budget.reserve(10 << 20).unwrap();
        let bytes = std::hint::black_box(vec![7; 10 << 20]);
        pool.lend_to(Arc::new(Large(budget, Mutex::new(Some((bytes, held))))));
        let account = Account::default();
        let (used, _memory) = account.run(|| {
            let own = std::hint::black_box(vec![1u8; 1 << 20]);
            let memory = queries.reserve(1 << 20).unwrap();
            (account.used(), (own, memory))
        });
        assert!((1 << 20..2 << 20).contains(&used), "{used}");
    }

    #[test]
    fn a_lender_that_is_busy_gives_nothing_back_and_the_request_is_refused() {
        let pool = MemoryPool::new("process", 1_000);
        let queries = pool.share("queries", 0, 1_000);
        let cache = cache(&pool, 0, 1_000);
        cache.fill();
        let _busy = cache.entries.lock().unwrap();
        assert!(queries.reserve(10).is_err());
        assert_eq!((queries.used(), cache.budget.used()), (0, 1_000));
    }

    /// Goal: threads that reserve beside a cache that fills itself never exceed the pool, and all their
    /// memory returns.
    #[test]
    fn concurrent_requests_stay_within_the_pool() {
        let pool = MemoryPool::new("process", 10_000);
        let cache = cache(&pool, 500, 10_000);
        let shares: Vec<MemoryBudget> = (0..3).map(|_| pool.share("share", 1_000, 8_000)).collect();
        std::thread::scope(|scope| {
            for share in &shares {
                scope.spawn(|| {
                    for n in 0..3_000u64 {
                        let within = share.reserve(1_000 - n % 10);
                        assert!(within.is_ok(), "the guarantee");
                        let beyond = share.reserve(n % 4_000);
                        assert!(pool.all().used() <= 10_000);
                        drop((within, beyond));
                    }
                });
            }
            scope.spawn(|| (0..3_000).for_each(|_| cache.fill()));
        });
        drop(shares);
        assert!(cache.budget.used() >= 500);
        cache.entries.lock().unwrap().clear();
        assert_eq!(pool.all().used(), 500);
    }
}
