//! A point as files hold it.

use crate::field::{f64_at, u32_at};

/// A value at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Seconds since the epoch; the beginning of the step that it stands for.
    pub time: u32,
    /// The value.
    pub value: f64,
}

impl Point {
    /// Bytes of a point that is not compressed.
    pub(crate) const BYTES: usize = 12;

    /// The point at the beginning of `bytes`, if they hold one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self { time: u32_at(bytes, 0)?, value: f64_at(bytes, 4)? })
    }
}

/// Sorts points that may come in any order, the last of those for one instant stays.
pub(crate) fn in_order(points: &mut Vec<Point>) {
    if !points.is_sorted_by(|a, b| a.time < b.time) {
        points.sort_by_key(|point| point.time);
        // Of neighbours for one instant the later one is moved into the place that stays.
        points.dedup_by(|later, earlier| {
            let same = later.time == earlier.time;
            if same {
                earlier.value = later.value;
            }
            same
        });
    }
}
