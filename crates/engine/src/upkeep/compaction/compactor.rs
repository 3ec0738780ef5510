//! Compaction: merges the blocks of an hour into one, then those of a day.
//!
//! [`due_merges`] chooses the merges, a signal ([`Merging`]) computes them, and this file does the
//! I/O. It opens the inputs, feeds pages to the merger on the CPU pool, streams the output into the new
//! object, and commits the replacement under the precondition that all inputs are still in the catalog.
//! Any number of processes may compact the same bucket: of two merges of one block only one is
//! committed, and the other's object is deleted.
//!
//! Several processes share the work: placement ([`sandur_catalog::placement`]) assigns each window to a live
//! node. The assignment only avoids duplicate work; correctness does not depend on it. A wrong view of who
//! is alive costs a merge that is not committed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_base::Id;
use sandur_catalog::{CommitError, Snapshot};
use sandur_format::block::{BlockOrigin, BlockSummary};
use sandur_format::catalog_entry::{BlockMeta, Edit, Precondition};
use sandur_memory::MemoryBudget;
use sandur_model::{Dataset, Signal, TimeRange};
use sandur_runtime::Lane;

use crate::blocks::block_meta;
use crate::blocks::merging::{Merge, MergeCounts, Merging, Step, Target};
use crate::blocks::reader::BlockReader;
use crate::blocks::upload::{BlockUpload, delete_unneeded};
use crate::error::{Error, refused};
use crate::logs::LogMerging;
use crate::node::Node;
use crate::place::Duty;
use crate::policy::compaction::CompactionPolicy;
use crate::policy::expired::{ExpiredRows, ExpiredSeries};
use crate::policy::retention::Expiry;
use crate::policy::rollups::DayRollup;
use crate::rules::{DueRules, Rulebook};
use crate::samples::{self, SampleMerging};
use crate::upkeep::compaction::due_merge::DueMerge;
use crate::upkeep::compaction::exclusions::Exclusions;
use crate::upkeep::compaction::merge_backoff::MergeBackoff;
use crate::upkeep::compaction::merge_policy::{due_merges, is_settled};
use crate::upkeep::compaction::outcome::{Cleaned, Expired};
use crate::upkeep::context::UpkeepContext;
use crate::upkeep::retention::due::Expiries;
use crate::windows::{day_of, is_long};

/// How long retention waits for a block's merge before it rewrites the block.
const MERGE_PATIENCE: Duration = Duration::from_secs(3_600);

/// Merges blocks of one engine's store.
pub(crate) struct Compactor {
    node: Arc<Node>,
    pub(crate) reader: BlockReader,
    pub(crate) policy: CompactionPolicy,
    pub(crate) budget: MemoryBudget,
    pub(crate) rulebook: Arc<Rulebook>,
    backoff: Mutex<MergeBackoff>,
}

impl Compactor {
    pub(crate) fn new(context: &UpkeepContext) -> Self {
        Self {
            node: Arc::clone(&context.node),
            reader: context.reader.clone(),
            policy: context.options.compaction.clone(),
            budget: context.options.compaction_budget.clone(),
            rulebook: Arc::clone(&context.rulebook),
            backoff: Mutex::default(),
        }
    }

