//! Exponential back-off: pauses between attempts that double up to a maximum.
//!
//! **Invariants.** A pause never exceeds the maximum. Jitter comes from the [`Env`], so a simulation
//! repeats it.

use std::time::Duration;

use crate::env::Env;

/// How long to wait between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Backoff {
    /// Pauses from `first` up to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The pause after a failure that follows `earlier` failures: `first` doubled `earlier` times, at
    /// most `longest`.
    pub fn pause(&self, earlier: u32) -> Duration {
        self.first.saturating_mul(2_u32.saturating_pow(earlier)).min(self.longest)
    }

    /// [`Backoff::pause`] with jitter between half of it and all of it: clients that failed together do
    /// not retry together, and none retries at once.
    pub fn half_jitter(&self, earlier: u32, env: &Env) -> Duration {
        let half = self.pause(earlier) / 2;
        half + random_up_to(half, env)
    }

    /// [`Backoff::pause`] with jitter between zero and all of it: for writers that contend for one
    /// object, where the first to retry wins and the others find its result.
    pub fn full_jitter(&self, earlier: u32, env: &Env) -> Duration {
        random_up_to(self.pause(earlier), env)
    }

    /// Counts the failures of a new series of attempts.
    pub const fn pauses(self) -> Pauses {
        Pauses { backoff: self, failures: 0 }
    }
}

fn random_up_to(bound: Duration, env: &Env) -> Duration {
    let bound = u64::try_from(bound.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(env.random_below(bound.saturating_add(1)))
}

/// The pauses of one series of attempts: counts the consecutive failures.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    backoff: Backoff,
    failures: u32,
}

impl Pauses {
    /// Counts a failure; returns the pause that follows it.
    pub fn after_failure(&mut self) -> Duration {
        let pause = self.backoff.pause(self.failures);
        self.failures = self.failures.saturating_add(1);
        pause
    }

    /// Counts a failure; returns the pause with [`Backoff::half_jitter`].
    pub fn after_failure_with_jitter(&mut self, env: &Env) -> Duration {
        let pause = self.backoff.half_jitter(self.failures, env);
        self.failures = self.failures.saturating_add(1);
        pause
    }

    /// Notes a success: the next pause is the first one again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses = [0, 1, 4, 5, 31, u32::MAX].map(|earlier| BACKOFF.pause(earlier).as_secs());
        assert_eq!(pauses, [1, 2, 16, 30, 30, 30]);
        let mut pauses = BACKOFF.pauses();
        assert_eq!([(); 3].map(|()| pauses.after_failure().as_secs()), [1, 2, 4]);
        pauses.reset();
        assert_eq!(pauses.after_failure().as_secs(), 1);
    }

    #[test]
    fn jitter_stays_within_its_share_of_the_pause() {
        let env = Env::simulated(1, 0);
        for earlier in [0, 3, u32::MAX] {
            let pause = BACKOFF.pause(earlier);
            let half: Vec<Duration> = (0..100).map(|_| BACKOFF.half_jitter(earlier, &env)).collect();
            assert!(half.iter().all(|one| (pause / 2..=pause).contains(one)), "{half:?}");
            let full: Vec<Duration> = (0..100).map(|_| BACKOFF.full_jitter(earlier, &env)).collect();
            assert!(full.iter().all(|one| *one <= pause), "{full:?}");
            assert!(full.iter().any(|one| *one < pause / 2), "full jitter goes below half");
        }
        assert_eq!(Backoff::new(Duration::ZERO, Duration::ZERO).half_jitter(9, &env), Duration::ZERO);
    }
}
