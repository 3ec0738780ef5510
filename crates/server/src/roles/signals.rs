//! Signals: the first asks to stop in order, the second exits at once.
//!
//! **Invariant.** They are caught before a process says that it is ready: who stops it from then on finds it
//! stopping in order.

use sandur_base::Shutdown;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::logging;

/// SIGTERM and SIGINT, caught from when this was made.
pub struct Signals(Option<(Signal, Signal)>);

impl Signals {
    /// Catches them from now on. Where that fails, the process stops without draining.
    pub fn catch() -> Self {
        let caught = signal(SignalKind::terminate())
            .and_then(|terminate| signal(SignalKind::interrupt()).map(|interrupt| (terminate, interrupt)));
        if let Err(error) = &caught {
            tracing::warn!(%error, "signals cannot be watched; the process stops without draining");
        }
        Self(caught.ok())
    }

    /// The name of the next one; never, where they are not caught.
    pub async fn next(&mut self) -> &'static str {
        match &mut self.0 {
            None => std::future::pending().await,
            Some((terminate, interrupt)) => tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            },
        }
    }

    /// Triggers the shutdown at the first one, and exits the process at the second. What was acknowledged is
    /// durable, so exiting at once loses nothing; the next start reads it from the WAL.
    pub async fn watch(mut self, shutdown: Shutdown) {
        let name = self.next().await;
        tracing::info!(signal = name, "stopping: requests end, then everything acknowledged is flushed");
        shutdown.trigger();
        self.next().await;
        tracing::warn!("second signal: exiting at once; acknowledged data is safe in the WAL");
        logging::stderr::exit(130);
    }
}
