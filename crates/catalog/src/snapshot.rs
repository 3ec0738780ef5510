//! The state of the catalog after one entry, as an immutable value that is cheap to clone.
//!
//! All parts are shared by `Arc`s; [`Snapshot::apply`] (in `state.rs`) changes a clone. The state is a
//! pure function of the entries up to its number: two processes with the same number have equal
//! snapshots.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandur_base::Id;
use sandur_format::catalog_entry::{
    BlockForms, BlockMeta, CheckpointRoot, PartRef, PartRow, Session, TenantDeletes, Verdict, Writer,
};
use sandur_model::{Dataset, TimeRange};

use crate::blocks::BlockSet;
use crate::chain::Chain;

/// The delete requests of each dataset.
pub(crate) type Deletes = BTreeMap<Dataset, Arc<TenantDeletes>>;

/// The blocks and writers that exist after entry `number`.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) number: u64,
    pub(crate) writers: Arc<BTreeMap<Id, Writer>>,
    pub(crate) blocks: BlockSet,
    pub(crate) removed: Arc<BTreeMap<Id, RemovedBlock>>,
    pub(crate) sessions: Arc<BTreeMap<Id, Session>>,
    pub(crate) deletes: Arc<Deletes>,
    pub(crate) forms: BlockForms,
    pub(crate) stamps_before: u64,
    /// Not part of equality: a state loaded from an old checkpoint has fewer checksums.
    pub(crate) chain: Chain,
}

/// A block that queries no longer use, but whose object may still exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedBlock {
    /// The block's metadata.
    pub meta: Arc<BlockMeta>,
    /// When it was removed, in milliseconds since the epoch by the remover's clock. For display only: it
    /// is never compared with another machine's clock.
    pub at_ms: i64,
}

/// The state of an empty catalog.
impl Default for Snapshot {
    fn default() -> Self {
        Self {
            number: 0,
            writers: Arc::default(),
            blocks: BlockSet::default(),
            removed: Arc::default(),
            sessions: Arc::default(),
            deletes: Arc::default(),
            forms: BlockForms::UNSTATED,
            stamps_before: 0,
            chain: Chain::default(),
        }
    }
}

impl Snapshot {
    /// Returns the number of the last entry that it contains; 0 for an empty catalog.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the registered incarnations by id, including sealed ones.
    pub fn writers(&self) -> &BTreeMap<Id, Writer> {
        &self.writers
    }

    /// Returns a registered incarnation.
    pub fn writer(&self, incarnation: Id) -> Option<&Writer> {
        self.writers.get(&incarnation)
    }

    /// Returns the versions of blocks that processes may write.
    pub fn forms(&self) -> BlockForms {
        self.forms
    }

    /// Returns the latest time of stamps that a writer has stated, also one that is forgotten; 0 without
    /// any.
    pub fn stamps_before(&self) -> u64 {
        self.stamps_before
    }

    /// Whether all samples that are not in blocks, and all later ones, have stamps after this time.
    pub fn all_stamps_are_after(&self, time: u64) -> bool {
        self.writers.values().all(|writer| writer.is_drained() || writer.stamps_after >= time)
    }

    /// Returns whether every writer that is not sealed reads blocks of these versions.
    pub fn all_read(&self, forms: BlockForms) -> bool {
        self.writers.values().all(|writer| writer.allows(forms))
    }

    /// Returns the blocks of a dataset whose times overlap `range`, by start of their window.
    pub fn blocks(
        &self,
        dataset: &Dataset,
        range: TimeRange,
    ) -> impl DoubleEndedIterator<Item = &Arc<BlockMeta>> {
        self.blocks.of(dataset, range)
    }

    /// Returns an existing block; `None` for a removed one.
    pub fn block(&self, id: Id) -> Option<&Arc<BlockMeta>> {
        self.blocks.get(id)
    }

    /// Returns all blocks of all signals, by dataset, window and id.
    pub fn all_blocks(&self) -> impl Iterator<Item = &Arc<BlockMeta>> {
        self.blocks.iter()
    }

