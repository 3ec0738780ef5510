//! The seam between the write path and the store: what accepts batches, and what is known of it.

use std::sync::Arc;
use std::time::Duration;

use sandur_base::{BoxFuture, Claim, Id, MemoryBudget};
use sandur_model::{Batch, Dataset, SampleBatch, SampleConflicts, Signal};

use crate::deletes::Deletes;
use crate::failure::Failure;

/// Where accepted batches of either signal go. The engine in a server; a recorder in tests.
pub trait Intake: Send + Sync {
    /// Returns when the batch is durable and can be queried, with the samples that were not stored because
    /// their series has another value for the same instant. `held` is the memory of the request, which is
    /// given back when the batch has memory of its own.
    fn push(&self, batch: Batch, held: Option<Claim>) -> BoxFuture<'_, Result<SampleConflicts, Failure>>;
    /// Returns when everything acknowledged so far is in blocks.
    fn flush(&self) -> BoxFuture<'_, Result<(), Failure>>;
    /// Whether pushes can be acknowledged now; the failure says why not.
    fn writable(&self) -> Result<(), Failure> {
        Ok(())
    }
    /// Fails when a push would be refused at once: asked before a body is read, and before a rate of the
    /// tenant is used up for what will not be stored.
    fn admits_pushes(&self) -> Result<(), Failure> {
        Ok(())
    }
    /// Whether what other processes have stored is known; the failure says why not.
    fn has_fresh_view(&self) -> Result<(), Failure> {
        Ok(())
    }
    /// How long rows could not be put into blocks; nothing when that works.
    fn flushes_fail_for(&self) -> Option<Duration> {
        None
    }
    /// Positions of the series of a batch with which its tenant would have more than `most` in memory.
    fn series_beyond(&self, _batch: &SampleBatch, _most: u64) -> Vec<u32> {
        Vec::new()
    }
    /// Requests to delete rows of a signal; `None` where there is nothing to delete from.
    fn deletes(&self, _signal: Signal) -> Option<Arc<dyn Deletes>> {
        None
    }
    /// The blocks of a dataset.
    fn blocks(&self, _dataset: &Dataset) -> Vec<BlockShown> {
        Vec::new()
    }
    /// Brings gauges up to date before they are shown.
    fn observe(&self) {}
    /// Memory budgets that are shown.
    fn budgets(&self) -> Vec<MemoryBudget> {
        Vec::new()
    }
    /// What was asked of the store and what it costs, for people.
    fn store_report(&self) -> String {
        String::new()
    }
    /// Takes no more, flushes and ends all work.
    fn shutdown(&self) -> BoxFuture<'_, Result<(), Failure>>;
}

/// A block as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockShown {
    /// Its id.
    pub id: Id,
    /// First and last millisecond that it has rows of.
    pub first_ms: i64,
    /// See above.
    pub last_ms: i64,
    /// Rows.
    pub samples: u64,
    /// Series.
    pub series: u32,
    /// Pages.
    pub pages: u32,
    /// How often it was merged.
    pub level: u8,
}
