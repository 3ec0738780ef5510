//! Flush: the rows of a sealed head become blocks, and the last commit moves the WAL floor past them.
//!
//! **Life of a flush.** Datasets are planned one after the other, and several of their blocks are
//! uploaded at a time. When the blocks of completed datasets are as many as one transaction may hold,
//! they are committed, and the rows of these datasets leave the head in the same step
//! ([`Views::retire`](crate::view::Views::retire)). The last transaction moves the floor `a -> b`. Usually
//! it is the only one.
//!
//! **Invariants.**
//! * Every transaction requires that the writer is live and that its floor has not moved. If another
//!   process put the same rows into blocks (an adopter, or an earlier attempt of ours whose answer was
//!   lost), it fails.
//! * Rows of transactions before the last one are in blocks and still above the floor. A process that
//!   reads the WAL again (after a crash, or as a follower) has them twice, equal in both places, and
//!   answers them once. A second flush of them makes blocks that are later in the order of writing, as
//!   the rows were before.
//! * A dataset whose blocks cannot be written keeps its rows in the head and does not block other
//!   datasets: the rest of the head is committed without the floor. Its rows in later heads wait for it,
//!   so that its blocks are in the order of its rows.
//! * Blocks that were written and not committed are deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::stream::{self, Stream, StreamExt};
use sandur_base::Id;
use sandur_format::block::BlockOrigin;
use sandur_format::catalog_entry::BlockMeta;
use sandur_memory::MemoryBudget;
use sandur_model::{Dataset, Signal};
use sandur_runtime::{Lane, Task};

use crate::blocks::assembly::Plan;
use crate::blocks::block_meta;
use crate::blocks::reader::BlockReader;
use crate::blocks::upload::{BlockUpload, delete_unneeded};
use crate::error::Error;
use crate::head::Head;
use crate::logs::flush_plan as logs;
use crate::node::Node;
use crate::options::EngineOptions;
use crate::samples::flush_plan as samples;
use crate::view::floor_of;
use crate::writing::flush::admission::Admission;
use crate::writing::flush::outcome::{Ending, Flushed, HeadFlush};

/// Consecutive blocks that the store refuses before a flush gives up: then the content is not the cause.
const REFUSED_MAX: usize = 4;
/// The most blocks that are remembered because their deletion failed. Garbage collection deletes the others.
const UNNEEDED_MAX: usize = 8_192;
/// The most blocks of a transaction, without those of the last dataset. A block takes at most 320 bytes
/// of an entry (two ids, a dataset of 160 characters, four times, seven numbers). The last dataset has
/// at most as many blocks, so a transaction takes three fifths of the 4 MiB that it may have.
pub(crate) const COMMIT_BLOCKS_MAX: usize = 4_096;

/// Flushes heads, within its bounds.
pub(crate) struct Flusher {
    pub(super) node: Arc<Node>,
    reader: BlockReader,
    /// The number of blocks that are written concurrently.
    parallelism: usize,
    /// The most blocks of complete datasets that are committed together without the floor.
    commit_blocks: usize,
    /// Raw bytes below which slots and days share blocks.
    thin_bytes: u64,
    /// The budget for decoding new blocks ahead of queries.
    budget: MemoryBudget,
    /// Paces pushes while a head is flushed.
    admission: Admission,
    /// The task that decodes the blocks of the last flush.
    warming: Mutex<Option<Task<()>>>,
    /// Uncommitted blocks of earlier flushes that could not be deleted.
    unneeded: Mutex<Vec<BlockMeta>>,
}

/// A block that is to be written.
struct Planned {
    dataset: Dataset,
    /// Whether it is the last one of its dataset.
    is_last: bool,
    plan: Box<dyn Plan>,
}

/// A block whose write has ended.
struct Written {
    dataset: Dataset,
    is_last: bool,
    block: Result<BlockMeta, Error>,
}

/// The uncommitted blocks of a flush.
#[derive(Default)]
struct Gathered {
    /// Blocks of complete datasets.
    ready: Vec<BlockMeta>,
    datasets: BTreeSet<Dataset>,
    /// Blocks of the dataset that is being written.
    current: Vec<BlockMeta>,
    failed: BTreeMap<Dataset, Error>,
}

