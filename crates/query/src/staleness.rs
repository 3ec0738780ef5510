//! The age of the view of the store from which a result was computed.

use std::fmt;
use std::time::Duration;

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
        let age = format_duration(Duration::from_secs(self.age.as_secs()));
        let bound = format_duration(self.bound);
        write!(
            f,
            "rows that other processes stored in the last {age} may be missing: the view of the store is \
             older than query.max_view_age ({bound})"
        )
    }
}
