//! Cuts a push that is too large for one step into parts.
//!
//! The memory that a push takes of the write budget is first estimated as if all of its labels were new.
//! A batch whose estimate is too large is measured exactly. If it fits it is stored as one, otherwise in
//! parts, one frame after the other.

use sandur_model::{Batch, LogBatch, SampleBatch, SampleConflicts};

use crate::logs::head::{self as log_head, EntryCut};
use crate::samples::head::{self as sample_head, SampleCut};

/// A batch, and the positions where it is cut.
pub(crate) enum SplitBatch {
    /// Entries.
    Logs(LogBatch, Vec<EntryCut>),
    /// Samples.
    Samples(SampleBatch, Vec<SampleCut>),
}

/// Bytes of memory that cutting a batch takes.
pub(crate) fn cutting_bytes(batch: &Batch, most: u64) -> u64 {
    match batch {
        Batch::Logs(batch) => log_head::cutting_bytes(batch),
        Batch::Metrics(batch) => sample_head::cutting_bytes(batch, most),
    }
}

impl SplitBatch {
    /// Cuts a batch into parts of at most `most` bytes. Only a part with a single entry or sample takes
    /// more.
    pub(crate) fn new(batch: Batch, most: u64) -> Self {
        match batch {
            Batch::Logs(batch) => {
                let cuts = log_head::cuts(&batch, most);
                Self::Logs(batch, cuts)
            }
            Batch::Metrics(batch) => {
                let cuts = sample_head::cuts(&batch, most);
                Self::Samples(batch, cuts)
            }
        }
    }

    /// The most memory that each part takes until it is in a head, in bytes.
    pub(crate) fn bytes(&self) -> Vec<u64> {
        match self {
            Self::Logs(_, cuts) => cuts.iter().map(|cut| cut.bytes).collect(),
            Self::Samples(_, cuts) => cuts.iter().map(|cut| cut.bytes).collect(),
        }
    }

    /// Returns part `number`.
    pub(crate) fn part(&self, number: usize) -> Batch {
        match self {
            Self::Logs(batch, cuts) => batch.part(cuts[number].from, cuts[number].to).into(),
            Self::Samples(batch, cuts) => batch.part(&cuts[number].from, &cuts[number].to).into(),
        }
    }

    /// Adds the conflicts of part `number` to those of the batch.
    pub(crate) fn add_conflicts(&self, number: usize, part: SampleConflicts, all: &mut SampleConflicts) {
        if let Self::Samples(batch, cuts) = self
            && !part.is_empty()
        {
            all.add_part(part, batch.series_between(&cuts[number].from, &cuts[number].to));
        }
    }

    /// Returns the uncut batch.
    pub(crate) fn into_whole(self) -> Batch {
        match self {
            Self::Logs(batch, _) => batch.into(),
            Self::Samples(batch, _) => batch.into(),
        }
    }
}
