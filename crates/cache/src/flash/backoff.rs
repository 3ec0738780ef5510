//! Exponential back-off: pauses that double up to a longest one.

use std::time::Duration;

/// How long to wait before another try.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Backoff {
    /// Pauses from `first` up to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The pause after the first failure.
    pub fn first(&self) -> Duration {
        self.first
    }

    /// The pause after one of `pause`.
    pub fn after(&self, pause: Duration) -> Duration {
        (pause * 2).min(self.longest)
    }

    /// The pause after `earlier` failures and one more.
    pub fn pause(&self, earlier: u32) -> Duration {
        self.first.saturating_mul(2_u32.saturating_pow(earlier)).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        let pauses = [0, 1, 4, 5, 31, u32::MAX].map(|earlier| backoff.pause(earlier).as_secs());
        assert_eq!(pauses, [1, 2, 16, 30, 30, 30]);
        assert_eq!(backoff.after(backoff.first()), backoff.pause(1));
        assert_eq!(backoff.after(backoff.pause(5)), backoff.pause(6));
    }
}
