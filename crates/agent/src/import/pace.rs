//! Limits the rate to `--rate`: a request waits until the time for earlier points has passed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandur_runtime::Env;

/// The limiter, shared by all senders.
#[derive(Clone)]
pub struct Pace {
    env: Env,
    /// Points per second; `None`: no limit.
    rate: Option<u64>,
    /// The earliest time of the next request.
    next: Arc<Mutex<Duration>>,
}

impl Pace {
    /// Allows at most `rate` points per second.
    pub fn new(env: Env, rate: Option<u64>) -> Self {
        let next = Arc::new(Mutex::new(env.monotonic()));
        Self { env, rate, next }
    }

    /// Waits until this number of points may be sent.
    pub async fn turn(&self, points: u64) {
        let Some(rate) = self.rate else { return };
        let takes = Duration::from_secs_f64(points as f64 / rate as f64);
        let now = self.env.monotonic();
        let turn = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = (*next).max(now);
            *next = turn.saturating_add(takes);
            turn
        };
        if turn > now {
            self.env.sleep(turn - now).await;
        }
    }
}
