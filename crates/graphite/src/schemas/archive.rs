//! Archives, and whisper's rule for choosing the one that a window is read from.

use crate::source::Window;

/// An archive: values of one step, and how far back they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Archive {
    /// The distance of two values, in seconds.
    pub step: i64,
    /// How far back values are kept, in seconds.
    pub retention: i64,
}

/// The values that a window reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The time of the first value, in seconds since 1970.
    pub start: i64,
    /// The time after the last value, exclusive.
    pub end: i64,
    /// The index of the archive.
    pub archive: usize,
}

impl Reading {
    /// Chooses the archive to read: the finest one that reaches back to the start of the window, else the
    /// coarsest. `None` if the window is in the future, or before all archives.
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
        // A window at the limits of its type has no complete step.
        (start < end && (end - start) % step == 0).then_some(Self { start, end, archive })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_finest_archive_that_covers_the_window_is_read() {
        let archives = [Archive { step: 10, retention: 3600 }, Archive { step: 60, retention: 86_400 }];
        let read = |from, until| {
            let reading = Reading::of(&archives, Window { from, until, now: 100_000 })?;
            Some((reading.start, reading.end, archives[reading.archive].step))
        };
        assert_eq!(read(96_400, 100_000), Some((96_410, 100_010, 10)));
        assert_eq!(read(96_399, 99_985), Some((96_420, 100_020, 60)));
        assert_eq!(read(0, 50_000), Some((13_620, 50_040, 60)), "the window is cut at the retention");
        assert_eq!(read(99_991, 99_999), Some((100_000, 100_010, 10)), "one value");
        assert_eq!(read(99_990, 200_000), Some((100_000, 100_010, 10)), "the window is cut at the present");
        assert_eq!(read(100_001, 200_000), None);
        assert_eq!(read(0, 13_000), None);
        let endless = [Archive { step: 60, retention: i64::MAX }];
        for (from, until, now) in
            [(i64::MIN, i64::MAX, i64::MAX), (i64::MAX - 5, i64::MAX, i64::MAX), (i64::MIN, 0, i64::MIN)]
        {
            // Arithmetic must not overflow.
            let _ = Reading::of(&endless, Window { from, until, now });
        }
    }
}
