//! Bounds retries: one per ten requests, plus a small constant rate that lets an idle store recover. A
//! store with problems gets at most 10 % more requests than without retries.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::lane::Lane;

/// One retry, in millionths.
const ONE: u64 = 1_000_000;
/// The most that can be saved: 32 retries.
const SAVED_MAX: u64 = 32 * ONE;

/// The budgets of all lanes.
pub(crate) struct RetryBudgets {
    /// Millionths of a retry that each request earns.
    earned_per_request: u64,
    budgets: [Mutex<RetryBudget>; Lane::ALL.len()],
}

struct RetryBudget {
    saved: u64,
    refilled_at: Duration,
}

/// Millionths of a retry that a lane earns per millisecond: one retry per second, and four for urgent
/// lanes, where clients wait for acknowledgements and few requests earn retries.
fn earned_per_ms(lane: Lane) -> u64 {
    if lane.is_urgent() { 4_000 } else { 1_000 }
}

impl RetryBudgets {
    /// Budgets of `percent` retries per hundred requests.
    pub fn new(now: Duration, percent: u32) -> Self {
        let budget = || Mutex::new(RetryBudget { saved: SAVED_MAX, refilled_at: now });
        Self { earned_per_request: u64::from(percent) * ONE / 100, budgets: Lane::ALL.map(|_| budget()) }
    }

    /// Counts a request that is not a retry.
    pub fn earn(&self, lane: Lane) {
        let mut budget = self.budget(lane);
        budget.saved = (budget.saved + self.earned_per_request).min(SAVED_MAX);
    }

    /// Pays for one retry; returns whether the budget permits it.
    pub fn pay(&self, lane: Lane, now: Duration) -> bool {
        let mut budget = self.budget(lane);
        let elapsed_ms = now.saturating_sub(budget.refilled_at).as_millis() as u64;
        let earned = elapsed_ms.saturating_mul(earned_per_ms(lane));
        budget.saved = budget.saved.saturating_add(earned).min(SAVED_MAX);
        budget.refilled_at += Duration::from_millis(elapsed_ms);
        let can_pay = budget.saved >= ONE;
        if can_pay {
            budget.saved -= ONE;
        }
        can_pay
    }

    fn budget(&self, lane: Lane) -> std::sync::MutexGuard<'_, RetryBudget> {
        self.budgets[lane.index()].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_a_tenth_of_the_requests_plus_a_constant_rate() {
        let budgets = RetryBudgets::new(Duration::ZERO, 10);
        let paid = |lane, at_s| (0..1_000).filter(|_| budgets.pay(lane, Duration::from_secs(at_s))).count();
        assert_eq!(paid(Lane::Read, 0), 32);
        (0..100).for_each(|_| budgets.earn(Lane::Read));
        assert_eq!(paid(Lane::Read, 0), 10);
        assert_eq!(paid(Lane::Read, 3), 3);
        assert_eq!(paid(Lane::Wal, 0), 32, "another lane has its own budget");
        assert_eq!(paid(Lane::Wal, 3), 12, "urgent lanes earn more");
    }
}