impl Flusher {
    pub(crate) fn new(node: &Arc<Node>, reader: &BlockReader, options: &EngineOptions) -> Self {
        Self {
            node: Arc::clone(node),
            reader: reader.clone(),
            parallelism: options.flush_parallelism,
            commit_blocks: options.flush_commit_blocks.min(COMMIT_BLOCKS_MAX),
            thin_bytes: options.maintenance.compaction.thin_bytes,
            budget: options.write_budget.clone(),
            admission: Admission::default(),
            warming: Mutex::default(),
            unneeded: Mutex::default(),
        }
    }

    /// Paces pushes while a head is flushed.
    pub(crate) fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Flushes a head on behalf of `author`, except for datasets with rows in an earlier head of the
    /// writer. The caller bounds the time.
    pub(crate) async fn flush(&self, author: Id, head: &Arc<Head>, ending: Ending) -> Result<Flushed, Error> {
        let started = self.node.env.monotonic();
        self.node.expect_catalog()?;
        self.delete_leftovers().await;
        let _pacing = self.admission.begin(head.totals().raw_bytes, self.budget.available());
        let mut work = HeadFlush { author, head: Arc::clone(head), floor: self.floor(head), ending };
        let before = self.blocked_by(head);
        let datasets = head.datasets().into_iter().filter(|dataset| !before.contains(dataset)).collect();
        let mut gathered = Gathered::default();
        let outcome = match self.write_blocks(&mut work, datasets, &mut gathered).await {
            Ok(()) => self.conclude(&mut work, &mut gathered).await,
            Err(stopped) => stopped,
        };
        self.delete(gathered.uncommitted()).await;
        if matches!(outcome, Ok(Flushed::Committed)) {
            self.node.metrics.flushes.inc();
            let waited = self.node.env.monotonic().saturating_sub(started);
            self.node.metrics.flush_seconds.observe(waited.as_secs_f64());
        }
        outcome
    }

    fn floor(&self, head: &Head) -> u64 {
        floor_of(&self.node.views.current().snapshot, head.incarnation())
    }

    /// Datasets with rows in earlier heads of the same writer.
    fn blocked_by(&self, head: &Head) -> BTreeSet<Dataset> {
        let heads = self.node.views.heads_of(head.incarnation());
        let earlier = heads.iter().take_while(|one| one.start() < head.start());
        earlier.flat_map(|one| one.datasets()).collect()
    }

    /// Writes the blocks of datasets. `Err` holds the outcome of a flush that must stop.
    async fn write_blocks(
        &self,
        work: &mut HeadFlush,
        datasets: Vec<Dataset>,
        gathered: &mut Gathered,
    ) -> Result<(), Result<Flushed, Error>> {
        let (head, author) = (Arc::clone(&work.head), work.author);
        let parallelism = self.node.env.cpu().parallelism().min(self.parallelism.max(1));
        let stopped = AtomicBool::new(false);
        let planned = self.planned(head, datasets).take_while(|_| ready(!stopped.load(Ordering::Relaxed)));
        let writes = planned.map(|planned| Box::pin(self.write(author, planned)));
        let mut written = pin!(writes.buffered(parallelism));
        let mut refused = 0;
        while let Some(Written { dataset, is_last, block }) = written.next().await {
            refused = if matches!(block, Err(Error::Store(_))) { refused + 1 } else { 0 };
            match block {
                Ok(block) => gathered.current.push(block),
                Err(error) if is_of_dataset(&error) && refused < REFUSED_MAX => {
                    tracing::warn!(%dataset, %error, "no block was written of rows that stay in the WAL");
                    gathered.failed.insert(dataset.clone(), error);
                }
                Err(error) => {
                    stopped.store(true, Ordering::Relaxed);
                    // Collect the blocks that are still being written, to delete them as well.
                    while let Some(Written { block, .. }) = written.next().await {
                        gathered.current.extend(block.ok());
                    }
                    return Err(Err(error));
                }
            }
            if is_last && gathered.failed.contains_key(&dataset) {
                self.delete(gathered.current.drain(..).collect()).await;
            } else if is_last {
                if gathered.ready.len() + gathered.current.len() > self.commit_blocks {
                    self.commit_ready(work, gathered).await?;
                }
                gathered.ready.append(&mut gathered.current);
                gathered.datasets.insert(dataset);
            }
        }
        Ok(())
    }

