//! The clock of retention: the wall clock, but it never advances by more than twice the time that
//! passed. So a clock that is set a year ahead does not expire a year of rows at once.
//!
//! The wall clock at the first look is trusted, because no other source shows how much time passed
//! before the start.

use std::time::Duration;

use sandur_runtime::Env;

/// Follows the wall clock.
#[derive(Debug)]
pub(crate) struct RetentionClock {
    /// The latest time that it allowed at the last look, and when that was.
    last: Option<(i64, Duration)>,
}

impl RetentionClock {
    pub(crate) fn new() -> Self {
        Self { last: None }
    }

    /// Nanoseconds since the epoch; less than the wall clock after a jump ahead.
    pub(crate) fn now_ns(&mut self, env: &Env) -> i64 {
        let (wall_ns, monotonic) = (env.now_ns(), env.monotonic());
        let most_ns = match self.last {
            None => wall_ns,
            Some((last_ns, at)) => {
                let passed = i64::try_from(monotonic.saturating_sub(at).as_nanos()).unwrap_or(i64::MAX);
                // The bound advances while the wall clock is set back, too.
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
    async fn a_jump_ahead_is_followed_slowly_and_a_jump_back_at_once() {
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
        assert_eq!(hours(&env), 3, "the clock was set back for a while");
        env.set_clock_skew(HOUR * 8, true);
        env.sleep(HOUR * 10).await;
        assert_eq!(hours(&env), 20, "it has caught up");
    }
}
