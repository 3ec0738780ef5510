//! Blocks and windows that are excluded from merges for an hour: damaged blocks, and merges that do not
//! fit into the memory of upkeep.
//!
//! A merge that failed would fail again in the next round, and as long as it is the next one, no other
//! merge of its dataset is done. So after a merge that found no memory, the next merge of the same
//! window has half as many inputs, each of which costs an open group. If only two blocks are too large
//! together, the larger one is excluded. Damaged blocks are excluded so that their neighbours can be
//! merged. After an hour all is tried again: an object may be restored, rows expire, and other upkeep
//! may have held the memory.

use std::collections::BTreeMap;
use std::time::Duration;

use sandur_base::Id;
use sandur_catalog::Snapshot;
use sandur_model::Dataset;

use crate::error::Error;
use crate::upkeep::compaction::due_merge::DueMerge;
use crate::upkeep::compaction::exclusions::Exclusions;

const PAUSE: Duration = Duration::from_secs(3_600);

/// Recent failures, each with the monotonic time until which it counts.
#[derive(Debug, Default)]
pub(crate) struct MergeBackoff {
    damaged: BTreeMap<Id, Duration>,
    too_large: BTreeMap<Id, Duration>,
    narrowed: BTreeMap<Place, (usize, Duration)>,
}

/// The merges of one window to one level.
type Place = (Dataset, i64, u8);

impl MergeBackoff {
    /// Forgets failures that have expired.
    pub(crate) fn pass(&mut self, now: Duration) {
        self.damaged.retain(|_, until| now < *until);
        self.too_large.retain(|_, until| now < *until);
        self.narrowed.retain(|_, (_, until)| now < *until);
    }

    /// Whether a block is damaged or missing.
    pub(crate) fn is_damaged(&self, id: Id) -> bool {
        self.damaged.contains_key(&id)
    }

    /// The current exclusions of a dataset.
    pub(crate) fn of(&self, dataset: &Dataset) -> Exclusions {
        let blocks = self.damaged.keys().chain(self.too_large.keys()).copied().collect();
        let of_dataset = self.narrowed.iter().filter(|((of, ..), _)| of == dataset);
        let narrowed = of_dataset.map(|((_, start, level), (most, _))| ((*start, *level), *most)).collect();
        Exclusions { blocks, narrowed }
    }

    /// Excludes a damaged input. If the damaged one is unknown, because the counts of the result are
    /// wrong, excludes all inputs. A block that could not be read because the store did not answer is
    /// tried again in the next round.
    pub(crate) fn note_damage(&mut self, now: Duration, snapshot: &Snapshot, inputs: &[Id], error: &Error) {
        let is_meant = |id: &&Id| match error {
            Error::Damaged { path, .. } => snapshot.block(**id).is_some_and(|meta| meta.path() == *path),
            error => matches!(error, Error::Internal(_)),
        };
        self.damaged.extend(inputs.iter().filter(is_meant).map(|id| (*id, now + PAUSE)));
    }

    /// After a merge that found no memory, makes the next one of the same window and level smaller.
    pub(crate) fn note_size(
        &mut self,
        now: Duration,
        snapshot: &Snapshot,
        dataset: &Dataset,
        merge: &DueMerge,
    ) {
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
