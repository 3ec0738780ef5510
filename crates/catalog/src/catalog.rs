//! The handle of an open catalog: open, read, refresh, commit, housekeeping.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sandur_base::Id;
use sandur_format::catalog_entry::{
    EDITS_OF_NODES, EDITS_OF_RULES, Edit, Entry, NodeDescription, NodePhase, Precondition, WalKind,
};
use sandur_model::RuleShards;
use sandur_runtime::{Env, Task};
use sandur_store::Store;
use tokio::sync::{mpsc, watch};

use crate::commit::{Committer, Request};
use crate::error::{CommitError, Error};
use crate::metrics::CatalogMetrics;
use crate::options::CatalogOptions;
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::witness::Witness;

/// The open catalog of a store. Cheap to clone: a handle. When the last handle is dropped, waiting
/// commits end with [`CommitError::Uncertain`].
#[derive(Clone)]
pub struct Catalog {
    shared: Arc<Shared>,
    requests: mpsc::Sender<Request>,
    _committer: Arc<Task<()>>,
}

/// The data with which a process registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Id of the process start.
    pub incarnation: Id,
    /// Address at which it serves peers; empty when it serves none.
    pub address: String,
    /// Host name, for display.
    pub host: String,
    /// Kind of storage of its WAL.
    pub wal: WalKind,
    /// The node that runs it; `None` describes none.
    pub node: Option<NodeDescription>,
}

/// The result of one call of [`Catalog::keep_house`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Housekeeping {
    /// Whether a checkpoint was written.
    pub checkpoint: bool,
    /// The boundary afterwards, if it was read.
    pub boundary: Option<u64>,
    /// Objects that were deleted.
    pub deleted: usize,
}

impl Catalog {
    /// Opens the catalog of a store: reads the newest checkpoint and the log after it. Writes nothing; a
    /// store without a catalog has an empty one. Fails if the log has a gap, if it is shorter than
    /// another process has seen it, or if it is empty although the store holds data.
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

