//! The handle: open, look, refresh, commit, keep house.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sandur_base::{Env, Id, Task};
use sandur_format::catalog_entry::{Edit, Entry, Precondition, WalKind};
use sandur_store::Store;
use tokio::sync::{mpsc, watch};

use crate::commit::{Committer, Request};
use crate::error::{CommitError, Error};
use crate::metrics::CatalogMetrics;
use crate::options::CatalogOptions;
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::witness::Witness;

/// The open catalog of a store. Cheap to clone: a handle. Waiting commits end with
/// [`CommitError::Uncertain`] when the last handle is dropped.
#[derive(Clone)]
pub struct Catalog {
    shared: Arc<Shared>,
    requests: mpsc::Sender<Request>,
    _committer: Arc<Task<()>>,
}

/// What a process says of itself when it registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Id of the process start.
    pub incarnation: Id,
    /// Where it answers peers; empty when nowhere.
    pub address: String,
    /// Host name, for people.
    pub host: String,
    /// Where its WAL is.
    pub wal: WalKind,
}

/// What one call of [`Catalog::keep_house`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Housekeeping {
    /// Whether a checkpoint was written.
    pub checkpoint: bool,
    /// The boundary afterwards, if it was looked at.
    pub boundary: Option<u64>,
    /// Objects that were deleted.
    pub deleted: usize,
}

impl Catalog {
    /// Opens the catalog of a store: reads the newest checkpoint and the log after it. Writes
    /// nothing; a store without a catalog has an empty one. Refuses a log that is shorter than others
    /// have seen it, one with a gap, and an empty one beside data.
    pub async fn open(store: Store, env: Env, options: CatalogOptions) -> Result<Self, Error> {
        let queue = options.queue_length_max.max(1);
        let shared = Arc::new(Shared::new(store, env, options));
        let began = shared.env.monotonic();
        let loaded = shared.load_whole().await?;
        shared.publish(loaded);
        shared.note_complete(began);
        let (requests, receiver) = mpsc::channel(queue);
        let committer = Committer::new(&shared, receiver);
        let task = shared.env.spawn("catalog-commit", committer.run());
        Ok(Self { shared, requests, _committer: Arc::new(task) })
    }

