//! Histograms of read latencies by size, in which old observations lose weight.
//!
//! Bins grow by a quarter of an octave (19 %), so a quantile is at most that much too large. When a
//! histogram has [`KEPT`] observations, all counts are halved, so that the last few thousand reads
//! determine the quantiles.

use std::time::Duration;

use sandur_base::units::{KIB, MIB};

/// Number of bins: 1 ms x 2^(64/4) is 65 s.
const BINS: usize = 64;
/// Number of observations at which all counts are halved.
const KEPT: u32 = 2_048;
/// The fewest observations for a quantile.
const ENOUGH: u32 = 100;
/// The percentage of reads that are not slow: a slow read is among the slowest 3 %.
const USUAL_PERCENT: u32 = 97;

/// Number of size classes; reads are compared within their class.
pub(crate) const SIZE_CLASSES: usize = 5;

/// The size class of a read of `bytes`; 0 is for reads whose size is unknown in advance.
pub(crate) fn size_class(bytes: u64) -> usize {
    match bytes {
        0 => 0,
        b if b < 64 * KIB => 1,
        b if b <= MIB => 2,
        b if b <= 4 * MIB => 3,
        _ => 4,
    }
}

/// The latencies of one size class.
#[derive(Debug)]
pub(crate) struct Latencies {
    bins: [u32; BINS],
    total: u32,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { bins: [0; BINS], total: 0 }
    }
}

impl Latencies {
    /// Adds the latency of a read, or the time after which it was dropped.
    pub fn observe(&mut self, took: Duration) {
        let octaves = (took.as_secs_f64() * 1_000.0).max(1.0).log2();
        let bin = ((octaves * 4.0) as usize).min(BINS - 1);
        self.bins[bin] += 1;
        self.total += 1;
        if self.total >= KEPT {
            self.bins.iter_mut().for_each(|count| *count /= 2);
            self.total = self.bins.iter().sum();
        }
    }

    /// The latency below which a read is not slow; `None` before there are enough observations.
    pub fn usual(&self) -> Option<Duration> {
        if self.total < ENOUGH {
            return None;
        }
        let slow = self.total - self.total * USUAL_PERCENT / 100;
        let mut above = 0;
        for (bin, count) in self.bins.iter().enumerate().rev() {
            above += count;
            if above >= slow.max(1) {
                let upper_ms = ((bin + 1) as f64 / 4.0).exp2();
                return Some(Duration::from_secs_f64(upper_ms / 1_000.0));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_ignore_rare_slow_reads_and_forget_old_ones() {
        let mut times = Latencies::default();
        (0..99).for_each(|_| times.observe(Duration::from_millis(30)));
        assert_eq!(times.usual(), None);
        times.observe(Duration::from_secs(5));
        let usual = times.usual().unwrap().as_millis();
        assert!((30..40).contains(&usual), "{usual}");
        (0..10).for_each(|_| times.observe(Duration::from_secs(5)));
        assert!(times.usual().unwrap() >= Duration::from_secs(5), "one in ten is usual");
        (0..20_000).for_each(|_| times.observe(Duration::from_millis(2)));
        assert!(times.usual().unwrap() < Duration::from_millis(3));
        times.observe(Duration::MAX);
    }

    #[test]
    fn sizes_have_classes() {
        let classes = [0, 1, 64 * KIB - 1, 64 * KIB, MIB, 2 * MIB, 16 * MIB].map(size_class);
        assert_eq!(classes, [0, 1, 1, 2, 2, 3, 4]);
        assert!(classes.iter().all(|class| *class < SIZE_CLASSES));
    }
}
