//! Points in time are `i64` nanoseconds since the epoch; ranges are half-open.

/// Nanoseconds in a second.
pub const SECOND_NS: i64 = 1_000_000_000;
/// Nanoseconds in a millisecond.
pub const MILLISECOND_NS: i64 = 1_000_000;
/// Nanoseconds in a minute.
pub const MINUTE_NS: i64 = 60 * SECOND_NS;
/// Nanoseconds in an hour.
pub const HOUR_NS: i64 = 60 * MINUTE_NS;
/// Nanoseconds in a day.
pub const DAY_NS: i64 = 24 * HOUR_NS;

/// The instants `t` with `start <= t < end`, in nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeRange {
    /// Inclusive start.
    pub start: i64,
    /// Exclusive end.
    pub end: i64,
}

impl TimeRange {
    /// Every instant.
    pub const ALL: Self = Self { start: i64::MIN, end: i64::MAX };

    /// The range `[start, end)`; empty when `end <= start`.
    pub fn new(start: i64, end: i64) -> Self {
        Self { start, end }
    }

    /// The range from `first` to `last`, both inclusive.
    pub fn inclusive(first: i64, last: i64) -> Self {
        Self { start: first, end: last.saturating_add(1) }
    }

    /// The range of all instants from the millisecond `first_ms` to `last_ms`, both inclusive.
    pub fn of_milliseconds(first_ms: i64, last_ms: i64) -> Self {
        let (start, last) = (first_ms.saturating_mul(MILLISECOND_NS), last_ms.saturating_mul(MILLISECOND_NS));
        Self::inclusive(start, last.saturating_add(MILLISECOND_NS - 1))
    }

    /// The first and last millisecond, both inclusive, whose first nanosecond is inside.
    pub fn milliseconds(&self) -> (i64, i64) {
        let rest = i64::from(self.start.rem_euclid(MILLISECOND_NS) > 0);
        let first = self.start.div_euclid(MILLISECOND_NS) + rest;
        (first, self.end.saturating_sub(1).div_euclid(MILLISECOND_NS))
    }

    /// Whether no instant is inside.
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }

    /// Whether `at` is inside.
    pub fn contains(&self, at: i64) -> bool {
        self.start <= at && at < self.end
    }

    /// Whether every instant from `first` to `last` (both inclusive) is inside.
    pub fn covers(&self, first: i64, last: i64) -> bool {
        self.start <= first && last < self.end
    }

    /// Whether any instant from `first` to `last` (both inclusive) is inside.
    pub fn touches(&self, first: i64, last: i64) -> bool {
        first < self.end && last >= self.start
    }

    /// The intersection of both ranges.
    pub fn intersect(&self, other: &Self) -> Self {
        Self { start: self.start.max(other.start), end: self.end.min(other.end) }
    }

    /// Length in nanoseconds; 0 when empty.
    pub fn length_ns(&self) -> i64 {
        self.end.saturating_sub(self.start).max(0)
    }
}
