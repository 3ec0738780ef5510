//! Times: the steps of a query, the evaluation time of a selector, and the bounds of windows.
//!
//! **Invariants:** times are in milliseconds. Those of a plan are at most [`TIME_MAX`] from 1970, and sums
//! of others saturate.

use crate::column::Grid;

/// The largest distance of a time from 1970, in milliseconds. Sums of a few such times do not overflow.
pub(crate) const TIME_MAX: i64 = 1 << 60;

/// The steps at which a query is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The time of the first step, in milliseconds.
    pub start: i64,
    /// The end of the range, in milliseconds, inclusive.
    pub end: i64,
    /// The time between two steps, in milliseconds; 0 for an instant query.
    pub step: i64,
}

impl Times {
    /// The times with start and end rounded down to multiples of the step. An instant stays unchanged.
    pub fn aligned(self) -> Self {
        if self.step <= 0 {
            return self;
        }
        let down = |time: i64| time.saturating_sub(time.rem_euclid(self.step));
        Self { start: down(self.start), end: down(self.end), step: self.step }
    }

    /// The steps as a grid.
    pub fn grid(&self) -> Grid {
        let interval = self.step.max(1);
        let steps =
            if self.end < self.start { 0 } else { self.end.saturating_sub(self.start) / interval + 1 };
        Grid { start: self.start, interval, steps: usize::try_from(steps).unwrap_or(0) }
    }
}

/// The evaluation time of a selector.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// A fixed time in place of the step's, in milliseconds.
    pub at: Option<i64>,
    /// The offset that is subtracted, in milliseconds.
    pub offset: i64,
}

impl Timing {
    /// The time at which a step is evaluated, in milliseconds.
    #[inline]
    pub fn reference(&self, time: i64) -> i64 {
        self.at.unwrap_or(time).saturating_sub(self.offset)
    }
}

/// How a window treats the samples around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extension {
    /// Ignores them.
    #[default]
    None,
    /// `anchored`: the last sample before the window becomes its first one.
    Anchored,
    /// `smoothed`: values at both bounds of the window are interpolated.
    Smoothed,
}

/// The bounds of the window of each step. Times are in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// The end of the window.
    pub timing: Timing,
    /// The length of the window.
    pub range: i64,
    /// How far outside the window samples are read, if it is extended.
    pub lookback: i64,
    /// The modifier that extends it, if there is one.
    pub extension: Extension,
}

impl Geometry {
    /// The bounds of the window that ends at `end`: the first exclusive, the second inclusive.
    #[inline]
    pub fn bounds(&self, end: i64) -> (i64, i64) {
        let start = end.saturating_sub(self.range);
        match self.extension {
            Extension::None => (start, end),
            Extension::Anchored => (start.saturating_sub(self.lookback), end),
            Extension::Smoothed => (start.saturating_sub(self.lookback), end.saturating_add(self.lookback)),
        }
    }
}
