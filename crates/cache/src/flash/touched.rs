//! Touched keys: expiries that were changed after the record was written.
//!
//! Invariant: bounded. When it is full a touch is refused, and the caller writes the record again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most overrides kept: about 4 MiB.
const OVERRIDES_MAX: usize = 128 << 10;

/// Expiries by hash of the key.
#[derive(Default)]
pub(super) struct Touched {
    overrides: Mutex<HashMap<u64, u32>>,
    count: AtomicUsize,
}

impl Touched {
    /// Stores an expiry. Returns whether there was room.
    pub fn set(&self, hash: u64, expires_at: u32) -> bool {
        let mut overrides = self.lock();
        if overrides.len() >= OVERRIDES_MAX && !overrides.contains_key(&hash) {
            return false;
        }
        overrides.insert(hash, expires_at);
        self.count.store(overrides.len(), Ordering::Relaxed);
        true
    }

    /// Stores an expiry unless there is one, which is newer.
    pub fn set_older(&self, hash: u64, expires_at: u32) {
        let mut overrides = self.lock();
        if overrides.len() < OVERRIDES_MAX {
            overrides.entry(hash).or_insert(expires_at);
            self.count.store(overrides.len(), Ordering::Relaxed);
        }
    }

    /// The expiry of a key whose record says `expires_at`.
    pub fn expiry(&self, hash: u64, expires_at: u32) -> u32 {
        if self.count.load(Ordering::Relaxed) == 0 {
            return expires_at;
        }
        self.lock().get(&hash).copied().unwrap_or(expires_at)
    }

    pub fn forget(&self, hash: u64) {
        if self.count.load(Ordering::Relaxed) > 0 {
            let mut overrides = self.lock();
            overrides.remove(&hash);
            self.count.store(overrides.len(), Ordering::Relaxed);
        }
    }

    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub fn clear(&self) {
        self.lock().clear();
        self.count.store(0, Ordering::Relaxed);
    }

    pub fn all(&self) -> Vec<(u64, u32)> {
        self.lock().iter().map(|(&hash, &expires_at)| (hash, expires_at)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, u32>> {
        self.overrides.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
