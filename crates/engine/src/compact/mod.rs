//! Compaction: blocks of an hour become one, then those of a day.
//!
//! [`policy`] chooses, [`merge`] computes, this file does the I/O: opens the inputs, feeds pages to the
//! merger on the CPU pool, streams its output into the new object, and commits the exchange under the
//! precondition that all inputs are still there. Any number of processes may compact the same bucket:
//! of two merges of one block only one is committed, the other's object is deleted.
//!
//! Several processes share the work: each window belongs to the live writer that rendezvous hashing
//! gives it. That choice saves effort and decides nothing: a wrong view of who is alive costs a merge
//! that is not committed.

mod merge;
mod policy;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use roaring::RoaringBitmap;
use sandur_base::{Env, Id, Lane, MemoryBudget};
use sandur_cache::Hint;
use sandur_catalog::{Catalog, CommitError, Snapshot};
use sandur_format::block::{BlockOrigin, BlockSummary};
use sandur_format::catalog_entry::{BlockMeta, Edit, Precondition};
use sandur_format::log_block::BlockOptions;
use sandur_model::{Dataset, Signal, TimeRange};
use sandur_query::QueryStats;
use sandur_store::{Intent, Store};
use xxhash_rust::xxh3::xxh3_64;

use crate::block_meta;
use crate::deletes::{DueRules, Rulebook, Touched, touched};
use crate::error::Error;
use crate::maintain::MaintenanceOptions;
use crate::scan::{BlockReader, OpenBlock};
use crate::shared::{Shared, refused};
use crate::view::Views;
use merge::{MergeCounts, Merger, PageBytes, PageRef, Step};
use policy::next_merge;
pub use policy::{CompactionPolicy, Merge};

/// How long a damaged block is left alone: its file may be brought back.
const DAMAGED_PAUSE: Duration = Duration::from_secs(3_600);

/// Merges blocks of one engine's store.
pub(crate) struct Compactor {
    env: Env,
    store: Store,
    catalog: Catalog,
    views: Arc<Views>,
    reader: BlockReader,
    policy: CompactionPolicy,
    budget: MemoryBudget,
    rulebook: Arc<Rulebook>,
    deleted_rows: Counter,
    /// Blocks that cannot be merged because they are damaged or missing, and when they are looked at again.
    /// One that could not be read because the store did not answer is tried again at the next round.
    damaged: Mutex<BTreeMap<Id, Duration>>,
}

impl Compactor {
    pub(crate) fn new(shared: &Shared, reader: BlockReader, options: &MaintenanceOptions) -> Self {
        Self {
            env: shared.env.clone(),
            store: shared.store.clone(),
            catalog: shared.catalog.clone(),
            views: Arc::clone(&shared.views),
            reader,
            policy: options.compaction.clone(),
            budget: options.compaction_budget.clone(),
            rulebook: Arc::clone(&shared.rulebook),
            deleted_rows: shared.metrics.deleted_rows.clone(),
            damaged: Mutex::default(),
        }
    }

