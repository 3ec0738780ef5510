//! One loop for all repetition: `object_store` itself never tries again.
//!
//! Pauses have full jitter, and are never shorter than the store asked for (`Retry-After`). A retry must
//! be paid from the budget of its lane: one retry per ten requests, plus a trickle that lets a quiet
//! store recover. Who cannot pay waits, up to the deadline: a store in trouble sees at most 10 % more
//! requests than without retries.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sandur_base::Env;

use crate::classify::Failure;
use crate::error::Error;
use crate::intent::{Class, Policy};
use crate::lane::Lane;
use crate::request::{Call, Requester};

/// Millionths of a retry.
const ONE: u64 = 1_000_000;
/// The most that can be saved up: 32 retries.
const SAVED_MAX: u64 = 32 * ONE;

/// The budgets of all lanes.
pub(crate) struct RetryBudgets {
    /// Millionths of a retry that each request earns.
    earned_per_request: u64,
    accounts: [Mutex<Account>; Lane::ALL.len()],
}

struct Account {
    saved: u64,
    refilled_at: Duration,
}

/// Millionths of a retry that a lane earns per millisecond: one retry per second, and four where somebody
/// waits for an acknowledgement and there are few requests to earn from.
fn earned_per_ms(lane: Lane) -> u64 {
    if lane.is_urgent() { 4_000 } else { 1_000 }
}

impl RetryBudgets {
    /// Budgets of so many retries in a hundred requests.
    pub fn new(now: Duration, percent: u32) -> Self {
        let account = || Mutex::new(Account { saved: SAVED_MAX, refilled_at: now });
        Self { earned_per_request: u64::from(percent) * ONE / 100, accounts: Lane::ALL.map(|_| account()) }
    }

    /// A request (not a retry) is made.
    pub fn earn(&self, lane: Lane) {
        let mut account = self.account(lane);
        account.saved = (account.saved + self.earned_per_request).min(SAVED_MAX);
    }

    /// Pays for one retry, if it can be paid.
    pub fn pay(&self, lane: Lane, now: Duration) -> bool {
        let mut account = self.account(lane);
        let elapsed_ms = now.saturating_sub(account.refilled_at).as_millis() as u64;
        let earned = elapsed_ms.saturating_mul(earned_per_ms(lane));
        account.saved = account.saved.saturating_add(earned).min(SAVED_MAX);
        account.refilled_at += Duration::from_millis(elapsed_ms);
        let can_pay = account.saved >= ONE;
        if can_pay {
            account.saved -= ONE;
        }
        can_pay
    }

    fn account(&self, lane: Lane) -> std::sync::MutexGuard<'_, Account> {
        self.accounts[lane.index()].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pauses and the deadline of one operation.
pub(crate) struct Attempts<'a> {
    env: &'a Env,
    budgets: &'a RetryBudgets,
    /// The lane of the operation, also for reads that settle its outcome.
    pub lane: Lane,
    policy: Policy,
    give_up_at: Duration,
    /// Attempts that were begun.
    pub made: u32,
}

impl<'a> Attempts<'a> {
    /// The schedule of an operation that moves `bytes` per attempt. Its first attempt is begun.
    pub fn begin(requester: &'a Requester, call: &Call<'_>, bytes: u64) -> Self {
        let policy = requester.policy(call.intent.class);
        let give_up_at = requester.env.monotonic() + policy.deadline + policy.transfer(bytes);
        let lane = call.lane();
        requester.budgets.earn(lane);
        let (env, budgets) = (&requester.env, &requester.budgets);
        Self { env, budgets, lane, policy, give_up_at, made: 1 }
    }

    /// Time until the operation is given up.
    pub fn remaining(&self) -> Duration {
        self.give_up_at.saturating_sub(self.env.monotonic())
    }

    /// Waits until the next attempt may begin, not before `retry_after`; false when there is none.
    pub async fn next(&mut self, retry_after: Option<Duration>) -> bool {
        if self.made >= self.policy.attempts_max {
            return false;
        }
        let mut pauses = self.made - 1;
        let mut asked_for = retry_after.unwrap_or_default();
        loop {
            // Half a millisecond at least: a jitter of nothing would only repeat the collision.
            let jitter = Duration::from_micros(500) + self.policy.backoff.full_jitter(pauses, self.env);
            // Added and not the larger of both: else all that were told the same come back together.
            let pause = asked_for.saturating_add(jitter);
            if pause >= self.remaining() {
                return false;
            }
            self.env.sleep(pause).await;
            if self.budgets.pay(self.lane, self.env.monotonic()) {
                self.made += 1;
                return true;
            }
            asked_for = Duration::ZERO;
            pauses += 1;
        }
    }
}

impl Requester {
    /// Runs `attempt` until it succeeds, fails for good, or the class's deadline is over.
    pub async fn persist<T, F>(&self, call: Call<'_>, attempt: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut attempts = Attempts::begin(self, &call, call.bytes);
        loop {
            let failure = match self.once(&call, &attempts, attempt()).await {
                Ok(value) => return Ok(value),
                Err(failure) => failure,
            };
            if !failure.is_transient() {
                return Err(failure.into_error(self.place(&call), attempts.made));
            }
            self.next_attempt(&call, &mut attempts, failure).await?;
        }
    }

    /// Waits for the next attempt, or gives up with the last failure.
    pub async fn next_attempt(
        &self,
        call: &Call<'_>,
        attempts: &mut Attempts<'_>,
        failure: Failure,
    ) -> Result<(), Error> {
        let (place, reason) = (self.place(call), failure.reason.as_str());
        // At start somebody is looking at the screen and wonders why nothing happens.
        if call.intent.class == Class::Probe && attempts.made == 1 {
            tracing::warn!(%place, reason, "the store does not answer yet, trying again");
        } else {
            tracing::debug!(%place, reason, attempt = attempts.made, "trying again");
        }
        if attempts.next(failure.retry_after).await {
            self.meter.retry(call);
            return Ok(());
        }
        Err(failure.into_error(place, attempts.made))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_a_tenth_of_the_requests_plus_a_trickle() {
        let budgets = RetryBudgets::new(Duration::ZERO, 10);
        let paid = |lane, at_s| (0..1_000).filter(|_| budgets.pay(lane, Duration::from_secs(at_s))).count();
        assert_eq!(paid(Lane::Read, 0), 32);
        (0..100).for_each(|_| budgets.earn(Lane::Read));
        assert_eq!(paid(Lane::Read, 0), 10);
        assert_eq!(paid(Lane::Read, 3), 3);
        assert_eq!(paid(Lane::Wal, 0), 32, "another lane has its own");
        assert_eq!(paid(Lane::Wal, 3), 12, "acknowledgements are waited for");
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_store_asked_for_is_the_least_pause() {
        let env = Env::simulated(1, 0);
        let budgets = RetryBudgets::new(Duration::ZERO, 10);
        let policy = Policy::bucket(Class::Block);
        let give_up_at = policy.deadline;
        let lane = Lane::Read;
        let mut attempts = Attempts { env: &env, budgets: &budgets, lane, policy, give_up_at, made: 1 };
        assert!(attempts.next(Some(Duration::from_secs(7))).await);
        let waited = env.monotonic();
        assert!(waited > Duration::from_secs(7) && waited < Duration::from_millis(7_060), "{waited:?}");
        assert!(!attempts.next(Some(Duration::from_secs(500))).await, "longer than the deadline");
        assert_eq!(env.monotonic(), waited, "which is known at once");
    }
}
