//! Decides when heads are flushed: by size, by age, on request, or when a push found no memory.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use sandur_base::units::format_duration;
use sandur_runtime::Backoff;
use tokio::sync::{mpsc, oneshot};

use crate::error::Error;
use crate::head::Head;
use crate::writing::flush::outcome::{Ending, Flushed};
use crate::writing::writer::Writer;

/// The pauses after failed flushes.
const FLUSHES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// The least age of a head that is flushed because other processes must hold its rows. Smaller blocks would
/// cost more requests than the memory is worth.
const SHARED_AGE: Duration = Duration::from_secs(10);

/// The reply channel of a caller that waits until everything that was acknowledged is in blocks.
pub(crate) type Request = oneshot::Sender<Result<(), Error>>;

/// Flushes the heads of our own WAL until the engine is dropped.
pub(crate) async fn run(writer: Arc<Writer>, mut requests: mpsc::Receiver<Request>) {
    let (mut pauses, mut not_before) = (FLUSHES.pauses(), Duration::ZERO);
    loop {
        let request = tokio::select! {
            request = requests.recv() => match request {
                Some(request) => Some(request),
                None => return,
            },
            () = writer.flush_signal.notified() => None,
            () = writer.node.env.sleep(writer.options.look_interval) => {
                writer.wal().look_after_files().await;
                None
            }
        };
        let now = writer.node.env.monotonic();
        if request.is_none() && writer.awaits_earlier_writers(now) && !writer.is_short_of_memory() {
            continue;
        }
        if request.is_some() || writer.flush_is_due(now) {
            writer.seal_own_head();
        }
        if request.is_none() && now < not_before {
            continue;
        }
        let outcome = writer.flush_sealed().await;
        match &outcome {
            Ok(()) => {
                if let Some(since) = writer.flush_signal.succeeded() {
                    let failed_for = writer.node.env.monotonic().saturating_sub(since);
                    tracing::info!(failed_for = format_duration(failed_for), "flushes succeed again");
                }
                pauses.reset();
                not_before = Duration::ZERO;
            }
            Err(error) => {
                writer.node.metrics.flush_failures.inc();
                writer.flush_signal.failed(now);
                let ended = writer.node.env.monotonic();
                let failing_for = format_duration(writer.flush_signal.failing_for(ended).unwrap_or_default());
                tracing::warn!(
                    %error, failing_for, "a flush failed and is tried again; its rows stay in the WAL"
                );
                not_before = ended + pauses.after_failure();
            }
        }
        if let Some(request) = request {
            // The caller may have gone away.
            let _ = request.send(outcome);
        }
    }
}

impl Writer {
    /// Whether pushes wait for memory that only a flush of our own rows would release. Not so while rows
    /// of a directory's dead writers are being flushed.
    fn is_short_of_memory(&self) -> bool {
        *self.recovering.borrow() == 0 && self.flush_signal.is_pressing()
    }

    fn flush_is_due(&self, now: Duration) -> bool {
        let Some(head) = self.node.views.open(self.incarnation()) else { return false };
        let totals = head.totals();
        // Exemplars and metadata take memory, too, and only a flush releases it.
        if totals.rows == 0 && totals.memory_bytes == 0 {
            return false;
        }
        self.flush_signal.take_pressure()
            || head.flush_bytes() >= self.options.flush_bytes
            || totals.memory_bytes >= self.options.flush_memory_bytes()
            || now.saturating_sub(head.born()) >= self.options.flush_age
            || self.others_need_a_flush(&head, now)
    }

    /// Whether processes with the same limits may lack the memory for the rows of this head.
    fn others_need_a_flush(&self, head: &Head, now: Duration) -> bool {
        let others = self.node.followed.count() as u64;
        others > 0
            && now.saturating_sub(head.born()) >= SHARED_AGE
            && head.totals().memory_bytes >= self.options.shared_flush_bytes(others)
    }

    /// Seals the open head: later rows go to a new head and a new WAL file.
    fn seal_own_head(&self) {
        let wal = self.wal();
        self.node.views.seal(wal.incarnation());
        wal.head_sealed();
    }

    /// Flushes all heads of our WAL except the open one.
    async fn flush_sealed(&self) -> Result<(), Error> {
        let incarnation = self.wal().incarnation();
        let (mut seen, mut failed) = (BTreeSet::new(), None);
        loop {
            let wal = self.wal();
            if wal.incarnation() != incarnation {
                return Ok(());
            }
            let open = self.node.views.open(incarnation);
            let is_next = |head: &Arc<Head>| {
                let is_open = open.as_ref().is_some_and(|open| Arc::ptr_eq(open, head));
                !is_open && !seen.contains(&head.start())
            };
            let heads = self.node.views.heads_of(incarnation);
            let Some(head) = heads.into_iter().find(is_next) else { break };
            match self.flush_head(&head, Ending::Open).await? {
                Flushed::Committed => wal.delete_below(head.start(), head.end()).await,
                // The floor of this head waits for rows that could not be written. In later heads only
                // the other datasets are flushed.
                Flushed::InPart { failed: reason } => {
                    seen.insert(head.start());
                    failed = failed.or(reason);
                }
                Flushed::Overtaken => {
                    // The process that sealed us flushes these rows. Until then the head stays, and
                    // asking the catalog again at once would return the same answer.
                    self.publish(self.node.catalog.snapshot());
                    if self.node.views.heads_of(incarnation).iter().any(|left| Arc::ptr_eq(left, &head)) {
                        return Err(Error::Overtaken { incarnation });
                    }
                }
            }
            drop(head);
            self.flush_signal.note_freed();
        }
        failed.map_or(Ok(()), Err)
    }
}
