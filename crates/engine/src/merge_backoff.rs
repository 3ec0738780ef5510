//! What merges leave alone for a while: damaged blocks, and what does not fit into the memory of upkeep.
//!
//! A merge that failed would fail again in the next round, and while it is the next one to do, no other one
//! of its dataset is done. So after a merge for which there is no memory the next of the same window takes
//! half as many blocks, each of which costs an open group; of two blocks that are too large for each other,
//! the larger one is left as it is. Damaged blocks are left alone so that their neighbours can be merged. All
//! of that ends after an hour: a file may be brought back, rows expire, and other upkeep may have held the
//! memory.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sandur_base::Id;
use sandur_catalog::Snapshot;
use sandur_model::{Dataset, TimeRange};

use crate::error::Error;
use crate::merge_policy::Merge;

const PAUSE: Duration = Duration::from_secs(3_600);

/// What failed lately, and until when it counts.
#[derive(Debug, Default)]
pub(crate) struct MergeBackoff {
    damaged: BTreeMap<Id, Duration>,
    too_large: BTreeMap<Id, Duration>,
    narrowed: BTreeMap<Place, (usize, Duration)>,
}

/// The merges of one window to one level.
type Place = (Dataset, i64, u8);

/// What a choice among the merges of one dataset heeds.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftAlone {
    /// Blocks that no merge takes.
    pub(crate) blocks: BTreeSet<Id>,
    narrowed: BTreeMap<(i64, u8), usize>,
}

impl LeftAlone {
    /// Blocks at most of a merge to this level, where the policy allows so many.
    pub(crate) fn inputs_max(&self, window: TimeRange, level: u8, allowed: usize) -> usize {
        self.narrowed.get(&(window.start, level)).map_or(allowed, |narrowed| allowed.min(*narrowed))
    }
}

impl MergeBackoff {
    /// Forgets what is over.
    pub(crate) fn pass(&mut self, now: Duration) {
        self.damaged.retain(|_, until| now < *until);
        self.too_large.retain(|_, until| now < *until);
        self.narrowed.retain(|_, (_, until)| now < *until);
    }

    /// Whether a block is damaged or missing.
    pub(crate) fn is_damaged(&self, id: Id) -> bool {
        self.damaged.contains_key(&id)
    }

    /// What merges of a dataset leave alone.
    pub(crate) fn of(&self, dataset: &Dataset) -> LeftAlone {
        let blocks = self.damaged.keys().chain(self.too_large.keys()).copied().collect();
        let of_dataset = self.narrowed.iter().filter(|((of, ..), _)| of == dataset);
        let narrowed = of_dataset.map(|((_, start, level), (most, _))| ((*start, *level), *most)).collect();
        LeftAlone { blocks, narrowed }
    }

    /// Leaves a damaged input alone. When it cannot be told which one it is, because the result does not add
    /// up, all of them. One that could not be read because the store did not answer is tried again at the
    /// next round.
    pub(crate) fn note_damage(&mut self, now: Duration, snapshot: &Snapshot, inputs: &[Id], error: &Error) {
        let is_meant = |id: &&Id| match error {
            Error::Damaged { path, .. } => snapshot.block(**id).is_some_and(|meta| meta.path() == *path),
            error => matches!(error, Error::Internal(_)),
        };
        self.damaged.extend(inputs.iter().filter(is_meant).map(|id| (*id, now + PAUSE)));
    }

    /// Makes the next merge of a place for which there was no memory a smaller one.
    pub(crate) fn note_size(&mut self, now: Duration, snapshot: &Snapshot, dataset: &Dataset, merge: &Merge) {
        let until = now + PAUSE;
        if merge.inputs.len() > 2 {
            let place = (dataset.clone(), merge.window.start, merge.level);
            self.narrowed.insert(place, ((merge.inputs.len() / 2).max(2), until));
            return;
        }
        let metas = merge.inputs.iter().filter_map(|id| snapshot.block(*id));
        if let Some(largest) = metas.max_by_key(|meta| (meta.streams, meta.raw_bytes, meta.id)) {
            self.too_large.insert(largest.id, until);
        }
    }
}
