//! Rollups: points of old days are replaced by aggregates over longer steps.
//!
//! All blocks of a day that ended long enough ago are merged into one ([`days`]); of a large day, the
//! blocks of each slot are ([`groups`]). During the merge the points of each path for which it saves
//! rows become a rollup (`samples::rolling`). [`crate::policy::rollups`] says which steps are due.
//! Decision 0021 has the reasons.
//!
//! **Invariants.**
//! * The rollup replaces its points in one commit.
//! * All blocks that have rows of a step are inputs, so a rollup always includes all stored points of
//!   its step.
//! * Changed rules roll nothing until they have been unchanged for a while, and a clock that jumps ahead
//!   is not trusted at once: points that were rolled cannot be restored.
//! * Only the rollups are stored: the remaining work follows from the catalog, the clock and the rules.

pub(crate) mod days;
pub(crate) mod groups;
mod roll;
