//! The write-ahead log. It makes the pushes of all tenants durable in frames, in order, before they
//! become visible.
//!
//! **Life of a push.** A push waits in a bounded queue. A committer takes all queued pushes, encodes
//! them as one frame, makes the frame durable ([`local`]: one append and fsync; [`bucket`]: one object),
//! puts the batches into the head, hands them to followers, and acknowledges them.
//!
//! A store that takes too long to write makes the WAL refuse pushes until a write succeeds again
//! ([`status`]).
//!
//! **Invariants.** Durable, then visible, then acknowledged. Sequence numbers rise by one per frame, and
//! frames are acknowledged in order. The number of a failed frame is never used again (local), or the
//! same bytes are written again under it until they are durable (bucket). Once the WAL is poisoned or
//! fenced, it acknowledges nothing more.

mod bucket;
mod committing;
mod cost;
pub(crate) mod frame;
mod group;
mod local;
mod pace;
mod recent;
mod status;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandur_base::Id;
use sandur_format::wal_segment::Record;
use sandur_memory::Reservation;
use sandur_model::Batch;
use sandur_runtime::Task;
use sandur_store::{Class, StoreKind};
use tokio::sync::{mpsc, oneshot};

use crate::error::Error;

pub(crate) use bucket::delete_segments;
pub(crate) use committing::{Context, End, Settled, path, sequence_of};
use committing::{Push, Reply, Unsettled};
pub(crate) use local::LocalFiles;
pub(crate) use recent::RecentFrames;
pub(crate) use status::Status;

/// The WAL of one incarnation.
pub(crate) struct Wal {
    context: Arc<Context>,
    sender: Mutex<Option<mpsc::Sender<Push>>>,
    /// What the next push holds until it is settled.
    unsettled: Mutex<Unsettled>,
    files: Option<Arc<LocalFiles>>,
}

impl Wal {
    /// Starts the committer: on files if the store is a local directory, else on objects.
    pub(crate) fn start(context: Context, local: bool) -> (Arc<Self>, Task<End>) {
        let context = Arc::new(context);
        let (sender, queue) = mpsc::channel(context.options.push_queue);
        let files = local.then(|| Arc::new(LocalFiles::default()));
        let task = match &files {
            Some(files) => {
                let committer = local::Committer::new(
                    Arc::clone(&context),
                    Arc::new(context.store.clone()),
                    Arc::clone(files),
                );
                context.env.spawn("wal-committer", committer.run(queue))
            }
            None => {
                let committer = bucket::Committer::new(Arc::clone(&context));
                context.env.spawn("wal-committer", committer.run(queue))
            }
        };
        let (sender, unsettled) = (Mutex::new(Some(sender)), Mutex::default());
        (Arc::new(Self { context, sender, unsettled, files }), task)
    }

    /// A WAL that accepts no pushes.
    pub(crate) fn refusing(context: Context, refusal: Error) -> Arc<Self> {
        context.status.pause(refusal, Duration::MAX);
        let (sender, unsettled) = (Mutex::default(), Mutex::default());
        Arc::new(Self { context: Arc::new(context), sender, unsettled, files: None })
    }

    /// The incarnation that writes this WAL.
    pub(crate) fn incarnation(&self) -> Id {
        self.context.incarnation
    }

    /// The newest durable frames.
    pub(crate) fn recent(&self) -> &RecentFrames {
        &self.context.recent
    }

    /// Returns what this WAL's requests to a bucket cost and may cost, as text for users; empty for a
    /// directory.
    pub(crate) fn cost_sentence(&self) -> String {
        let context = &self.context;
        if self.context.store.kind() != &StoreKind::Bucket {
            return String::new();
        }
        let now = context.store.dollars_per_month_of(Class::Wal);
        cost::sentence(&context.options, context.store.meter().prices().writes_per_million, now)
    }

    /// Why the WAL refuses or delays acknowledgements, if it does.
    pub(crate) fn status(&self) -> &Status {
        &self.context.status
    }

    /// Fails when a push that is under way should wait no longer.
    pub(crate) fn check_waiting(&self, now: Duration) -> Result<(), Error> {
        self.context.status.check_waiting(now).map_err(|error| self.explained(error))
    }

    /// Adds the store's latest failure to an [`Error::Stalled`] that has no reason yet.
    pub(crate) fn explained(&self, error: Error) -> Error {
        self.context.explained(error)
    }

    /// Queues a push. The receiver gets its outcome.
    pub(crate) fn enqueue(
        &self,
        batch: Batch,
        record: Record,
        memory: Reservation,
    ) -> Result<oneshot::Receiver<Settled>, Error> {
        self.context.check()?;
        let (reply, outcome) = oneshot::channel();
        let _unsettled = Arc::clone(&self.unsettled.lock().unwrap_or_else(PoisonError::into_inner));
        let reply = Reply { outcome: reply, _unsettled };
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = sender.as_ref().ok_or(Error::ShuttingDown)?;
        let sent = sender.try_send(Push { batch, record, memory, reply });
        sent.map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => Error::QueueFull { limit: self.context.options.push_queue },
            mpsc::error::TrySendError::Closed(_) => self.context.status.end_reason(),
        })?;
        Ok(outcome)
    }

    /// Waits until each push of before is durable or refused, also those whose callers wait no longer.
    pub(crate) async fn settled(&self) {
        let before = std::mem::take(&mut *self.unsettled.lock().unwrap_or_else(PoisonError::into_inner));
        let mut settled = before.subscribe();
        drop(before);
        // Nothing is sent: this fails when the last push is settled.
        let _ = settled.changed().await;
    }

    /// Ends the committer as fenced: the catalog says that another process has sealed this incarnation.
    pub(crate) fn end_sealed(&self) {
        self.context.sealed.notify_one();
    }

    /// Accepts no more pushes. The committer ends when it has settled the queued ones.
    pub(crate) fn close(&self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Notes that the head was sealed, so that the next frame begins a new file.
    pub(crate) fn head_sealed(&self) {
        if let Some(files) = &self.files {
            files.retire();
        }
    }

    /// Requests a flush when files of a local WAL were removed before their rows were in blocks: these
    /// rows are in memory alone.
    pub(crate) async fn look_after_files(&self) {
        let Some(files) = &self.files else { return };
        if files.has_lost_any(&self.context.store).await {
            self.context.flush_signal.press();
        }
    }

    /// Deletes the frames below the floor. All their rows are in blocks.
    pub(crate) async fn delete_below(&self, from: u64, floor: u64) {
        let context = &self.context;
        match &self.files {
            Some(files) => files.delete_below(&context.store, floor).await,
            None => delete_segments(&context.store, context.incarnation, from..floor).await,
        }
    }
}
