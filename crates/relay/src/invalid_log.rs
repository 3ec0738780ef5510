//! Logs points whose data fails a validation (`else log`).
//!
//! **Invariant.** Senders control the number of such points, so the log lines per second are bounded.
//! The counter `invalidData` counts every one.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The largest number of log lines per second.
const LINES_MAX: u32 = 10;
/// Bytes of a point that a log line shows.
const SHOWN_BYTES_MAX: usize = 200;

/// Counts the lines of the current second.
#[derive(Debug, Default)]
pub(crate) struct InvalidLog(Mutex<Second>);

#[derive(Debug, Default)]
struct Second {
    end: Duration,
    lines: u32,
}

impl InvalidLog {
    /// Logs a point, unless the current second has its lines already; `now` is monotonic.
    pub(crate) fn point(&self, name: &[u8], data: &[u8], now: Duration) {
        let shown =
            |text: &[u8]| String::from_utf8_lossy(&text[..text.len().min(SHOWN_BYTES_MAX)]).into_owned();
        match self.take(now) {
            None => {}
            Some(LINES_MAX) => tracing::warn!(
                name = shown(name),
                data = shown(data),
                "a point is dropped: its data is not valid; further ones in this second are not logged"
            ),
            Some(_) => tracing::warn!(
                name = shown(name),
                data = shown(data),
                "a point is dropped: its data is not valid"
            ),
        }
    }

    /// Returns the number of the line that may be written now; `None` if the limit is reached.
    fn take(&self, now: Duration) -> Option<u32> {
        let mut second = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now >= second.end {
            *second = Second { end: now + Duration::from_secs(1), lines: 0 };
        }
        if second.lines == LINES_MAX {
            return None;
        }
        second.lines += 1;
        Some(second.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_per_second_are_bounded() {
        let log = InvalidLog::default();
        let lines = |now| std::iter::repeat_with(|| log.take(now)).take(100).flatten().count();
        let seconds = [0, 999, 1_000, 60_000].map(Duration::from_millis);
        assert_eq!(seconds.map(lines), [10, 0, 10, 10]);
    }
}
