//! The number of concurrent requests of a lane: grows slowly while requests succeed, and is halved when
//! the store throttles.
//!
//! Additive increase, multiplicative decrease (Chiu and Jain, 1989). The successes of a full window
//! enlarge it by one slot; a 503, a 429, a "slow down" or a timeout halves it. A failure of a request
//! that began before the last cut belongs to the same incident and does not cut again, as TCP reacts
//! once per round trip. A window that is not used does not grow. The floor is the reservation of the
//! lane. This module is pure arithmetic.

use std::time::Duration;

/// The bounds of a window. Equal bounds make it fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Reserved slots: the smallest window.
    pub floor: u32,
    /// The initial window.
    pub start: u32,
    /// The largest window.
    pub ceiling: u32,
}

impl Bounds {
    pub fn fixed(slots: u32) -> Self {
        Self { floor: slots, start: slots, ceiling: slots }
    }
}

/// The effect of a failure on a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// None: the window is fixed, or was cut for this incident already.
    None,
    /// The window was halved.
    Halved,
    /// The window is the smallest already.
    AtFloor,
}

/// A window of concurrent requests.
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

    /// The most requests in progress.
    pub fn slots(&self) -> u32 {
        self.size as u32
    }

    /// The time of the last cut.
    pub fn cut_at(&self) -> Option<Duration> {
        self.cut_at
    }

    /// Notes a success while `under_way` requests, including this one, were in progress.
    pub fn grow(&mut self, under_way: u32) {
        if under_way * 2 > self.slots() {
            self.size = (self.size + 1.0 / self.size).min(f64::from(self.bounds.ceiling));
        }
    }

    /// Notes that a request that began at `began` was throttled or timed out.
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
    fn the_window_grows_by_one_slot_per_window_of_successes_up_to_the_ceiling() {
        let mut window = Window::new(BOUNDS);
        (0..33).for_each(|_| window.grow(32));
        assert_eq!(window.slots(), 33);
        (0..10_000).for_each(|_| window.grow(64));
        assert_eq!(window.slots(), 64);
        let mut unused = Window::new(BOUNDS);
        (0..10_000).for_each(|_| unused.grow(16));
        assert_eq!(unused.slots(), 32, "only half of it was used");
    }

    #[test]
    fn one_incident_halves_the_window_once_down_to_the_floor() {
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
