//! What tells the flusher to look at the heads, and pushes that flushes fail.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// Wakes the flusher.
#[derive(Debug, Default)]
pub(crate) struct FlushSignal {
    changed: Notify,
    /// A flush is wanted whatever the size and the age of the head.
    is_pressing: AtomicBool,
    /// When the first of the latest flushes began that all failed, by the monotonic clock.
    failing_since: Mutex<Option<Duration>>,
}

impl FlushSignal {
    /// The head has grown.
    pub(crate) fn grown(&self) {
        self.changed.notify_one();
    }

    /// A flush is wanted now: a push found no memory, or rows are in memory alone.
    pub(crate) fn press(&self) {
        self.is_pressing.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Whether a flush was pressed for and not begun.
    pub(crate) fn is_pressing(&self) -> bool {
        self.is_pressing.load(Ordering::Acquire)
    }

    /// Whether a flush was pressed for since this was called last.
    pub(crate) fn take_pressure(&self) -> bool {
        self.is_pressing.swap(false, Ordering::AcqRel)
    }

    /// A flush that began at this time has failed.
    pub(crate) fn failed(&self, began: Duration) {
        self.failing_since().get_or_insert(began);
    }

    /// A flush has succeeded; gives since when flushes had failed, if they had.
    pub(crate) fn succeeded(&self) -> Option<Duration> {
        self.failing_since().take()
    }

    /// How long flushes have failed; nothing when the last one succeeded.
    pub(crate) fn failing_for(&self, now: Duration) -> Option<Duration> {
        Some(now.saturating_sub((*self.failing_since())?))
    }

    fn failing_since(&self) -> MutexGuard<'_, Option<Duration>> {
        self.failing_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for news.
    pub(crate) async fn notified(&self) {
        self.changed.notified().await;
    }
}