    /// Does the next merge that is due and that `incarnation` owns, without rows past these retentions.
    /// Returns `false` when there is none.
    pub(crate) async fn compact_once(&self, incarnation: Id, kept: &Expiries) -> Result<bool, Error> {
        let snapshot = self.node.catalog.snapshot();
        let now_ns = self.node.env.now_ns();
        let datasets: Vec<Dataset> = snapshot.datasets().cloned().collect();
        let mut failed = None;
        for dataset in datasets {
            let excluded = self.excluded(&dataset);
            let blocks: Vec<_> = snapshot.blocks(&dataset, TimeRange::ALL).cloned().collect();
            let mut due = due_merges(&self.policy, dataset.signal, now_ns, &blocks, &excluded);
            // A merge that another writer owns must not block ours.
            let ours = due.find(|merge| self.owns(&dataset, merge.window));
            let Some(merge) = ours else { continue };
            match self.merge(incarnation, &snapshot, (&dataset, kept.get(&dataset)), merge).await {
                Ok(()) => return Ok(true),
                // A failure for one dataset must not block the others.
                Err(error) => {
                    tracing::warn!(%dataset, %error, "blocks could not be merged");
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(false), Err)
    }

    async fn merge(
        &self,
        incarnation: Id,
        snapshot: &Snapshot,
        (dataset, expiry): (&Dataset, Option<&Arc<Expiry>>),
        merge: DueMerge,
    ) -> Result<(), Error> {
        let due = self.rulebook.due(snapshot, dataset, &merge.inputs).await;
        let work = Work { incarnation, snapshot, merge: &merge, due: &due, rollup: None };
        let merged = match dataset.signal {
            Signal::Logs => self.merge_sound::<LogMerging>(work, expiry).await,
            Signal::Metrics => self.merge_sound::<SampleMerging>(work, expiry).await,
        };
        merged.map_err(Error::of_upkeep).inspect_err(|error| match error {
            Error::MergeTooLarge(_) => {
                let now = self.node.env.monotonic();
                self.backoff().note_size(now, snapshot, dataset, &merge);
            }
            error => self.note_damage(snapshot, &merge, error),
        })
    }

    async fn merge_sound<M: Merging>(
        &self,
        work: Work<'_>,
        expiry: Option<&Arc<Expiry>>,
    ) -> Result<(), Error> {
        let inputs = self.open_inputs::<M>(&work).await?;
        let mut touched = self.touch::<M>(&inputs, work.due).await?;
        let expired = match expiry {
            Some(expiry) => self.take_out::<M>(&work, expiry, &inputs, &mut touched).await?,
            None => ExpiredRows::default(),
        };
        self.exchange::<M>(&work, inputs, touched, (work.through(), expired.total())).await?;
        self.node.metrics.note_expired(&expired);
        Ok(())
    }

    /// Removes expired series from the inputs of a merge, which are written again anyway.
    async fn take_out<M: Merging>(
        &self,
        work: &Work<'_>,
        expiry: &Arc<Expiry>,
        inputs: &[Arc<M::Block>],
        touched: &mut [M::Touched],
    ) -> Result<ExpiredRows, Error> {
        let mut rows = ExpiredRows::default();
        for ((id, input), touched) in work.merge.inputs.iter().zip(inputs).zip(touched) {
            let meta = work.meta(*id)?;
            if !expiry.may_end_series(meta) {
                continue;
            }
            let expired = self.expired_of::<M>(input, meta, expiry).await?;
            M::take_out(touched, &expired, (meta, expiry));
            expired.rows.each().for_each(|(reason, of)| rows.add(reason, of));
        }
        Ok(rows)
    }

    async fn expired_of<M: Merging>(
        &self,
        input: &Arc<M::Block>,
        meta: &BlockMeta,
        expiry: &Arc<Expiry>,
    ) -> Result<ExpiredSeries, Error> {
        let expired = M::expired(&self.reader, input, expiry, &self.budget).await?;
        let rows = expired.rows.total();
        if rows > meta.rows {
            let reason = format!("its index lists {rows} rows, the block has {}", meta.rows);
            return Err(Error::Damaged { path: meta.path(), reason });
        }
        Ok(expired)
    }

    /// Rewrites a block without the rows of started delete requests, if it has any.
    pub(crate) async fn clean(
        &self,
        incarnation: Id,
        snapshot: &Snapshot,
        block: &Arc<BlockMeta>,
    ) -> Result<Cleaned, Error> {
        if self.is_damaged(block.id) {
            return Ok(Cleaned::Skipped { why: "the block is damaged or missing" });
        }
        let due = self.rulebook.due(snapshot, &block.dataset, &[block.id]).await;
        let Some(through) = due.through else {
            return Ok(Cleaned::Skipped { why: "a delete request cannot be applied by this program" });
        };
        let (inputs, window, level) = (vec![block.id], block.window, block.level);
        let merge = DueMerge { inputs, window, level };
        let work = Work { incarnation, snapshot, merge: &merge, due: &due, rollup: None };
        let cleaned = match block.dataset.signal {
            Signal::Logs => self.clean_sound::<LogMerging>(work, through).await,
            Signal::Metrics => self.clean_sound::<SampleMerging>(work, through).await,
        };
        cleaned.inspect_err(|error| self.note_damage(snapshot, &merge, error)).map_err(Error::of_upkeep)
    }

    async fn clean_sound<M: Merging>(&self, work: Work<'_>, through: u64) -> Result<Cleaned, Error> {
        let inputs = self.open_inputs::<M>(&work).await?;
        let touched = self.touch::<M>(&inputs, work.due).await?;
        if touched.iter().all(M::is_untouched) {
            return Ok(Cleaned::Untouched { through });
        }
        self.exchange::<M>(&work, inputs, touched, (through, 0)).await?;
        Ok(Cleaned::Rewritten)
    }

    /// Whether a merge may include the block, now or when its day is over. Long blocks are not waited
    /// for, because usually no merge includes them.
    pub(crate) fn awaits_merge(&self, snapshot: &Snapshot, block: &BlockMeta) -> bool {
        let day = day_of(block.window.start);
        if is_long(block.window) {
            return false;
        }
        let of_day = blocks_of_day(snapshot, &block.dataset, day);
        !self.is_settled(day, &of_day) || self.may_be_merged(&of_day, &[block])
    }

    /// Whether a merge may include a block of a group, now or when its day is over. Other groups of the
    /// day need not be quiet: those that were just rolled are not.
    pub(crate) fn group_awaits_merge(&self, snapshot: &Snapshot, blocks: &[Arc<BlockMeta>]) -> bool {
        let Some(first) = blocks.first() else { return false };
        let day = day_of(first.window.start);
        let of_day = blocks_of_day(snapshot, &first.dataset, day);
        let of_group: Vec<&BlockMeta> = blocks.iter().map(|block| &**block).collect();
        !self.is_settled(day, blocks) || self.may_be_merged(&of_day, &of_group)
    }

    fn is_settled(&self, day: TimeRange, blocks: &[Arc<BlockMeta>]) -> bool {
        is_settled(&self.policy, self.node.env.now_ns(), day, blocks)
    }

    /// Whether a merge of the day is due that may include one of these blocks. Gives up on a block after
    /// [`MERGE_PATIENCE`], because the merge may never come for lack of memory or a failing store.
    fn may_be_merged(&self, of_day: &[Arc<BlockMeta>], blocks: &[&BlockMeta]) -> bool {
        let now_ns = self.node.env.now_ns();
        let is_young = |block: &&BlockMeta| {
            let waited_ms = (now_ns / 1_000_000).saturating_sub(block.id.timestamp_ms() as i64);
            waited_ms < MERGE_PATIENCE.as_millis() as i64
        };
        let Some(young) = blocks.iter().find(|block| is_young(block)) else { return false };
        let excluded = self.excluded(&young.dataset);
        due_merges(&self.policy, young.dataset.signal, now_ns, of_day, &excluded).next().is_some()
    }

    /// Removes expired series from a block: removes the block from the catalog if all are expired, or
    /// rewrites it if enough are.
    pub(crate) async fn expire(
        &self,
        incarnation: Id,
        snapshot: &Snapshot,
        block: &Arc<BlockMeta>,
        expiry: &Arc<Expiry>,
    ) -> Result<Expired, Error> {
        if self.is_damaged(block.id) {
            return Ok(Expired::Damaged);
        }
        let (inputs, window, level) = (vec![block.id], block.window, block.level);
        let merge = DueMerge { inputs, window, level };
        let due = self.rulebook.due(snapshot, &block.dataset, &merge.inputs).await;
        let work = Work { incarnation, snapshot, merge: &merge, due: &due, rollup: None };
        let expired = match block.dataset.signal {
            Signal::Logs => self.expire_sound::<LogMerging>(work, (block, expiry)).await,
            Signal::Metrics => self.expire_sound::<SampleMerging>(work, (block, expiry)).await,
        };
        expired.inspect_err(|error| self.note_damage(snapshot, &merge, error)).map_err(Error::of_upkeep)
    }

    async fn expire_sound<M: Merging>(
        &self,
        work: Work<'_>,
        (block, expiry): (&Arc<BlockMeta>, &Arc<Expiry>),
    ) -> Result<Expired, Error> {
        let inputs = self.open_inputs::<M>(&work).await?;
        let expired = self.expired_of::<M>(&inputs[0], block, expiry).await?;
        let rows = expired.rows;
        if expired.is_all(block.rows) {
            self.remove(work.incarnation, block).await?;
            return Ok(Expired::Removed { rows });
        }
        if !expired.is_worth_it(block.rows) {
            return Ok(Expired::Stays);
        }
        let mut touched = self.touch::<M>(&inputs, work.due).await?;
        touched.iter_mut().for_each(|touched| M::take_out(touched, &expired, (block, expiry)));
        let through = work.due.through.unwrap_or(block.deletes_through);
        let into = self.exchange::<M>(&work, inputs, touched, (through, rows.total())).await?;
        Ok(Expired::Rewritten { rows, into })
    }

    async fn remove(&self, incarnation: Id, block: &BlockMeta) -> Result<(), Error> {
        let edit = Edit::RemoveBlock { id: block.id, at_ms: self.node.env.now_ns() / 1_000_000 };
        let preconditions =
            vec![Precondition::Live { incarnation }, Precondition::BlocksPresent(vec![block.id])];
        let committed = self.node.catalog.commit(incarnation, vec![edit], preconditions).await;
        self.node.views.publish(committed.map_err(|error| refused("the removal of an old block", &error))?);
        Ok(())
    }

    /// Whether a block was recently found damaged or missing.
    pub(crate) fn is_damaged(&self, id: Id) -> bool {
        self.backoff().is_damaged(id)
    }

    /// Whether this node merges and cuts the blocks of a window.
    pub(crate) fn owns(&self, dataset: &Dataset, window: TimeRange) -> bool {
        self.node.place.owns(Duty::Merge, dataset, window)
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.node.catalog.snapshot()
    }

    pub(crate) fn now_ns(&self) -> i64 {
        self.node.env.now_ns()
    }

    /// The blocks and merges that compaction of a dataset skips now.
    pub(crate) fn excluded(&self, dataset: &Dataset) -> Exclusions {
        self.backoff().of(dataset)
    }

    /// Skips the only input of a merge for a while.
    pub(crate) fn exclude(&self, snapshot: &Snapshot, merge: &DueMerge) {
        let now = self.node.env.monotonic();
        if let Some(block) = merge.inputs.first().and_then(|id| snapshot.block(*id)) {
            self.backoff().note_size(now, snapshot, &block.dataset, merge);
        }
    }

    fn backoff(&self) -> MutexGuard<'_, MergeBackoff> {
        let mut backoff = self.backoff.lock().unwrap_or_else(PoisonError::into_inner);
        backoff.pass(self.node.env.monotonic());
        backoff
    }

    /// What the rules remove from each of the inputs.
    pub(crate) async fn touch<M: Merging>(
        &self,
        inputs: &[Arc<M::Block>],
        due: &DueRules,
    ) -> Result<Vec<M::Touched>, Error> {
        let mut all = Vec::with_capacity(inputs.len());
        for input in inputs {
            all.push(M::touch(&self.reader, input, due, &self.budget).await?);
        }
        Ok(all)
    }

    /// Replaces opened blocks by one, without the rows that deletes and retention remove. Retention
    /// removes `expired` of them. Returns the new block's id.
    pub(crate) async fn exchange<M: Merging>(
        &self,
        work: &Work<'_>,
        inputs: Vec<Arc<M::Block>>,
        touched: Vec<M::Touched>,
        (through, expired): (u64, u64),
    ) -> Result<Id, Error> {
        let started = self.node.env.monotonic();
        let place = (work.merge.window, work.merge.level);
        let made = self.make::<M>(work, (&inputs, touched), place, through).await?;
        let (BlockMeta { id, rows, size, level, .. }, counts) = (made.meta.clone(), made.counts);
        self.commit(work, vec![made]).await?;
        let deleted = counts.deleted.saturating_sub(expired);
        self.node.metrics.deleted_rows.inc_by(deleted);
        self.node.metrics.note_rolled(counts.rolled, counts.rollups);
        let took = self.node.env.monotonic().saturating_sub(started);
        let Dataset { tenant, signal } = &work.meta(work.merge.inputs[0])?.dataset;
        tracing::info!(
            %tenant, %signal, level, inputs = inputs.len(), rows,
            moved_pages = counts.moved_pages, merged_pages = counts.merged_pages,
            duplicates = counts.duplicates, deleted, expired, size, ?took, "merged blocks"
        );
        Ok(id)
    }

    /// Writes the remaining rows of opened blocks as one block of this window and level. Does not commit it.
    pub(crate) async fn make<M: Merging>(
        &self,
        work: &Work<'_>,
        (inputs, touched): (&[Arc<M::Block>], Vec<M::Touched>),
        (window, level): (TimeRange, u8),
        through: u64,
    ) -> Result<Made, Error> {
        let merge = work.merge;
        let dataset = work.meta(merge.inputs[0])?.dataset.clone();
        let newest = self.node.catalog.snapshot();
        let (seen, forms) = (newest.position(), newest.forms());
        let inputs_of = merge.inputs.iter().filter_map(|id| work.snapshot.block(*id));
        let place = inputs_of.map(|meta| meta.place).max().unwrap_or(0);
        let (block, made_of) = (self.node.env.new_id(), merge.inputs.clone());
        let origin = BlockOrigin { block, seen, deletes_through: through, inputs: made_of, place };
        let rollup = work.rollup.cloned();
        let stamped = self.keeps_stamps::<M>(work, inputs, &newest).await?;
        let tenant = dataset.tenant.clone();
        let target = Target { tenant, window, level, origin, rollup, forms, stamped };
        let merger = M::merger(inputs, touched, target, self.budget.clone())?;
        let mut meta = block_meta::unwritten(block, work.incarnation, &dataset, window, level);
        match self.write::<M>(merger, inputs, &meta).await {
            Ok((summary, counts)) => {
                block_meta::fill(&mut meta, &summary);
                meta.deletes_through = through;
                Ok(Made { meta, counts })
            }
            Err(error) => {
                delete_unneeded(&self.node.store, &meta).await;
                Err(error)
            }
        }
    }

    /// Deletes blocks that are not committed.
    pub(crate) async fn forget(&self, made: &[Made]) {
        for Made { meta, .. } in made {
            delete_unneeded(&self.node.store, meta).await;
        }
    }

    pub(crate) async fn open_inputs<M: Merging>(&self, work: &Work<'_>) -> Result<Vec<Arc<M::Block>>, Error> {
        let mut inputs = Vec::with_capacity(work.merge.inputs.len());
        for id in &work.merge.inputs {
            inputs.push(M::open(&self.reader, work.meta(*id)?).await?);
        }
        Ok(inputs)
    }

    /// Skips a damaged input for a while.
    pub(crate) fn note_damage(&self, snapshot: &Snapshot, merge: &DueMerge, error: &Error) {
        let now = self.node.env.monotonic();
        self.backoff().note_damage(now, snapshot, &merge.inputs, error);
    }

    async fn write<M: Merging>(
        &self,
        mut merger: M::Merger,
        inputs: &[Arc<M::Block>],
        meta: &BlockMeta,
    ) -> Result<(BlockSummary, MergeCounts), Error> {
        let mut upload = BlockUpload::begin(&self.node.store, self.reader.bytes(), meta).await?;
        loop {
            let job = move || {
                let step = merger.step();
                (merger, step)
            };
            let (returned, step) = self.node.env.run_cpu(Lane::Background, job).await;
            merger = returned;
            match step? {
                Step::Need(page) => merger.supply(M::fetch(&self.reader, inputs, page, &self.budget).await?),
                Step::Output(pieces) => upload.write(pieces, false).await?,
                Step::Finished(pieces, summary, counts) => {
                    upload.write(pieces, true).await?;
                    upload.finish(&summary).await?;
                    return Ok((summary, counts));
                }
            }
        }
    }

    /// Commits the replacement of the inputs by the new blocks.
    pub(crate) async fn commit(&self, work: &Work<'_>, made: Vec<Made>) -> Result<(), Error> {
        let (incarnation, inputs) = (work.incarnation, &work.merge.inputs);
        let at_ms = self.node.env.now_ns() / 1_000_000;
        let (kept, empty): (Vec<Made>, Vec<Made>) = made.into_iter().partition(Made::holds_something);
        let mut edits: Vec<Edit> = kept.iter().map(|made| Edit::AddBlock(made.meta.clone())).collect();
        edits.extend(inputs.iter().map(|id| Edit::RemoveBlock { id: *id, at_ms }));
        let preconditions =
            vec![Precondition::Live { incarnation }, Precondition::BlocksPresent(inputs.clone())];
        if let [made] = kept.as_slice()
            && made.counts.rolled == 0
        {
            let inputs = inputs.iter().filter_map(|id| work.snapshot.block(*id)).map(|block| &**block);
            self.node.views.same_rows().note_merge(inputs, &made.meta);
        }
        match self.node.catalog.commit(incarnation, edits, preconditions).await {
            Ok(snapshot) => {
                self.node.views.publish(snapshot);
                self.forget(&empty).await;
                let of_samples = kept.into_iter().filter(|made| made.meta.dataset.signal == Signal::Metrics);
                let blocks: Vec<Arc<BlockMeta>> = of_samples.map(|made| Arc::new(made.meta)).collect();
                samples::warm(&self.reader, &self.budget, &blocks).await;
                Ok(())
            }
            Err(error) => {
                if matches!(error, CommitError::Rejected { .. }) {
                    self.forget(&kept).await;
                    self.forget(&empty).await;
                }
                Err(refused("a merge", &error))
            }
        }
    }
}

/// A block that was written.
pub(crate) struct Made {
    pub(crate) meta: BlockMeta,
    counts: MergeCounts,
}

impl Made {
    fn holds_something(&self) -> bool {
        self.meta.rows > 0 || self.counts.annotations > 0
    }

