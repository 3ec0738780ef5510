//! What both kinds of committers share: queued pushes, the state that a committer updates, how it ends, and
//! the names of the frames that it writes.

use std::sync::Arc;

use sandur_base::Id;
use sandur_format::wal_segment::Record;
use sandur_memory::Reservation;
use sandur_model::{Batch, SampleConflicts, Signal};
use sandur_runtime::{Env, Lane};
use sandur_store::{Class, Store};
use tokio::sync::{Notify, oneshot, watch};

use super::recent::RecentFrames;
use super::status::Status;
use crate::error::Error;
use crate::head::Inserted;
use crate::logs::Followers;
use crate::metrics::Metrics;
use crate::options::EngineOptions;
use crate::samples::head::InsertedSamples;
use crate::samples::may_be_stamped;
use crate::view::{FrameAt, Views};
use crate::writing::flush::signal::FlushSignal;

/// Bytes of a frame from which encoding and applying it run on the CPU pool, not on the I/O threads.
pub(super) const SMALL_BYTES: u64 = 64 << 10;

/// A queued push.
pub(crate) struct Push {
    /// Without its compressed form, which the record holds.
    pub(crate) batch: Batch,
    pub(crate) record: Record,
    pub(crate) memory: Reservation,
    pub(crate) reply: Reply,
}

/// The way back to the caller of a push.
pub(crate) struct Reply {
    pub(crate) outcome: oneshot::Sender<Settled>,
    /// Dropped when the push is settled, also if its caller waits no longer.
    pub(crate) _unsettled: Unsettled,
}

/// Held by pushes that are not settled yet.
pub(crate) type Unsettled = Arc<watch::Sender<()>>;

/// The outcome of a push: the samples that were not stored because of a conflict, or the error.
pub(crate) type Settled = Result<SampleConflicts, Error>;

/// Batches, each with the reservation of its memory.
pub(super) type Batches = Vec<(Batch, Reservation)>;

/// What a committer needs: the store, the options, and the state that it updates.
pub(crate) struct Context {
    pub(crate) env: Env,
    pub(crate) store: Store,
    pub(crate) options: EngineOptions,
    pub(crate) incarnation: Id,
    pub(crate) views: Arc<Views>,
    pub(crate) followers: Arc<Followers>,
    pub(crate) metrics: Metrics,
    pub(crate) status: Arc<Status>,
    pub(crate) recent: RecentFrames,
    pub(crate) flush_signal: Arc<FlushSignal>,
    /// Notifies the committer that the catalog lists this incarnation as sealed.
    pub(crate) sealed: Notify,
}

/// How a committer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The queue was closed and every push in it is settled.
    Closed {
        /// The first sequence number that was never used: the next frame would have it.
        next: u64,
    },
    /// Another process sealed this incarnation.
    Fenced,
}

impl Context {
    /// Fails when pushes that wait for the WAL must be refused.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.status.check(self.env.monotonic()).map_err(|error| self.explained(error))
    }

    pub(super) fn explained(&self, error: Error) -> Error {
        match error {
            Error::Stalled { waited, reason, is_under_way } if reason.is_empty() => {
                let said = self.store.latest_failure(Class::Wal);
                let said = said.or_else(|| self.store.latest_failure(Class::Member));
                let reason = said.unwrap_or_else(|| "the store has not answered".to_owned());
                Error::Stalled { waited, reason, is_under_way }
            }
            error => error,
        }
    }

    /// The time of the stamp of a frame with these records in a bucket; 0 if it needs none, or a registered
    /// process cannot read it. Call it in the order of the frames.
    pub(super) fn next_stamp(&self, records: &[Record]) -> u64 {
        let forms = self.views.current().snapshot.forms();
        let has_samples = records.iter().any(|record| record.signal() == Signal::Metrics);
        if has_samples && may_be_stamped(forms) { self.views.stamps().next() } else { 0 }
    }

    /// Makes the batches of a durable frame, of this number and stamp, visible and notifies followers and
    /// the flusher. Returns the conflicts of each batch.
    pub(super) fn apply(&self, (sequence, stamp): (u64, u64), batches: Batches) -> Vec<SampleConflicts> {
        let mut conflicts = Vec::with_capacity(batches.len());
        let at = FrameAt { incarnation: self.incarnation, sequence, stamp };
        for inserted in self.views.insert_pushed(at, batches) {
            conflicts.push(match inserted {
                Inserted::Logs(batch) => {
                    self.metrics.rows.inc_by(batch.batch().rows() as u64);
                    self.metrics.line_bytes.inc_by(batch.batch().line_bytes());
                    self.followers.deliver(batch.batch());
                    SampleConflicts::default()
                }
                Inserted::Samples(InsertedSamples { appended, copies, conflicts }) => {
                    self.metrics.samples.inc_by(appended);
                    let left_out = copies + conflicts.floats + conflicts.histograms;
                    self.metrics.sample_duplicates.inc_by(left_out);
                    conflicts
                }
            });
        }
        self.flush_signal.grown();
        conflicts
    }

    /// Does the same as [`Self::apply`], on the CPU pool if the frame is large.
    pub(super) async fn apply_where_due(
        self: &Arc<Self>,
        frame: (u64, u64),
        bytes: u64,
        batches: Batches,
    ) -> Vec<SampleConflicts> {
        if bytes < SMALL_BYTES {
            return self.apply(frame, batches);
        }
        let applier = Arc::clone(self);
        self.env.run_cpu(Lane::Query, move || applier.apply(frame, batches)).await
    }
}

/// The name of a WAL file or segment.
pub(crate) fn path(incarnation: Id, sequence: u64) -> String {
    format!("wal/{incarnation}/{sequence:020}")
}

/// The sequence number in the name of a WAL file or segment.
pub(crate) fn sequence_of(path: &str) -> Option<u64> {
    let name = path.rsplit('/').next()?;
    (name.len() == 20).then(|| name.parse().ok())?
}
