//! What would another size do? Hit ratio and requests to the store at a quarter to ten times of the
//! present capacity, while the cache runs.
//!
//! Miniature simulations (Waldspurger, Saemundsson, Ahmad, Park: "Cache Modeling and Optimization using
//! Miniature Simulations", ATC 2017): a sample of the keys, chosen by their hash, is led through small
//! copies of [`TwoTier`], our policy itself, each with its part of one of the capacities. A key is in
//! the sample or not for good, so reuse is preserved.
//!
//! **Invariants.** At most [`MEMORY_BYTES_MAX`]. An access to a key outside of the sample costs one load
//! and one comparison. The sample shrinks until every copy holds at most [`KEYS_MAX`] keys and all
//! of them together do at most [`STEPS_PER_SECOND_MAX`] steps per second, some hundredth of a core.
//! Nothing is random and no clock is read: times are arguments.

mod instance;
mod metrics;
mod observed;
mod report;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use self::instance::Instance;
use crate::model::TierOptions;
pub use metrics::Metric;
pub use observed::{Event, KEYS_MAX, MEMORY_BYTES_MAX, Observed, PRESENT, SCALES, STEPS_PER_SECOND_MAX};
pub use report::{Forecast, Report, Totals};

/// Seconds over which that is counted, so that a burst does not cost half of the sample.
const SPAN_S: u32 = 10;

/// The running prediction. Shared by all threads; only sampled accesses take its lock.
#[derive(Debug)]
pub struct Predictor {
    /// Hashes up to this are in some sample.
    threshold: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    instances: Vec<Instance>,
    /// The span of [`SPAN_S`] that `steps` counts, and the steps in it.
    span: u32,
    steps: u32,
    history: report::History,
}

impl Predictor {
    /// Models a cache of `tiers` at every scale: its flash, or without flash its memory.
    /// `half_life_s` is how long an access counts half: an hour follows the day, a day smooths it.
    pub fn new(tiers: &TierOptions, half_life_s: u32, now_s: u32) -> Self {
        let instances = SCALES.iter().map(|scale| Instance::new(tiers, *scale)).collect();
        let history = report::History::new(half_life_s, now_s);
        let state = State { instances, span: 0, steps: 0, history };
        Self { threshold: AtomicU64::new(u64::MAX), state: Mutex::new(state) }
    }

    /// Takes note of an access.
    #[inline]
    pub fn observe(&self, observed: &Observed) {
        if observed.hash <= self.threshold.load(Relaxed) {
            self.observe_sampled(observed);
        }
    }

    /// What other capacities would do, given what the real cache did in total until `now_s`.
    pub fn report(&self, totals: Totals, now_s: u32) -> Report {
        let mut state = self.lock();
        let State { instances, history, .. } = &mut *state;
        history.close(instances, totals, now_s);
        history.report(instances)
    }

    /// Bytes held.
    pub fn memory_bytes(&self) -> usize {
        let state = self.lock();
        size_of::<Self>() + state.instances.iter().map(Instance::memory_bytes).sum::<usize>()
    }

    #[inline(never)]
    fn observe_sampled(&self, observed: &Observed) {
        let mut state = self.lock();
        let State { instances, span, steps, .. } = &mut *state;
        if *span != observed.now_s / SPAN_S {
            (*span, *steps) = (observed.now_s / SPAN_S, 0);
        }
        let mut shrunk = false;
        for instance in instances.iter_mut().filter(|instance| instance.samples(observed.hash)) {
            *steps += 1;
            instance.observe(observed);
            if instance.keys() > KEYS_MAX {
                instance.halve();
                shrunk = true;
            }
        }
        if *steps > STEPS_PER_SECOND_MAX * SPAN_S {
            *steps = 0;
            instances.iter_mut().for_each(Instance::halve);
            shrunk = true;
        }
        if shrunk {
            let threshold = instances.iter().map(Instance::threshold).max().unwrap_or(0);
            self.threshold.store(threshold, Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
