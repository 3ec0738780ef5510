//! The scope of evaluation: times, zone, and state that functions pass on to later ones.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::zone::{Moment, Zone};

/// The times of a request, and its state.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Values after this time, exclusive.
    pub from: Moment,
    /// Values up to this time, inclusive.
    pub until: Moment,
    /// The current time of the request, in seconds since 1970.
    pub now: i64,
    /// The time zone of the request.
    pub zone: Zone,
    share: Arc<AtomicU64>,
    stacks: Arc<Mutex<BTreeMap<String, Vec<f64>>>>,
    depth: u16,
}

impl Scope {
    /// The scope of a request.
    pub fn new(from: Moment, until: Moment, now: i64, zone: Zone, x_files_factor: f64) -> Self {
        let share = Arc::new(AtomicU64::new(x_files_factor.to_bits()));
        Self { from, until, now, zone, share, stacks: Arc::default(), depth: 0 }
    }

    /// A scope with other times. State that is set inside does not reach outside, except stacks.
    pub(crate) fn shifted(&self, from: Moment, until: Moment) -> Self {
        let share = Arc::new(AtomicU64::new(self.share.load(Ordering::Relaxed)));
        Self { from, until, share, ..self.clone() }
    }

    /// A scope in which values start earlier.
    pub(crate) fn begun_earlier(&self, seconds: i64) -> Self {
        self.shifted(self.from.later(seconds.saturating_neg()), self.until)
    }

    /// A scope for a target that a function generated.
    pub(crate) fn written(&self) -> Self {
        let inner = self.shifted(self.from, self.until);
        Self { depth: self.depth.saturating_add(1), ..inner }
    }

    /// The number of nested functions that generated targets around this one.
    pub(crate) fn depth(&self) -> u16 {
        self.depth
    }

    /// The fraction of values that a consolidated point requires.
    pub fn x_files_factor(&self) -> f64 {
        f64::from_bits(self.share.load(Ordering::Relaxed))
    }

    /// Sets this fraction for everything that is evaluated afterwards.
    pub(crate) fn set_x_files_factor(&self, share: f64) {
        self.share.store(share.to_bits(), Ordering::Relaxed);
    }

    /// Passes the sums stacked under a name to `work`.
    pub fn with_stack<T>(&self, name: &str, work: impl FnOnce(&mut Vec<f64>) -> T) -> T {
        let mut stacks = self.stacks.lock().unwrap_or_else(PoisonError::into_inner);
        work(stacks.entry(name.to_owned()).or_default())
    }
}
