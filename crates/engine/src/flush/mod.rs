//! Flush: the rows of a sealed head become blocks, and one commit moves the WAL floor past them.
//!
//! Blocks are uploaded first, then committed together with `Floor a -> b` under the precondition that
//! the floor still is `a` and that the writer is live: whoever else put the same rows in blocks (an
//! adopter, or an earlier attempt of ours whose answer was lost) makes this commit fail, so rows are in
//! blocks exactly once. The view changes from head to blocks in one step.

mod assembly;
mod plan;
pub(crate) mod signal;
pub(crate) mod task;

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{StreamExt, TryStreamExt};
use sandur_base::{Env, Id, Lane};
use sandur_catalog::{Catalog, CommitError, Snapshot};
use sandur_format::catalog_entry::{BlockMeta, Edit, Precondition};
use sandur_model::Dataset;
use sandur_store::{Intent, Store};

use crate::block_meta;
use crate::error::Error;
use crate::head::Head;
use crate::metrics::Metrics;
use crate::scan::BlockBytes;
use crate::shared::expect_catalog;
use crate::view::{Views, floor_of};
use assembly::{Assembly, Step};
use plan::{BlockPlan, plan_blocks};

/// First pause before a commit is tried again; doubled up to the maximum.
const PAUSE_BASE: Duration = Duration::from_millis(500);
/// Longest pause before a commit is tried again.
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// What a flush works with.
pub(crate) struct Flusher {
    pub(crate) env: Env,
    pub(crate) store: Store,
    pub(crate) bytes: BlockBytes,
    pub(crate) catalog: Catalog,
    pub(crate) views: Arc<Views>,
    pub(crate) metrics: Metrics,
    /// Blocks that are written at once.
    pub(crate) parallelism: usize,
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
    /// Somebody else changed the floor or sealed the incarnation; nothing of ours was committed.
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
            Ok(Flushed::Committed) => self.count(&blocks, started),
            // Rejected means that the blocks can never become part of the catalog.
            Ok(Flushed::Overtaken) => self.delete_blocks(&blocks).await,
            // Unknown: they may be part of it. Garbage collection finds out.
            Err(_) => {}
        }
        outcome
    }

    fn count(&self, blocks: &[BlockMeta], started: Duration) {
        self.metrics.flushes.inc();
        self.metrics.blocks.inc_by(blocks.len() as u64);
        self.metrics.block_bytes.inc_by(blocks.iter().map(|block| block.size).sum());
        let waited = self.env.monotonic().saturating_sub(started);
        self.metrics.flush_seconds.observe(waited.as_secs_f64());
    }

    async fn write_blocks(&self, author: Id, head: &Arc<Head>) -> Result<Vec<BlockMeta>, Error> {
        let planned = Arc::clone(head);
        let plans = self.env.run_cpu(Lane::Background, move || plan_blocks(&planned)).await;
        let parallelism = self.env.cpu().parallelism().min(self.parallelism.max(1));
        let writes = plans.into_iter().map(|plan| self.write_block(author, Arc::new(plan)));
        futures_util::stream::iter(writes).buffered(parallelism).try_collect().await
    }

    async fn write_block(&self, author: Id, plan: Arc<BlockPlan>) -> Result<BlockMeta, Error> {
        let mut meta = block_meta::unwritten(
            self.env.new_id(),
            author,
            &Dataset::logs(plan.tenant.clone()),
            plan.window,
            0,
        );
        let path = meta.path();
        let line_bytes = plan.line_bytes;
        let damaged = |error: sandur_format::Error| Error::Internal(format!("block '{path}': {error}"));
        let mut upload = self.store.upload(&path, Intent::block()).await?;
        let mut through = self.bytes.write_through(meta.id, &plan.tenant);
        let seen = self.catalog.snapshot().position();
        let mut assembly = Box::new(Assembly::begin(plan, seen).map_err(damaged)?);
        loop {
            let work = move || {
                let mut output = Vec::new();
                let step = assembly.step(&mut output);
                (step, output)
            };
            let (step, output) = self.env.run_cpu(Lane::Background, work).await;
            let is_last = matches!(step, Ok(Step::Done { .. }));
            through.pieces(&output, is_last);
            for bytes in output {
                upload.write(bytes).await?;
            }
            match step.map_err(damaged)? {
                Step::More(rest) => assembly = rest,
                Step::Done { summary, duplicates } => {
                    self.metrics.duplicates.inc_by(duplicates);
                    block_meta::fill(&mut meta, &summary);
                    break;
                }
            }
        }
        upload.finish().await?;
        let (tenant, rows, size) = (&meta.dataset.tenant, meta.rows, meta.size);
        tracing::info!(%tenant, rows, line_bytes, size, path, "wrote a block");
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
        let mut pause = PAUSE_BASE;
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
            self.env.sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn delete_blocks(&self, blocks: &[BlockMeta]) {
        for block in blocks {
            let path = block.path();
            if let Err(error) = self.store.delete(&path, Intent::gc()).await {
                tracing::warn!(path, %error, "a block that was not committed is left to garbage collection");
            }
        }
    }
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
