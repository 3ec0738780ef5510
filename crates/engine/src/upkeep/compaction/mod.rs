//! Compaction: the choice of merges and cuts, and their execution.

pub(crate) mod compactor;
mod cut;
pub(crate) mod due_merge;
pub(crate) mod exclusions;
pub(crate) mod long_blocks;
pub(crate) mod merge_backoff;
pub(crate) mod merge_policy;
pub(crate) mod merge_runs;
pub(crate) mod outcome;
mod stamps;
