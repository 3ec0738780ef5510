//! The times at which a group is evaluated.
//!
//! Each group has a phase, a function of its file and its name, so that groups with the same interval are
//! spread over it, and a group keeps its times over restarts.

use std::time::Duration;

use xxhash_rust::xxh64::xxh64;

use crate::data::{Instant, ns_of};

/// The schedule of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    interval_ns: i64,
    phase_ns: i64,
}

/// What follows an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// The time of the next evaluation.
    pub at: Instant,
    /// How many evaluations before it are left out, because they are late by an interval or more.
    pub missed: u64,
}

impl Schedule {
    /// The schedule of a group.
    pub fn new(file: &str, name: &str, interval: Duration) -> Self {
        let interval_ns = ns_of(interval).max(1);
        // Prometheus hashes these labels; names and values end with 0xFF.
        let mut text = Vec::new();
        for part in ["file", file, "name", name] {
            text.extend_from_slice(part.as_bytes());
            text.push(0xFF);
        }
        let phase_ns = (xxh64(&text, 0) % interval_ns.unsigned_abs()) as i64;
        Self { interval_ns, phase_ns }
    }

    /// The last time of the schedule that is not after `now`.
    pub fn before(&self, now: Instant) -> Instant {
        let since = now.ns().saturating_sub(self.phase_ns);
        Instant::of_ns(since.saturating_sub(since.rem_euclid(self.interval_ns)).saturating_add(self.phase_ns))
    }

    /// The first evaluation after a start.
    pub fn first(&self, now: Instant) -> Instant {
        Instant::of_ns(self.before(now).ns().saturating_add(self.interval_ns))
    }

    /// The evaluation after the one at `last`. A clock that was set back begins the schedule anew.
    pub fn next(&self, last: Instant, now: Instant) -> Next {
        let next = last.ns().saturating_add(self.interval_ns);
        if next.saturating_sub(now.ns()) > self.interval_ns {
            return Next { at: self.first(now), missed: 0 };
        }
        let late = now.ns().saturating_sub(next).max(0) / self.interval_ns;
        Next { at: Instant::of_ns(next.saturating_add(late * self.interval_ns)), missed: late.unsigned_abs() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn groups_have_phases_that_do_not_depend_on_the_start() {
        let schedule = Schedule::new("a.yml", "g", MINUTE);
        let first = schedule.first(Instant::of_seconds(1_000_000));
        assert_eq!(schedule.first(Instant::of_seconds(1_000_000 - 3_600)).plus(MINUTE * 60), first);
        assert!(first > Instant::of_seconds(1_000_000) && first <= Instant::of_seconds(1_000_060));
        assert_eq!(schedule.before(first), first);
        let phases: std::collections::BTreeSet<i64> =
            (0..100).map(|n| Schedule::new("a.yml", &format!("g{n}"), MINUTE).phase_ns).collect();
        assert_eq!(phases.len(), 100);
        assert!(phases.first() < Some(&6_000_000_000) && phases.last() > Some(&54_000_000_000));
    }

    #[test]
    fn late_evaluations_are_left_out_and_counted() {
        let schedule = Schedule::new("a.yml", "g", MINUTE);
        let last = schedule.first(Instant::of_seconds(1_000_000));
        let after = |seconds: u64| schedule.next(last, last.plus(Duration::from_secs(seconds)));
        assert_eq!(after(1), Next { at: last.plus(MINUTE), missed: 0 });
        assert_eq!(after(119), Next { at: last.plus(MINUTE), missed: 0 }, "late, but not by an interval");
        assert_eq!(after(120), Next { at: last.plus(MINUTE * 2), missed: 1 });
        assert_eq!(after(3_600), Next { at: last.plus(MINUTE * 60), missed: 59 });
    }

    #[test]
    fn a_clock_that_jumps_does_not_stop_a_group() {
        let schedule = Schedule::new("a.yml", "g", MINUTE);
        let last = schedule.first(Instant::of_seconds(1_000_000));
        let now = last.minus(Duration::from_secs(86_400));
        let next = schedule.next(last, now);
        assert!(next.at > now && next.at <= now.plus(MINUTE));
        let next = schedule.next(last, Instant::of_ns(i64::MAX));
        assert!(next.missed > 1_000_000);
    }
}
