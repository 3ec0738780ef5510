//! The clock of stamps: own wall-clock time, but later than every stamp that this process has seen, in frames
//! of others or in what writers state in the catalog.
//!
//! A value that is written after another one was visible here gets a later stamp, whatever the clocks of the
//! processes say. Among values that processes write before they see each other's, their clocks decide.
//!
//! **Bound.** Stamps more than [`AHEAD_MAX`] ahead of the own clock are not followed, so one process whose
//! clock is years ahead does not set the clocks of all others. Values of that process count as later than
//! those that are written here, until its clock is set. No value is lost or doubled.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_format::stamp::COUNTER_BITS;
use sandur_runtime::Env;

/// How far stamps of other processes may move this clock ahead of the own wall clock.
pub(crate) const AHEAD_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Stamps that are too far ahead are reported once an hour.
const REPORTED_APART: u64 = 3_600_000 << COUNTER_BITS;

/// Gives stamps to the frames of this process.
pub(crate) struct StampClock {
    env: Env,
    times: Mutex<Times>,
}

#[derive(Default)]
struct Times {
    /// The latest stamp that was seen.
    highest: u64,
    /// The stamps of own frames that are not in the head yet: at most as many as frames are under way.
    under_way: BTreeSet<u64>,
    /// The latest stamp that was too far ahead and was reported.
    reported: u64,
}

impl StampClock {
    pub(crate) fn new(env: Env) -> Self {
        Self { env, times: Mutex::default() }
    }

    /// The time of the next frame's stamp: later than all before.
    pub(crate) fn next(&self) -> u64 {
        let mut times = self.lock();
        times.highest = self.own().max(times.highest.saturating_add(1));
        let time = times.highest;
        times.under_way.insert(time);
        time
    }

    /// Notes that the frame with this stamp is in the head.
    pub(crate) fn settled(&self, time: u64) {
        self.lock().under_way.remove(&time);
    }

    /// Notes that all frames under way are void.
    pub(crate) fn fenced(&self) {
        self.lock().under_way.clear();
    }

    /// A time that all later stamps of this process exceed; `None` while frames are under way.
    pub(crate) fn quiet_since(&self) -> Option<u64> {
        let mut times = self.lock();
        times.highest = times.highest.max(self.own());
        times.under_way.is_empty().then_some(times.highest)
    }

    fn lock(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a stamp of another process, or of this one before a restart.
    pub(crate) fn observe(&self, time: u64) {
        let mut times = self.lock();
        if time <= times.highest {
            return;
        }
        let most = self.own().saturating_add((AHEAD_MAX.as_millis() as u64) << COUNTER_BITS);
        if time <= most {
            times.highest = time;
        } else if time > times.reported.saturating_add(REPORTED_APART) {
            times.reported = time;
            let ahead_s = ((time - most) >> COUNTER_BITS) / 1_000 + AHEAD_MAX.as_secs();
            tracing::warn!(
                ahead_s,
                "a process wrote values with a clock far ahead of this one: set the clocks of all machines"
            );
        }
    }

    fn own(&self) -> u64 {
        let ms = u64::try_from(self.env.now_ns() / 1_000_000).unwrap_or_default();
        ms.saturating_mul(1 << COUNTER_BITS).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn stamps_ascend_and_follow_others_within_the_limit() {
        let start_ms = 1_795_226_400_000;
        let env = Env::simulated(1, start_ms * 1_000_000);
        let clock = StampClock::new(env.clone());
        let (first, second) = (clock.next(), clock.next());
        assert_eq!((first, second), ((start_ms as u64) << COUNTER_BITS, first + 1));
        let hour = 3_600_000 << COUNTER_BITS;
        clock.observe(first + hour);
        assert_eq!(clock.next(), first + hour + 1, "an hour ahead");
        env.sleep(Duration::from_secs(7_200)).await;
        assert_eq!(clock.next(), first + 2 * hour, "the own clock has passed it");
        env.set_clock_skew(Duration::from_secs(7_200), false);
        assert_eq!(clock.next(), first + 2 * hour + 1, "the own clock was set back");
        clock.observe(first + 25 * hour);
        let last = clock.next();
        assert_eq!(last, first + 2 * hour + 2, "too far ahead");
        assert_eq!(clock.quiet_since(), None);
        clock.settled(last);
        assert_eq!(clock.quiet_since(), None, "earlier frames are under way");
        clock.fenced();
        assert_eq!(clock.quiet_since(), Some(last));
        assert_eq!(clock.next(), last + 1);
    }
}
