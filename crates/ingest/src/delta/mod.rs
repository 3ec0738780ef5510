//! Points of delta temporality become cumulative ones: what a series counted since its last point is added to
//! what it counted before, as the OpenTelemetry collector's `deltatocumulative` does.
//!
//! **Life of a push.** A decoder marks which series of its batch are differences. Whoever stores the batch
//! first takes a place ([`DeltaStreams::queue`]) and waits for its turn, because points of one series have to
//! be added one after the other; then [`DeltaStreams::add_up`] puts the totals into the batch. The state of
//! the series changes when [`Added::stored`] is called, and not before.
//!
//! **Invariants.** The state of a series is what the acknowledged batches add up to. A batch that was not
//! stored leaves no trace. Where nobody knows whether it was ([`Added::storing`] without an outcome), both
//! states are kept: the same points again are added to the state before and have the same totals, so that
//! they are stored once; newer points are added to the state after, so that the total never falls.
//!
//! **Memory.** What is kept of a series is reserved before it is kept; a new series for which there is none
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

/// A series without a point for so long is forgotten; its next point begins anew.
pub const DELTA_STALE_AFTER: Duration = Duration::from_secs(5 * 60);

/// Memory of the work on one series of a batch: its key in the queue, its states before and after in a table
/// that has just doubled, and a start time in the batch.
pub(crate) const WORK_BYTES: u64 = sandur_base::KEY_BYTES + 2 * STREAM_BYTES + size_of::<Entry>() as u64 + 16;
