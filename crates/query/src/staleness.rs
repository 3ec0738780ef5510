//! The age of the view of the store from which a result was computed, in total and by writer.

use std::fmt;
use std::time::Duration;

use sandur_base::Id;
use sandur_base::units::format_duration;

/// A view that is older than the configured bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Staleness {
    /// Time for which the view may have been incomplete.
    pub age: Duration,
    /// The most age without a warning (`query.max_view_age`).
    pub bound: Duration,
}

impl fmt::Display for Staleness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let age = whole_seconds(self.age);
        let bound = format_duration(self.bound);
        write!(
            f,
            "rows that other processes stored in the last {age} may be missing: the view of the store is \
             older than query.max_view_age ({bound})"
        )
    }
}

/// A writer whose newest rows may be missing from the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterLag {
    /// The incarnation of the writer.
    pub writer: Id,
    /// How long ago all of its acknowledged rows were visible; `None` if that was never the case.
    pub age: Option<Duration>,
    /// Why its rows are missing; empty if unknown.
    pub reason: String,
}

impl WriterLag {
    /// The age as a number that can be compared: rows that were never visible are the oldest.
    pub fn rank(&self) -> Duration {
        self.age.unwrap_or(Duration::MAX)
    }
}

impl fmt::Display for WriterLag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writer, age, reason } = self;
        match age {
            Some(age) => {
                let age = whole_seconds(*age);
                write!(f, "rows that writer {writer} stored in the last {age} may be missing")?;
            }
            None => {
                write!(f, "rows of writer {writer} may be missing: its WAL was not read to the end yet")?;
            }
        }
        if reason.is_empty() { Ok(()) } else { write!(f, ": {reason}") }
    }
}

/// The age that a text about several writers shows: the largest one.
pub(crate) fn oldest_of<'a>(lags: impl Iterator<Item = &'a WriterLag>) -> String {
    match lags.map(WriterLag::rank).max() {
        None | Some(Duration::MAX) => String::new(),
        Some(age) => format!(" in the last {}", whole_seconds(age)),
    }
}

fn whole_seconds(age: Duration) -> String {
    format_duration(Duration::from_secs(age.as_secs()))
}
