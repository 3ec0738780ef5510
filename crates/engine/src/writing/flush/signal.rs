//! Wakes the flusher, and records for pushes whether flushes fail.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// The signal between pushes and the flusher.
#[derive(Debug, Default)]
pub(crate) struct FlushSignal {
    changed: Notify,
    /// Notifies pushes that wait for memory.
    freed: Notify,
    /// Whether a flush is requested regardless of the size and the age of the head.
    is_pressing: AtomicBool,
    /// The monotonic start time of the first of the latest flushes that all failed.
    failing_since: Mutex<Option<Duration>>,
}

impl FlushSignal {
    /// Notes that the head has grown.
    pub(crate) fn grown(&self) {
        self.changed.notify_one();
    }

    /// Requests a flush now: a push found no memory, or rows are in memory alone.
    pub(crate) fn press(&self) {
        self.is_pressing.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Whether a flush was requested and has not begun.
    pub(crate) fn is_pressing(&self) -> bool {
        self.is_pressing.load(Ordering::Acquire)
    }

    /// Whether a flush was requested since the last call. Clears the request.
    pub(crate) fn take_pressure(&self) -> bool {
        self.is_pressing.swap(false, Ordering::AcqRel)
    }

    /// Notes that a flush has released memory.
    pub(crate) fn note_freed(&self) {
        self.freed.notify_waiters();
    }

    /// Completes at the next release of memory after this call.
    pub(crate) fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }

    /// Notes that a flush that began at this time has failed.
    pub(crate) fn failed(&self, began: Duration) {
        self.failing_since().get_or_insert(began);
    }

    /// Notes that a flush has succeeded. Returns since when flushes had failed, if they had.
    pub(crate) fn succeeded(&self) -> Option<Duration> {
        self.failing_since().take()
    }

    /// How long flushes have been failing; `None` if the last one succeeded.
    pub(crate) fn failing_for(&self, now: Duration) -> Option<Duration> {
        Some(now.saturating_sub((*self.failing_since())?))
    }

    fn failing_since(&self) -> MutexGuard<'_, Option<Duration>> {
        self.failing_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the head grows or a flush is requested.
    pub(crate) async fn notified(&self) {
        self.changed.notified().await;
    }
}
