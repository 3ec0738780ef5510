//! One loop for all repetition: `object_store` itself never tries again.
//!
//! Pauses have full jitter. A retry must be paid from the class's budget: one retry per ten
//! requests, plus a trickle that lets a quiet store recover. Who cannot pay waits, up to the
//! deadline: a store in trouble sees at most 10 % more requests than without retries.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sandur_base::Env;

use crate::classify::Failure;
use crate::error::Error;
use crate::intent::{Class, Policy};
use crate::request::{Call, Requester};

/// Millionths of a retry that each request earns: 10 %.
const EARNED_PER_REQUEST: u64 = 100_000;
/// Millionths of a retry earned per millisecond: two retries per second.
const EARNED_PER_MS: u64 = 2_000;
/// Millionths of a retry.
const ONE: u64 = 1_000_000;
/// The most that can be saved up: 32 retries.
const SAVED_MAX: u64 = 32 * ONE;

/// The budgets of all classes.
pub(crate) struct RetryBudgets([Mutex<Account>; Class::ALL.len()]);

struct Account {
    saved: u64,
    refilled_at: Duration,
}

impl RetryBudgets {
    pub fn new(now: Duration) -> Self {
        Self(Class::ALL.map(|_| Mutex::new(Account { saved: SAVED_MAX, refilled_at: now })))
    }

    /// A request (not a retry) is made.
    pub fn earn(&self, class: Class) {
        let mut account = self.account(class);
        account.saved = (account.saved + EARNED_PER_REQUEST).min(SAVED_MAX);
    }

    /// Pays for one retry, if it can be paid.
    pub fn pay(&self, class: Class, now: Duration) -> bool {
        let mut account = self.account(class);
        let elapsed_ms = now.saturating_sub(account.refilled_at).as_millis() as u64;
        account.saved = (account.saved + elapsed_ms.saturating_mul(EARNED_PER_MS)).min(SAVED_MAX);
        account.refilled_at += Duration::from_millis(elapsed_ms);
        let can_pay = account.saved >= ONE;
        if can_pay {
            account.saved -= ONE;
        }
        can_pay
    }

    fn account(&self, class: Class) -> std::sync::MutexGuard<'_, Account> {
        self.0[class.index()].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pauses and the deadline of one operation.
pub(crate) struct Attempts<'a> {
    env: &'a Env,
    budgets: &'a RetryBudgets,
    class: Class,
    policy: Policy,
    give_up_at: Duration,
    /// Attempts that were begun.
    pub made: u32,
}

impl<'a> Attempts<'a> {
    /// The schedule of an operation that moves `bytes` per attempt. Its first attempt is begun.
    pub fn begin(requester: &'a Requester, class: Class, bytes: u64) -> Self {
        let policy = requester.policy(class);
        let give_up_at = requester.env.monotonic() + policy.deadline + policy.transfer(bytes);
        requester.budgets.earn(class);
        let (env, budgets) = (&requester.env, &requester.budgets);
        Self { env, budgets, class, policy, give_up_at, made: 1 }
    }

    /// Time until the operation is given up.
    pub fn remaining(&self) -> Duration {
        self.give_up_at.saturating_sub(self.env.monotonic())
    }

    /// Waits until the next attempt may begin; false when there is none.
    pub async fn next(&mut self) -> bool {
        if self.made >= self.policy.attempts_max {
            return false;
        }
        let mut pauses = self.made - 1;
        loop {
            let bound = self.policy.pause_bound(pauses).as_micros() as u64;
            // Half a millisecond at least: a jitter of nothing would only repeat the collision.
            let pause = Duration::from_micros(500 + self.env.random_below(bound.max(1)));
            if pause >= self.remaining() {
                return false;
            }
            self.env.sleep(pause).await;
            if self.budgets.pay(self.class, self.env.monotonic()) {
                self.made += 1;
                return true;
            }
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
        let mut attempts = Attempts::begin(self, call.intent.class, call.bytes);
        loop {
            let failure = match self.once(&call, attempts.remaining(), attempt()).await {
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
        if attempts.next().await {
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
        let budgets = RetryBudgets::new(Duration::ZERO);
        let class = Class::Block;
        let at_start = (0..1_000).filter(|_| budgets.pay(class, Duration::ZERO)).count();
        assert_eq!(at_start, 32);
        (0..100).for_each(|_| budgets.earn(class));
        let earned = (0..1_000).filter(|_| budgets.pay(class, Duration::ZERO)).count();
        assert_eq!(earned, 10);
        let after_a_second = (0..1_000).filter(|_| budgets.pay(class, Duration::from_secs(1))).count();
        assert_eq!(after_a_second, 2);
        assert!(budgets.pay(Class::Wal, Duration::ZERO), "another class has its own");
    }
}
