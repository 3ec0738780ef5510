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
        self.spacing = (self.spacing * 2).clamp(FIRST, LONGEST);
    }

    /// A good answer came.
    pub fn ease(&mut self) {
        self.spacing -= self.spacing / EASE;
        if self.spacing < FIRST / 2 {
            self.spacing = Duration::ZERO;
        }
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
