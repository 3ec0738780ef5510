//! A merge that is worth doing, as [`merge_policy`](super::merge_policy) chooses it.

use sandur_base::Id;
use sandur_model::TimeRange;

/// A merge to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DueMerge {
    /// The blocks to replace.
    pub(crate) inputs: Vec<Id>,
    /// Window of the result.
    pub(crate) window: TimeRange,
    /// Level of the result.
    pub(crate) level: u8,
}
