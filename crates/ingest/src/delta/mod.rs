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
//! is refused. Work on a batch is paid for by its decoder ([`WORK_BYTES`] for each series).

mod added;
mod stream;
mod streams;
mod total;

use std::time::Duration;

pub use added::Added;
pub use streams::DeltaStreams;

use stream::Stream;
use streams::{Entry, STREAM_BYTES};

/// A series without a point for this long is forgotten; its next point starts a new total.
pub const DELTA_STALE_AFTER: Duration = Duration::from_secs(5 * 60);

/// Bytes of memory for the work on one series of a batch: its key in the queue, its states before and
/// after in a table that has just doubled, and a start time in the batch.
pub(crate) const WORK_BYTES: u64 = sandur_base::KEY_BYTES + 2 * STREAM_BYTES + size_of::<Entry>() as u64 + 16;
