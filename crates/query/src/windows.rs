//! The windows of a range query: for every step `t` of a grid, the rows with `t - range < timestamp <=
//! t`.
//!
//! The edges of all windows divide time into slots, such that all rows of a slot are in the windows of
//! the same steps. So a row is added to one slot, however much windows overlap, and a window is a run of
//! adjacent slots.

/// The steps of a query and the windows that end at them. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// The instant of the first step minus the offset.
    first: i64,
    step: i64,
    steps: usize,
    range: i64,
}

/// The slots of some windows.
///
/// There are two arrangements. When windows are not longer than the span of the steps, their starts and
/// ends are on a common grid with one or two slots per step. When they are longer, all starts precede
/// all ends, and the time between them is one slot that belongs to every window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Exclusive lower edge of the first slot.
    base: i64,
    /// The instant of the first step.
    first: i64,
    step: u64,
    steps: usize,
    last: i64,
    arrangement: Arrangement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrangement {
    /// A window consists of `whole` steps and `rest` nanoseconds.
    Grid { whole: usize, rest: u64 },
    /// Slots between the starts, one slot in the middle, and slots between the ends.
    Apart,
}

impl Windows {
    /// Windows of length `range` that end at `first`, `first + step`, ... up to `last`, all shifted back
    /// by `offset`. `step` and `range` are positive; an instant query has `first == last`.
    pub fn new(first: i64, last: i64, step: i64, range: i64, offset: i64) -> Self {
        let step = step.max(1);
        let steps = if last < first { 0 } else { (last.abs_diff(first) / step.unsigned_abs()) as usize + 1 };
        Self { first: first.saturating_sub(offset), step, steps, range: range.max(1) }
    }

    /// The number of steps.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Length of a window in nanoseconds.
    pub fn range_ns(&self) -> i64 {
        self.range
    }

    /// End of the window of a step, inclusive, with the offset subtracted.
    pub fn end_of(&self, step: usize) -> i64 {
        self.first.saturating_add(self.step.saturating_mul(step as i64))
    }

    /// The first and last instant, both inclusive, that belong to any window.
    pub fn bounds(&self) -> (i64, i64) {
        let last = self.end_of(self.steps.saturating_sub(1));
        (self.first.saturating_sub(self.range).saturating_add(1), last)
    }

    /// Whether every edge of a window is a multiple of `unit` nanoseconds.
    pub fn on_grid(&self, unit: i64) -> bool {
        let single = self.steps <= 1;
        self.first % unit == 0 && self.range % unit == 0 && (single || self.step % unit == 0)
    }

    /// The slots of the windows.
    pub fn slots(&self) -> Slots {
        let last = self.end_of(self.steps.saturating_sub(1));
        let base = self.first.saturating_sub(self.range);
        let (step, range) = (self.step.unsigned_abs(), self.first.abs_diff(base));
        let span = last.abs_diff(self.first);
        let arrangement = if range > span {
            Arrangement::Apart
        } else {
            Arrangement::Grid { whole: (range / step) as usize, rest: range % step }
        };
        Slots { base, first: self.first, step, steps: self.steps, last, arrangement }
    }
}

impl Slots {
    /// The number of slots.
    pub fn len(&self) -> usize {
        if self.steps == 0 {
            return 0;
        }
        let last_step = self.steps - 1;
        match self.arrangement {
            Arrangement::Apart => 2 * last_step + 1,
            Arrangement::Grid { whole, rest: 0 } => last_step + whole,
            Arrangement::Grid { whole, .. } => 2 * (last_step + whole) + 1,
        }
    }

    /// Whether there are no slots.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The slot of an instant, and the last instant of that slot; `None` outside of the bounds of all
    /// windows. A slot may be a gap between two windows; see [`Self::is_gap`].
    pub fn find(&self, timestamp: i64) -> Option<(usize, i64)> {
        if timestamp <= self.base || timestamp > self.last || self.steps == 0 {
            return None;
        }
        let last_step = self.steps - 1;
        // The complete steps between an edge and the timestamp, and the rest.
        let beyond = |edge: i64| {
            let distance = timestamp.abs_diff(edge); // at least 1
            let begun = (distance - 1) / self.step;
            (begun as usize, distance - begun * self.step)
        };
        let until = |inside: u64, length: u64| timestamp.saturating_add_unsigned(length - inside);
        let (begun, inside) = beyond(self.base);
        match self.arrangement {
            Arrangement::Apart if timestamp > self.first => {
                let (begun, inside) = beyond(self.first);
                Some((last_step + 1 + begun, until(inside, self.step)))
            }
            Arrangement::Apart if begun < last_step => Some((begun, until(inside, self.step))),
            Arrangement::Apart => Some((last_step, self.first)),
            Arrangement::Grid { rest: 0, .. } => Some((begun, until(inside, self.step))),
            Arrangement::Grid { rest, .. } if inside <= rest => Some((2 * begun, until(inside, rest))),
            Arrangement::Grid { .. } => Some((2 * begun + 1, until(inside, self.step))),
        }
    }

