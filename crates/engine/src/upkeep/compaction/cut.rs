//! Cuts a block: replaces it by several blocks of shorter windows, in one commit.
//!
//! Long blocks are cut when [`long_blocks`](super::long_blocks) decides so, and blocks of large days where
//! one block spans several slots that become rollups.
//!
//! **Invariants.** The parts together have all rows of the block, each once, and its place in the order
//! of writing: no two parts share an instant. A block whose rows a started delete request removes is not
//! cut.

use std::sync::Arc;

use sandur_base::Id;
use sandur_catalog::Snapshot;
use sandur_format::catalog_entry::BlockMeta;
use sandur_model::{Dataset, Signal, TimeRange};

use crate::blocks::merging::Merging;
use crate::error::Error;
use crate::logs::LogMerging;
use crate::samples::SampleMerging;
use crate::upkeep::compaction::compactor::{Compactor, Made, Work};
use crate::upkeep::compaction::due_merge::DueMerge;
use crate::upkeep::compaction::long_blocks::{due_cuts, parts_of};
use crate::upkeep::retention::due::Expiries;

impl Compactor {
    /// Cuts the next long block that is due and that this process owns. Returns `false` when there is none.
    pub(crate) async fn cut_once(&self, incarnation: Id, kept: &Expiries) -> Result<bool, Error> {
        let snapshot = self.snapshot();
        let datasets: Vec<Dataset> = snapshot.datasets().cloned().collect();
        let mut failed = None;
        for dataset in datasets {
            let excluded = self.excluded(&dataset);
            let blocks: Vec<_> = snapshot.blocks(&dataset, TimeRange::ALL).cloned().collect();
            let expiry = kept.get(&dataset).map(|expiry| &**expiry);
            let mut due = due_cuts((&self.policy, self.now_ns()), expiry, &blocks, &excluded);
            let ours = due.find(|block| self.owns(&dataset, block.window));
            let Some(block) = ours else { continue };
            match self.cut_long(incarnation, &snapshot, block).await {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(path = block.path(), %error, "a block could not be cut");
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(false), Err)
    }

    /// Cuts a long block. Returns `false` when a delete request must remove rows from it first.
    pub(crate) async fn cut_long(
        &self,
        incarnation: Id,
        snapshot: &Snapshot,
        block: &Arc<BlockMeta>,
    ) -> Result<bool, Error> {
        let due = self.rulebook.due(snapshot, &block.dataset, &[block.id]).await;
        let merge = DueMerge { inputs: vec![block.id], window: block.window, level: block.level };
        let work = Work { incarnation, snapshot, merge: &merge, due: &due, rollup: None };
        let windows = parts_of(block);
        let cut = match block.dataset.signal {
            Signal::Logs => self.cut::<LogMerging>(&work, block, &windows).await,
            Signal::Metrics => self.cut::<SampleMerging>(&work, block, &windows).await,
        };
        if matches!(cut, Ok(false) | Err(Error::MergeTooLarge(_) | Error::HeadsFull(_))) {
            self.exclude(snapshot, &merge);
        }
        cut.inspect_err(|error| self.note_damage(snapshot, &merge, error)).map_err(Error::of_upkeep)
    }

    /// Replaces a block by one per window that has rows of it, each at the block's own level.
    pub(crate) async fn cut<M: Merging>(
        &self,
        work: &Work<'_>,
        block: &Arc<BlockMeta>,
        windows: &[TimeRange],
    ) -> Result<bool, Error> {
        let inputs = self.open_inputs::<M>(work).await?;
        let untouched = self.touch::<M>(&inputs, work.due).await?;
        if !untouched.iter().all(M::is_untouched) {
            return Ok(false);
        }
        let mut parts = Vec::new();
        for window in windows {
            match self.part::<M>(work, &inputs, *window).await {
                Ok(part) => parts.push(part),
                Err(error) => {
                    self.forget(&parts).await;
                    return Err(error);
                }
            }
        }
        let rows: u64 = parts.iter().map(|part| part.meta.rows).sum();
        if rows != block.rows {
            self.forget(&parts).await;
            let text = format!("a block of {} rows was cut into parts of {rows}", block.rows);
            return Err(Error::Internal(text));
        }
        // Each part repeats the metadata of metric families; parts with nothing else are dropped.
        let has_times = parts.iter().any(Made::has_times);
        let (kept, empty): (Vec<Made>, Vec<Made>) =
            parts.into_iter().partition(|part| !has_times || part.has_times());
        self.forget(&empty).await;
        tracing::info!(path = block.path(), rows, parts = kept.len(), "cut a block");
        self.commit(work, kept).await?;
        Ok(true)
    }

    async fn part<M: Merging>(
        &self,
        work: &Work<'_>,
        inputs: &[Arc<M::Block>],
        window: TimeRange,
    ) -> Result<Made, Error> {
        let mut touched = self.touch::<M>(inputs, work.due).await?;
        touched.iter_mut().for_each(|touched| M::keep_only(touched, window));
        let place = (window, work.merge.level);
        self.make::<M>(work, (inputs, touched), place, work.through()).await
    }
}
