//! Signals: the first asks to stop in order, the second exits at once.

use sandur_base::Shutdown;
use tokio::signal::unix::{SignalKind, signal};

/// Waits for SIGTERM or SIGINT, triggers the shutdown, and exits the process on a second one. What
/// was acknowledged is durable, so exiting at once loses nothing; the next start reads it from the WAL.
pub async fn watch(shutdown: Shutdown) {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::warn!("signals cannot be watched; the process stops without draining");
        return;
    };
    let mut next = async || {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    };
    let name = next().await;
    tracing::info!(signal = name, "stopping: requests end, then everything acknowledged is flushed");
    shutdown.trigger();
    next().await;
    tracing::warn!("second signal: exiting at once; acknowledged data is safe in the WAL");
    std::process::exit(130);
}
