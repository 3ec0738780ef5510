//! What is known of how long reads take, and the budget of second requests for slow ones: a token bucket that
//! earns its percentage with each read.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::latency::{Latencies, SIZE_CLASSES, size_class};
use crate::request_limits::RequestLimits;

/// Hundredths of a second request that can be saved up: 16 requests.
const SAVED_MAX: u32 = 1_600;

/// What is known about reads, and what may still be spent.
pub(crate) struct Hedges {
    percent: u32,
    after_min: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    times: [Latencies; SIZE_CLASSES],
    /// Hundredths of a request.
    saved: u32,
}

impl Hedges {
    pub fn new(request_limits: &RequestLimits) -> Self {
        let (percent, after_min) = (request_limits.hedge_percent.min(100), request_limits.hedge_after_min);
        Self { percent, after_min, state: Mutex::default() }
    }

    pub fn none() -> Self {
        Self::new(&RequestLimits { hedge_percent: 0, ..RequestLimits::default() })
    }

    /// A read begins; after how long it is slow.
    pub fn begin(&self, bytes: u64) -> Option<Duration> {
        if self.percent == 0 {
            return None;
        }
        let mut state = self.state();
        state.saved = (state.saved + self.percent).min(SAVED_MAX);
        state.times[size_class(bytes)].usual().map(|usual| usual.max(self.after_min))
    }

    /// A read took so long.
    pub fn observe(&self, bytes: u64, took: Duration) {
        self.state().times[size_class(bytes)].observe(took);
    }

    /// Pays for a second request, if it can be paid.
    pub fn pay(&self) -> bool {
        let mut state = self.state();
        let can_pay = state.saved >= 100;
        state.saved -= if can_pay { 100 } else { 0 };
        can_pay
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
