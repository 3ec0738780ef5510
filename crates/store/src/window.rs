//! How many requests of a lane may be under way: grows slowly while answers are good, is halved when
//! the store asks for less.
//!
//! Additive increase, multiplicative decrease (Chiu and Jain 1989): a full window of good answers makes
//! it larger by one slot; a 503, a 429, a "slow down" or a time-out halves it. Answers to requests that
//! began before the last cut belong to the same trouble and do not cut again, as TCP counts a round
//! trip once. A window that is not used does not grow. The floor is the lane's reservation. Pure
//! arithmetic.

use std::time::Duration;

/// How small and how large a window may be. Equal bounds make it fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Reserved slots: the window is never smaller.
    pub floor: u32,
    /// Slots at the beginning.
    pub start: u32,
    /// The window is never larger.
    pub ceiling: u32,
}

impl Bounds {
    pub fn fixed(slots: u32) -> Self {
        Self { floor: slots, start: slots, ceiling: slots }
    }
}

/// What a sign of trouble did to a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Nothing: the window is fixed, or was cut for this trouble already.
    None,
    /// It was halved.
    Halved,
    /// It is as small as it may be already.
    AtFloor,
}

/// A window.
#[derive(Debug)]
pub(crate) struct Window {
    bounds: Bounds,
    size: f64,
    cut_at: Option<Duration>,
}

impl Window {
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, size: f64::from(bounds.start), cut_at: None }
    }

    /// Requests that may be under way.
    pub fn slots(&self) -> u32 {
        self.size as u32
    }

    /// When trouble last cut it.
    pub fn cut_at(&self) -> Option<Duration> {
        self.cut_at
    }

    /// A good answer came while `under_way` requests, this one included, were under way.
    pub fn grow(&mut self, under_way: u32) {
        if under_way * 2 > self.slots() {
            self.size = (self.size + 1.0 / self.size).min(f64::from(self.bounds.ceiling));
        }
    }

    /// A request that began at `began` met trouble.
    pub fn cut(&mut self, began: Duration, now: Duration) -> Cut {
        let is_fixed = self.bounds.floor == self.bounds.ceiling;
        if is_fixed || self.cut_at.is_some_and(|cut_at| began < cut_at) {
            return Cut::None;
        }
        self.cut_at = Some(now);
        let floor = f64::from(self.bounds.floor);
        if self.size < floor + 1.0 {
            return Cut::AtFloor;
        }
        self.size = (self.size / 2.0).max(floor);
        Cut::Halved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { floor: 4, start: 32, ceiling: 64 };

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn it_grows_by_one_slot_per_window_of_good_answers_up_to_the_ceiling() {
        let mut window = Window::new(BOUNDS);
        (0..33).for_each(|_| window.grow(32));
        assert_eq!(window.slots(), 33);
        (0..10_000).for_each(|_| window.grow(64));
        assert_eq!(window.slots(), 64);
        let mut unused = Window::new(BOUNDS);
        (0..10_000).for_each(|_| unused.grow(16));
        assert_eq!(unused.slots(), 32, "half of it was enough");
    }

    #[test]
    fn one_trouble_halves_it_once_down_to_the_floor() {
        let mut window = Window::new(BOUNDS);
        assert_eq!(window.cut(at(10), at(20)), Cut::Halved);
        assert_eq!(window.cut(at(19), at(21)), Cut::None, "sent before the cut");
        assert_eq!(window.slots(), 16);
        assert_eq!(window.cut(at(20), at(30)), Cut::Halved);
        assert_eq!(window.cut(at(30), at(40)), Cut::Halved);
        assert_eq!(window.cut(at(40), at(50)), Cut::AtFloor);
        assert_eq!(window.slots(), 4);
        let mut fixed = Window::new(Bounds::fixed(4));
        assert_eq!(fixed.cut(at(0), at(1)), Cut::None);
        (0..100).for_each(|_| fixed.grow(4));
        assert_eq!(fixed.slots(), 4);
    }
}
