//! Retries queries that fail because other queries hold the memory: such a query releases its memory,
//! waits, and starts again.
//!
//! A response whose first byte was sent cannot start again: its next step waits while it keeps its
//! memory.
//!
//! A refusal by the query's own budget is final: the query is too large. A refusal by a budget that it
//! shares means only that other queries hold the memory at the moment.
//!
//! **Invariants.** A query that waits before its response begins holds no memory. It starts again after
//! the memory that it lacked is kept for it ([`sandur_memory::MemoryBudget::keep`]). The kept amount grows
//! by at least half each time, so there are few attempts: at the latest when its complete limit is kept,
//! other queries cannot cause a refusal any more. A query waits at most half of the time that it had
//! left; then the refusal is its result.

use std::time::Duration;

use sandur_memory::OverBudget;

use crate::context::QueryContext;
use crate::error::Error;
use crate::stats::QueryStats;

/// First and longest pause between checks for free memory; pauses double, because thousands of queries
/// may wait.
const LOOK: Duration = Duration::from_millis(20);
const LOOK_LATEST: Duration = Duration::from_millis(320);

/// An error that may contain the refusal of a memory budget.
pub trait Refusable {
    /// The refusal, if that is the cause.
    fn refusal(&self) -> Option<&OverBudget>;
}

impl Refusable for Error {
    fn refusal(&self) -> Option<&OverBudget> {
        match self {
            Self::OverBudget(refusal) => Some(refusal),
            _ => None,
        }
    }
}

/// The retries of a query: how long it may wait, and how much memory it lacked.
pub struct MemoryRetries<'a> {
    context: &'a QueryContext,
    /// When waiting ends, as time since the start of the query.
    until: Duration,
    /// Bytes that were requested to be kept for the query.
    kept: u64,
}

impl QueryContext {
    /// The retries of work that fails when other queries hold the memory:
    /// `loop { let done = work().await; if !retries.repeat_after(&done).await { return done; } }`.
    /// The caller writes the loop, because a future that borrows through an async closure is not [`Send`]
    /// for every lifetime, as request handlers must be.
    pub fn memory_retries(&self) -> MemoryRetries<'_> {
        MemoryRetries { context: self, until: self.elapsed() + self.remaining() / 2, kept: 0 }
    }
}

