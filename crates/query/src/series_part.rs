//! Series whose samples are decoded by who uses them.
//!
//! A scan hands series out before their samples are decoded, so that the job that works on samples decodes
//! them itself: several such jobs run at the same time, and what one decodes is still in the processor's
//! cache when it is looked at. **Invariant.** What was decoded can be decoded again: a job for which there
//! was no memory is repeated.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Error;
use crate::sample_source::SeriesBatch;

/// Some series, at most [`crate::BATCH_SERIES`].
pub trait SeriesPart: Send + Sync {
    /// How many series there are.
    fn series(&self) -> usize;

    /// Bytes that some of them take while they are decoded and afterwards.
    fn memory_bytes(&self, some: &Range<usize>) -> u64;

    /// The samples of some of them; series without samples may be left out. Computation that tells
    /// [`sandur_base::job`] of its work; the caller has reserved the memory.
    fn decode(&self, some: Range<usize>) -> Result<SeriesBatch, Error>;
}

/// A batch that is decoded already, with memory of its own.
impl SeriesPart for SeriesBatch {
    fn series(&self) -> usize {
        self.labels.len()
    }

    fn memory_bytes(&self, some: &Range<usize>) -> u64 {
        self.labels[some.clone()].iter().map(|labels| 32 + size_of_val::<[_]>(labels) as u64).sum()
    }

    fn decode(&self, some: Range<usize>) -> Result<SeriesBatch, Error> {
        Ok(SeriesBatch {
            dictionary: Arc::clone(&self.dictionary),
            labels: self.labels[some.clone()].to_vec(),
            samples: self.samples[some].to_vec(),
            held: None,
        })
    }
}
