//! Which points become rollups, as data: the steps of a series in a day of some age.

use std::fmt;
use std::sync::Arc;

use sandur_model::{Labels, Matcher, SECOND_NS, TimeRange};

/// Which series are rolled, and to which steps.
pub trait RollupSteps: Send + Sync {
    /// Changes whenever a result of the other functions changes.
    fn version(&self) -> u64;

    /// Ages in nanoseconds, ascending. The due steps of a day change only when its end becomes older
    /// than one of these.
    fn ages_ns(&self) -> &[i64];

    /// Only series that match one of these lists are rolled.
    fn any_of(&self) -> Vec<Vec<Matcher>>;

    /// The steps of a series in a day that ended `age_ns` nanoseconds ago, if its points are rolled at
    /// that age.
    fn steps(&self, labels: &Labels, age_ns: i64) -> Option<RollupStep>;
}

/// The steps before and after, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollupStep {
    /// The step of the points: of several points in one such step the last one counts.
    pub finest: i64,
    /// The step of the rollup.
    pub step: i64,
}

/// Returns the current rules; `None` while there are none that can be trusted.
pub type RollupsNow = Arc<dyn Fn() -> Option<Arc<dyn RollupSteps>> + Send + Sync>;

/// The rollups of a day, or of a part of it.
#[derive(Clone)]
pub(crate) struct DayRollup {
    steps: Arc<dyn RollupSteps>,
    /// The time range that is rolled.
    window: TimeRange,
    /// The time since the end of the day.
    age_ns: i64,
}

impl DayRollup {
    /// The rollups of a day at its current age; `None` when no rule concerns a day of this age.
    pub(crate) fn new(steps: Arc<dyn RollupSteps>, day: TimeRange, now_ns: i64) -> Option<Self> {
        let rollup = Self { steps, window: day, age_ns: now_ns.saturating_sub(day.end) };
        (rollup.over() > 0).then_some(rollup)
    }

    /// The same for a part of the day.
    pub(crate) fn within(&self, window: TimeRange) -> Self {
        Self { window, ..self.clone() }
    }

    /// How many of the ages the day has passed.
    pub(crate) fn over(&self) -> usize {
        self.steps.ages_ns().partition_point(|age_ns| *age_ns < self.age_ns)
    }

    /// Changes whenever other steps may be due.
    pub(crate) fn version(&self) -> u64 {
        self.steps.version()
    }

    pub(crate) fn window(&self) -> TimeRange {
        self.window
    }

    /// Only series that match one of these lists are rolled.
    pub(crate) fn any_of(&self) -> Vec<Vec<Matcher>> {
        self.steps.any_of()
    }

    /// The steps of a series, by its labels without those of a rollup. No step extends beyond the window.
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