    /// Whether it has rows or exemplars, which belong to a time, and not only metadata.
    pub(crate) fn has_times(&self) -> bool {
        self.meta.rows > 0 || self.counts.exemplars > 0
    }
}

/// A merge to be done, with its context.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    /// The incarnation that commits it.
    pub(crate) incarnation: Id,
    /// The snapshot that contains its inputs.
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) merge: &'a DueMerge,
    /// The rows that started delete requests remove.
    pub(crate) due: &'a DueRules,
    /// Which points become rollups, if any.
    pub(crate) rollup: Option<&'a Arc<DayRollup>>,
}

impl Work<'_> {
    pub(crate) fn meta(&self, id: Id) -> Result<&Arc<BlockMeta>, Error> {
        self.snapshot.block(id).ok_or_else(|| Error::Internal("a merge names unknown blocks".to_owned()))
    }

    /// The number of the entry through which the result is clean of delete requests. If rules cannot be
    /// applied, the result is as clean as its least clean input.
    pub(crate) fn through(&self) -> u64 {
        let metas = self.merge.inputs.iter().filter_map(|id| self.snapshot.block(*id));
        let least = metas.map(|meta| meta.deletes_through).min().unwrap_or(0);
        self.due.through.unwrap_or(least)
    }
}

/// The blocks whose window is a day or a slot of it.
fn blocks_of_day(snapshot: &Snapshot, dataset: &Dataset, day: TimeRange) -> Vec<Arc<BlockMeta>> {
    snapshot.blocks(dataset, day).filter(|block| !is_long(block.window)).cloned().collect()
}
