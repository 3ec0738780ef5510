//! One orderly way to stop: the owner triggers, everyone who holds a signal sees it.
//!
//! Triggering is idempotent; a signal taken after the trigger is already triggered.

use tokio::sync::watch;

/// The owner's side.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Sender<bool>);

/// The listener's side. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ShutdownSignal(watch::Receiver<bool>);

impl Default for Shutdown {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Shutdown {
    /// Asks every listener to stop.
    pub fn trigger(&self) {
        self.0.send_replace(true);
    }

    /// A listener.
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
        // An owner that is gone cannot ask any more: treat it as a request to stop.
        let _ = receiver.wait_for(|stop| *stop).await;
    }
}