    /// Returns the newest state that this process knows, without a request to the store.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.current()
    }

    /// Returns a receiver of every newer snapshot, from the moment at which this process has it.
    pub fn watch(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.shared.watch()
    }

    /// Returns for how long the snapshot may have been incomplete, by this process's clock: since the
    /// start of the last successful read of the log's end. In a local directory, which has no other
    /// writers, since the start of the first failed read.
    pub fn age(&self) -> Duration {
        self.shared.age()
    }

    /// Reads the log to its end. The returned snapshot contains everything that any process committed
    /// before this call. Costs three small reads when the log has not grown.
    pub async fn refresh(&self) -> Result<Arc<Snapshot>, Error> {
        Box::pin(self.shared.refresh()).await
    }

    /// Like [`Catalog::refresh`], for calls every second or so: mostly costs one small read when the log has
    /// not grown, and a deleted or replaced log is noticed within about ten seconds.
    pub async fn poll(&self) -> Result<Arc<Snapshot>, Error> {
        Box::pin(self.shared.poll()).await
    }

    /// Returns a monotonic time, and a snapshot that contains everything that was committed before it.
    pub fn known(&self) -> (Duration, Arc<Snapshot>) {
        let complete_at = self.shared.complete_at();
        (complete_at, self.snapshot())
    }

    /// Applies all edits or none, if the preconditions hold at that moment, on behalf of the incarnation
    /// `author`. Returns a snapshot that contains the edits. Commits of one process that wait at the same
    /// time share an entry; each has its own outcome. Dropping the future does not undo the commit.
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

    /// Registers a process. It must not acknowledge any push before this returns.
    pub async fn register(&self, registration: Registration) -> Result<Arc<Snapshot>, CommitError> {
        let Registration { incarnation, address, host, wal, node } = registration;
        let started_ms = self.shared.env.now_ns() / 1_000_000;
        let (edits, reads) = (self.shared.options.edits, self.shared.options.reads);
        let register = Edit::Register { incarnation, address, host, started_ms, wal, edits, reads };
        let mut with_rest = vec![register.clone()];
        with_rest.extend(self.activation());
        let node = node.filter(|_| self.describes_nodes());
        with_rest.extend(node.map(|node| Edit::DescribeNode { incarnation, node }));
        if with_rest.len() > 1 {
            match self.commit(incarnation, with_rest, Vec::new()).await {
                // Another process may have registered meanwhile that does not read these versions.
                Err(CommitError::Rejected { .. }) => {}
                registered => return registered,
            }
        }
        self.commit(incarnation, vec![register], Vec::new()).await
    }

    /// Whether, as far as this process knows, every writer reads descriptions of nodes.
    fn describes_nodes(&self) -> bool {
        let is_read = self.snapshot().writers().values().all(|writer| writer.reads_edits(EDITS_OF_NODES));
        self.shared.options.edits >= EDITS_OF_NODES && is_read
    }

    /// Describes the node of a registered process, if the catalog has no description and every registered
    /// writer reads descriptions. Returns whether it did. If nothing is due it makes no request.
    pub async fn describe_node(&self, author: Id, node: &NodeDescription) -> Result<bool, CommitError> {
        let snapshot = self.snapshot();
        let is_known = snapshot.writer(author).is_none_or(|writer| writer.node.is_some());
        if is_known || !self.describes_nodes() {
            return Ok(false);
        }
        let describe = Edit::DescribeNode { incarnation: author, node: node.clone() };
        match self.commit(author, vec![describe], vec![Precondition::Live { incarnation: author }]).await {
            Ok(_) => Ok(true),
            Err(CommitError::Rejected { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether, as far as this process knows, every writer reads which shards of rules a process owns.
    pub fn records_owners_of_rules(&self) -> bool {
        let is_read = self.snapshot().writers().values().all(|writer| writer.reads_edits(EDITS_OF_RULES));
        self.shared.options.edits >= EDITS_OF_RULES && is_read
    }

    /// Records that a process evaluates the rules of exactly these shards. Returns the state with that, or
    /// `None` if another process owns one of them, or the process is sealed.
    pub async fn own_rules(
        &self,
        author: Id,
        shards: RuleShards,
    ) -> Result<Option<Arc<Snapshot>>, CommitError> {
        let own = Edit::OwnRules { incarnation: author, shards };
        match self.commit(author, vec![own], vec![Precondition::Live { incarnation: author }]).await {
            Ok(snapshot) => Ok(Some(snapshot)),
            Err(CommitError::Rejected { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Changes the phase of the node of another process, on behalf of `author`: asks it to drain, or to go
    /// on. Returns whether the catalog has such a node that is not sealed.
    pub async fn set_phase(&self, author: Id, of: Id, phase: NodePhase) -> Result<bool, CommitError> {
        let snapshot = self.refresh().await.map_err(CommitError::Failed)?;
        let Some(writer) = snapshot.writer(of).filter(|writer| !writer.is_sealed()) else { return Ok(false) };
        let Some(node) = writer.node.clone() else { return Ok(false) };
        let describe = Edit::DescribeNode { incarnation: of, node: NodeDescription { phase, ..node } };
        let alive = vec![Precondition::Live { incarnation: of }];
        self.commit(author, vec![describe], alive).await.map(|_| true)
    }

    /// Allows blocks of the newest versions that this process reads, if every registered writer reads them
    /// and they are not allowed yet. Returns whether it did. `author` is a registered incarnation.
    pub async fn activate_forms(&self, author: Id) -> Result<bool, CommitError> {
        let Some(activate) = self.activation() else { return Ok(false) };
        match self.commit(author, vec![activate], vec![Precondition::Live { incarnation: author }]).await {
            Ok(snapshot) => {
                tracing::info!(forms = %snapshot.forms(), "newer versions of blocks are written from now on");
                Ok(true)
            }
            Err(CommitError::Rejected { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The edit that activates the versions that this process reads, if they are newer than the active ones
    /// and, as far as this process knows, all writers read them.
    fn activation(&self) -> Option<Edit> {
        let (reads, snapshot) = (self.shared.options.reads?, self.snapshot());
        let is_due = !snapshot.forms().include(reads) && snapshot.all_read(snapshot.forms().or_later(reads));
        is_due.then_some(Edit::ActivateForms(reads))
    }

    /// Seals a writer whose fence object was created at `fence`. The further edits (blocks with its rows,
    /// its floor) are applied in the same transaction. Rejected if the writer was sealed before.
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

    /// Writes a checkpoint when one is due, then advances the boundary and deletes entries below it. Call
    /// it every few seconds from one task; it makes no request while nothing is due.
    pub async fn keep_house(&self) -> Result<Housekeeping, Error> {
        if !self.shared.checkpoint_is_due() {
            return Ok(Housekeeping::default());
        }
        self.shared.look_for_checkpoints().await?;
        let older = self.shared.checkpointed();
        if !self.shared.checkpoint_is_due() || !self.shared.write_checkpoint().await? {
            return Ok(Housekeeping::default());
        }
        // Not to a checkpoint that another process has written meanwhile: processes that poll may not have
        // read its entries yet.
        let mut done = self.truncate_to(older.number, false).await?;
        done.checkpoint = true;
        Ok(done)
    }

    /// Writes a checkpoint of the current snapshot now; `false` if one exists already.
    pub async fn checkpoint(&self) -> Result<bool, Error> {
        self.shared.look_for_checkpoints().await?;
        self.shared.write_checkpoint().await
    }

    /// Advances the boundary to the older of the two newest checkpoints and deletes entries and
    /// checkpoints that are no longer needed. A dry run only counts them.
    pub async fn truncate(&self, dry_run: bool) -> Result<Housekeeping, Error> {
        self.truncate_to(u64::MAX, dry_run).await
    }

    /// Does the same, but advances the boundary at most to checkpoint `last`.
    async fn truncate_to(&self, last: u64, dry_run: bool) -> Result<Housekeeping, Error> {
        let boundary = match dry_run {
            true => self.shared.read_boundary().await?,
            false => self.shared.advance_to_older_checkpoint(last).await?,
        };
        let deleted = self.shared.delete_below_boundary(dry_run).await?;
        if deleted > 0 && !dry_run {
            self.shared.metrics.deleted.inc_by(deleted as u64);
            tracing::info!(boundary, deleted, "truncated the catalog");
        }
        Ok(Housekeeping { checkpoint: false, boundary: Some(boundary), deleted })
    }

    /// Returns why the log can no longer be followed: it was emptied, truncated, swapped or replaced
    /// while this process used it. From then on every commit and every refresh fails, until the catalog
    /// is opened again.
    pub fn lost(&self) -> Option<Error> {
        self.shared.lost.borrow().clone()
    }

    /// Returns a receiver that changes when [`Catalog::lost`] becomes an error.
    pub fn watch_lost(&self) -> watch::Receiver<Option<Error>> {
        self.shared.lost.subscribe()
    }

    /// Records the log's length outside of the log. In a bucket this happens with checkpoints and
    /// heartbeats, and must happen before the last heartbeat is deleted.
    pub async fn write_witness(&self) {
        self.shared.write_witness(&self.snapshot()).await;
    }

    /// Returns entry `number` of the log as it is stored, for display; `None` when it is absent.
    pub async fn entry(&self, number: u64) -> Result<Option<Entry>, Error> {
        Ok(self.shared.read_entry(number).await?.map(|stored| stored.entry))
    }

    /// Returns the counters, to be registered with the process's registry.
    pub fn metrics(&self) -> &CatalogMetrics {
        &self.shared.metrics
    }

    /// Returns the store that holds the catalog.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Whether the store is a directory that only this process uses.
    pub fn is_local(&self) -> bool {
        self.shared.is_local()
    }

    /// Returns the boundary and the number of the newest checkpoint, as far as this process knows.
    pub(crate) fn known_truncation(&self) -> (u64, u64) {
        let boundary = self.shared.boundary_seen.load(Ordering::Relaxed);
        (boundary, self.shared.checkpointed().number)
    }

    /// Fails, and ends all commits, if one of these witnesses has seen a log that differs from this one.
    pub(crate) async fn check_witnesses(&self, witnesses: &[Witness]) -> Result<(), Error> {
        if self.shared.check_witnesses(&self.snapshot(), witnesses).is_ok() {
            return Ok(());
        }
        // The log contains all that they have seen, because they were read before this refresh.
        let snapshot = self.refresh().await?;
        self.shared.check_witnesses(&snapshot, witnesses).map_err(|error| self.lose(error))
    }

    /// Reads all witnesses of the log's length.
    pub(crate) async fn read_witnesses(&self) -> Result<Vec<Witness>, Error> {
        self.shared.read_witnesses().await
    }

    pub(crate) fn lose(&self, error: Error) -> Error {
        self.shared.lose(error)
    }

    pub(crate) fn env(&self) -> &Env {
        &self.shared.env
    }
}