    /// The newest state that this process knows, without asking the store.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.current()
    }

    /// Sees every newer snapshot as soon as this process learns of it.
    pub fn watch(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.shared.watch()
    }

    /// How long the snapshot may have been incomplete, by this process's clock: since the last read of the
    /// log's end that succeeded began; in a local directory, which has no other writers, since the first that
    /// failed.
    pub fn age(&self) -> Duration {
        self.shared.age()
    }

    /// Reads the log to its end. The snapshot contains everything that any process committed
    /// before this call. Costs two small reads when there is nothing new.
    pub async fn refresh(&self) -> Result<Arc<Snapshot>, Error> {
        self.shared.refresh().await
    }

    /// Makes the edits, all or none, if the preconditions hold at that moment, on behalf of the
    /// incarnation `author`. The snapshot contains them. Commits of one process that wait at the
    /// same time share an entry; each keeps its own outcome. Dropping the future does not undo it.
    pub async fn commit(
        &self,
        author: Id,
        edits: Vec<Edit>,
        preconditions: Vec<Precondition>,
    ) -> Result<Arc<Snapshot>, CommitError> {
        let request = Request::new(author, edits, preconditions);
        let (request, answer) = request.map_err(CommitError::TooLarge)?;
        self.requests.send(request).await.map_err(|_| CommitError::Closed)?;
        let waited = Duration::ZERO;
        let lost = CommitError::Uncertain { waited, reason: "the catalog was closed".to_owned() };
        answer.await.unwrap_or(Err(lost))
    }

    /// Registers a process. Nothing of it may be acknowledged before this returns.
    pub async fn register(&self, registration: Registration) -> Result<Arc<Snapshot>, CommitError> {
        let Registration { incarnation, address, host, wal } = registration;
        let started_ms = self.shared.env.now_ns() / 1_000_000;
        let edit = Edit::Register { incarnation, address, host, started_ms, wal };
        self.commit(incarnation, vec![edit], Vec::new()).await
    }

    /// Seals a writer whose fence object was created at `fence`; further edits (blocks with its
    /// rows, its floor) happen in the same transaction. Rejected if it was sealed meanwhile.
    pub async fn seal(
        &self,
        author: Id,
        incarnation: Id,
        fence: u64,
        more: Vec<Edit>,
    ) -> Result<Arc<Snapshot>, CommitError> {
        let mut edits = vec![Edit::Seal { incarnation, fence }];
        edits.extend(more);
        self.commit(author, edits, vec![Precondition::Live { incarnation }]).await
    }

    /// Writes a checkpoint when one is due, then advances the boundary and deletes what lies below
    /// it. Call it every few seconds from one task; while nothing is due it asks the store nothing.
    pub async fn keep_house(&self) -> Result<Housekeeping, Error> {
        if !self.shared.checkpoint_is_due() {
            return Ok(Housekeeping::default());
        }
        self.shared.look_for_checkpoints().await?;
        if !self.shared.checkpoint_is_due() || !self.shared.write_checkpoint().await? {
            return Ok(Housekeeping::default());
        }
        let mut done = self.truncate(false).await?;
        done.checkpoint = true;
        Ok(done)
    }

    /// Writes a checkpoint of the current snapshot now; `false` when there is one already.
    pub async fn checkpoint(&self) -> Result<bool, Error> {
        self.shared.look_for_checkpoints().await?;
        self.shared.write_checkpoint().await
    }

    /// Advances the boundary to the older of the two newest checkpoints and deletes entries and
    /// checkpoints that are not needed any more. A dry run only counts them.
    pub async fn truncate(&self, dry_run: bool) -> Result<Housekeeping, Error> {
        let boundary = match dry_run {
            true => self.shared.read_boundary().await?,
            false => self.shared.advance_to_older_checkpoint().await?,
        };
        let deleted = self.shared.delete_below_boundary(dry_run).await?;
        if deleted > 0 && !dry_run {
            self.shared.metrics.deleted.inc_by(deleted as u64);
            tracing::info!(boundary, deleted, "truncated the catalog");
        }
        Ok(Housekeeping { checkpoint: false, boundary: Some(boundary), deleted })
    }

    /// Why the log cannot be followed any more: it was emptied, cut, swapped or replaced under this
    /// process. Once this is so every commit and every refresh fails, until the catalog is opened again.
    pub fn lost(&self) -> Option<Error> {
        self.shared.lost.borrow().clone()
    }

    /// Tells when [`Catalog::lost`] becomes so.
    pub fn watch_lost(&self) -> watch::Receiver<Option<Error>> {
        self.shared.lost.subscribe()
    }

    /// Writes down beside the log how long it is: in a bucket that happens with checkpoints and
    /// heartbeats, and has to happen before the last heartbeat is taken away.
    pub async fn bear_witness(&self) {
        self.shared.bear_witness(&self.snapshot()).await;
    }

    /// Entry `number` of the log as it is stored, for people; `None` when it is absent.
    pub async fn entry(&self, number: u64) -> Result<Option<Entry>, Error> {
        Ok(self.shared.read_entry(number).await?.map(|stored| stored.entry))
    }

    /// Counters, to be registered with the process's registry.
    pub fn metrics(&self) -> &CatalogMetrics {
        &self.shared.metrics
    }

    /// The store that the catalog is in.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Whether the store is a directory that this process alone holds.
    pub fn is_local(&self) -> bool {
        self.shared.is_local()
    }

    /// The boundary and the newest checkpoint that this process knows of.
    pub(crate) fn known_truncation(&self) -> (u64, u64) {
        let boundary = self.shared.boundary_seen.load(Ordering::Relaxed);
        (boundary, self.shared.checkpointed().number)
    }

    /// Ends all commits when one of these, heard just now, has seen a log that is not this one.
    pub(crate) async fn confront(&self, witnesses: &[Witness]) -> Result<(), Error> {
        if self.shared.confront(&self.snapshot(), witnesses).is_ok() {
            return Ok(());
        }
        // Whatever they have seen is in the log by now.
        let snapshot = self.refresh().await?;
        self.shared.confront(&snapshot, witnesses).map_err(|error| self.lose(error))
    }

    /// Asks every source that says how long the log is.
    pub(crate) async fn hear_witnesses(&self) -> Result<Vec<Witness>, Error> {
        self.shared.hear_witnesses().await
    }

    pub(crate) fn lose(&self, error: Error) -> Error {
        self.shared.lose(error)
    }

    pub(crate) fn env(&self) -> &Env {
        &self.shared.env
    }
}
