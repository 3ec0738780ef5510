//! Schedules the attempts of one operation: pauses and deadline.
//!
//! Pauses have full jitter and are never shorter than the store requested (`Retry-After`). The budget of
//! the lane must pay for a retry ([`RetryBudgets`]); while it cannot, the operation waits, up to its
//! deadline.

use std::time::Duration;

use sandur_runtime::Env;

use crate::intent::Policy;
use crate::lane::Lane;
use crate::retry_budgets::RetryBudgets;

/// The schedule of one operation.
pub(crate) struct Attempts<'a> {
    env: &'a Env,
    budgets: &'a RetryBudgets,
    /// The lane of the operation, also used by reads that settle its outcome.
    pub lane: Lane,
    policy: Policy,
    give_up_at: Duration,
    /// Number of attempts that were begun.
    pub made: u32,
}

impl<'a> Attempts<'a> {
    /// The schedule of an operation that transfers `bytes` per attempt. Counts the first attempt.
    pub fn begin(env: &'a Env, budgets: &'a RetryBudgets, policy: Policy, lane: Lane, bytes: u64) -> Self {
        let give_up_at = env.monotonic() + policy.deadline + policy.transfer(bytes);
        budgets.earn(lane);
        Self { env, budgets, lane, policy, give_up_at, made: 1 }
    }

    /// Time until the deadline.
    pub fn remaining(&self) -> Duration {
        self.give_up_at.saturating_sub(self.env.monotonic())
    }

    /// Waits until the next attempt may begin, at least `retry_after`; returns false if there is none.
    pub async fn next(&mut self, retry_after: Option<Duration>) -> bool {
        if self.made >= self.policy.attempts_max {
            return false;
        }
        let mut pauses = self.made - 1;
        let mut asked_for = retry_after.unwrap_or_default();
        loop {
            // At least half a millisecond: a retry without a pause would only repeat the collision.
            let jitter = Duration::from_micros(500) + self.policy.backoff.full_jitter(pauses, self.env);
            // The sum and not the maximum, so that clients with the same `Retry-After` do not return
            // together.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::Class;

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_at_least_as_long_as_retry_after() {
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
        assert_eq!(env.monotonic(), waited, "this is known at once");
    }
}
