//! Keeps to `--rate`: a request waits until the points before it have had their time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandur_base::Env;

/// Shared by all that send.
#[derive(Clone)]
pub struct Pace {
    env: Env,
    /// Points a second; none for no limit.
    rate: Option<u64>,
    /// When the next request may go.
    next: Arc<Mutex<Duration>>,
}

impl Pace {
    /// At most so many points a second.
    pub fn new(env: Env, rate: Option<u64>) -> Self {
        let next = Arc::new(Mutex::new(env.monotonic()));
        Self { env, rate, next }
    }

    /// Waits for the turn of so many points.
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
