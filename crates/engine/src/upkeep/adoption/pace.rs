//! How often the WAL of another writer is polled.
//!
//! A writer with new segments is polled at the shortest interval. Without new segments the interval doubles,
//! up to a bound that keeps the age of the writer's rows below the bound of the view. While nobody queries,
//! it doubles further: the next query has the WAL read before it is answered
//! ([`crate::reading::freshness`]).

use std::time::Duration;

use crate::options::EngineOptions;
use crate::reading::freshness::bound_of;

/// Polls without a new segment after which a writer is polled less often.
const IDLE_POLLS: u32 = 10;

/// The bounds of the intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Intervals {
    /// Between polls of a writer with new segments.
    busy: Duration,
    /// Between polls of a writer without new segments.
    idle_max: Duration,
    /// Between polls of such a writer while nobody queries.
    unread_max: Duration,
    /// Between polls of the catalog while all writers answer.
    told: Duration,
}

impl Intervals {
    pub(super) fn of(options: &EngineOptions) -> Self {
        let busy = options.poll_interval;
        // What a poll has shown counts after the next poll of the catalog, and both may be late.
        let most = bound_of(options).saturating_sub(busy.saturating_mul(2));
        let idle_max = options.poll_idle_interval.min(most).max(busy);
        let unread_max = options.poll_unread_interval.max(idle_max);
        let told = (bound_of(options) / 2).min(options.poll_told_interval).max(busy);
        Self { busy, idle_max, unread_max, told }
    }

    /// The longest pause between polls of a writer: that of one that announces its segments.
    pub(super) fn longest(&self, is_queried: bool) -> Duration {
        if is_queried { self.idle_max } else { self.unread_max }
    }

    /// The pause between polls of the catalog while all other writers answer. They announce commits, so only
    /// the registration of a writer that nobody knows yet is seen later.
    pub(super) fn told(&self) -> Duration {
        self.told
    }
}

/// The pace at which one writer is polled.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Polls since the last new segment.
    idle_polls: u32,
}

impl Pace {
    /// Notes a poll that found this many new segments.
    pub(super) fn polled(&mut self, segments: u64) {
        self.idle_polls = if segments > 0 { 0 } else { self.idle_polls.saturating_add(1) };
    }

    /// The pause before the next poll.
    pub(super) fn pause(&self, intervals: &Intervals, is_queried: bool) -> Duration {
        let doublings = self.idle_polls.saturating_sub(IDLE_POLLS).min(30);
        intervals.busy.saturating_mul(1 << doublings).min(intervals.longest(is_queried))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_writers_are_polled_less_often_but_within_the_bound() {
        let intervals = Intervals::of(&EngineOptions::default());
        let mut pace = Pace::default();
        let mut pauses = Vec::new();
        for _ in 0..20 {
            pauses.push((pace.pause(&intervals, true).as_secs(), pace.pause(&intervals, false).as_secs()));
            pace.polled(0);
        }
        assert!(pauses[..=10].iter().all(|pauses| *pauses == (1, 1)), "{pauses:?}");
        assert_eq!(
            pauses[11..],
            [(2, 2), (3, 4), (3, 8), (3, 16), (3, 32), (3, 60), (3, 60), (3, 60), (3, 60)]
        );
        pace.polled(1);
        assert_eq!(pace.pause(&intervals, false).as_secs(), 1);
        let minute = Duration::from_secs(60);
        let rare = EngineOptions { poll_interval: minute, ..EngineOptions::default() };
        assert_eq!(
            Intervals::of(&rare),
            Intervals { busy: minute, idle_max: minute, unread_max: minute, told: minute }
        );
    }
}
