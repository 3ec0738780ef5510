//! An archive, and which one a window is read from: whisper's rule.

use crate::source::Window;

/// Values of one step, as far back as they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Archive {
    /// Seconds from one value to the next.
    pub step: i64,
    /// Seconds back from the present.
    pub retention: i64,
}

/// The values that a window has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Time of the first value.
    pub start: i64,
    /// Time after the last value.
    pub end: i64,
    /// Which of the archives it is.
    pub archive: usize,
}

impl Reading {
    /// What is read of these archives: the finest that reaches back to the begin of the window, else the
    /// coarsest; nothing when the window is in the future or before all of them.
    pub fn of(archives: &[Archive], window: Window) -> Option<Self> {
        let longest = archives.last()?.retention;
        let oldest = window.now.saturating_sub(longest);
        if window.from > window.now || window.until < oldest {
            return None;
        }
        let (from, until) = (window.from.max(oldest), window.until.min(window.now));
        let back = window.now.saturating_sub(from);
        let archive = archives.iter().position(|archive| archive.retention >= back);
        let archive = archive.unwrap_or(archives.len() - 1);
        let step = archives[archive].step;
        let after = |time: i64| time.saturating_sub(time.rem_euclid(step)).saturating_add(step);
        let (start, end) = (after(from), after(until));
        let end = if start == end { end.saturating_add(step) } else { end };
        // A window at the edge of what a number can say has no whole step.
        (start < end && (end - start) % step == 0).then_some(Self { start, end, archive })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_finest_archive_that_reaches_back_is_read() {
        let archives = [Archive { step: 10, retention: 3600 }, Archive { step: 60, retention: 86_400 }];
        let read = |from, until| {
            let reading = Reading::of(&archives, Window { from, until, now: 100_000 })?;
            Some((reading.start, reading.end, archives[reading.archive].step))
        };
        assert_eq!(read(96_400, 100_000), Some((96_410, 100_010, 10)));
        assert_eq!(read(96_399, 99_985), Some((96_420, 100_020, 60)));
        assert_eq!(read(0, 50_000), Some((13_620, 50_040, 60)), "the past is cut");
        assert_eq!(read(99_991, 99_999), Some((100_000, 100_010, 10)), "one value");
        assert_eq!(read(99_990, 200_000), Some((100_000, 100_010, 10)), "the future is cut");
        assert_eq!(read(100_001, 200_000), None);
        assert_eq!(read(0, 13_000), None);
        let endless = [Archive { step: 60, retention: i64::MAX }];
        for (from, until, now) in
            [(i64::MIN, i64::MAX, i64::MAX), (i64::MAX - 5, i64::MAX, i64::MAX), (i64::MIN, 0, i64::MIN)]
        {
            // Nothing overflows.
            let _ = Reading::of(&endless, Window { from, until, now });
        }
    }
}