    /// Whether a slot is between two windows, so that its rows belong to no step.
    pub fn is_gap(&self, slot: usize) -> bool {
        matches!(self.arrangement, Arrangement::Grid { whole: 0, .. }) && slot % 2 == 1
    }

    /// The slots of a step's window. Start and end rise with the step.
    pub fn of_step(&self, step: usize) -> std::ops::Range<usize> {
        match self.arrangement {
            Arrangement::Apart => step..self.steps + step,
            Arrangement::Grid { whole, rest: 0 } => step..step + whole,
            Arrangement::Grid { whole, .. } => 2 * step..2 * (step + whole) + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every instant is in exactly the windows of the definition, for any step and range.
    #[test]
    fn slots_follow_the_definition_of_windows() {
        for (first, last, step, range, offset) in [
            (100, 100, 1, 30, 0),
            (100, 160, 10, 10, 0),
            (100, 160, 10, 35, 0),
            (100, 160, 10, 30, 5),
            (100, 160, 20, 7, 0),
            (-50, 37, 9, 40, -3),
            (0, 9, 10, 25, 0),
            (10, 0, 10, 25, 0),
            (100, 160, 10, 60, 0),
            (100, 160, 10, 61, 0),
            (100, 160, 10, 70, 0),
            (100, 160, 10, 700, 3),
            (100, 165, 10, 64, 0),
        ] {
            let windows = Windows::new(first, last, step, range, offset);
            let slots = windows.slots();
            for t in first - range - offset.abs() - 20..last + 60 {
                let found = slots.find(t);
                for s in 0..windows.steps() {
                    let end = windows.end_of(s);
                    let inside = end - range < t && t <= end;
                    let by_slot = found.is_some_and(|(slot, _)| slots.of_step(s).contains(&slot));
                    assert_eq!(inside, by_slot, "t={t} step={s} of {windows:?}");
                }
                let in_any = (0..windows.steps()).any(|s| {
                    let end = windows.end_of(s);
                    end - range < t && t <= end
                });
                assert_eq!(in_any, found.is_some_and(|(slot, _)| !slots.is_gap(slot)), "t={t} {windows:?}");
                if let Some((slot, until)) = found {
                    assert!(slot < slots.len(), "{slot} of {}", slots.len());
                    assert!(until >= t);
                    let same = slots.find(until.min(windows.bounds().1));
                    assert_eq!(same.map(|f| f.0), Some(slot), "t={t} until={until} {windows:?}");
                }
            }
        }
    }

    #[test]
    fn long_windows_need_few_slots() {
        let day = 86_400_000_000_000;
        let slots = Windows::new(0, 10_000_000_000, 1_000_000_000, 30 * day, 0).slots();
        assert_eq!(slots.len(), 21);
        let extreme = Windows::new(i64::MIN + 5, i64::MAX, 1, i64::MAX, i64::MIN);
        let _ = (extreme.bounds(), extreme.slots().find(0), extreme.slots().find(i64::MAX));
    }

    #[test]
    fn bounds_extend_from_the_first_window_to_the_last_step() {
        let windows = Windows::new(100, 160, 20, 30, 10);
        assert_eq!((windows.steps(), windows.bounds()), (4, (61, 150)));
        assert!(Windows::new(120, 240, 60, 60, 0).on_grid(60));
        assert!(!Windows::new(120, 240, 30, 60, 0).on_grid(60));
        assert!(!Windows::new(120, 240, 60, 60, 1).on_grid(60));
        assert!(Windows::new(120, 120, 7, 60, 0).on_grid(60), "a single step has no distance");
    }
}
