//! Histograms of latencies, in fixed memory and without locks.
//!
//! Each doubling of nanoseconds has four buckets (the scheme of HdrHistogram, with two bits of
//! mantissa). Bounds of neighbouring buckets differ by at most 25 %.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Buckets: four for each of the doublings from 2^0 to 2^43 ns, which is about two and a half hours.
const BUCKETS: usize = 4 * 44;

/// Counts of latencies.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

/// A snapshot of a histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    counts: Vec<u64>,
    /// Sum of all latencies in nanoseconds.
    pub sum_ns: u64,
    /// Number of measured latencies.
    pub count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicU64::new(0)), sum_ns: AtomicU64::new(0) }
    }
}

impl Histogram {
    pub fn note(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(ns)].fetch_add(1, Relaxed);
        self.sum_ns.fetch_add(ns, Relaxed);
    }

    pub fn snapshot(&self) -> Latencies {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        let count = counts.iter().sum();
        Latencies { counts, sum_ns: self.sum_ns.load(Relaxed), count }
    }
}

impl Latencies {
    /// An upper bound of the latency at the quantile `part` (0 to 1); zero if nothing was measured.
    pub fn quantile(&self, part: f64) -> Duration {
        let rank = (part.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank && *count > 0 {
                return Duration::from_nanos(end_of(at));
            }
        }
        Duration::ZERO
    }

    /// For each doubling its upper bound in seconds and the number of latencies up to it, for metrics.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut sum = 0;
        self.counts.chunks(4).enumerate().map(move |(doubling, counts)| {
            sum += counts.iter().sum::<u64>();
            (end_of(doubling * 4 + 3) as f64 / 1e9, sum)
        })
    }
}

fn bucket(ns: u64) -> usize {
    let ns = ns.max(1);
    let doubling = ns.ilog2();
    // The two bits after the leading one. Numbers below 4 are shifted left to have two.
    let mantissa = if doubling >= 2 { ns >> (doubling - 2) } else { ns << (2 - doubling) } & 3;
    (doubling as usize * 4 + mantissa as usize).min(BUCKETS - 1)
}

/// The largest number of nanoseconds in a bucket.
fn end_of(bucket: usize) -> u64 {
    let (doubling, mantissa) = (bucket as u32 / 4, bucket as u64 % 4);
    if doubling < 2 {
        return ((5 + mantissa) << doubling) / 4;
    }
    ((5 + mantissa) << (doubling - 2)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_quarter() {
        let histogram = Histogram::default();
        for us in 1..=10_000u64 {
            histogram.note(Duration::from_micros(us));
        }
        let latencies = histogram.snapshot();
        assert_eq!((latencies.count, latencies.sum_ns), (10_000, 10_000 * 10_001 / 2 * 1_000));
        for (part, us) in [(0.5, 5_000.0), (0.99, 9_900.0), (0.001, 10.0)] {
            let found = latencies.quantile(part).as_secs_f64() * 1e6;
            assert!((found / us - 1.0).abs() < 0.25, "{part}: {found} for {us}");
        }
        assert_eq!(latencies.cumulative().last().map(|(_, count)| count), Some(10_000));
        assert_eq!(Latencies::default().quantile(0.5), Duration::ZERO);
    }

    #[test]
    fn every_bucket_ends_where_the_next_begins() {
        for at in 8..BUCKETS - 1 {
            assert_eq!((bucket(end_of(at)), bucket(end_of(at) + 1)), (at, at + 1), "{at}");
        }
    }
}