    /// Commits the blocks of complete datasets, whose rows leave the head. The floor stays.
    async fn commit_ready(
        &self,
        work: &mut HeadFlush,
        gathered: &mut Gathered,
    ) -> Result<(), Result<Flushed, Error>> {
        if gathered.ready.is_empty() {
            return Ok(());
        }
        match self.commit_blocks(work, &gathered.ready).await {
            Ok(Some(snapshot)) => {
                work.head =
                    self.node.views.retire(&work.head, &std::mem::take(&mut gathered.datasets), snapshot);
                self.note_committed(std::mem::take(&mut gathered.ready));
                Ok(())
            }
            Ok(None) => Err(Ok(Flushed::Overtaken)),
            Err(error) => {
                gathered.ready.clear(); // they may be part of the catalog
                Err(Err(error))
            }
        }
    }

    /// Commits the remaining blocks, and moves the floor if no row of this head or an earlier one is left.
    async fn conclude(&self, work: &mut HeadFlush, gathered: &mut Gathered) -> Result<Flushed, Error> {
        let is_first = self.floor(&work.head) == work.head.start() && self.blocked_by(&work.head).is_empty();
        if !gathered.failed.is_empty() || !is_first {
            if let Err(stopped) = self.commit_ready(work, gathered).await {
                return stopped;
            }
            return Ok(Flushed::InPart { failed: gathered.failed.pop_first().map(|(_, error)| error) });
        }
        let outcome = self.commit_floor(work, &gathered.ready).await;
        match &outcome {
            Ok(Flushed::Overtaken) => {}
            Ok(_) => self.note_committed(std::mem::take(&mut gathered.ready)),
            // The catalog may name them; if not, garbage collection deletes them.
            Err(_) => gathered.ready.clear(),
        }
        outcome
    }

    fn note_committed(&self, blocks: Vec<BlockMeta>) {
        self.node.metrics.blocks.inc_by(blocks.len() as u64);
        self.node.metrics.block_bytes.inc_by(blocks.iter().map(|block| block.size).sum());
        self.warm(blocks);
    }

