//! The times for which a panel asks at a refresh: the step that fits its range, and the range up to now.

/// Steps that panels use, in seconds; the first is the interval of scrapes.
const STEPS: [i64; 8] = [15, 20, 30, 60, 120, 300, 600, 1_800];
/// Number of points of a series for which a panel has room, approximately.
const POINTS: i64 = 1_000;

/// A range with its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// The first instant, milliseconds since the epoch.
    pub(super) start_ms: i64,
    /// The last instant, milliseconds since the epoch.
    pub(super) end_ms: i64,
    /// The step in seconds.
    pub(super) step_s: i64,
}

impl Window {
    /// The window of this length that ends now. If it is aligned, both ends are rounded down to multiples of
    /// the step, as dashboards do.
    pub(super) fn until(now_ms: i64, length_s: i64, aligned: bool) -> Self {
        let step_s = step_of(length_s);
        let rounded = |ms: i64| if aligned { ms - ms.rem_euclid(step_s * 1_000) } else { ms };
        Self { start_ms: rounded(now_ms - length_s * 1_000), end_ms: rounded(now_ms), step_s }
    }
}

/// The step that is nearest to a range divided by the number of points.
pub(super) fn step_of(length_s: i64) -> i64 {
    // Compared in multiples of `POINTS`, so that nothing is rounded.
    let distance = |step: &i64| (step * POINTS - length_s).abs();
    STEPS.into_iter().min_by_key(distance).unwrap_or(STEPS[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_S: i64 = 3_600;

    #[test]
    fn steps_fit_the_range() {
        let hours = [1, 6, 12, 24, 48, 24 * 7, 24 * 365];
        assert_eq!(hours.map(|h| step_of(h * HOUR_S)), [15, 20, 30, 60, 120, 600, 1_800]);
    }

    #[test]
    fn an_aligned_window_stays_the_same_within_a_step() {
        let now_ms = 1_795_176_007_123;
        let aligned = Window::until(now_ms, HOUR_S, true);
        assert_eq!((aligned.start_ms, aligned.end_ms), (1_795_172_400_000, 1_795_176_000_000));
        assert_eq!(Window::until(now_ms + 7_000, HOUR_S, true), aligned);
        assert_ne!(Window::until(now_ms + 8_000, HOUR_S, true), aligned);
        let exact = Window::until(now_ms, HOUR_S, false);
        assert_eq!((exact.start_ms, exact.end_ms, exact.step_s), (now_ms - 3_600_000, now_ms, 15));
    }
}
