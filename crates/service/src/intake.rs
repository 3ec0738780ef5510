//! The trait by which the services reach the store: it accepts batches and reports the state of the store.

use std::sync::Arc;
use std::time::Duration;

use sandur_base::{BoxFuture, Id};
use sandur_memory::MemoryBudget;
use sandur_model::{Batch, Dataset, SampleBatch, SampleConflicts, Signal};
use sandur_runtime::FairReservation;

use crate::deletes::Deletes;
use crate::failure::Failure;
use crate::nodes::ClusterShown;

/// Where accepted batches of logs and samples go: the engine in a server, a recorder in tests.
pub trait Intake: Send + Sync {
    /// Stores a batch. Returns when it is durable and can be queried, with the samples that were not
    /// stored because their series has another value for the same instant. `held` is the memory of the
    /// request; it is released when the batch has reserved memory of its own.
    fn push(
        &self,
        batch: Batch,
        held: Option<FairReservation>,
    ) -> BoxFuture<'_, Result<SampleConflicts, Failure>>;
    /// Stores a batch like [`Intake::push`], but only under this incarnation of the process: fails if it was
    /// fenced meanwhile.
    fn push_under(&self, batch: Batch, incarnation: Id) -> BoxFuture<'_, Result<SampleConflicts, Failure>>;
    /// Returns when everything acknowledged so far is in blocks.
    fn flush(&self) -> BoxFuture<'_, Result<(), Failure>>;
    /// Whether pushes can be acknowledged now. The error gives the reason if not.
    fn writable(&self) -> Result<(), Failure> {
        Ok(())
    }
    /// Fails when a push would be refused at once. Called before a body is read, and before a batch that
    /// will not be stored is counted against the tenant's rate.
    fn admits_pushes(&self) -> Result<(), Failure> {
        Ok(())
    }
    /// Whether the view of what other processes stored is fresh. The error gives the reason if not.
    fn has_fresh_view(&self) -> Result<(), Failure> {
        Ok(())
    }
    /// For how long flushes to blocks have failed; `None` while they succeed.
    fn flushes_fail_for(&self) -> Option<Duration> {
        None
    }
    /// Positions in the batch of the series that would raise the number of the tenant's series in memory
    /// above `most`.
    fn series_beyond(&self, _batch: &SampleBatch, _most: u64) -> Vec<u32> {
        Vec::new()
    }
    /// The delete requests of a signal; `None` if this process stores nothing.
    fn deletes(&self, _signal: Signal) -> Option<Arc<dyn Deletes>> {
        None
    }
    /// The blocks of a dataset.
    fn blocks(&self, _dataset: &Dataset) -> Vec<BlockShown> {
        Vec::new()
    }
    /// Updates gauges before they are rendered.
    fn observe(&self) {}
    /// Memory budgets that are shown as metrics.
    fn budgets(&self) -> Vec<MemoryBudget> {
        Vec::new()
    }
    /// A report in plain text of requests to the store and what they cost.
    fn store_report(&self) -> String {
        String::new()
    }
    /// The nodes that share the store.
    fn cluster(&self) -> BoxFuture<'_, ClusterShown> {
        Box::pin(async { ClusterShown::default() })
    }
    /// Whether this node drains and waits to be stopped.
    fn is_draining(&self) -> bool {
        false
    }
    /// Lets a node leave, or stay if `leaves` is false; `None` is this node. Returns whether a live node has
    /// this id.
    fn drain<'a>(&'a self, _node: Option<&'a str>, _leaves: bool) -> BoxFuture<'a, Result<bool, Failure>> {
        Box::pin(async { Ok(false) })
    }
    /// Refuses further batches, flushes, and ends all tasks.
    fn shutdown(&self) -> BoxFuture<'_, Result<(), Failure>>;
}

/// A block as it is shown to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockShown {
    /// Id of the block.
    pub id: Id,
    /// Timestamp of the first row, milliseconds since the epoch.
    pub first_ms: i64,
    /// Timestamp of the last row, milliseconds since the epoch.
    pub last_ms: i64,
    /// Number of samples.
    pub samples: u64,
    /// Number of series.
    pub series: u32,
    /// Number of pages.
    pub pages: u32,
    /// Level of compaction.
    pub level: u8,
}
