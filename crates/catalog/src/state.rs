//! The replicated state machine: the effect of one entry on a snapshot.
//!
//! Deterministic and total: readers that apply the same entries in the order of their numbers have the
//! same state, whatever the entries hold and whenever they were written. A transaction is applied
//! completely or not at all. It is applied once, however often it was written:
//!
//! * a session's sequence numbers grow, and the state remembers the last one of each session;
//! * a session is forgotten only after [`SESSION_ENTRIES`] entries without a transaction of it, and a
//!   transaction that was first tried longer ago than that is void.
//!
//! So a put that is delayed, retried, or sent by a process that was suspended for a day has no effect for
//! any process. No code here reads a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sandur_base::Id;
use sandur_format::catalog_entry::{
    BlockForms, BlockMeta, EDITS_OF_NODES, EDITS_OF_RULES, Edit, Entry, NodeDescription, Precondition,
    Session, Transaction, Verdict, WritePlace, Writer,
};
use sandur_format::sample_block::STAMPED_SINCE;
use sandur_model::{RuleShards, Signal};

use crate::error::{EditFault, Rejection};
use crate::snapshot::{RemovedBlock, Snapshot};

/// Number of entries for which an idle session is remembered. At one entry every 2 s, more than a day.
pub const SESSION_ENTRIES: u64 = 1 << 16;
/// Idle sessions are searched for at each number that is a multiple of this.
const SWEEP_ENTRIES: u64 = 1 << 10;

/// The effect of one transaction of an applied entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its edits are part of the state.
    Applied,
    /// The state does not allow it.
    Rejected(Rejection),
    /// An earlier entry decided the transaction.
    Repeated,
    /// The transaction was first tried too long ago.
    Expired,
}

impl Snapshot {
    /// Applies the next entry and returns the outcomes of its transactions, in their order.
    ///
    /// # Panics
    /// When the entry's number is not the next one: the caller must apply entries in order.
    pub fn apply(&mut self, entry: &Entry) -> Vec<Outcome> {
        assert_eq!(entry.number, self.number + 1, "entries are applied in the order of their numbers");
        self.number = entry.number;
        let outcomes = if entry.base.saturating_add(SESSION_ENTRIES) < entry.number {
            vec![Outcome::Expired; entry.transactions.len()]
        } else {
            self.apply_transactions(entry)
        };
        if self.number.is_multiple_of(SWEEP_ENTRIES) {
            let number = self.number;
            Arc::make_mut(&mut self.sessions).retain(|_, s| s.at.saturating_add(SESSION_ENTRIES) >= number);
        }
        outcomes
    }

    fn apply_transactions(&mut self, entry: &Entry) -> Vec<Outcome> {
        let known = self.sessions.get(&entry.session);
        let mut last_sequence = known.map_or(0, |s| s.last_sequence);
        let (mut outcomes, mut verdicts) = (Vec::with_capacity(entry.transactions.len()), Vec::new());
        for (index, transaction) in entry.transactions.iter().enumerate() {
            if transaction.sequence <= last_sequence {
                outcomes.push(Outcome::Repeated);
                continue;
            }
            last_sequence = transaction.sequence;
            let (outcome, verdict) = match self.apply_transaction(index, transaction) {
                Ok(()) => (Outcome::Applied, Verdict::Applied),
                Err((rejection, verdict)) => (Outcome::Rejected(*rejection), verdict),
            };
            outcomes.push(outcome);
            verdicts.push((transaction.sequence, verdict));
        }
        if !verdicts.is_empty() {
            let session = Session { last_sequence, at: entry.number, verdicts };
            Arc::make_mut(&mut self.sessions).insert(entry.session, session);
        }
        outcomes
    }

