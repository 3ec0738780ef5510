//! How old a source's view of the store was when an answer was made of it.

use std::fmt;
use std::time::Duration;

use sandur_base::units::format_duration;

/// A view that is older than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Staleness {
    /// How long the view may have been incomplete.
    pub age: Duration,
    /// How old a view may be without a warning.
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
