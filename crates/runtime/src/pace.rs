//! Limits what concurrent tasks do per second: bytes that they copy, points that they send.
//!
//! Invariant: work that was admitted took its time before later work is admitted, whatever the order of the
//! tasks. Tasks are admitted in the order in which they asked.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::Env;

/// A limit of units per second, which all clones share.
#[derive(Clone)]
pub struct Pace {
    env: Env,
    per_second: Option<u64>,
    /// Monotonic time from which on the next units are admitted.
    free_at: Arc<Mutex<Duration>>,
}

impl Pace {
    /// Admits at most this many units per second; `None` is no limit, and 0 counts as 1.
    pub fn new(env: Env, per_second: Option<u64>) -> Self {
        let free_at = Arc::new(Mutex::new(env.monotonic()));
        Self { env, per_second, free_at }
    }

    /// Waits until this many units may be processed.
    pub async fn take(&self, units: u64) {
        let Some(rate) = self.per_second else { return };
        let takes = Duration::from_secs_f64(units as f64 / rate.max(1) as f64);
        let now = self.env.monotonic();
        let begin = {
            let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
            let begin = now.max(*free_at);
            *free_at = begin.saturating_add(takes);
            begin
        };
        if begin > now {
            self.env.sleep(begin - now).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn concurrent_copies_share_the_rate() {
        let env = Env::simulated(1, 0);
        let pace = Pace::new(env.clone(), Some(1_000));
        let began = env.monotonic();
        futures_util::future::join_all((0..11).map(|_| pace.take(500))).await;
        let took = env.monotonic() - began;
        assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(6), "{took:?}");
    }
}
