//! What evaluation of a part of a target knows: its times, and what functions leave for those after them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::zone::{Moment, Zone};

/// Times of a request, and its state.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Values after this.
    pub from: Moment,
    /// Values up to this.
    pub until: Moment,
    /// The present of the request.
    pub now: i64,
    /// The zone of the request.
    pub zone: Zone,
    share: Arc<AtomicU64>,
    stacks: Arc<Mutex<BTreeMap<String, Vec<f64>>>>,
    depth: u16,
}

impl Scope {
    /// Of a request.
    pub fn new(from: Moment, until: Moment, now: i64, zone: Zone, x_files_factor: f64) -> Self {
        let share = Arc::new(AtomicU64::new(x_files_factor.to_bits()));
        Self { from, until, now, zone, share, stacks: Arc::default(), depth: 0 }
    }

    /// Other times. What is set within does not reach outside, but for what is stacked.
    pub(crate) fn shifted(&self, from: Moment, until: Moment) -> Self {
        let share = Arc::new(AtomicU64::new(self.share.load(Ordering::Relaxed)));
        Self { from, until, share, ..self.clone() }
    }

    /// A scope in which values begin earlier.
    pub(crate) fn begun_earlier(&self, seconds: i64) -> Self {
        self.shifted(self.from.later(seconds.saturating_neg()), self.until)
    }

    /// The same, for a target that a function has written.
    pub(crate) fn written(&self) -> Self {
        let inner = self.shifted(self.from, self.until);
        Self { depth: self.depth.saturating_add(1), ..inner }
    }

    /// How many functions wrote targets around this one.
    pub(crate) fn depth(&self) -> u16 {
        self.depth
    }

    /// The share of values that points of several values need.
    pub fn x_files_factor(&self) -> f64 {
        f64::from_bits(self.share.load(Ordering::Relaxed))
    }

    /// Sets it for what is evaluated after this.
    pub(crate) fn set_x_files_factor(&self, share: f64) {
        self.share.store(share.to_bits(), Ordering::Relaxed);
    }

    /// Works with what was stacked under a name.
    pub fn with_stack<T>(&self, name: &str, work: impl FnOnce(&mut Vec<f64>) -> T) -> T {
        let mut stacks = self.stacks.lock().unwrap_or_else(PoisonError::into_inner);
        work(stacks.entry(name.to_owned()).or_default())
    }
}
