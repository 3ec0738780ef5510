//! The tasks that keep the write half in step with the catalog: new incarnations after a fence, snapshots
//! of other parts, the end of the WAL when the catalog is lost.

use std::sync::Arc;
use std::time::Duration;

use sandur_runtime::{Backoff, Task};

use crate::error::Error;
use crate::writing::wal::End;
use crate::writing::writer::Writer;

/// How often an engine that cannot register checks whether it must stop.
const CLOSING_LOOK: Duration = Duration::from_millis(250);
/// The pauses between attempts to register a new incarnation.
const RESTARTS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// Publishes snapshots that other parts of this process committed or read.
pub(crate) async fn publish_snapshots(writer: Arc<Writer>) {
    let mut snapshots = writer.node.catalog.watch();
    let announce = |number| writer.options.hints.iter().for_each(|hints| hints.announce_catalog(number));
    announce(snapshots.borrow().number());
    while snapshots.changed().await.is_ok() {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        announce(snapshot.number());
        writer.publish(snapshot);
    }
}

/// Ends the WAL once the catalog's log was shortened or removed: rows that are acknowledged after that
/// could never be put into blocks.
pub(crate) async fn stop_when_the_catalog_is_lost(writer: Arc<Writer>) {
    let mut lost = writer.node.catalog.watch_lost();
    loop {
        let is_lost = lost.borrow_and_update().is_some();
        if is_lost && let Err(error) = writer.node.expect_catalog() {
            return writer.wal().status().end(error);
        }
        if lost.changed().await.is_err() {
            return;
        }
    }
}

/// Starts a new incarnation each time the current one is fenced. When the queue is closed, returns the
/// first unused sequence number of the last incarnation; `None` if there is no incarnation.
pub(crate) async fn supervise(writer: Arc<Writer>, mut committer: Option<Task<End>>) -> Option<u64> {
    loop {
        if let Some(committer) = committer {
            match committer.join().await {
                Ok(End::Closed { next }) => return Some(next),
                Ok(End::Fenced) => {}
                Err(error) => {
                    tracing::error!(%error, "nothing is acknowledged any more");
                    writer.wal().status().end(Error::Internal(error.to_string()));
                    return None;
                }
            }
        }
        committer = Some(restart(&writer).await?);
        if writer.is_closing() {
            writer.wal().close();
        }
    }
}

/// Registers a new incarnation as soon as that is possible. Returns `None` if the engine stops before.
async fn restart(writer: &Writer) -> Option<Task<End>> {
    let (mut pauses, mut not_before) = (RESTARTS.pauses(), Duration::ZERO);
    while !writer.is_closing() {
        if writer.node.env.monotonic() < not_before {
            writer.node.env.sleep(CLOSING_LOOK).await;
            continue;
        }
        match writer.start_wal().await {
            Ok(committer) => return Some(committer),
            Err(error) => tracing::warn!(%error, "a new incarnation could not be registered yet"),
        }
        not_before = writer.node.env.monotonic() + pauses.after_failure();
    }
    None
}
