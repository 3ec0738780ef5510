//! Flush: the rows of a sealed head become blocks, and one commit moves the WAL floor past them.
//!
//! Blocks are uploaded first, then committed together with `Floor a -> b` under the precondition that
//! the floor still is `a` and that the writer is live: another process that put the same rows in blocks (an
//! adopter, or an earlier attempt of ours whose answer was lost) makes this commit fail, so rows are in
//! blocks exactly once. The view changes from head to blocks in one step.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{StreamExt, TryStreamExt};
use sandur_base::{Backoff, BoxFuture, Env, Id, Lane, MemoryBudget, Task};
use sandur_catalog::{Catalog, CommitError, Snapshot};
use sandur_format::block::BlockOrigin;
use sandur_format::catalog_entry::{BlockMeta, Edit, Precondition};
use sandur_model::{Dataset, Signal, TimeRange};
use sandur_store::Store;

use crate::assembly::Plan;
use crate::block_meta;
use crate::block_reader::BlockReader;
use crate::block_upload::{BlockUpload, delete_unneeded};
use crate::error::{Error, expect_catalog};
use crate::head::Head;
use crate::logs::flush_plan as logs;
use crate::merge_policy::CompactionPolicy;
use crate::metrics::Metrics;
use crate::samples::flush_plan as samples;
use crate::view::{Views, floor_of};

/// Pauses before a commit is tried again.
const COMMITS: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(15));

/// What a flush works with.
pub(crate) struct Flusher {
    pub(crate) env: Env,
    pub(crate) store: Store,
    pub(crate) reader: BlockReader,
    pub(crate) catalog: Catalog,
    pub(crate) views: Arc<Views>,
    pub(crate) metrics: Metrics,
    /// Blocks that are written at once.
    pub(crate) parallelism: usize,
    /// Tells which days are so large that their slots are kept apart.
    pub(crate) policy: CompactionPolicy,
    /// Memory for decoding new blocks ahead of queries.
    pub(crate) budget: MemoryBudget,
    /// Decodes the blocks of the last flush.
    pub(crate) warming: Mutex<Option<Task<()>>>,
}

/// Whether the WAL of the flushed incarnation ends with the flushed head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It goes on.
    Open,
    /// It ends before this sequence number: the incarnation is sealed in the same commit.
    Sealed {
        /// The sequence number of the fence.
        fence: u64,
    },
}

/// How a flush ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// The rows are in blocks of ours.
    Committed,
    /// Another process changed the floor or sealed the incarnation; nothing of ours was committed.
    Overtaken,
}

impl Flusher {
    /// Flushes a head on behalf of `author`. Tries again until it is done or overtaken; the caller
    /// bounds the time.
    pub(crate) async fn flush(&self, author: Id, head: &Arc<Head>, ending: Ending) -> Result<Flushed, Error> {
        let started = self.env.monotonic();
        expect_catalog(&self.catalog)?;
        let blocks = self.write_blocks(author, head).await?;
        let outcome = self.commit(author, head, ending, &blocks).await;
        match outcome {
            Ok(Flushed::Committed) => {
                self.count(&blocks, started);
                self.warm(blocks);
            }
            // Rejected means that the blocks can never become part of the catalog.
            Ok(Flushed::Overtaken) => {
                for block in &blocks {
                    delete_unneeded(&self.store, block).await;
                }
            }
            // Unknown: they may be part of it. Garbage collection finds out.
            Err(_) => {}
        }
        outcome
    }