    /// Does the next merge that is due and ours, on behalf of `incarnation`; `false` when there is none.
    pub(crate) async fn compact_once(&self, incarnation: Id) -> Result<bool, Error> {
        let snapshot = self.catalog.snapshot();
        let now_ns = self.env.now_ns();
        let datasets: Vec<Dataset> = snapshot.datasets().cloned().collect();
        let mut failed = None;
        for dataset in datasets {
            let Some(merge) = self.next_of(&snapshot, &dataset, now_ns) else { continue };
            if !is_owner(&snapshot, &dataset, merge.window, incarnation) {
                continue;
            }
            match self.merge(incarnation, &snapshot, &dataset, merge).await {
                Ok(()) => return Ok(true),
                // What fails for one dataset keeps no other one waiting.
                Err(error) => {
                    tracing::warn!(%dataset, %error, "blocks could not be merged");
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(false), Err)
    }

    fn next_of(&self, snapshot: &Snapshot, dataset: &Dataset, now_ns: i64) -> Option<Merge> {
        let damaged = self.damaged().clone();
        let sound = |block: &&Arc<BlockMeta>| !damaged.contains_key(&block.id);
        let blocks: Vec<_> = snapshot.blocks(dataset, TimeRange::ALL).filter(sound).cloned().collect();
        next_merge(&self.policy, now_ns, &blocks)
    }

    async fn merge(
        &self,
        incarnation: Id,
        snapshot: &Snapshot,
        dataset: &Dataset,
        merge: Merge,
    ) -> Result<(), Error> {
        let merged = self.merge_sound(incarnation, snapshot, dataset, &merge).await;
        merged.inspect_err(|error| self.note_damage(snapshot, &merge, error))
    }

    async fn merge_sound(
        &self,
        incarnation: Id,
        snapshot: &Snapshot,
        dataset: &Dataset,
        merge: &Merge,
    ) -> Result<(), Error> {
        let inputs = self.open_inputs(snapshot, merge).await?;
        let due = self.rulebook.due(snapshot, dataset);
        let deletes = self.touch(&inputs, &due).await?;
        // Rules that cannot be applied leave the result as clean as its inputs.
        let least = inputs.iter().map(|input| input.meta.deletes_through).min().unwrap_or(0);
        let through = due.through.unwrap_or(least);
        self.exchange(incarnation, merge, Opened { inputs, deletes, through }).await
    }

    /// Makes a block clean of the started delete requests, if it is not: rewrites it without their lines.
    pub(crate) async fn clean(
        &self,
        incarnation: Id,
        snapshot: &Snapshot,
        block: &Arc<BlockMeta>,
    ) -> Result<Cleaned, Error> {
        let due = self.rulebook.due(snapshot, &block.dataset);
        if self.damaged().contains_key(&block.id) {
            return Ok(Cleaned::LeftAlone { why: "the block is damaged or missing" });
        }
        let Some(through) = due.through else {
            return Ok(Cleaned::LeftAlone { why: "a delete request cannot be read by this program" });
        };
        let merge = Merge { inputs: vec![block.id], window: block.window, level: block.level };
        let cleaned = self.clean_sound(incarnation, snapshot, &merge, (&due, through)).await;
        cleaned.inspect_err(|error| self.note_damage(snapshot, &merge, error))
    }

    async fn clean_sound(
        &self,
        incarnation: Id,
        snapshot: &Snapshot,
        merge: &Merge,
        (due, through): (&DueRules, u64),
    ) -> Result<Cleaned, Error> {
        let inputs = self.open_inputs(snapshot, merge).await?;
        let deletes = self.touch(&inputs, due).await?;
        if deletes.iter().all(Touched::is_nothing) {
            return Ok(Cleaned::Untouched { through });
        }
        self.exchange(incarnation, merge, Opened { inputs, deletes, through }).await?;
        Ok(Cleaned::Rewritten)
    }

    /// The blocks that are left alone now.
    fn damaged(&self) -> MutexGuard<'_, BTreeMap<Id, Duration>> {
        let now = self.env.monotonic();
        let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        damaged.retain(|_, until| now < *until);
        damaged
    }

    /// What the rules do to each of the inputs.
    async fn touch(&self, inputs: &[Arc<OpenBlock>], due: &DueRules) -> Result<Vec<Touched>, Error> {
        let stats = QueryStats::default();
        let mut all = Vec::with_capacity(inputs.len());
        for input in inputs {
            let mut streams = RoaringBitmap::new();
            streams.insert_range(0..input.footer.streams().len() as u32);
            all.push(
                touched(&self.reader, input, (&streams, TimeRange::ALL), due.rules.iter(), &stats).await?,
            );
        }
        Ok(all)
    }

    /// Replaces opened blocks by one, without the rows that deletes take out.
    async fn exchange(&self, incarnation: Id, merge: &Merge, opened: Opened) -> Result<(), Error> {
        let started = self.env.monotonic();
        let Opened { inputs, deletes, through } = opened;
        let dataset = inputs[0].meta.dataset.clone();
        let mut options = BlockOptions::new(dataset.tenant.clone(), merge.window, merge.level);
        let seen = self.catalog.snapshot().position();
        options.origin = BlockOrigin { seen, deletes_through: through, inputs: merge.inputs.clone() };
        let merger = Merger::new(inputs.clone(), deletes, options, self.budget.clone());
        let merger = merger.map_err(|error| Error::Internal(error.to_string()))?;
        let mut meta =
            block_meta::unwritten(self.env.new_id(), incarnation, &dataset, merge.window, merge.level);
        let written = self.write(merger, &inputs, &meta).await;
        let (summary, counts) = match written {
            Ok(written) => written,
            Err(error) => {
                self.delete_orphan(&meta).await;
                return Err(error);
            }
        };
        block_meta::fill(&mut meta, &summary);
        meta.deletes_through = through;
        self.commit(incarnation, merge, meta).await?;
        self.deleted_rows.inc_by(counts.deleted);
        let took = self.env.monotonic().saturating_sub(started);
        tracing::info!(
            tenant = %dataset.tenant, level = merge.level, inputs = inputs.len(), rows = summary.rows,
            moved_pages = counts.moved_pages, merged_pages = counts.merged_pages,
            duplicates = counts.duplicates, deleted = counts.deleted, size = summary.size, ?took,
            "merged blocks"
        );
        Ok(())
    }

    async fn open_inputs(&self, snapshot: &Snapshot, merge: &Merge) -> Result<Vec<Arc<OpenBlock>>, Error> {
        let stats = QueryStats::default();
        let mut inputs = Vec::with_capacity(merge.inputs.len());
        for id in &merge.inputs {
            let meta =
                snapshot.block(*id).ok_or_else(|| Error::Internal("a merge of unknown blocks".to_owned()))?;
            inputs.push(self.reader.open(meta, &stats).await?);
        }
        Ok(inputs)
    }

    /// Leaves a damaged input alone for a while, so that its neighbours can be merged. When nobody can tell
    /// which one it is, because the result does not add up, all of them.
    fn note_damage(&self, snapshot: &Snapshot, merge: &Merge, error: &Error) {
        let until = self.env.monotonic() + DAMAGED_PAUSE;
        let is_meant = |id: &&Id| match error {
            Error::Damaged { path, .. } => snapshot.block(**id).is_some_and(|meta| meta.path() == *path),
            error => matches!(error, Error::Internal(_)),
        };
        let left = merge.inputs.iter().filter(is_meant).map(|id| (*id, until));
        self.damaged().extend(left);
    }

    async fn write(
        &self,
        mut merger: Merger,
        inputs: &[Arc<OpenBlock>],
        meta: &BlockMeta,
    ) -> Result<(BlockSummary, MergeCounts), Error> {
        let path = meta.path();
        let mut upload = self.store.upload(&path, Intent::block()).await?;
        let mut through = self.reader.bytes().write_through(meta.id, &meta.dataset.tenant);
        loop {
            let job = move || {
                let step = merger.step();
                (merger, step)
            };
            let (returned, step) = self.env.run_cpu(Lane::Background, job).await;
            merger = returned;
            match step? {
                Step::Need(page) => merger.supply(self.page(&inputs[page.input], page).await?),
                Step::Output(pieces) => {
                    through.pieces(&pieces, false);
                    for piece in pieces {
                        upload.write(piece).await?;
                    }
                }
                Step::Finished(pieces, summary, counts) => {
                    through.pieces(&pieces, true);
                    for piece in pieces {
                        upload.write(piece).await?;
                    }
                    let size = upload.finish().await?;
                    if size != summary.size {
                        let text = format!("block '{path}' took {size} bytes of {}", summary.size);
                        return Err(Error::Internal(text));
                    }
                    return Ok((summary, counts));
                }
            }
        }
    }

    async fn page(&self, input: &OpenBlock, page: PageRef) -> Result<PageBytes, Error> {
        let stats = QueryStats::default();
        let entry = &input.footer.pages()[page.page as usize];
        // A merge reads its inputs once, and they go away afterwards.
        let hint = Hint::Scan { bytes: u64::MAX };
        let read = self.reader.pieces(&input.meta, &[entry.narrow, entry.lines], hint, &stats).await?;
        let [narrow, lines] = <[_; 2]>::try_from(read)
            .map_err(|_| Error::Internal("two pieces have two answers".to_owned()))?
            .map(|piece| piece.bytes);
        let segment = input.footer.filter_segment_of(page.page).filter(|_| page.moved);
        let filter = match segment {
            Some(segment) => {
                let view = self.reader.segment(input, segment, &stats).await?;
                view.page_filter(page.page)
            }
            None => None,
        };
        Ok(PageBytes { narrow, lines, filter })
    }

    async fn commit(&self, incarnation: Id, merge: &Merge, meta: BlockMeta) -> Result<(), Error> {
        let at_ms = self.env.now_ns() / 1_000_000;
        let mut edits = Vec::with_capacity(merge.inputs.len() + 1);
        if meta.rows > 0 {
            edits.push(Edit::AddBlock(meta.clone()));
        }
        edits.extend(merge.inputs.iter().map(|id| Edit::RemoveBlock { id: *id, at_ms }));
        let preconditions =
            vec![Precondition::Live { incarnation }, Precondition::BlocksPresent(merge.inputs.clone())];
        match self.catalog.commit(incarnation, edits, preconditions).await {
            Ok(snapshot) => {
                self.views.publish(snapshot);
                if meta.rows == 0 {
                    self.delete_orphan(&meta).await;
                }
                Ok(())
            }
            Err(error) => {
                if matches!(error, CommitError::Rejected { .. }) {
                    self.delete_orphan(&meta).await;
                }
                Err(refused("a merge", &error))
            }
        }
    }

    /// Deletes an object that no commit names. When that fails, garbage collection finds it later.
    async fn delete_orphan(&self, meta: &BlockMeta) {
        if let Err(error) = self.store.delete(&meta.path(), Intent::gc()).await {
            tracing::debug!(path = meta.path(), %error, "an unneeded block is left for garbage collection");
        }
    }
}

/// Blocks that were opened to be replaced.
struct Opened {
    inputs: Vec<Arc<OpenBlock>>,
    /// What deletes do to each of them.
    deletes: Vec<Touched>,
    /// What the result is clean of.
    through: u64,
}

/// What became of a block that was to be cleaned.
pub(crate) enum Cleaned {
    /// It holds no line of the requests that were started by entries up to `through`.
    Untouched {
        /// Number of an entry.
        through: u64,
    },
    /// It was replaced by one without these lines.
    Rewritten,
    /// Nothing was done: its lines stay hidden.
    LeftAlone {
        /// Why.
        why: &'static str,
    },
}

/// Whether a window's work is that of this writer.
pub(crate) fn is_owner(snapshot: &Snapshot, dataset: &Dataset, window: TimeRange, incarnation: Id) -> bool {
    owner(snapshot, dataset, window) == Some(incarnation)
}

/// The live writer whose work a window is: the highest hash of writer, dataset and window wins.
fn owner(snapshot: &Snapshot, dataset: &Dataset, window: TimeRange) -> Option<Id> {
    let live = snapshot.writers().values().filter(|writer| !writer.is_sealed());
    let weight = |incarnation: Id| {
        let mut key = incarnation.to_bytes().to_vec();
        key.extend_from_slice(dataset.tenant.as_str().as_bytes());
        key.extend_from_slice(&window.start.to_le_bytes());
        // Logs are hashed as by programs that know nothing of metrics: all must name the same owner.
        if dataset.signal != Signal::Logs {
            key.extend_from_slice(dataset.signal.as_str().as_bytes());
        }
        xxh3_64(&key)
    };
    live.map(|writer| writer.incarnation).max_by_key(|incarnation| (weight(*incarnation), *incarnation))
}
