//! The windows of a range query: for every step `t` of a grid the rows with `t - R < timestamp <= t`.
//!
//! The edges of all windows cut time into slots: every row of a slot belongs to the same steps. So a row
//! is added to one slot, whatever the overlap, and a window is a run of neighbouring slots.

/// Steps of a query and the windows that end at them. Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// The first step's instant, as the data sees it (offset taken off).
    first: i64,
    step: i64,
    steps: usize,
    range: i64,
}

/// Where the slots of a grid lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Exclusive lower edge of the first slot.
    base: i64,
    step: i64,
    /// Whole steps in a window.
    whole: usize,
    /// What is left of a window beyond whole steps; 0 when slots are whole steps.
    rest: i64,
    steps: usize,
    last: i64,
}

impl Windows {
    /// Windows of `range` that end at `first`, `first + step`, ... up to `last`, all taken `offset` earlier.
    /// `step` and `range` are positive; an instant query has `first == last`.
    pub fn new(first: i64, last: i64, step: i64, range: i64, offset: i64) -> Self {
        let step = step.max(1);
        let steps = if last < first { 0 } else { (last.saturating_sub(first) / step) as usize + 1 };
        Self { first: first.saturating_sub(offset), step, steps, range: range.max(1) }
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Length of a window in nanoseconds.
    pub fn range_ns(&self) -> i64 {
        self.range
    }

    /// End of the window of a step, offset taken off.
    pub fn end_of(&self, step: usize) -> i64 {
        self.first.saturating_add(self.step.saturating_mul(step as i64))
    }

    /// The rows that any window holds: from the first included instant to the last included one.
    pub fn bounds(&self) -> (i64, i64) {
        let last = self.end_of(self.steps.saturating_sub(1));
        (self.first.saturating_sub(self.range).saturating_add(1), last)
    }

    /// Whether every window edge is on a multiple of `unit` nanoseconds.
    pub fn on_grid(&self, unit: i64) -> bool {
        let single = self.steps <= 1;
        self.first % unit == 0 && self.range % unit == 0 && (single || self.step % unit == 0)
    }

    /// The slots between the edges.
    pub fn slots(&self) -> Slots {
        // A single window is one slot: a step as long as the window makes it so.
        let step = if self.steps <= 1 { self.range } else { self.step };
        Slots {
            base: self.first.saturating_sub(self.range),
            step,
            whole: (self.range / step) as usize,
            rest: self.range % step,
            steps: self.steps,
            last: self.end_of(self.steps.saturating_sub(1)),
        }
    }
}

impl Slots {
    /// How many slots there are.
    pub fn len(&self) -> usize {
        if self.steps == 0 {
            return 0;
        }
        let last_step = self.steps - 1;
        if self.rest == 0 { last_step + self.whole } else { 2 * (last_step + self.whole) + 1 }
    }

    /// Whether there is no slot.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The slot of an instant and the last instant of that slot; `None` outside of all windows' bounds.
    /// A slot between two windows belongs to no step.
    pub fn find(&self, timestamp: i64) -> Option<(usize, i64)> {
        if timestamp <= self.base || timestamp > self.last || self.steps == 0 {
            return None;
        }
        let distance = timestamp - self.base; // at least 1
        let whole = (distance - 1) / self.step;
        let start = self.base + whole * self.step;
        let slot = whole as usize;
        if self.rest == 0 {
            return Some((slot, start + self.step));
        }
        let inside = timestamp - start; // 1 ..= step
        if inside <= self.rest {
            Some((2 * slot, start + self.rest))
        } else {
            Some((2 * slot + 1, start + self.step))
        }
    }

    /// Whether a slot lies between two windows, so that its rows belong to no step.
    pub fn is_gap(&self, slot: usize) -> bool {
        self.whole == 0 && slot % 2 == 1
    }

    /// The slots of a step's window.
    pub fn of_step(&self, step: usize) -> std::ops::Range<usize> {
        if self.rest == 0 { step..step + self.whole } else { 2 * step..2 * (step + self.whole) + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every instant is in exactly the windows that the definition says, whatever step and range are.
    #[test]
    fn slots_agree_with_the_definition_of_windows() {
        for (first, last, step, range, offset) in [
            (100, 100, 1, 30, 0),
            (100, 160, 10, 10, 0),
            (100, 160, 10, 35, 0),
            (100, 160, 10, 30, 5),
            (100, 160, 20, 7, 0),
            (-50, 37, 9, 40, -3),
            (0, 9, 10, 25, 0),
            (10, 0, 10, 25, 0),
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
    fn bounds_hold_the_first_window_and_the_last_step() {
        let windows = Windows::new(100, 160, 20, 30, 10);
        assert_eq!((windows.steps(), windows.bounds()), (4, (61, 150)));
        assert!(Windows::new(120, 240, 60, 60, 0).on_grid(60));
        assert!(!Windows::new(120, 240, 30, 60, 0).on_grid(60));
        assert!(!Windows::new(120, 240, 60, 60, 1).on_grid(60));
        assert!(Windows::new(120, 120, 7, 60, 0).on_grid(60), "one step has no spacing");
    }
}
