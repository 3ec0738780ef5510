//! Limits the bytes that are copied per second.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sandur_runtime::Env;

/// A limit of bytes per second that concurrent copies share.
pub struct Pace {
    env: Env,
    bytes_per_second: Option<u64>,
    /// Monotonic time from which on the next bytes may be copied.
    free_at: Mutex<Duration>,
}

impl Pace {
    /// `None` is no limit.
    pub fn new(env: Env, bytes_per_second: Option<u64>) -> Self {
        let free_at = Mutex::new(env.monotonic());
        Self { env, bytes_per_second, free_at }
    }

    /// Waits until this many bytes may be copied.
    pub async fn take(&self, bytes: u64) {
        let Some(rate) = self.bytes_per_second else { return };
        let now = self.env.monotonic();
        let begin = {
            let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
            let begin = now.max(*free_at);
            *free_at = begin + Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
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