    fn apply_transaction(
        &mut self,
        index: usize,
        transaction: &Transaction,
    ) -> Result<(), (Box<Rejection>, Verdict)> {
        for (index, precondition) in transaction.preconditions.iter().enumerate() {
            if !self.holds(precondition) {
                let rejection = Rejection::Precondition(precondition.clone());
                return Err((Box::new(rejection), Verdict::Precondition(index_of(index))));
            }
        }
        let (writers, removed, forms) = (BTreeMap::new(), BTreeSet::new(), self.forms);
        let mut plan = Plan { state: self, writers, removed, forms };
        for (index, edit) in transaction.edits.iter().enumerate() {
            if let Err(fault) = plan.check(edit) {
                let rejection = Rejection::Edit { edit: edit.clone(), fault };
                return Err((Box::new(rejection), Verdict::Edit(index_of(index))));
            }
        }
        let writers = plan.writers;
        if !writers.is_empty() {
            let known = Arc::make_mut(&mut self.writers);
            for (incarnation, writer) in writers {
                match writer {
                    Some(writer) => known.insert(incarnation, writer),
                    None => known.remove(&incarnation),
                };
            }
        }
        let mut places = Places::of(self, index, transaction);
        for edit in &transaction.edits {
            self.perform(edit, &mut places);
        }
        Ok(())
    }

    fn holds(&self, precondition: &Precondition) -> bool {
        let writer = |id: &Id| self.writers.get(id);
        match precondition {
            Precondition::FloorIs { incarnation, at } => writer(incarnation).is_some_and(|w| w.floor == *at),
            Precondition::Live { incarnation } => writer(incarnation).is_some_and(|w| !w.is_sealed()),
            Precondition::Registered { incarnation } => writer(incarnation).is_some(),
            Precondition::Sealed { incarnation } => writer(incarnation).is_some_and(Writer::is_sealed),
            Precondition::BlocksPresent(ids) => ids.iter().all(|id| self.blocks.get(*id).is_some()),
        }
    }

    /// Applies the part of a checked edit that concerns blocks; writers were changed before.
    fn perform(&mut self, edit: &Edit, places: &mut Places) {
        match edit {
            Edit::AddBlock(meta) => {
                let place = places.next(meta);
                if self.blocks.get(meta.id).is_none() {
                    self.blocks.insert(BlockMeta { place, ..meta.clone() });
                }
            }
            Edit::RemoveBlock { id, at_ms } => {
                if let Some(meta) = self.blocks.remove(*id) {
                    let removed = RemovedBlock { meta, at_ms: *at_ms };
                    Arc::make_mut(&mut self.removed).insert(*id, removed);
                }
            }
            Edit::Deleted { ids } if ids.iter().any(|id| self.removed.contains_key(id)) => {
                let removed = Arc::make_mut(&mut self.removed);
                for id in ids {
                    removed.remove(id);
                }
            }
            Edit::ActivateForms(forms) => self.forms = self.forms.or_later(*forms),
            Edit::StampsAfter { time, .. } => self.stamps_before = self.stamps_before.max(*time),
            Edit::CreateDelete(_)
            | Edit::StartDelete { .. }
            | Edit::CancelDelete { .. }
            | Edit::FinishDelete { .. }
            | Edit::BlocksClean { .. } => self.perform_delete(edit),
            _ => {}
        }
    }
}

/// The places in the order of writing of the blocks that a transaction adds.
struct Places {
    entry: u64,
    transaction: usize,
    /// Number of blocks so far.
    blocks: usize,
    /// Place of the last of the blocks that the transaction removes: the added blocks are made of them.
    replaced: Option<u64>,
}

impl Places {
    /// Returns the places for a transaction of which no edit was applied yet.
    fn of(state: &Snapshot, index: usize, transaction: &Transaction) -> Self {
        let replaced = transaction.edits.iter().filter_map(|edit| match edit {
            Edit::RemoveBlock { id, .. } => state.blocks.get(*id).map(|block| block.place),
            _ => None,
        });
        Self { entry: state.number, transaction: index, blocks: 0, replaced: replaced.max() }
    }

    /// Returns the place of the next block. Only blocks of samples need an order.
    fn next(&mut self, meta: &BlockMeta) -> u64 {
        let own = WritePlace::of(self.entry, self.transaction, self.blocks).0;
        self.blocks += 1;
        match meta.dataset.signal {
            Signal::Metrics => self.replaced.unwrap_or(own),
            Signal::Logs => 0,
        }
    }
}

/// The effects of the checked edits of one transaction. Later edits see earlier ones, and the state
/// changes only after all of them are allowed.
struct Plan<'a> {
    state: &'a Snapshot,
    /// Changed writers; `None` for forgotten ones.
    writers: BTreeMap<Id, Option<Writer>>,
    /// Blocks that this transaction removes.
    removed: BTreeSet<Id>,
    /// The versions of blocks that may be written.
    forms: BlockForms,
}

