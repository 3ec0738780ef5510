//! Assigns a timestamp to each line, so that a line that is sent again has the same timestamp.
//!
//! A line without a timestamp of its own gets that of the previous line (as in a stack trace), or the
//! time of its arrival. Lines with the same time get one nanosecond more each: equal lines with equal
//! timestamps would count as one, and many programs log whole seconds. The state that determines the next
//! timestamp is small and stored with a resume point.

use sandur_model::SECOND_NS;
use serde::{Deserialize, Serialize};

/// How long after a line with a timestamp a line without one belongs to it: a program's message arrives
/// at once.
const BELONGS_NS: i64 = 5 * SECOND_NS;

/// The state from which timestamps are assigned; consecutive lines have different ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dates {
    /// Timestamp of the last line that had one, or of the last arrival.
    base_ns: i64,
    /// Lines since then.
    lines: i64,
    /// Time of arrival of the last line with a timestamp.
    found_at_ns: Option<i64>,
}

impl Dates {
    /// The timestamp of the next line, which arrived at `now_ns` and contains the time `found`.
    pub fn next(&mut self, found: Option<i64>, now_ns: i64) -> i64 {
        let belongs = self.found_at_ns.is_some_and(|at| now_ns.saturating_sub(at) <= BELONGS_NS);
        match found {
            Some(ns) => {
                self.found_at_ns = Some(now_ns);
                self.go_to(ns);
            }
            None if belongs => self.lines += 1,
            None => {
                self.found_at_ns = None;
                self.go_to(now_ns);
            }
        }
        self.base_ns.saturating_add(self.lines)
    }

    fn go_to(&mut self, ns: i64) {
        match self.base_ns == ns {
            true => self.lines += 1,
            false => (self.base_ns, self.lines) = (ns, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_lines_have_different_timestamps() {
        let mut dates = Dates::default();
        let found = [None, None, Some(100), Some(100), None, Some(90), Some(100), None];
        let times: Vec<i64> = found.into_iter().map(|f| dates.next(f, 7)).collect();
        assert_eq!(times, [7, 8, 100, 101, 102, 90, 100, 101]);
    }

    #[test]
    fn a_line_without_a_time_is_dated_by_arrival_unless_it_belongs_to_another() {
        let mut dates = Dates::default();
        assert_eq!(dates.next(None, 10 * SECOND_NS), 10 * SECOND_NS);
        assert_eq!(dates.next(None, 70 * SECOND_NS), 70 * SECOND_NS, "it does not belong to the first line");
        assert_eq!(dates.next(Some(3), 71 * SECOND_NS), 3);
        assert_eq!(dates.next(None, 72 * SECOND_NS), 4, "a stack trace");
        assert_eq!(dates.next(None, 99 * SECOND_NS), 99 * SECOND_NS);
    }
}
