//! A push that seems too large for one step, and its parts.
//!
//! What one push may take of the write budget is reckoned as if all of its labels were new. A batch that
//! seems to take more is looked at closely: it is stored as it came if it takes less in truth, else in parts,
//! one frame after the other.

use sandur_model::{Batch, LogBatch, SampleBatch, SampleConflicts};

use crate::logs::head::{self as log_head, EntryCut};
use crate::samples::head::{self as sample_head, SampleCut};

/// A batch, and where it is cut.
pub(crate) enum Parted {
    /// Entries.
    Logs(LogBatch, Vec<EntryCut>),
    /// Samples.
    Samples(SampleBatch, Vec<SampleCut>),
}

/// Memory that cutting a batch takes.
pub(crate) fn cutting_bytes(batch: &Batch, most: u64) -> u64 {
    match batch {
        Batch::Logs(batch) => log_head::cutting_bytes(batch),
        Batch::Metrics(batch) => sample_head::cutting_bytes(batch, most),
    }
}

impl Parted {
    /// Cuts a batch into parts of so many bytes; one takes more only if it is a single entry or sample.
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

    /// Memory that each part takes on its way into a head, at most.
    pub(crate) fn bytes(&self) -> Vec<u64> {
        match self {
            Self::Logs(_, cuts) => cuts.iter().map(|cut| cut.bytes).collect(),
            Self::Samples(_, cuts) => cuts.iter().map(|cut| cut.bytes).collect(),
        }
    }

    /// The part of this number.
    pub(crate) fn part(&self, number: usize) -> Batch {
        match self {
            Self::Logs(batch, cuts) => batch.part(cuts[number].from, cuts[number].to).into(),
            Self::Samples(batch, cuts) => batch.part(&cuts[number].from, &cuts[number].to).into(),
        }
    }

    /// Adds the conflicts of the part of this number to those of the batch.
    pub(crate) fn add_conflicts(&self, number: usize, part: SampleConflicts, all: &mut SampleConflicts) {
        if let Self::Samples(batch, cuts) = self
            && !part.is_empty()
        {
            all.add_part(part, batch.series_between(&cuts[number].from, &cuts[number].to));
        }
    }

    /// The batch as it came.
    pub(crate) fn into_whole(self) -> Batch {
        match self {
            Self::Logs(batch, _) => batch.into(),
            Self::Samples(batch, _) => batch.into(),
        }
    }
}
