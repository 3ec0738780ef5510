//! The pushes of one frame, from the queue to their acknowledgement.

use sandur_format::wal_segment::Record;
use sandur_model::SampleConflicts;

use super::committing::{Batches, Push, Reply};
use crate::error::Error;
use crate::metrics::Metrics;

/// Pushes that become durable together.
#[derive(Default)]
pub(super) struct Group {
    pub(super) records: Vec<Record>,
    pub(super) batches: Batches,
    pub(super) replies: Replies,
    bytes: u64,
}

impl Group {
    pub(super) fn add(&mut self, push: Push) {
        self.bytes += push.record.frame_bytes() as u64;
        self.records.push(push.record);
        self.batches.push((push.batch, push.memory));
        self.replies.0.push(push.reply);
    }

    /// Bytes of the records, as the frame holds them.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of pushes.
    pub(super) fn pushes(&self) -> usize {
        self.records.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

/// The reply channels of the pushes of a frame.
#[derive(Default)]
pub(super) struct Replies(Vec<Reply>);

impl Replies {
    /// Acknowledges each push with its conflicts. A client that disconnected meanwhile needs no answer.
    pub(super) fn acknowledge(self, conflicts: Vec<SampleConflicts>, metrics: &Metrics) {
        metrics.pushes.inc_by(self.0.len() as u64);
        let mut conflicts = conflicts.into_iter();
        for reply in self.0 {
            let _ = reply.outcome.send(Ok(conflicts.next().unwrap_or_default()));
        }
    }

    /// Refuses every push with this error.
    pub(super) fn fail(self, error: &Error) {
        for reply in self.0 {
            let _ = reply.outcome.send(Err(error.clone()));
        }
    }
}
