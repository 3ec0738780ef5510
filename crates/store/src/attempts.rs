//! When the attempts of one operation are made: their pauses and their deadline.
//!
//! Pauses have full jitter, and are never shorter than the store asked for (`Retry-After`). A retry must be
//! paid from the budget of its lane ([`RetryBudgets`]); who cannot pay waits, up to the deadline.

use std::time::Duration;

use sandur_base::Env;

use crate::intent::Policy;
use crate::lane::Lane;
use crate::retry_budgets::RetryBudgets;

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
    pub fn begin(env: &'a Env, budgets: &'a RetryBudgets, policy: Policy, lane: Lane, bytes: u64) -> Self {
        let give_up_at = env.monotonic() + policy.deadline + policy.transfer(bytes);
        budgets.earn(lane);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::Class;

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
