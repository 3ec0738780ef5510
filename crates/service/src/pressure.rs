//! Whether the process is too close to its memory limit to take more data.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sandur_base::ErrorKind;

use crate::failure::Failure;

/// The flag that the governor of memory sets and writes look at. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Pressure(Arc<AtomicBool>);

impl Pressure {
    /// Whether pushes are to be refused now.
    pub fn is_high(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Says whether resident memory is too close to its limit.
    pub fn set(&self, high: bool) {
        self.0.store(high, Ordering::Relaxed);
    }

    /// What a refused push answers.
    pub fn refusal() -> Failure {
        Failure::new(ErrorKind::Busy, "the server is short of memory (memory_limit); try again")
    }
}
