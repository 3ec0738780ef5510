//! What tells the flusher to look at the heads, and pushes how the last flush failed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Wakes the flusher.
#[derive(Debug, Default)]
pub(crate) struct FlushSignal {
    changed: Notify,
    /// A flush is wanted whatever the size and the age of the head.
    is_pressing: AtomicBool,
    /// Why the last flush failed, if it did.
    failure: Mutex<Option<Arc<str>>>,
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
    pub(crate) fn flushed<E: ToString>(&self, outcome: &Result<(), E>) {
        let failure = outcome.as_ref().err().map(|error| error.to_string().into());
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// Why the last flush failed, if it did.
    pub(crate) fn failure(&self) -> Option<Arc<str>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for news.
    pub(crate) async fn notified(&self) {
        self.changed.notified().await;
    }
}
