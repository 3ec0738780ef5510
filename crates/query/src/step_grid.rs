//! The grid of the steps of a query, and the units of the step cache on it.
//!
//! Units are numbered from the epoch, so that queries at different times use the same units.

/// The fewest steps of a unit, and the shortest time that it covers: short enough that continuously
/// arriving rows invalidate little, long enough that storing a unit pays off.
const UNIT_STEPS_MIN: i64 = 8;
const UNIT_NS_MIN: i64 = 300 * 1_000_000_000;
/// The instants at which a query is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTimes {
    /// The first instant, in nanoseconds since the epoch.
    pub first_ns: i64,
    /// An upper bound of the last instant, inclusive.
    pub last_ns: i64,
    /// Distance of the instants in nanoseconds; at least 1.
    pub step_ns: i64,
}

impl StepTimes {
    /// The number of instants.
    pub fn count(&self) -> usize {
        if self.last_ns < self.first_ns {
            0
        } else {
            (self.last_ns.saturating_sub(self.first_ns) / self.step_ns.max(1)) as usize + 1
        }
    }
}

/// The instants at which steps can be, grouped in units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) phase_ns: i64,
    pub(crate) step_ns: i64,
    unit_steps: i64,
}

/// The part of a unit that a query needs, by numbers of steps (inclusive).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) unit: i64,
    pub(crate) first: i64,
    pub(crate) last: i64,
}

impl Asked {
    /// The number of steps.
    pub(crate) fn count(&self) -> i64 {
        self.last - self.first + 1
    }
}

impl Grid {
    pub(crate) fn of(steps: &StepTimes) -> Self {
        let step_ns = steps.step_ns.max(1);
        let unit_steps = (UNIT_NS_MIN.saturating_add(step_ns - 1) / step_ns).max(UNIT_STEPS_MIN);
        Self { phase_ns: steps.first_ns.rem_euclid(step_ns), step_ns, unit_steps }
    }

    pub(crate) fn number(&self, at_ns: i64) -> i64 {
        at_ns.saturating_sub(self.phase_ns).div_euclid(self.step_ns)
    }

    pub(crate) fn instant(&self, number: i64) -> i64 {
        number.saturating_mul(self.step_ns).saturating_add(self.phase_ns)
    }

    pub(crate) fn unit_of(&self, number: i64) -> i64 {
        number.div_euclid(self.unit_steps)
    }

    /// The first and last step of a unit.
    pub(crate) fn steps_of(&self, unit: i64) -> (i64, i64) {
        let first = unit.saturating_mul(self.unit_steps);
        (first, first.saturating_add(self.unit_steps - 1))
    }

    /// The units that contain the steps, in order.
    pub(crate) fn asked(&self, steps: &StepTimes) -> Vec<Asked> {
        let count = steps.count() as i64;
        if count == 0 {
            return Vec::new();
        }
        let first = self.number(steps.first_ns);
        let last = first.saturating_add(count - 1);
        let part = |unit| {
            let (from, to) = self.steps_of(unit);
            Asked { unit, first: from.max(first), last: to.min(last) }
        };
        (self.unit_of(first)..=self.unit_of(last)).map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn steps(first: i64, last: i64, step: i64) -> StepTimes {
        StepTimes { first_ns: first * S, last_ns: last * S, step_ns: step * S }
    }

    /// Goal: every step is in exactly one unit, and a later query on the same grid uses the same units.
    #[test]
    fn units_partition_the_steps_and_stay_the_same() {
        for (first, last, step) in [(0, 3_600, 15), (7, 10_007, 345), (-900, 900, 60), (300, 300, 60)] {
            let steps = steps(first, last, step);
            let grid = Grid::of(&steps);
            let asked = grid.asked(&steps);
            let mut at = asked[0].first;
            for a in &asked {
                assert_eq!(a.first, at, "{first} {last} {step}");
                assert!(grid.unit_of(a.first) == a.unit && grid.unit_of(a.last) == a.unit);
                at = a.last + 1;
            }
            assert_eq!(grid.instant(asked[0].first), steps.first_ns);
            assert_eq!((at - asked[0].first) as usize, steps.count());
            let later =
                StepTimes { first_ns: steps.first_ns + step * S, last_ns: steps.last_ns + step * S, ..steps };
            assert_eq!(Grid::of(&later).asked(&later)[0].unit, grid.unit_of(asked[0].first + 1));
        }
        let none = steps(10, 0, 1);
        assert!(Grid::of(&none).asked(&none).is_empty());
    }
}
