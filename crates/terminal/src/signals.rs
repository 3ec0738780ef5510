//! Signals: the first starts an orderly shutdown, the second exits immediately.
//!
//! **Invariant.** Signals are caught before the process reports that it is ready, so that from then on a
//! signal starts an orderly shutdown.

use sandur_runtime::Shutdown;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::logging;

/// Handlers of SIGTERM and SIGINT, active since this was created.
pub struct Signals(Option<(Signal, Signal)>);

impl Signals {
    /// Installs the handlers. If that fails, a signal ends the process without draining.
    pub fn catch() -> Self {
        let caught = signal(SignalKind::terminate())
            .and_then(|terminate| signal(SignalKind::interrupt()).map(|interrupt| (terminate, interrupt)));
        if let Err(error) = &caught {
            tracing::warn!(%error, "cannot handle signals; the process will stop without draining");
        }
        Self(caught.ok())
    }

    /// The name of the next signal; never returns if signals are not caught.
    pub async fn next(&mut self) -> &'static str {
        match &mut self.0 {
            None => std::future::pending().await,
            Some((terminate, interrupt)) => tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            },
        }
    }

    /// Triggers the shutdown at the first signal, and exits at the second. Acknowledged data is durable,
    /// so exiting immediately loses nothing; the next start replays it from the WAL.
    pub async fn watch(mut self, shutdown: Shutdown) {
        let name = self.next().await;
        tracing::info!(signal = name, "stopping: waiting for requests, then flushing all acknowledged data");
        shutdown.trigger();
        self.next().await;
        tracing::warn!("second signal: exiting immediately; acknowledged data is safe in the WAL");
        logging::stderr::exit(130);
    }
}
