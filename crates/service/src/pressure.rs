//! Whether the process is too close to its memory limit to accept more data.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sandur_base::ErrorKind;

use crate::failure::Failure;

/// A flag that the memory governor sets and writes check. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Pressure(Arc<AtomicBool>);

impl Pressure {
    /// Whether pushes must be refused now.
    pub fn is_high(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets whether resident memory is too close to its limit.
    pub fn set(&self, high: bool) {
        self.0.store(high, Ordering::Relaxed);
    }

    /// Returns the failure of a refused push.
    pub fn refusal() -> Failure {
        Failure::new(ErrorKind::Busy, "the server is short of memory (memory_limit); try again")
    }
}
