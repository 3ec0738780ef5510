//! Whether evaluations that are late are made up or left out.
//!
//! Evaluations are late after a pause: one evaluation took long, the process was stopped, or another process
//! takes the group over. They are made up at their own times, in order, so that series have no gap. A group
//! whose evaluations take longer than its interval would never catch up; it leaves out what it missed, as in
//! Prometheus.

use std::time::Duration;

/// The most evaluations of a group that are made up. Older ones are missed.
pub const CATCH_UP_MAX: u64 = 100;

/// The evaluations that decide whether a group is slow.
const RECENT: usize = 7;
/// How many of them take an interval or more in a slow group; and more than half of them do. A process that
/// is stopped two times in a row is not slow.
const SLOW_MIN: usize = 3;

/// The pace of a group.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// How long the last evaluations took.
    recent: [Duration; RECENT],
    evaluations: usize,
    /// How many evaluations may still be made up until the group is on time; `None` if it is.
    credit: Option<u64>,
}

impl Pace {
    /// Notes how long an evaluation took. `waiting` is the number of evaluations that are late by an interval
    /// or more. Returns how many of them are left out, the oldest first.
    pub fn after(&mut self, took: Duration, interval: Duration, waiting: u64) -> u64 {
        self.recent[self.evaluations % RECENT] = took;
        self.evaluations += 1;
        if waiting == 0 {
            self.credit = None;
            return 0;
        }
        // If each evaluation takes half an interval, this is enough to catch up.
        let enough = 2 * waiting.min(CATCH_UP_MAX) + 1;
        let credit = match self.credit {
            // Another pause while the first one is made up.
            Some(credit) if took >= interval => credit.max(enough),
            Some(credit) => credit,
            None => enough,
        };
        if credit == 0 || self.is_slow(interval) {
            self.credit = None;
            return waiting;
        }
        self.credit = Some(credit - 1);
        waiting.saturating_sub(CATCH_UP_MAX)
    }

    fn is_slow(&self, interval: Duration) -> bool {
        let known = &self.recent[..self.evaluations.min(RECENT)];
        let slow = known.iter().filter(|took| **took >= interval).count();
        slow >= SLOW_MIN && 2 * slow > known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    /// The evaluations that are left out when they take these seconds, one after the other.
    fn left_out(seconds: &[u64]) -> Vec<u64> {
        let (mut pace, mut late) = (Pace::default(), 0);
        let of = |took: &u64| {
            late += took;
            let waiting = (late / 10).saturating_sub(1);
            let left_out = pace.after(Duration::from_secs(*took), INTERVAL, waiting);
            late = late.saturating_sub(10 * (left_out + 1));
            left_out
        };
        seconds.iter().map(of).collect()
    }

    #[test]
    fn a_pause_is_made_up() {
        assert_eq!(left_out(&[1, 1, 65, 1, 1, 1, 1, 1, 1, 1]), [0; 10]);
        assert_eq!(left_out(&[1, 3_000, 1, 1]), [0, 199, 0, 0], "at most 100");
        assert_eq!(left_out(&[[25; 2].as_slice(), &[1; 20]].concat()), [0; 22], "two pauses in a row");
        let pauses = [[1, 40, 1].as_slice(), &[35], &[1; 3], &[30], &[1; 30]].concat();
        assert_eq!(left_out(&pauses).iter().sum::<u64>(), 0, "pauses while others are made up");
    }

    #[test]
    fn a_slow_group_leaves_out_what_it_missed() {
        assert_eq!(left_out(&[25, 25, 25, 25]), [0, 0, 4, 2]);
        // One that never catches up, although each second evaluation is fast.
        let all: u64 = left_out(&[35, 1].repeat(50)).iter().sum();
        assert!(all >= 70, "{all}");
    }
}
