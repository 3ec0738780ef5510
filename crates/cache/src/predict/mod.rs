//! Prediction of other cache sizes: hit ratio and requests to the store at a quarter to ten times the
//! present capacity, while the cache runs.
//!
//! Miniature simulations (Waldspurger, Saemundsson, Ahmad, Park: "Cache Modeling and Optimization using
//! Miniature Simulations", ATC 2017): the accesses of a sample of the keys, chosen by their hash, are
//! applied to small copies of [`TwoTier`], which is our own policy, each scaled to one of the
//! capacities. A key is either always in the sample or never, so reuse is preserved.
//!
//! **Invariants.** Memory is at most [`MEMORY_BYTES_MAX`]. An access to a key outside of the sample
//! costs one load and one comparison. The sample shrinks until every copy holds at most [`KEYS_MAX`]
//! keys and all of them together do at most [`STEPS_PER_SECOND_MAX`] steps per second, about a hundredth
//! of a core. There is no randomness and no clock: times are arguments.

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

/// Seconds over which the steps are averaged, so that a burst does not halve the sample.
const SPAN_S: u32 = 10;

/// The prediction. All threads share it; only sampled accesses take its lock.
#[derive(Debug)]
pub struct Predictor {
    /// Hashes up to this one are in at least one sample.
    threshold: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    instances: Vec<Instance>,
    /// Number of the present span of [`SPAN_S`] seconds. `steps` counts the steps in it.
    span: u32,
    steps: u32,
    history: report::History,
}

impl Predictor {
    /// Models a cache of `tiers` at every scale: its flash, or its memory if it has no flash. The weight of
    /// an access halves every `half_life_s` seconds: an hour follows the course of the day, a day smooths it.
    pub fn new(tiers: &TierOptions, half_life_s: u32, now_s: u32) -> Self {
        let instances = SCALES.iter().map(|scale| Instance::new(tiers, *scale)).collect();
        let history = report::History::new(half_life_s, now_s);
        let state = State { instances, span: 0, steps: 0, history };
        Self { threshold: AtomicU64::new(u64::MAX), state: Mutex::new(state) }
    }

    /// Applies an access.
    #[inline]
    pub fn observe(&self, observed: &Observed) {
        if observed.hash <= self.threshold.load(Relaxed) {
            self.observe_sampled(observed);
        }
    }

    /// Estimates other capacities, given the totals of the real cache until `now_s`.
    pub fn report(&self, totals: Totals, now_s: u32) -> Report {
        let mut state = self.lock();
        let State { instances, history, .. } = &mut *state;
        history.close(instances, totals, now_s);
        history.report(instances)
    }

    /// Bytes of memory.
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
