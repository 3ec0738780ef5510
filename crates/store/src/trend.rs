//! Projects the cost of the last hour to a month.

use std::collections::VecDeque;
use std::time::Duration;

/// The period from which the cost is projected.
const WINDOW: Duration = Duration::from_secs(3_600);
/// The shortest time between two recorded costs.
const APART: Duration = Duration::from_secs(60);
/// 30 days.
const MONTH_SECONDS: f64 = 30.0 * 86_400.0;

/// Costs at earlier times: at most one per minute of the last hour, and one before.
#[derive(Debug)]
pub(crate) struct Trend(VecDeque<(Duration, f64)>);

impl Default for Trend {
    fn default() -> Self {
        Self(VecDeque::from([(Duration::ZERO, 0.0)]))
    }
}

impl Trend {
    /// Sets the time when the store was opened.
    pub fn start(&mut self, now: Duration) {
        self.0 = VecDeque::from([(now, 0.0)]);
    }

    /// Dollars per month at the rate of the last hour, or since the store was opened.
    pub fn per_month(&mut self, now: Duration, dollars: f64) -> f64 {
        while self.0.get(1).is_some_and(|(at, _)| *at + WINDOW <= now) {
            self.0.pop_front();
        }
        if self.0.back().is_none_or(|(at, _)| *at + APART <= now) {
            self.0.push_back((now, dollars));
        }
        let (since, before) = self.0.front().copied().unwrap_or((now, dollars));
        let seconds = now.saturating_sub(since).as_secs_f64();
        if seconds > 0.0 { (dollars - before) / seconds * MONTH_SECONDS } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(minutes: u64) -> Duration {
        Duration::from_secs(minutes * 60)
    }

    #[test]
    fn a_month_is_projected_from_the_last_hour() {
        let mut trend = Trend::default();
        assert_eq!(trend.per_month(Duration::ZERO, 0.0), 0.0);
        // A dollar per hour for five hours: 720 in 30 days.
        for minute in 1..=300 {
            let month = trend.per_month(minutes(minute), minute as f64 / 60.0);
            assert!((month - 720.0).abs() < 0.01, "{month} after {minute} min");
        }
        // Then nothing for an hour.
        for minute in 301..=361 {
            trend.per_month(minutes(minute), 5.0);
        }
        let quiet = trend.per_month(minutes(361), 5.0);
        assert!(quiet.abs() < 0.01, "{quiet}");
        assert!(trend.0.len() < 65);
    }

    #[test]
    fn a_first_call_long_after_the_start_returns_the_mean() {
        let mut trend = Trend::default();
        trend.start(minutes(60));
        let month = trend.per_month(minutes(660), 10.0);
        assert!((month - 720.0).abs() < 0.01, "{month}");
    }
}
