//! Rolls a group of blocks: merges them into one with rollups, if that saves enough rows.
//!
//! A large group whose slots share blocks is not rolled in one merge, which would take as long as its
//! complete day. The shared blocks are cut first ([`Compactor::cut`]): each is replaced by one per slot, in
//! its own commit, and the groups of the day are smaller from then on. Blocks that are cut date from when
//! the day was small, so together they have at most the bytes of a small day, plus those that a flush
//! added while it grew. Long blocks with rows of the day are cut as well, until no long block has rows
//! of it, because a step must include all of its points.

use std::sync::Arc;

use sandur_base::Id;
use sandur_catalog::Snapshot;
use sandur_format::block::BlockIndex;
use sandur_format::catalog_entry::BlockMeta;
use sandur_memory::Reservation;
use sandur_model::{Signal, TimeRange};

use super::groups::{Group, groups_of, slots_of};
use crate::blocks::merging::Merging;
use crate::error::Error;
use crate::policy::rollups::DayRollup;
use crate::samples::{self, OpenSamples, SampleMerging};
use crate::upkeep::compaction::compactor::{Compactor, Work};
use crate::upkeep::compaction::due_merge::DueMerge;
use crate::upkeep::compaction::outcome::Rolled;
use crate::windows::{day_of, slot_ns};

/// A group is rolled only if at least this fraction of its rows (a tenth) is saved.
const ROLLED_SHARE: u64 = 10;
/// The level of a block of one slot.
const SLOT_LEVEL: u8 = 1;
/// The level of a block of a day.
const DAY_LEVEL: u8 = 2;

impl Compactor {
    /// Groups the blocks of a day that are rolled together. The blocks come in the order of writing.
    /// `are_apart` says whether the slots are kept apart, and `long` are the long blocks that may have
    /// rows of the day.
    pub(crate) fn groups_of(
        &self,
        (day, are_apart): (TimeRange, bool),
        blocks: Vec<Arc<BlockMeta>>,
        long: &[Arc<BlockMeta>],
    ) -> Vec<Group> {
        let is_damaged = blocks.iter().any(|block| self.is_damaged(block.id));
        groups_of(&self.policy, (day, are_apart || is_damaged), blocks, long)
    }

    /// Makes rollups of the points of a group of blocks. `are_apart` says whether the day's slots are
    /// kept apart.
    pub(crate) async fn roll(
        &self,
        incarnation: Id,
        snapshot: &Snapshot,
        (group, are_apart): (&Group, bool),
        rollup: &Arc<DayRollup>,
    ) -> Result<Rolled, Error> {
        let blocks = &group.blocks;
        let Some(first) = blocks.first() else { return Ok(Rolled::Stays) };
        if blocks.iter().any(|block| self.is_damaged(block.id)) {
            return Ok(Rolled::Damaged);
        }
        let inputs: Vec<Id> = blocks.iter().map(|block| block.id).collect();
        let due = self.rulebook.due(snapshot, &first.dataset, &inputs).await;
        let is_slot = group.window.length_ns() <= slot_ns(Signal::Metrics);
        let (window, level) =
            if is_slot { (group.window, SLOT_LEVEL) } else { (day_of(first.window.start), DAY_LEVEL) };
        let merge = DueMerge { inputs, window, level };
        let work = Work { incarnation, snapshot, merge: &merge, due: &due, rollup: Some(rollup) };
        let is_large = are_apart || self.policy.is_large(blocks.iter().map(|block| &**block));
        let tying: Vec<&Arc<BlockMeta>> = match is_large && !is_slot {
            true => blocks.iter().filter(|block| is_to_be_cut(block)).collect(),
            false => Vec::new(),
        };
        let rolled = self.roll_sound(work, group, &tying).await;
        rolled.inspect_err(|error| self.note_damage(snapshot, &merge, error)).map_err(Error::of_upkeep)
    }

