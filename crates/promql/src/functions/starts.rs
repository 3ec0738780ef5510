//! Start timestamps: the times at which counters began, which show restarts that values do not.
//!
//! **Invariants:** an unknown start timestamp, which is 0, shows no restart.

/// Whether start timestamps show that the counter was restarted between two samples.
pub fn start_reset(start_before: i64, before: i64, start: i64, at: i64) -> bool {
    if start == start_before || start == 0 || start >= at || start < before {
        return false;
    }
    if start > before {
        return true;
    }
    // It starts at the previous sample: a delta, unless that sample's own start is unknown.
    start_before <= before && start_before != 0 && start_before != before
}

/// Whether the start timestamp is before the previous sample, although the counter was not the same.
pub fn starts_overlap(start_before: i64, before: i64, start: i64) -> bool {
    start != 0 && start < before && start != start_before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_start_is_a_reset() {
        // The start and the time of one sample, the start and the time of the next.
        for (before, next) in [((10, 20), (25, 30)), ((0, 20), (25, 30)), ((10, 20), (20, 30))] {
            assert!(start_reset(before.0, before.1, next.0, next.1), "{before:?} {next:?}");
        }
        for (before, next) in [
            ((10, 20), (0, 30)),  // the start is missing
            ((10, 20), (30, 30)), // the start equals the time: unknown
            ((10, 20), (35, 30)), // the start is after the sample
            ((10, 20), (10, 30)), // the same start
            ((25, 20), (25, 30)), // the same start, although it is after the first sample
            ((10, 20), (15, 30)), // the start is before the first sample
            ((0, 20), (20, 30)),  // the start is at the first sample, whose own is missing
            ((20, 20), (20, 30)), // the start is at the first sample, whose own is unknown
            ((25, 20), (20, 30)), // the start is at the first sample, whose own is invalid
        ] {
            assert!(!start_reset(before.0, before.1, next.0, next.1), "{before:?} {next:?}");
        }
    }
}
