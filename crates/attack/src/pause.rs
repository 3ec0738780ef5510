//! Waits that another thread can end.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A wait that another thread can end.
#[derive(Default)]
pub struct Pause {
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Pause {
    /// Waits for `length`. Returns `false` if the end was requested.
    pub fn wait(&self, length: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(ended, length, |ended| !*ended);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Ends all waits, now and later.
    pub fn end(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}
