//! What an earlier run left, for as long as it is still being found.
//!
//! Invariant: what this run wrote or removed is newer than anything found; where that cannot be told any
//! more nothing of the earlier run is believed.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Removals remembered while recovery runs: 16 MiB. Beyond, nothing of the earlier run is believed.
const REMOVED_MAX: usize = 1 << 20;

/// See the module.
pub(super) struct EarlierRun {
    /// Whether its records are still being found.
    recovering: AtomicBool,
    /// The first sequence number of this run.
    pub first_id: u64,
    /// What this run removed while recovery runs.
    removed: Mutex<Removed>,
    /// Whether it removed any.
    has_removed: AtomicBool,
}

impl EarlierRun {
    /// The run before the one that begins with number `first_id`, if there was one to be found.
    pub fn new(first_id: u64, exists: bool) -> Self {
        let (recovering, has_removed) = (AtomicBool::new(exists), AtomicBool::new(false));
        Self { recovering, first_id, removed: Mutex::default(), has_removed }
    }

    /// Whether its records are still being found.
    pub fn is_recovering(&self) -> bool {
        self.recovering.load(Ordering::Acquire)
    }

    /// All of them are found.
    pub fn end(&self) {
        self.recovering.store(false, Ordering::Release);
    }

    /// They are being found.
    #[cfg(test)]
    pub fn begin(&self) {
        self.recovering.store(true, Ordering::Release);
    }

    /// What this run removed since it began.
    pub fn lock_removed(&self) -> MutexGuard<'_, Removed> {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A key loses its entry: no older one is to be found either. Said before the entry goes.
    pub fn remove(&self, hash: u64) {
        if self.is_recovering() {
            self.lock_removed().add(hash);
            self.has_removed.store(true, Ordering::Release);
        }
    }

    /// As [`Self::remove`], of keys that are not known.
    pub fn lose(&self) {
        if self.is_recovering() {
            self.lock_removed().is_given_up = true;
        }
    }

    /// Whether this run removed a key that is still to be found.
    pub fn was_removed(&self, hash: u64) -> bool {
        self.has_removed.load(Ordering::Acquire) && self.lock_removed().hashes.contains(&hash)
    }
}

/// Keys that this run removed before recovery found them.
#[derive(Default)]
pub(super) struct Removed {
    pub hashes: HashSet<u64>,
    /// What recovery finds could be older than what this run had: nothing of it is believed.
    pub is_given_up: bool,
}

impl Removed {
    fn add(&mut self, hash: u64) {
        if self.hashes.len() < REMOVED_MAX {
            self.hashes.insert(hash);
        } else {
            self.is_given_up = true;
        }
    }
}
