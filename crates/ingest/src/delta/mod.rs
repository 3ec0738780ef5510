//! Converts points of delta temporality to cumulative ones: adds what a series counted since its last
//! point to its total, as the OpenTelemetry collector's `deltatocumulative` processor does.
//!
//! **Life of a push.** A decoder marks the series of its batch that are differences. The code that stores
//! the batch first queues for a turn ([`DeltaStreams::queue`]), because points of one series must be
//! added one batch after the other. Then [`DeltaStreams::add_up`] writes the totals into the batch. The
//! state of the series changes only when [`Added::stored`] is called.
//!
//! **Invariants.** The state of a series is the sum of its acknowledged batches. A batch that was not
//! stored leaves no trace. If the outcome is unknown ([`Added::storing`] without an outcome), both states
//! are kept. Points that are sent again are added to the state before the batch and get the same totals,
//! so they are stored once. Newer points are added to the state after the batch, so the total never
//! falls.
//!
//! **Memory.** The state of a series is reserved before it is kept; a new series is refused when there is
//! no memory for it. The decoder pays for the work on a batch ([`WORK_BYTES`] for each series).

mod added;
mod stream;
mod streams;
mod table;
mod total;

pub use added::Added;
pub use streams::DeltaStreams;
pub use table::DELTA_STALE_AFTER;
pub(crate) use table::WORK_BYTES;