impl<'a> MemoryRetries<'a> {
    /// Whether the work shall start again. If it failed because other queries held the memory, waits
    /// until enough is kept for this query.
    pub fn repeat_after<'r, T, E: Refusable>(
        &'r mut self,
        outcome: &Result<T, E>,
    ) -> impl Future<Output = bool> + use<'r, 'a, T, E> {
        let asked = self.asked_of_others(outcome);
        async move {
            match asked {
                Some(bytes) => self.wait(bytes).await,
                None => false,
            }
        }
    }

    /// Whether the step shall be repeated. If it failed because other queries held the memory, waits
    /// until enough is free, while the query keeps what it holds.
    pub fn repeat_step_after<'r, T, E: Refusable>(
        &'r mut self,
        outcome: &Result<T, E>,
    ) -> impl Future<Output = bool> + use<'r, 'a, T, E> {
        let asked = self.asked_of_others(outcome);
        async move {
            let Some(bytes) = asked else { return false };
            let budget = self.context.budget();
            self.wait_until(|| budget.available() >= bytes).await
        }
    }

    /// The bytes that were refused, if the outcome is a refusal because others held the memory.
    fn asked_of_others<T, E: Refusable>(&self, outcome: &Result<T, E>) -> Option<u64> {
        let refusal = outcome.as_ref().err().and_then(Refusable::refusal)?;
        self.context.budget().is_held_by_others(refusal).then_some(refusal.asked)
    }

    /// Waits until the peak use of the query plus `refused` bytes are kept for it, and half more than the
    /// last time; returns whether they are.
    async fn wait(&mut self, refused: u64) -> bool {
        let budget = self.context.budget();
        let lacked = budget.peak().max(self.kept).saturating_add(refused);
        self.kept = lacked.max(self.kept.saturating_add(self.kept / 2));
        // Keeping zero bytes never fails.
        _ = budget.keep(0);
        self.wait_until(|| budget.keep(self.kept).is_ok()).await
    }

    /// Waits until `is_so`, with growing pauses; returns whether it holds. The wait counts as queue
    /// time.
    async fn wait_until(&self, is_so: impl Fn() -> bool) -> bool {
        let (context, began) = (self.context, self.context.elapsed());
        let (mut is_there, mut pause) = (is_so(), LOOK);
        while !is_there && context.check().is_ok() && context.elapsed() < self.until {
            context.env().sleep(pause).await;
            pause = (pause * 2).min(LOOK_LATEST);
            is_there = is_so();
        }
        QueryStats::add_time(&context.stats().queue_ns, context.elapsed().saturating_sub(began));
        is_there
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use sandur_memory::MemoryBudget;
    use sandur_model::TenantId;
    use sandur_runtime::Env;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn context(env: &Env, all: &MemoryBudget) -> QueryContext {
        QueryContext::new(env.clone(), TenantId::default_tenant(), all.child("query", 600), MINUTE)
    }

    /// Method: the query is refused twice because of others, at its start and in its middle, and then
    /// succeeds.
    #[tokio::test(start_paused = true)]
    async fn a_query_waits_until_others_release_memory() {
        let env = Env::simulated(1, 0);
        let all = MemoryBudget::root("all queries", 1_000);
        let context = context(&env, &all);
        let others = Cell::new(Some(all.reserve(950).unwrap()));
        let attempts = Cell::new(0);
        let work = async || {
            attempts.set(attempts.get() + 1);
            let _first = context.budget().reserve(100)?;
            // A concurrent query takes all free memory.
            let rest = all.available();
            let _greedy = all.reserve(rest).unwrap();
            let second = context.budget().reserve(400)?;
            Ok::<u64, Error>(second.bytes())
        };
        let patient = async {
            let mut retries = context.memory_retries();
            loop {
                let done = work().await;
                if !retries.repeat_after(&done).await {
                    return done;
                }
            }
        };
        let (done, ()) = tokio::join!(patient, async {
            env.sleep(Duration::from_secs(3)).await;
            assert_eq!((attempts.get(), context.budget().used()), (1, 0), "it waits without memory");
            others.take();
        });
        assert_eq!((done.unwrap(), attempts.get()), (400, 3));
        assert!(context.stats().snapshot().queue_ns >= 3_000_000_000);
        drop(context);
        assert_eq!(all.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_that_is_too_large_fails_at_once_and_one_without_memory_after_a_wait() {
        let env = Env::simulated(1, 0);
        let all = MemoryBudget::root("all queries", 1_000);
        let attempts = Cell::new(0);
        let run = async |context: &QueryContext, bytes: u64| {
            let mut retries = context.memory_retries();
            loop {
                attempts.set(attempts.get() + 1);
                let done = context.budget().reserve(bytes).map(drop).map_err(Error::from);
                if !retries.repeat_after(&done).await {
                    return done;
                }
            }
        };
        let too_large = run(&context(&env, &all), 601).await.unwrap_err();
        assert!(too_large.to_string().contains("'query'"), "{too_large}");
        assert_eq!((attempts.get(), env.monotonic()), (1, Duration::ZERO));
        let _held = all.reserve(900).unwrap();
        let context = context(&env, &all);
        let late = run(&context, 200).await.unwrap_err();
        assert!(late.to_string().contains("'all queries'"), "{late}");
        let waited = context.elapsed();
        assert!(waited >= MINUTE / 2 && waited <= MINUTE / 2 + LOOK_LATEST, "{waited:?}");
        assert_eq!(attempts.get(), 2);
    }

    /// A step of a response that has begun waits while the query keeps its memory.
    #[tokio::test(start_paused = true)]
    async fn a_step_waits_until_the_memory_it_requested_is_free() {
        let env = Env::simulated(1, 0);
        let all = MemoryBudget::root("all queries", 1_000);
        let context = context(&env, &all);
        let held = context.budget().reserve(300).unwrap();
        let others = all.reserve(700).unwrap();
        let mut retries = context.memory_retries();
        let step = || context.budget().reserve(100).map_err(Error::from);
        let refused = step();
        let (is_found, ()) = tokio::join!(retries.repeat_step_after(&refused), async {
            env.sleep(Duration::from_secs(2)).await;
            assert_eq!(context.budget().used(), 300);
            drop(others);
        });
        assert!(is_found && step().is_ok());
        assert!(!retries.repeat_step_after(&step()).await, "the step was not refused");
        let others = all.reserve(700).unwrap();
        assert!(!retries.repeat_step_after(&step()).await, "the time to wait is over");
        assert!(context.elapsed() <= MINUTE / 2 + LOOK_LATEST);
        drop((held, others));
    }
}
