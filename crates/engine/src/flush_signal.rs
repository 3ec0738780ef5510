//! What tells the flusher to look at the heads, and pushes that flushes fail.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Wakes the flusher.
#[derive(Debug, Default)]
pub(crate) struct FlushSignal {
    changed: Notify,
    /// A flush is wanted whatever the size and the age of the head.
    is_pressing: AtomicBool,
    /// The last flush failed.
    is_failing: AtomicBool,
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

    /// A flush has ended.
    pub(crate) fn flushed(&self, has_failed: bool) {
        self.is_failing.store(has_failed, Ordering::Release);
    }

    /// Whether the last flush failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Acquire)
    }

    /// Waits for news.
    pub(crate) async fn notified(&self) {
        self.changed.notified().await;
    }
}
