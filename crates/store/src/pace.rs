//! Spacing of requests when even the smallest window is too much for the store.
//!
//! A window has at least a few slots, and a store that answers "slow down" within milliseconds would
//! have them all back at once. So trouble at the floor doubles the time between two requests, and each
//! good answer takes a 24th of it away: one refusal is balanced by ln 2 / ln(24/23) = 16 good answers,
//! so about 6 % of the requests are refused whatever the store's limit is, fewer than there are
//! retries for. `Retry-After` holds the whole lane until then. Pure arithmetic.

use std::time::Duration;

/// The first spacing. Shorter than any round trip to a bucket.
const FIRST: Duration = Duration::from_millis(4);
/// The longest spacing: how often a lane asks whether the storm is over.
const LONGEST: Duration = Duration::from_millis(500);
/// The longest time that `Retry-After` may hold a lane.
const HELD_MAX: Duration = Duration::from_secs(60);
/// The part of the spacing that a good answer takes away.
const EASE: u32 = 24;
/// The longest common spacing. It takes bursts apart; a store that refuses what comes thirty times a second,
/// or at random, is not helped by waiting longer, and news of other writers would be late.
const COMMON_LONGEST: Duration = Duration::from_millis(32);
/// How long the common spacing stays as it is before half of it is tried. Few requests pass in the time of
/// a burst, so answers would ease it too early: each try costs the refusals of a burst.
const TRIED_EVERY: Duration = Duration::from_secs(8);

/// The pace of a lane. Unspaced at first.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    spacing: Duration,
    next_at: Duration,
}

impl Pace {
    /// Time between two requests; zero when they are not spaced.
    pub fn spacing(&self) -> Duration {
        self.spacing
    }

    /// The store refused although the window is as small as it may be.
    pub fn slow_down(&mut self) {
        self.slow_down_to(LONGEST);
    }

    /// Doubles the spacing, up to the longest.
    fn slow_down_to(&mut self, longest: Duration) {
        self.spacing = (self.spacing * 2).clamp(FIRST, longest);
    }

    /// A good answer came.
    pub fn ease(&mut self) {
        self.spacing -= self.spacing / EASE;
        if self.spacing < FIRST / 2 {
            self.spacing = Duration::ZERO;
        }
    }

    /// Tries half the spacing.
    fn halve(&mut self) {
        self.spacing = if self.spacing > FIRST { self.spacing / 2 } else { Duration::ZERO };
    }

    /// Nothing may be sent for `held`.
    pub fn hold(&mut self, now: Duration, held: Duration) {
        self.next_at = self.next_at.max(now + held.min(HELD_MAX));
    }

    /// Gives the next request its time.
    pub fn next(&mut self, now: Duration) -> Duration {
        let at = self.next_at.max(now);
        self.next_at = at + self.spacing;
        at
    }
}

/// The pace of all lanes together, reads of blocks aside. A store counts the requests of all of them: each
/// lane alone may ask for little and the moment at which they all do is refused. Urgent requests have a line
/// of their own and push the others back.
#[derive(Debug, Default)]
pub(crate) struct CommonPace {
    pace: Pace,
    urgent_at: Duration,
    /// When it was last made longer or shorter.
    changed_at: Duration,
}

impl CommonPace {
    /// Gives the next request its time.
    pub fn next(&mut self, now: Duration, is_urgent: bool) -> Duration {
        let at = self.pace.next(now);
        if !is_urgent {
            return at;
        }
        let at = self.urgent_at.max(now);
        self.urgent_at = at + self.pace.spacing;
        at
    }

    /// The store refused a request that began at `began`. Those refused together count once.
    pub fn slow_down(&mut self, began: Duration, now: Duration) {
        if began >= self.changed_at {
            self.pace.slow_down_to(COMMON_LONGEST);
            self.changed_at = now;
        }
    }

    /// A good answer came.
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

    /// A store that takes one request per 50 ms and refuses what comes sooner; how many of a
    /// thousand it refuses.
    #[test]
    fn few_requests_are_refused_whatever_the_limit_is() {
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

    /// A store that takes forty requests per second and four at once, and lanes that all ask at the full
    /// second: what they are refused is far less than a tenth, and no request waits for long.
    #[test]
    fn lanes_that_ask_together_are_spread_out() {
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
    fn it_recovers_and_holds() {
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