    /// Rolls undamaged blocks, or cuts the blocks `tying`, which have rows of several slots.
    async fn roll_sound(
        &self,
        work: Work<'_>,
        Group { blocks, long, .. }: &Group,
        tying: &[&Arc<BlockMeta>],
    ) -> Result<Rolled, Error> {
        let Some(rollup) = work.rollup else { return Ok(Rolled::Stays) };
        let rows: u64 = blocks.iter().map(|block| block.rows).sum();
        let is_worth_it = |less: u64| less > 0 && less.saturating_mul(ROLLED_SHARE) >= rows;
        let (inputs, footers) = self.open_reserved(blocks).await?;
        if let Some(first) = tying.first() {
            let slot = Arc::new(rollup.within(first_slot(first)));
            let by_slots = samples::rows_saved(&self.reader, &inputs, &slot, &self.budget).await?;
            if is_worth_it(by_slots) {
                drop((inputs, footers));
                return self.cut_all(&work, tying).await;
            }
        }
        let less = samples::rows_saved(&self.reader, &inputs, rollup, &self.budget).await?;
        if !is_worth_it(less) {
            return Ok(Rolled::Stays);
        }
        if !long.is_empty() {
            drop((inputs, footers));
            for block in long {
                self.cut_long(work.incarnation, work.snapshot, block).await?;
            }
            return Ok(Rolled::Cut { blocks: long.len() as u64 });
        }
        let left = rows.saturating_sub(less).saturating_mul(samples::SAMPLE_BYTES);
        if blocks.len() > 1 && left > self.policy.rolled_raw_bytes_max() {
            return Ok(Rolled::TooLarge);
        }
        let touched = self.touch::<SampleMerging>(&inputs, work.due).await?;
        let into = self.exchange::<SampleMerging>(&work, inputs, touched, (work.through(), 0)).await?;
        Ok(Rolled::Rewritten { into, rows, less })
    }

    /// Cuts one block after the other. Each cut is committed on its own and survives a stop of the process.
    async fn cut_all(&self, work: &Work<'_>, blocks: &[&Arc<BlockMeta>]) -> Result<Rolled, Error> {
        for block in blocks {
            let merge = DueMerge { inputs: vec![block.id], window: block.window, level: SLOT_LEVEL };
            let work = Work { merge: &merge, rollup: None, ..*work };
            let cut = self.cut::<SampleMerging>(&work, block, &slots_in(slots_of(block))).await;
            if !cut.inspect_err(|error| self.note_damage(work.snapshot, &merge, error))? {
                return Err(Error::Internal(
                    "a block cannot be cut because delete requests concern it".to_owned(),
                ));
            }
        }
        Ok(Rolled::Cut { blocks: blocks.len() as u64 })
    }

    /// Opens blocks of samples. The memory of their footers is reserved; fails if there is not enough.
    async fn open_reserved(
        &self,
        blocks: &[Arc<BlockMeta>],
    ) -> Result<(Vec<Arc<OpenSamples>>, Reservation), Error> {
        let (mut inputs, mut footers) = (Vec::with_capacity(blocks.len()), self.budget.reserve(0)?);
        for block in blocks {
            let before = footers.bytes();
            footers.grow(u64::from(block.footer_len))?;
            let opened = SampleMerging::open(&self.reader, block).await?;
            footers.resize(before + opened.footer.memory_bytes())?;
            inputs.push(opened);
        }
        Ok((inputs, footers))
    }
}

/// Whether a block has rows of several slots. A block from before places existed is kept, because its
/// level orders it.
fn is_to_be_cut(block: &BlockMeta) -> bool {
    block.place > 0 && block.rows > 0 && slots_of(block).length_ns() > slot_ns(Signal::Metrics)
}

fn slots_in(window: TimeRange) -> Vec<TimeRange> {
    let slot_ns = slot_ns(Signal::Metrics);
    let starts = (window.start..window.end).step_by(slot_ns as usize);
    starts.map(|start| TimeRange::new(start, start.saturating_add(slot_ns))).collect()
}

fn first_slot(block: &BlockMeta) -> TimeRange {
    let start = slots_of(block).start;
    TimeRange::new(start, start.saturating_add(slot_ns(Signal::Metrics)))
}
