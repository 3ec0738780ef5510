//! What the choice of merges skips for a while.

use std::collections::{BTreeMap, BTreeSet};

use sandur_base::Id;
use sandur_model::TimeRange;

/// Blocks and windows excluded from merge selection in one dataset.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exclusions {
    /// Blocks that no merge includes.
    pub(crate) blocks: BTreeSet<Id>,
    /// The most blocks of merges of a window to a level.
    pub(super) narrowed: BTreeMap<(i64, u8), usize>,
}

impl Exclusions {
    /// The most blocks of a merge to this level; at most `allowed`, which the policy allows.
    pub(crate) fn inputs_max(&self, window: TimeRange, level: u8, allowed: usize) -> usize {
        self.narrowed.get(&(window.start, level)).map_or(allowed, |narrowed| allowed.min(*narrowed))
    }
}
