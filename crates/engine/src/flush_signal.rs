//! What tells the flusher to look at the heads.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Wakes the flusher.
#[derive(Debug, Default)]
pub(crate) struct FlushSignal {
    changed: Notify,
    /// A flush is wanted whatever the size and the age of the head.
    is_pressing: AtomicBool,
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

    /// Waits for news.
    pub(crate) async fn notified(&self) {
        self.changed.notified().await;
    }
}