impl Plan<'_> {
    fn writer(&self, incarnation: Id) -> Option<&Writer> {
        match self.writers.get(&incarnation) {
            Some(changed) => changed.as_ref(),
            None => self.state.writers.get(&incarnation),
        }
    }

    /// Returns a writer to change.
    fn change(&mut self, incarnation: Id) -> Result<&mut Writer, EditFault> {
        let known = self.writer(incarnation).cloned();
        let slot = self.writers.entry(incarnation).or_insert(known);
        slot.as_mut().ok_or(EditFault::Unregistered)
    }

    fn check(&mut self, edit: &Edit) -> Result<(), EditFault> {
        match edit {
            Edit::Register { .. } => self.check_register(edit),
            Edit::AddBlock(meta) => self.check_add(meta),
            Edit::RemoveBlock { id, .. } => {
                self.removed.insert(*id);
                Ok(())
            }
            Edit::Floor { incarnation, from, to } => {
                let writer = self.change(*incarnation)?;
                let is_after_fence = writer.fence.is_some_and(|fence| *to > fence);
                if writer.floor != *from || to < from || is_after_fence {
                    return Err(EditFault::Floor);
                }
                writer.floor = *to;
                Ok(())
            }
            Edit::Seal { incarnation, fence } => {
                let writer = self.change(*incarnation)?;
                match writer.fence {
                    Some(known) if known != *fence => Err(EditFault::Sealed),
                    None if *fence < writer.floor => Err(EditFault::Fence),
                    _ => {
                        (writer.fence, writer.rules) = (Some(*fence), RuleShards::NONE);
                        Ok(())
                    }
                }
            }
            Edit::Forget { incarnation } => match self.writer(*incarnation) {
                Some(writer) if !writer.is_drained() => Err(EditFault::NotDrained),
                _ => {
                    self.writers.insert(*incarnation, None);
                    Ok(())
                }
            },
            Edit::OrphanFloor { incarnation, id } => {
                let writer = self.change(*incarnation)?;
                writer.orphan_floor = writer.orphan_floor.max(Some(*id));
                Ok(())
            }
            Edit::Deleted { .. } => Ok(()),
            Edit::ActivateForms(forms) => self.check_activate(*forms),
            Edit::DescribeNode { incarnation, node } => self.check_describe(*incarnation, node),
            Edit::StampsAfter { incarnation, time } => self.check_stamps(*incarnation, *time),
            Edit::OwnRules { incarnation, shards } => self.check_own_rules(*incarnation, *shards),
            Edit::CreateDelete(_)
            | Edit::StartDelete { .. }
            | Edit::CancelDelete { .. }
            | Edit::FinishDelete { .. }
            | Edit::BlocksClean { .. } => self.state.check_delete(edit),
        }
    }

    /// Every writer that may still read blocks must read those of the activated versions. Writers that this
    /// transaction changes count as they are after its earlier edits.
    fn check_activate(&mut self, forms: BlockForms) -> Result<(), EditFault> {
        let forms = self.forms.or_later(forms);
        if !self.all_writers().all(|writer| writer.allows(forms)) {
            return Err(EditFault::UnreadForms);
        }
        self.forms = forms;
        Ok(())
    }

    /// All writers, those that this transaction changes as they are now.
    fn all_writers(&self) -> impl Iterator<Item = &Writer> {
        let known = self.state.writers.iter().filter(|(id, _)| !self.writers.contains_key(id));
        known.map(|(_, writer)| writer).chain(self.writers.values().flatten())
    }

    /// A program that does not know the edit stops at it, so every writer that may still read the log must
    /// know it.
    fn check_describe(&mut self, incarnation: Id, node: &NodeDescription) -> Result<(), EditFault> {
        if !self.all_writers().all(|writer| writer.reads_edits(EDITS_OF_NODES)) {
            return Err(EditFault::UnreadEdits);
        }
        self.change(incarnation)?.node = Some(node.clone());
        Ok(())
    }

    /// A writer that may still read the log reads this edit if it reads samples with stamps.
    fn check_stamps(&mut self, incarnation: Id, time: u64) -> Result<(), EditFault> {
        if self.forms.samples < STAMPED_SINCE {
            return Err(EditFault::UnreadForms);
        }
        let writer = self.change(incarnation)?;
        writer.stamps_after = writer.stamps_after.max(time);
        Ok(())
    }

    /// A shard has one owner. The rows of an owner that is sealed are complete, so another process may
    /// follow it; a live owner gives a shard up by an edit of its own.
    fn check_own_rules(&mut self, incarnation: Id, shards: RuleShards) -> Result<(), EditFault> {
        if !self.all_writers().all(|writer| writer.reads_edits(EDITS_OF_RULES)) {
            return Err(EditFault::UnreadEdits);
        }
        let others = self.all_writers().filter(|writer| writer.incarnation != incarnation);
        if others.fold(RuleShards::NONE, |all, writer| all.or(writer.rules)).and(shards) != RuleShards::NONE {
            return Err(EditFault::Owned);
        }
        let writer = self.change(incarnation)?;
        if writer.is_sealed() {
            return Err(EditFault::Sealed);
        }
        writer.rules = shards;
        Ok(())
    }

    /// The version of edits that a new writer must read, because of what others have stated.
    fn edits_needed(&self) -> u16 {
        self.all_writers().map(edits_stated_by).max().unwrap_or(0)
    }

    fn check_register(&mut self, edit: &Edit) -> Result<(), EditFault> {
        let Edit::Register { incarnation, address, host, started_ms, wal, edits, reads } = edit else {
            return Ok(());
        };
        let new = Writer {
            incarnation: *incarnation,
            address: address.clone(),
            host: host.clone(),
            started_ms: *started_ms,
            wal: *wal,
            floor: 0,
            fence: None,
            orphan_floor: None,
            edits: *edits,
            reads: *reads,
            node: None,
            stamps_after: 0,
            rules: RuleShards::NONE,
        };
        match self.writer(*incarnation) {
            None if !new.allows(self.forms) => Err(EditFault::NewerForms),
            None if !new.reads_edits(self.edits_needed()) => Err(EditFault::NewerForms),
            None => {
                self.writers.insert(*incarnation, Some(new));
                Ok(())
            }
            Some(known) => {
                let Writer { floor, fence, orphan_floor, stamps_after, rules, .. } = *known;
                let node = known.node.clone();
                let same = *known == Writer { floor, fence, orphan_floor, stamps_after, node, rules, ..new };
                if same && !known.is_sealed() { Ok(()) } else { Err(EditFault::Registered) }
            }
        }
    }

    /// A void block voids its complete transaction: the transaction also moves a floor or removes the
    /// inputs of a compaction, and without the block that would lose rows.
    fn check_add(&mut self, meta: &BlockMeta) -> Result<(), EditFault> {
        if self.state.removed.contains_key(&meta.id) || self.removed.contains(&meta.id) {
            return Err(EditFault::Removed);
        }
        if let Some(known) = self.state.blocks.get(meta.id) {
            // Both fields may differ: deletes that the block is clean of may have been recorded since,
            // and its place is assigned by the commit.
            // after the commit.
            let BlockMeta { deletes_through, place, .. } = **known;
            let same = **known == BlockMeta { deletes_through, place, ..meta.clone() };
            return if same { Ok(()) } else { Err(EditFault::Duplicate) };
        }
        if meta.deletes_through > self.state.number {
            return Err(EditFault::Future);
        }
        let writer = self.writer(meta.writer).ok_or(EditFault::Unregistered)?;
        match writer.orphan_floor {
            Some(floor) if meta.id <= floor => Err(EditFault::Orphan),
            _ => Ok(()),
        }
    }
}

/// The version of edits that a reader of what a writer has stated needs; 0 for the first one.
pub(crate) fn edits_stated_by(writer: &Writer) -> u16 {
    match () {
        () if !writer.rules.is_empty() => EDITS_OF_RULES,
        () if writer.node.is_some() => EDITS_OF_NODES,
        () => 0,
    }
}

/// An entry has at most 4 MiB, and a precondition or edit takes at least two bytes, so an index can
/// exceed 16 bits. Beyond that, the exact index is not worth more bytes in every session.
fn index_of(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
