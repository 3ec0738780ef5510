//! Retention: removes rows from the catalog when their period is over.
//!
//! [`crate::policy::retention`] says how long rows are kept. A block whose rows are all past every period
//! is removed unchanged ([`blocks`]). A block that has both expired and other series is rewritten
//! without the expired ones ([`series`]), by the mechanism that removes deleted rows.
//!
//! **Invariants.**
//! * A series is removed from a block only when the newest row of the *block* is past the series'
//!   period. So no row is removed too early; it may stay longer, by the length of a window.
//! * A changed retention removes nothing until it has been unchanged for a while ([`due`]), and a clock
//!   that jumps ahead is not trusted at once ([`clock`]).
//! * Retention stores no state: the remaining work follows from the catalog, the clock and the
//!   configuration.

pub(crate) mod blocks;
pub(crate) mod clock;
pub(crate) mod due;
pub(crate) mod series;
