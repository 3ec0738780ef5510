//! The time by which rows are old: the wall clock, but it never runs ahead by more than twice the time that
//! passed, so that a clock that is set a year ahead does not make a year of rows old at once.
//!
//! The clock of the first look is believed: nothing else tells what a process has missed before it began.

use std::time::Duration;

use sandur_base::Env;

/// Follows the wall clock.
#[derive(Debug)]
pub(crate) struct RetentionClock {
    /// What it could say at most at the last look, and when that was.
    last: Option<(i64, Duration)>,
}

impl RetentionClock {
    pub(crate) fn new() -> Self {
        Self { last: None }
    }

    /// Nanoseconds since the epoch, or fewer.
    pub(crate) fn now_ns(&mut self, env: &Env) -> i64 {
        let (wall_ns, monotonic) = (env.now_ns(), env.monotonic());
        let most_ns = match self.last {
            None => wall_ns,
            Some((last_ns, at)) => {
                let passed = i64::try_from(monotonic.saturating_sub(at).as_nanos()).unwrap_or(i64::MAX);
                // Time goes on, also while the clock is set back.
                let slow_ns = last_ns.saturating_add(passed);
                wall_ns.clamp(slow_ns, slow_ns.saturating_add(passed))
            }
        };
        self.last = Some((most_ns, monotonic));
        wall_ns.min(most_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const HOUR_NS: i64 = sandur_model::HOUR_NS;

    #[tokio::test(start_paused = true)]
    async fn a_jump_ahead_is_caught_up_with_slowly_and_one_back_is_believed() {
        let (env, mut clock) = (Env::simulated(1, 0), RetentionClock::new());
        let mut hours = |env: &Env| clock.now_ns(env) / HOUR_NS;
        assert_eq!(hours(&env), 0);
        env.sleep(HOUR).await;
        assert_eq!(hours(&env), 1);
        env.set_clock_skew(HOUR * 1_000, true);
        assert_eq!(hours(&env), 1, "no time passed");
        env.sleep(HOUR).await;
        assert_eq!(hours(&env), 3);
        env.set_clock_skew(HOUR, true);
        assert_eq!(hours(&env), 3, "the clock was set right");
        env.set_clock_skew(HOUR, false);
        assert_eq!(hours(&env), 1);
        env.set_clock_skew(HOUR, true);
        assert_eq!(hours(&env), 3, "it was set back for a while");
        env.set_clock_skew(HOUR * 8, true);
        env.sleep(HOUR * 10).await;
        assert_eq!(hours(&env), 20, "it has caught up");
    }
}