    /// Returns the number of existing blocks.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the datasets that have blocks, in order of their tenants' names.
    pub fn datasets(&self) -> impl Iterator<Item = &Dataset> {
        self.blocks.datasets()
    }

    /// Returns the removed blocks whose objects are not known to be deleted.
    pub fn removed(&self) -> impl Iterator<Item = &RemovedBlock> {
        self.removed.values()
    }

    /// Returns a removed block whose object is not known to be deleted.
    pub fn removed_block(&self, id: Id) -> Option<&RemovedBlock> {
        self.removed.get(&id)
    }

    /// Whether the object of this block may be needed: the block exists, or its object awaits deletion.
    pub fn is_referenced(&self, id: Id) -> bool {
        self.blocks.get(id).is_some() || self.removed.contains_key(&id)
    }

    /// Returns the number of remembered sessions.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Returns the recorded outcome of a session's transaction, if it is remembered.
    pub(crate) fn verdict(&self, session: Id, sequence: u64) -> Option<Verdict> {
        let verdicts = &self.sessions.get(&session)?.verdicts;
        verdicts.iter().find(|(s, _)| *s == sequence).map(|(_, verdict)| *verdict)
    }

    /// Whether a session's transaction was decided, remembered or not.
    pub(crate) fn is_decided(&self, session: Id, sequence: u64) -> bool {
        self.sessions.get(&session).is_some_and(|s| s.last_sequence >= sequence)
    }

    /// Returns the rows of a checkpoint's parts: existing blocks, then removed ones.
    pub(crate) fn rows(&self) -> impl Iterator<Item = PartRow> {
        let existing = self.blocks.iter().map(|b| (b, None));
        let removed = self.removed.values().map(|r| (&r.meta, Some(r.at_ms)));
        existing.chain(removed).map(|(b, removed_at_ms)| PartRow { meta: BlockMeta::clone(b), removed_at_ms })
    }

    /// Returns the root of a checkpoint.
    pub(crate) fn root(&self, id: Id, parts: Vec<PartRef>) -> CheckpointRoot {
        let writers = self.writers.values().cloned().collect();
        let sessions = self.sessions.iter().map(|(id, s)| (*id, s.clone())).collect();
        let deletes = self.deletes.iter().map(|(dataset, of)| (dataset.clone(), TenantDeletes::clone(of)));
        let (deletes, chain) = (deletes.collect(), self.chain.get().clone());
        let (number, forms, stamps_before) = (self.number, self.forms, self.stamps_before);
        CheckpointRoot { number, id, writers, sessions, parts, deletes, chain, forms, stamps_before }
    }

    /// Restores the state of a checkpoint.
    pub(crate) fn restore(root: CheckpointRoot, rows: impl Iterator<Item = PartRow>) -> Self {
        let (mut blocks, mut removed) = (BlockSet::default(), BTreeMap::new());
        for PartRow { meta, removed_at_ms } in rows {
            match removed_at_ms {
                Some(at_ms) => {
                    removed.insert(meta.id, RemovedBlock { meta: Arc::new(meta), at_ms });
                }
                None if blocks.get(meta.id).is_none() => blocks.insert(meta),
                None => {}
            }
        }
        let deletes = root.deletes.into_iter().map(|(dataset, of)| (dataset, Arc::new(of)));
        let writers = root.writers.into_iter().map(|w| (w.incarnation, w)).collect();
        Self {
            number: root.number,
            writers: Arc::new(writers),
            blocks,
            removed: Arc::new(removed),
            sessions: Arc::new(root.sessions.into_iter().collect()),
            deletes: Arc::new(deletes.collect()),
            forms: root.forms,
            stamps_before: root.stamps_before,
            chain: Chain::new(root.chain),
        }
    }
}

/// Compares contents, whatever is shared.
impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
            && self.writers == other.writers
            && self.removed == other.removed
            && self.sessions == other.sessions
            && self.deletes == other.deletes
            && self.forms == other.forms
            && self.stamps_before == other.stamps_before
            && self.blocks.len() == other.blocks.len()
            && self.blocks.iter().eq(other.blocks.iter())
    }
}
