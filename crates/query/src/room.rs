//! A query for which others left no memory gives back what it holds, waits, and begins again, in place of
//! failing.
//!
//! An answer that has begun cannot begin again: it waits with what it holds, and goes on where it was.
//!
//! A refusal of the query's own budget is final: the query is too large. A refusal of a budget that it shares
//! says only that others hold the memory now.
//!
//! **Invariants.** While a query waits that has not begun to answer it holds nothing. It begins again with
//! what it lacked kept for it ([`sandur_base::MemoryBudget::keep`]), half as much again at least each time,
//! so that attempts are few: at the latest when its whole limit is kept, no other query can refuse it
//! anything. It waits no longer than half of the time that it had left; then the refusal is the answer.

use std::time::Duration;

use sandur_base::OverBudget;

use crate::context::QueryContext;
use crate::error::Error;
use crate::stats::QueryStats;

/// How soon a query for which there was no room looks again: later each time, because thousands may wait.
const LOOK: Duration = Duration::from_millis(20);
const LOOK_LATEST: Duration = Duration::from_millis(320);

/// An error that may be the refusal of a memory budget.
pub trait Refusable {
    /// The refusal.
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

/// How long a query waits for room, and what it lacked.
pub struct Room<'a> {
    context: &'a QueryContext,
    /// When its patience ends, since the query began.
    until: Duration,
    /// What it asked to be kept for it.
    kept: u64,
}

impl QueryContext {
    /// For work that is done again when others held the memory that it asked for:
    /// `loop { let done = work().await; if !room.is_found_after(&done).await { return done; } }`.
    /// The loop stands where the work is called: a future that borrows through an async closure is not
    /// [`Send`] for every lifetime, which handlers of requests must be.
    pub fn room(&self) -> Room<'_> {
        Room { context: self, until: self.elapsed() + self.remaining() / 2, kept: 0 }
    }
}

impl<'a> Room<'a> {
    /// Whether the work shall begin again: it failed for want of memory that others held, and now there is
    /// some, for which this has waited.
    pub fn is_found_after<'r, T, E: Refusable>(
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

    /// Whether the step that had this outcome shall be tried again: it failed for want of memory that others
    /// held, and now there is some, for which this has waited with what the query holds.
    pub fn is_found_for_step<'r, T, E: Refusable>(
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

    /// Bytes that others held when they were asked for, if that is why the outcome is a failure.
    fn asked_of_others<T, E: Refusable>(&self, outcome: &Result<T, E>) -> Option<u64> {
        let refusal = outcome.as_ref().err().and_then(Refusable::refusal)?;
        self.context.budget().is_held_by_others(refusal).then_some(refusal.asked)
    }

    /// Waits until what it used and these bytes more are kept for the query; whether they are.
    async fn wait(&mut self, refused: u64) -> bool {
        let budget = self.context.budget();
        let lacked = budget.peak().max(self.kept).saturating_add(refused);
        self.kept = lacked.saturating_add(lacked / 2);
        // Nothing is refused that keeps nothing.
        _ = budget.keep(0);
        self.wait_until(|| budget.keep(self.kept).is_ok()).await
    }

    /// Waits until something is so; whether it is. The wait counts as queue time.
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

    use sandur_base::{Env, MemoryBudget};
    use sandur_model::TenantId;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn context(env: &Env, all: &MemoryBudget) -> QueryContext {
        QueryContext::new(env.clone(), TenantId::default_tenant(), all.child("query", 600), MINUTE)
    }

    /// It fails by others twice, at its start and in its middle, and then has what it needs.
    #[tokio::test(start_paused = true)]
    async fn a_query_waits_until_others_give_memory_back() {
        let env = Env::simulated(1, 0);
        let all = MemoryBudget::root("all queries", 1_000);
        let context = context(&env, &all);
        let others = Cell::new(Some(all.reserve(950).unwrap()));
        let attempts = Cell::new(0);
        let work = async || {
            attempts.set(attempts.get() + 1);
            let _first = context.budget().reserve(100)?;
            // Who runs beside it takes what is free.
            let rest = all.available();
            let _greedy = all.reserve(rest).unwrap();
            let second = context.budget().reserve(400)?;
            Ok::<u64, Error>(second.bytes())
        };
        let patient = async {
            let mut room = context.room();
            loop {
                let done = work().await;
                if !room.is_found_after(&done).await {
                    return done;
                }
            }
        };
        let (done, ()) = tokio::join!(patient, async {
            env.sleep(Duration::from_secs(3)).await;
            assert_eq!((attempts.get(), context.budget().used()), (1, 0), "it waits and holds nothing");
            others.take();
        });
        assert_eq!((done.unwrap(), attempts.get()), (400, 3));
        assert!(context.stats().snapshot().queue_ns >= 3_000_000_000);
        drop(context);
        assert_eq!(all.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_that_is_too_large_fails_at_once_and_one_without_room_in_time() {
        let env = Env::simulated(1, 0);
        let all = MemoryBudget::root("all queries", 1_000);
        let attempts = Cell::new(0);
        let run = async |context: &QueryContext, bytes: u64| {
            let mut room = context.room();
            loop {
                attempts.set(attempts.get() + 1);
                let done = context.budget().reserve(bytes).map(drop).map_err(Error::from);
                if !room.is_found_after(&done).await {
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

    /// A step of an answer that has begun waits with what the query holds.
    #[tokio::test(start_paused = true)]
    async fn a_step_waits_until_what_it_asked_for_is_free() {
        let env = Env::simulated(1, 0);
        let all = MemoryBudget::root("all queries", 1_000);
        let context = context(&env, &all);
        let held = context.budget().reserve(300).unwrap();
        let others = all.reserve(700).unwrap();
        let mut room = context.room();
        let step = || context.budget().reserve(100).map_err(Error::from);
        let refused = step();
        let (is_found, ()) = tokio::join!(room.is_found_for_step(&refused), async {
            env.sleep(Duration::from_secs(2)).await;
            assert_eq!(context.budget().used(), 300);
            drop(others);
        });
        assert!(is_found && step().is_ok());
        assert!(!room.is_found_for_step(&step()).await, "it was not refused");
        let others = all.reserve(700).unwrap();
        assert!(!room.is_found_for_step(&step()).await, "its patience ends");
        assert!(context.elapsed() <= MINUTE / 2 + LOOK_LATEST);
        drop((held, others));
    }
}
