//! Native histograms with integer counts as files and messages have them.

use super::CounterReset;

/// A histogram with integer counts, without the layout of its buckets, which it shares with others.
#[derive(Clone, Copy, Debug)]
pub struct IntegerHistogram<'a> {
    /// Milliseconds since the epoch.
    pub time_ms: i64,
    /// What is known about a reset before it.
    pub reset: CounterReset,
    /// Number of all observations.
    pub count: u64,
    /// Number of observations in the zero bucket.
    pub zero_count: u64,
    /// Sum of all observed values.
    pub sum: f64,
    /// The count of each positive bucket as the difference from the one before.
    pub positive: &'a [i64],
    /// The same of the negative buckets.
    pub negative: &'a [i64],
}
