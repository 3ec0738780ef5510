//! Decides when a read is slow enough for a second request, and bounds second requests by a token bucket
//! that earns a percentage of the reads.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::latency::{Latencies, SIZE_CLASSES, size_class};
use crate::request_limits::RequestLimits;

/// The most tokens, in hundredths of a second request: 16 requests.
const SAVED_MAX: u32 = 1_600;

/// Latencies of reads, and the budget of second requests.
pub(crate) struct Hedges {
    percent: u32,
    after_min: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    times: [Latencies; SIZE_CLASSES],
    /// Tokens, in hundredths of a second request.
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

    /// Counts a read; returns the time after which it counts as slow.
    pub fn begin(&self, bytes: u64) -> Option<Duration> {
        if self.percent == 0 {
            return None;
        }
        let mut state = self.state();
        state.saved = (state.saved + self.percent).min(SAVED_MAX);
        state.times[size_class(bytes)].usual().map(|usual| usual.max(self.after_min))
    }

    /// Adds the latency of a read.
    pub fn observe(&self, bytes: u64, took: Duration) {
        self.state().times[size_class(bytes)].observe(took);
    }

    /// Pays for a second request; returns whether there were enough tokens.
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