    /// Decodes new blocks ahead of queries.
    fn warm(&self, blocks: Vec<BlockMeta>) {
        let is_of_samples = |block: &BlockMeta| block.dataset.signal == Signal::Metrics;
        let blocks: Vec<Arc<BlockMeta>> = blocks.into_iter().filter(is_of_samples).map(Arc::new).collect();
        let (reader, budget) = (self.reader.clone(), self.budget.clone());
        let warming = async move { crate::samples::warm(&reader, &budget, &blocks).await };
        let task = self.node.env.spawn("decode new blocks", warming);
        *self.warming.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// Returns the task that decodes the blocks of the last flush.
    #[cfg(test)]
    pub(crate) fn take_warming(&self) -> Option<Task<()>> {
        self.warming.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Plans the blocks of each dataset when the previous dataset's blocks are taken.
    fn planned(&self, head: Arc<Head>, datasets: Vec<Dataset>) -> impl Stream<Item = Planned> {
        let plans = stream::iter(datasets).then(move |dataset| self.plan(Arc::clone(&head), dataset));
        plans.flat_map(|(dataset, plans)| {
            let count = plans.len();
            let planned =
                move |(n, plan)| Planned { dataset: dataset.clone(), is_last: n + 1 == count, plan };
            stream::iter(plans.into_iter().enumerate().map(planned))
        })
    }

    async fn plan(&self, head: Arc<Head>, dataset: Dataset) -> (Dataset, Vec<Box<dyn Plan>>) {
        let (now_ns, thin_bytes) = (self.node.env.now_ns(), self.thin_bytes);
        let Dataset { tenant, signal } = dataset.clone();
        let plan = move || match signal {
            Signal::Logs => boxed(logs::plan_blocks(head.logs(), &tenant, thin_bytes)),
            Signal::Metrics => boxed(samples::plan_blocks(head.samples(), &tenant, now_ns, thin_bytes)),
        };
        (dataset, self.node.env.run_cpu(Lane::Background, plan).await)
    }

    async fn write(&self, author: Id, Planned { dataset, is_last, plan }: Planned) -> Written {
        let (window, raw_bytes) = (plan.window(), plan.raw_bytes());
        let meta = block_meta::unwritten(self.node.env.new_id(), author, &dataset, window, 0);
        let block = self.write_block(meta.clone(), plan).await;
        match &block {
            Ok(BlockMeta { rows, size, .. }) => {
                let Dataset { tenant, signal } = &dataset;
                tracing::info!(%tenant, %signal, rows, raw_bytes, size, path = meta.path(), "wrote a block");
            }
            Err(_) => self.delete(vec![meta]).await,
        }
        Written { dataset, is_last, block }
    }

    async fn write_block(&self, mut meta: BlockMeta, plan: Box<dyn Plan>) -> Result<BlockMeta, Error> {
        let (path, raw_bytes, mut written) = (meta.path(), plan.raw_bytes(), 0);
        let damaged = |error: sandur_format::Error| Error::Internal(format!("block '{path}': {error}"));
        let mut upload = BlockUpload::begin(&self.node.store, self.reader.bytes(), &meta).await?;
        let newest = self.node.catalog.snapshot();
        let (block, seen, forms) = (meta.id, newest.position(), newest.forms());
        let origin = BlockOrigin { block, seen, ..BlockOrigin::default() };
        let begun = self.node.env.run_cpu(Lane::Background, move || plan.begin(origin, forms)).await;
        let mut assembly = begun.map_err(damaged)?;
        let done = loop {
            let work = move || {
                let mut output = Vec::new();
                let step = assembly.step(&mut output);
                (assembly, step, output)
            };
            let (rest, step, output) = self.node.env.run_cpu(Lane::Background, work).await;
            assembly = rest;
            let done = step.map_err(damaged)?;
            upload.write(output, done.is_some()).await?;
            // Duplicates are left out, so the last step may end before all bytes are encoded.
            let encoded = if done.is_some() { raw_bytes } else { assembly.encoded_bytes() };
            self.admission.wrote(encoded.saturating_sub(written));
            written = written.max(encoded);
            if let Some(done) = done {
                break done;
            }
        };
        upload.finish(&done.summary).await?;
        self.node.metrics.duplicates.inc_by(done.duplicates);
        block_meta::fill(&mut meta, &done.summary);
        Ok(meta)
    }

    /// Deletes blocks that no commit names or will name.
    async fn delete(&self, blocks: Vec<BlockMeta>) {
        let mut left = Vec::new();
        for block in blocks {
            // A store that failed once will fail again, and each attempt takes as long as its retries.
            if !left.is_empty() || !delete_unneeded(&self.node.store, &block).await {
                left.push(block);
            }
        }
        let mut unneeded = self.unneeded.lock().unwrap_or_else(PoisonError::into_inner);
        left.truncate(UNNEEDED_MAX.saturating_sub(unneeded.len()));
        unneeded.append(&mut left);
    }

    /// Deletes the uncommitted blocks of earlier flushes.
    async fn delete_leftovers(&self) {
        let left = std::mem::take(&mut *self.unneeded.lock().unwrap_or_else(PoisonError::into_inner));
        self.delete(left).await;
    }
}

impl Gathered {
    fn uncommitted(&mut self) -> Vec<BlockMeta> {
        self.ready.drain(..).chain(self.current.drain(..)).collect()
    }
}

/// Whether other datasets' blocks may be written after this failure. The cause may be in the dataset,
/// and stores may refuse requests by prefix of the name.
fn is_of_dataset(error: &Error) -> bool {
    matches!(error, Error::Internal(_) | Error::Store(_))
}

fn boxed(plans: Vec<impl Plan + 'static>) -> Vec<Box<dyn Plan>> {
    plans.into_iter().map(|plan| Box::new(plan) as Box<dyn Plan>).collect()
}