    /// Decodes new blocks ahead of queries.
    fn warm(&self, blocks: Vec<BlockMeta>) {
        let is_of_samples = |block: &BlockMeta| block.dataset.signal == Signal::Metrics;
        let blocks: Vec<Arc<BlockMeta>> = blocks.into_iter().filter(is_of_samples).map(Arc::new).collect();
        let (reader, budget) = (self.reader.clone(), self.budget.clone());
        let warming = async move { crate::samples::warm(&reader, &budget, &blocks).await };
        let task = self.env.spawn("decode new blocks", warming);
        *self.warming.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// What decodes the blocks of the last flush.
    #[cfg(test)]
    pub(crate) fn take_warming(&self) -> Option<Task<()>> {
        self.warming.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn count(&self, blocks: &[BlockMeta], started: Duration) {
        self.metrics.flushes.inc();
        self.metrics.blocks.inc_by(blocks.len() as u64);
        self.metrics.block_bytes.inc_by(blocks.iter().map(|block| block.size).sum());
        let waited = self.env.monotonic().saturating_sub(started);
        self.metrics.flush_seconds.observe(waited.as_secs_f64());
    }

    async fn write_blocks(&self, author: Id, head: &Arc<Head>) -> Result<Vec<BlockMeta>, Error> {
        let (planned, now_ns) = (Arc::clone(head), self.env.now_ns());
        let (snapshot, policy) = (self.catalog.snapshot(), self.policy.clone());
        let is_large = move |dataset: &Dataset, day| {
            policy.is_large(snapshot.blocks(dataset, day).map(|block| &**block))
        };
        let plan = move || plan_blocks(&planned, now_ns, &is_large);
        let plans = self.env.run_cpu(Lane::Background, plan).await;
        let parallelism = self.env.cpu().parallelism().min(self.parallelism.max(1));
        let writes: Vec<BoxFuture<'_, Result<BlockMeta, Error>>> =
            plans.into_iter().map(|plan| Box::pin(self.write_block(author, plan)) as _).collect();
        futures_util::stream::iter(writes).buffered(parallelism).try_collect().await
    }

    async fn write_block(&self, author: Id, plan: Box<dyn Plan>) -> Result<BlockMeta, Error> {
        let (dataset, window, raw_bytes) = (plan.dataset(), plan.window(), plan.raw_bytes());
        let mut meta = block_meta::unwritten(self.env.new_id(), author, &dataset, window, 0);
        let path = meta.path();
        let damaged = |error: sandur_format::Error| Error::Internal(format!("block '{path}': {error}"));
        let mut upload = BlockUpload::begin(&self.store, self.reader.bytes(), &meta).await?;
        let (block, seen) = (meta.id, self.catalog.snapshot().position());
        let origin = BlockOrigin { block, seen, ..BlockOrigin::default() };
        let mut assembly = plan.begin(origin).map_err(damaged)?;
        let done = loop {
            let work = move || {
                let mut output = Vec::new();
                let step = assembly.step(&mut output);
                (assembly, step, output)
            };
            let (rest, step, output) = self.env.run_cpu(Lane::Background, work).await;
            assembly = rest;
            let done = step.map_err(damaged)?;
            upload.write(output, done.is_some()).await?;
            if let Some(done) = done {
                break done;
            }
        };
        upload.finish(&done.summary).await?;
        self.metrics.duplicates.inc_by(done.duplicates);
        block_meta::fill(&mut meta, &done.summary);
        let (rows, size) = (meta.rows, meta.size);
        let Dataset { tenant, signal } = dataset;
        tracing::info!(%tenant, %signal, rows, raw_bytes, size, path, "wrote a block");
        Ok(meta)
    }

    async fn commit(
        &self,
        author: Id,
        head: &Head,
        ending: Ending,
        blocks: &[BlockMeta],
    ) -> Result<Flushed, Error> {
        let incarnation = head.incarnation();
        let (edits, preconditions) = transaction(head, ending, blocks);
        let mut pauses = COMMITS.pauses();
        loop {
            let committed = self.catalog.commit(author, edits.clone(), preconditions.clone()).await;
            let error = match committed {
                Ok(snapshot) => {
                    self.views.publish(snapshot);
                    return Ok(Flushed::Committed);
                }
                Err(CommitError::Rejected { why }) => {
                    let snapshot = self.catalog.refresh().await?;
                    let done = is_done(&snapshot, incarnation, head.end(), blocks);
                    self.views.publish(snapshot);
                    tracing::info!(%incarnation, %why, done, "a flush was settled by an earlier commit");
                    return Ok(if done { Flushed::Committed } else { Flushed::Overtaken });
                }
                Err(CommitError::TooLarge(error)) => return Err(Error::Internal(error.to_string())),
                Err(error) => error,
            };
            expect_catalog(&self.catalog)?;
            tracing::warn!(%incarnation, %error, "the commit of a flush is tried again");
            self.metrics.flush_failures.inc();
            self.env.sleep(pauses.after_failure()).await;
        }
    }
}

/// The blocks that the rows of a head become.
fn plan_blocks(
    head: &Arc<Head>,
    now_ns: i64,
    is_large: &impl Fn(&Dataset, TimeRange) -> bool,
) -> Vec<Box<dyn Plan>> {
    let logs = logs::plan_blocks(head.logs()).into_iter().map(|plan| Box::new(plan) as Box<dyn Plan>);
    logs.chain(samples::plan_blocks(head, now_ns, is_large)).collect()
}

/// Whether an earlier attempt of the same commit happened. Blocks may be compacted already, so the
/// floor decides when the head had no rows or the blocks are gone.
fn is_done(snapshot: &Snapshot, incarnation: Id, end: u64, blocks: &[BlockMeta]) -> bool {
    floor_of(snapshot, incarnation) >= end && blocks.iter().all(|block| snapshot.is_referenced(block.id))
}

fn transaction(head: &Head, ending: Ending, blocks: &[BlockMeta]) -> (Vec<Edit>, Vec<Precondition>) {
    let incarnation = head.incarnation();
    let (from, to) = (head.start(), head.end());
    let mut edits: Vec<Edit> = blocks.iter().cloned().map(Edit::AddBlock).collect();
    if from < to {
        edits.push(Edit::Floor { incarnation, from, to });
    }
    if let Ending::Sealed { fence } = ending {
        edits.push(Edit::Seal { incarnation, fence });
    }
    let floor = Precondition::FloorIs { incarnation, at: from };
    (edits, vec![floor, Precondition::Live { incarnation }])
}
