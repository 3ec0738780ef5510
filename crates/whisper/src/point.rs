//! A point of a file.

use crate::field::{f64_at, u32_at};

/// A value at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Start of the step, in seconds since the epoch.
    pub time: u32,
    /// The value.
    pub value: f64,
}

impl Point {
    /// Bytes of a point that is not compressed.
    pub(crate) const BYTES: usize = 12;

    /// Decodes the point at the start of `bytes`, if they contain one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self { time: u32_at(bytes, 0)?, value: f64_at(bytes, 4)? })
    }
}

/// Sorts points by time. Of several for the same time the last one is kept.
pub(crate) fn in_order(points: &mut Vec<Point>) {
    if !points.is_sorted_by(|a, b| a.time < b.time) {
        points.sort_by_key(|point| point.time);
        // Of two neighbours with the same time the later one is moved into the place that is kept.
        points.dedup_by(|later, earlier| {
            let same = later.time == earlier.time;
            if same {
                earlier.value = later.value;
            }
            same
        });
    }
}
