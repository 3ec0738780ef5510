//! Series whose samples the consumer decodes.
//!
//! A scan returns series before their samples are decoded, so that the job that processes samples also
//! decodes them. Several such jobs run at the same time, and decoded samples are still in the processor
//! cache when they are processed.
//!
//! **Invariant.** Decoding can be repeated: a job that did not get enough memory runs again.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Error;
use crate::sample_source::SeriesBatch;

/// Up to [`crate::BATCH_SERIES`] series.
pub trait SeriesPart: Send + Sync {
    /// The number of series.
    fn series(&self) -> usize;

    /// Bytes of memory of some of the series, during and after decoding.
    fn memory_bytes(&self, some: &Range<usize>) -> u64;

    /// Decodes the samples of some of the series; series without samples may be left out. A computation
    /// that reports its work to [`sandur_base::job`]; the caller has reserved the memory.
    fn decode(&self, some: Range<usize>) -> Result<SeriesBatch, Error>;
}

/// A batch that is decoded already; it holds its own memory.
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
