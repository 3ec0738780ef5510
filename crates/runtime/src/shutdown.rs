//! Orderly shutdown: the owner triggers it, and every holder of a signal sees it.
//!
//! Triggering is idempotent; a signal made after the trigger is already triggered.

use tokio::sync::watch;

/// Triggers the shutdown.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Sender<bool>);

/// Observes the shutdown. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ShutdownSignal(watch::Receiver<bool>);

impl Default for Shutdown {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Shutdown {
    /// Triggers every signal.
    pub fn trigger(&self) {
        self.0.send_replace(true);
    }

    /// A new signal of this shutdown.
    pub fn signal(&self) -> ShutdownSignal {
        ShutdownSignal(self.0.subscribe())
    }
}

impl ShutdownSignal {
    /// Whether shutdown was triggered.
    pub fn is_triggered(&self) -> bool {
        *self.0.borrow()
    }

    /// Completes when shutdown is triggered, or when its owner is gone.
    pub async fn triggered(&self) {
        let mut receiver = self.0.clone();
        // A dropped owner cannot trigger any more: treat that as a shutdown.
        let _ = receiver.wait_for(|stop| *stop).await;
    }
}
