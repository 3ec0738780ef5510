//! Spaces out requests when even the smallest window is too much for the store.
//!
//! A window has at least a few slots, and a store that answers "slow down" within milliseconds would get
//! all of these requests again at once. So a refusal at the smallest window doubles the time between two
//! requests, and each success reduces it by 1/24. One refusal is balanced by ln 2 / ln(24/23) = 16
//! successes, so about 6 % of the requests are refused, whatever the store's limit is, and that is less
//! than the retry budget. `Retry-After` stops the lane for that time. This module is pure arithmetic.

use std::time::Duration;

/// The first spacing; shorter than any round trip to a bucket.
const FIRST: Duration = Duration::from_millis(4);
/// The longest spacing; a lane tests this often whether the store accepts requests again.
const LONGEST: Duration = Duration::from_millis(500);
/// The longest time that `Retry-After` may stop a lane.
const HELD_MAX: Duration = Duration::from_secs(60);
/// A success reduces the spacing by 1/24 of it.
const EASE: u32 = 24;
/// The longest common spacing. It spreads bursts. A store that refuses even 30 requests per second, or
/// refuses at random, does not benefit from longer spacing, which would only delay changes by other
/// writers.
const COMMON_LONGEST: Duration = Duration::from_millis(32);
/// How long the common spacing stays unchanged before half of it is tried. Few requests pass during a
/// burst, so successes would reduce it too early, and each attempt costs the refusals of a burst.
const TRIED_EVERY: Duration = Duration::from_secs(8);

/// The pace of a lane; not spaced out at first.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    spacing: Duration,
    next_at: Duration,
}

impl Pace {
    /// Time between two requests; zero when they are not spaced out.
    pub fn spacing(&self) -> Duration {
        self.spacing
    }

    /// Notes a refusal while the window is the smallest.
    pub fn slow_down(&mut self) {
        self.slow_down_to(LONGEST);
    }

    /// Doubles the spacing, up to `longest`.
    fn slow_down_to(&mut self, longest: Duration) {
        self.spacing = (self.spacing * 2).clamp(FIRST, longest);
    }

    /// Notes a success.
    pub fn ease(&mut self) {
        self.spacing -= self.spacing / EASE;
        if self.spacing < FIRST / 2 {
            self.spacing = Duration::ZERO;
        }
    }

    /// Halves the spacing.
    fn halve(&mut self) {
        self.spacing = if self.spacing > FIRST { self.spacing / 2 } else { Duration::ZERO };
    }

    /// Sends nothing for `held`, at most [`HELD_MAX`].
    pub fn hold(&mut self, now: Duration, held: Duration) {
        self.next_at = self.next_at.max(now + held.min(HELD_MAX));
    }

    /// The time at which the next request may begin.
    pub fn next(&mut self, now: Duration) -> Duration {
        let at = self.next_at.max(now);
        self.next_at = at + self.spacing;
        at
    }
}

/// The common pace of all lanes except that of block reads. The store counts the requests of all lanes,
/// so requests can be refused if all lanes send at the same moment, even if each sends little. Urgent
/// requests have their own schedule and delay the others.
#[derive(Debug, Default)]
pub(crate) struct CommonPace {
    pace: Pace,
    urgent_at: Duration,
    /// When the spacing was changed last.
    changed_at: Duration,
}

impl CommonPace {
    /// The time at which the next request may begin.
    pub fn next(&mut self, now: Duration, is_urgent: bool) -> Duration {
        let at = self.pace.next(now);
        if !is_urgent {
            return at;
        }
        let at = self.urgent_at.max(now);
        self.urgent_at = at + self.pace.spacing;
        at
    }

    /// Notes the refusal of a request that began at `began`. Requests that were refused together count
    /// once.
    pub fn slow_down(&mut self, began: Duration, now: Duration) {
        if began >= self.changed_at {
            self.pace.slow_down_to(COMMON_LONGEST);
            self.changed_at = now;
        }
    }

    /// Notes a success.
    pub fn ease(&mut self, now: Duration) {
        if now >= self.changed_at + TRIED_EVERY {
            self.changed_at = now;
            self.pace.halve();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Method: a store accepts one request per interval and refuses earlier ones; counts the refusals
    /// among a thousand requests.
    #[test]
    fn few_requests_are_refused_for_any_limit() {
        for limit_ms in [5, 50, 300] {
            let (mut pace, mut now, mut free_at) = (Pace::default(), Duration::ZERO, Duration::ZERO);
            let mut refused = 0;
            for _ in 0..1_000 {
                now = pace.next(now);
                if now < free_at {
                    refused += 1;
                    pace.slow_down();
                } else {
                    free_at = now + Duration::from_millis(limit_ms);
                    pace.ease();
                }
            }
            assert!((20..90).contains(&refused), "{refused} of 1000 at {limit_ms} ms");
            let ideal = Duration::from_millis(limit_ms) * 1_000;
            assert!(now < ideal * 3 / 2, "{now:?} instead of {ideal:?} at {limit_ms} ms");
        }
    }

    /// Method: a store accepts forty requests per second and bursts of four, and all lanes send at each
    /// full second. Goal: far less than a tenth is refused, and no request waits for long.
    #[test]
    fn simultaneous_requests_of_lanes_are_spread_out() {
        let (mut pace, mut allowance, mut checked) = (CommonPace::default(), 4.0_f64, Duration::ZERO);
        let (mut asked, mut refused, mut latest) = (0, 0, Duration::ZERO);
        for second in 0..300 {
            let start = Duration::from_secs(second);
            let mut times: Vec<Duration> = (0..12).map(|n| pace.next(start, n % 3 == 0)).collect();
            times.sort();
            for at in times {
                allowance = (allowance + at.saturating_sub(checked).as_secs_f64() * 40.0).min(4.0);
                checked = checked.max(at);
                latest = latest.max(at - start);
                asked += 1;
                if allowance < 1.0 {
                    refused += 1;
                    pace.slow_down(at, at + Duration::from_millis(5));
                } else {
                    allowance -= 1.0;
                    pace.ease(at);
                }
            }
        }
        assert!(refused * 12 < asked, "{refused} of {asked}");
        assert!(latest < Duration::from_secs(1), "{latest:?}");
    }

    #[test]
    fn the_pace_recovers_and_obeys_retry_after() {
        let mut pace = Pace::default();
        (0..20).for_each(|_| pace.slow_down());
        assert_eq!(pace.spacing(), LONGEST);
        let mut recovered = Duration::ZERO;
        while pace.spacing() > Duration::ZERO {
            recovered += pace.spacing();
            pace.ease();
        }
        assert!(recovered < Duration::from_secs(13), "{recovered:?}");
        pace.hold(Duration::from_secs(1), Duration::from_secs(3));
        assert_eq!(pace.next(Duration::from_secs(2)), Duration::from_secs(4));
        pace.hold(Duration::ZERO, Duration::MAX);
        assert_eq!(pace.next(Duration::from_secs(5)), HELD_MAX);
    }
}
