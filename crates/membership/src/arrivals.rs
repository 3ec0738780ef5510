//! The intervals between the messages of a peer, and the silence after which the peer counts as dead.
//!
//! The accrual failure detector (Hayashibara and others, 2004) in the form that Cassandra and chitchat
//! use: phi is the silence divided by the mean interval, and a peer is dead when phi exceeds a threshold.
//! Few intervals are smoothed by a prior one. The silence has a lower and an upper bound, so that a burst
//! of changes does not make the detector hasty, nor a slow network make it blind.

use std::time::Duration;

/// Silence is this many times the mean interval before a peer is dead.
const PHI: f64 = 8.0;
/// The interval that is assumed before any was seen, and the number of intervals that it counts for.
const PRIOR: Duration = Duration::from_secs(1);
const PRIOR_WEIGHT: f64 = 5.0;
/// The last intervals that count.
const KEPT: usize = 16;
/// Longer intervals do not count: the peer was dead, or the network was cut.
const INTERVAL_MAX: Duration = Duration::from_secs(10);
/// Bounds of the silence after which a peer is dead.
pub const SILENCE_MIN: Duration = Duration::from_secs(5);
/// The upper bound.
pub const SILENCE_MAX: Duration = Duration::from_secs(15);

/// The last intervals between messages of a peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrivals {
    intervals: [f32; KEPT],
    kept: usize,
    next: usize,
}

impl Arrivals {
    pub(crate) fn note(&mut self, interval: Duration) {
        if interval > INTERVAL_MAX {
            return;
        }
        self.intervals[self.next] = interval.as_secs_f32();
        self.next = (self.next + 1) % KEPT;
        self.kept = (self.kept + 1).min(KEPT);
    }

    /// The silence after which the peer is dead.
    pub(crate) fn silence(&self) -> Duration {
        let sum: f64 = self.intervals[..self.kept].iter().copied().map(f64::from).sum();
        let mean = (PRIOR.as_secs_f64() * PRIOR_WEIGHT + sum) / (PRIOR_WEIGHT + self.kept as f64);
        Duration::from_secs_f64(PHI * mean).clamp(SILENCE_MIN, SILENCE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silence_after(intervals_ms: impl IntoIterator<Item = u64>) -> f64 {
        let mut arrivals = Arrivals::default();
        intervals_ms.into_iter().for_each(|ms| arrivals.note(Duration::from_millis(ms)));
        arrivals.silence().as_secs_f64()
    }

    #[test]
    fn silence_is_eight_mean_intervals_within_bounds() {
        assert_eq!(silence_after([]), 8.0);
        assert_eq!(silence_after([1_000; 100]), 8.0);
        // A busy peer that becomes idle is not dead at once.
        assert_eq!(silence_after([20; 100]), 5.0);
        assert_eq!(silence_after([9_000; 100]), 15.0);
        assert_eq!(silence_after([60_000; 100]), 8.0);
        let slower = silence_after([1_500; 100]);
        assert!((10.0..12.0).contains(&slower), "{slower}");
    }
}
