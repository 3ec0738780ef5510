//! The state of recovery: what this run needs to know while records of an earlier run are being recovered.
//!
//! Invariant: a change by this run is newer than anything recovered. If this cannot be decided any more,
//! all records of the earlier run are discarded.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most removals remembered while recovery runs: 16 MiB. Beyond, all records of the earlier run are
/// discarded.
const REMOVED_MAX: usize = 1 << 20;

/// The state of recovery. See the module.
pub(super) struct EarlierRun {
    /// Whether records are still being recovered.
    recovering: AtomicBool,
    /// The first sequence number of this run.
    pub first_id: u64,
    /// Keys that this run has removed since recovery began.
    removed: Mutex<Removed>,
    /// Whether there are any such keys.
    has_removed: AtomicBool,
}

impl EarlierRun {
    /// The state for the run that begins with number `first_id`. `exists` says whether there is an
    /// earlier run to recover.
    pub fn new(first_id: u64, exists: bool) -> Self {
        let (recovering, has_removed) = (AtomicBool::new(exists), AtomicBool::new(false));
        Self { recovering, first_id, removed: Mutex::default(), has_removed }
    }

    /// Whether records are still being recovered.
    pub fn is_recovering(&self) -> bool {
        self.recovering.load(Ordering::Acquire)
    }

    /// Ends recovery.
    pub fn end(&self) {
        self.recovering.store(false, Ordering::Release);
    }

    /// Begins recovery.
    #[cfg(test)]
    pub fn begin(&self) {
        self.recovering.store(true, Ordering::Release);
    }

    /// Locks the keys that this run has removed.
    pub fn lock_removed(&self) -> MutexGuard<'_, Removed> {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a key that loses its entry, so that no older one is recovered either. Called before the
    /// entry is removed.
    pub fn remove(&self, hash: u64) {
        if self.is_recovering() {
            self.lock_removed().add(hash);
            self.has_removed.store(true, Ordering::Release);
        }
    }

    /// As [`Self::remove`], for keys that are not known.
    pub fn lose(&self) {
        if self.is_recovering() {
            self.lock_removed().is_given_up = true;
        }
    }

    /// Whether this run has removed a key that may still be recovered.
    pub fn was_removed(&self, hash: u64) -> bool {
        self.has_removed.load(Ordering::Acquire) && self.lock_removed().hashes.contains(&hash)
    }
}

/// Keys that this run has removed while recovery runs.
#[derive(Default)]
pub(super) struct Removed {
    pub hashes: HashSet<u64>,
    /// Whether recovered records might be older than removed ones, so that all must be discarded.
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
