//! Rollups: the points of days whose archives are over become aggregates of longer steps.
//!
//! Of a day that ended long enough ago all blocks are merged into one ([`days`]), of a large day those of
//! each slot ([`groups`]), and on the way the points of each path that pays for it become a rollup
//! (`samples::rolling`). Decision 0021 has the reasons.
//!
//! **Invariants.**
//! * Points and the rollup that is made of them change places in one commit.
//! * All blocks that have rows of a step are inputs, so it is never made of a part of what is stored of it.
//! * Changed rules roll nothing before they stood for a while, and a clock that jumps ahead is not believed
//!   at once: points that were rolled do not come back.
//! * Nothing is stored of it but the rollups: what is left to do follows from the catalog, the clock and the
//!   rules.

pub(crate) mod days;
pub(crate) mod groups;
mod roll;

use std::fmt;
use std::sync::Arc;

use sandur_model::{Labels, Matcher, SECOND_NS, TimeRange};

/// Which series are rolled, and to which steps.
pub trait RollupSteps: Send + Sync {
    /// Changes with what the others answer.
    fn version(&self) -> u64;

    /// Ages in nanoseconds, rising: other steps are due only when the end of a day is older than one more.
    fn ages_ns(&self) -> &[i64];

    /// Only series that pass one of these lists are rolled.
    fn any_of(&self) -> Vec<Vec<Matcher>>;

    /// The steps of a series of a day that ended so many nanoseconds ago, if its points are rolled then.
    fn steps(&self, labels: &Labels, age_ns: i64) -> Option<RollupStep>;
}

/// From which steps to which, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollupStep {
    /// Of several points of such a step the last one counts.
    pub finest: i64,
    /// What a rollup stands for.
    pub step: i64,
}

/// The rules of the moment; nothing while there are none that can be trusted.
pub type RollupsNow = Arc<dyn Fn() -> Option<Arc<dyn RollupSteps>> + Send + Sync>;

/// The rollups of one day, or of a part of it.
#[derive(Clone)]
pub(crate) struct DayRollup {
    steps: Arc<dyn RollupSteps>,
    /// The times that are rolled.
    window: TimeRange,
    /// Of the end of the day.
    age_ns: i64,
}

impl DayRollup {
    /// Of a day, as old as it is now; nothing when no rule concerns so young a day.
    pub(crate) fn new(steps: Arc<dyn RollupSteps>, day: TimeRange, now_ns: i64) -> Option<Self> {
        let rollup = Self { steps, window: day, age_ns: now_ns.saturating_sub(day.end) };
        (rollup.over() > 0).then_some(rollup)
    }

    /// The same of a part of the day.
    pub(crate) fn within(&self, window: TimeRange) -> Self {
        Self { window, ..self.clone() }
    }

    /// How many of the ages are over for the day.
    fn over(&self) -> usize {
        self.steps.ages_ns().partition_point(|age_ns| *age_ns < self.age_ns)
    }

    pub(crate) fn window(&self) -> TimeRange {
        self.window
    }

    /// Only series that pass one of these lists are rolled.
    pub(crate) fn any_of(&self) -> Vec<Vec<Matcher>> {
        self.steps.any_of()
    }

    /// The steps of a series, by its labels without those of a rollup. No step reaches beyond the window.
    pub(crate) fn step_of(&self, labels: &Labels) -> Option<RollupStep> {
        let TimeRange { start, end } = self.window;
        let fits = |RollupStep { finest, step }: &RollupStep| {
            let step_ns = step.saturating_mul(SECOND_NS);
            let is_within = || start.rem_euclid(step_ns) == 0 && end.rem_euclid(step_ns) == 0;
            *finest > 0 && finest < step && step % finest == 0 && is_within()
        };
        self.steps.steps(labels, self.age_ns).filter(fits)
    }
}

impl fmt::Debug for DayRollup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DayRollup").field("window", &self.window).finish_non_exhaustive()
    }
}
