//! Series with their samples, in batches of at most [`BATCH_SERIES`], and scans over them.
//!
//! Labels are ids of a dictionary, so that a text is looked up only when it is needed, and once. Samples
//! are columns. A consumer may take series before their samples are decoded ([`SeriesPart`]), so that the
//! job that processes samples also decodes them. Several such jobs run at the same time, and decoded
//! samples are still in the processor cache when they are processed.
//!
//! **Invariant.** Decoding can be repeated: a job that did not get enough memory runs again.

use std::ops::Range;
use std::sync::Arc;

use sandur_base::BoxFuture;
use sandur_memory::Reservation;
use sandur_model::{FloatHistogram, Labels};

use crate::error::Error;
use crate::shared_times::SharedTimes;

/// The most series of a batch.
pub const BATCH_SERIES: usize = 512;

/// The texts of labels, by id.
pub trait Dictionary: Send + Sync {
    /// The text with this id.
    fn text(&self, id: u32) -> &str;
    /// Bytes of memory that the dictionary uses.
    fn memory_bytes(&self) -> u64;
}

/// Samples of one series: floats and histograms separately, each by rising time.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Times of the float samples, in milliseconds since the epoch; series of a batch with equal times
    /// share the list.
    pub times: SharedTimes,
    /// Values of the float samples; stale markers are identified by their bits.
    pub values: Vec<f64>,
    /// Start of counting of each float sample, in milliseconds since the epoch, 0 if unknown; empty when
    /// it is unknown for all.
    pub starts: Vec<i64>,
    /// Times of the histograms, in milliseconds since the epoch.
    pub histogram_times: Vec<i64>,
    /// Histograms; in a stale marker, the sum has the stale bits.
    pub histograms: Vec<Arc<FloatHistogram>>,
    /// Start of counting of each histogram, in milliseconds since the epoch; see `starts`.
    pub histogram_starts: Vec<i64>,
}

/// Labels as pairs of ids (name, value), sorted by the text of the name, without empty values.
pub type LabelIds = Box<[(u32, u32)]>;

/// A batch of series.
pub struct SeriesBatch {
    /// The texts of the label ids.
    pub dictionary: Arc<dyn Dictionary>,
    /// The labels of each series.
    pub labels: Vec<LabelIds>,
    /// The samples of each series; empty for a scan over series without samples.
    pub samples: Vec<Arc<Samples>>,
    /// The memory of the batch.
    pub held: Option<Reservation>,
}

impl SeriesBatch {
    /// The labels of a series as texts, sorted by name.
    pub fn pairs(&self, series: usize) -> impl Iterator<Item = (&str, &str)> {
        let text = |id| self.dictionary.text(id);
        self.labels[series].iter().map(move |(name, value)| (text(*name), text(*value)))
    }
}

/// The result of a selection. Prefetches while batches are processed.
pub trait SampleScan: Send {
    /// The next batch; `None` after the last.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<SeriesBatch>, Error>>;

    /// The labels of the next series; `None` after the last.
    fn next_labels(&mut self) -> BoxFuture<'_, Result<Option<Vec<Arc<Labels>>>, Error>> {
        Box::pin(async {
            let Some(batch) = self.next().await? else { return Ok(None) };
            let labels = |series| Arc::new(Labels::from_pairs(batch.pairs(series)));
            Ok(Some((0..batch.labels.len()).map(labels).collect()))
        })
    }

    /// The next series, not decoded yet; `None` after the last. The caller decodes them.
    fn next_part(&mut self) -> BoxFuture<'_, Result<Option<Arc<dyn SeriesPart>>, Error>> {
        Box::pin(async { Ok(self.next().await?.map(|batch| Arc::new(batch) as Arc<dyn SeriesPart>)) })
    }

    /// Drops prefetched data, because memory is short; the scan fetches it again when it is needed.
    fn give_back(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Whether the scan knows that nothing follows.
    fn is_over(&self) -> bool {
        false
    }
}

/// Up to [`BATCH_SERIES`] series.
pub trait SeriesPart: Send + Sync {
    /// The number of series.
    fn series(&self) -> usize;

    /// Bytes of memory of some of the series, during and after decoding.
    fn memory_bytes(&self, some: &Range<usize>) -> u64;

    /// Decodes the samples of some of the series; series without samples may be left out. A computation
    /// that reports its work to [`sandur_memory::job`]; the caller has reserved the memory.
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
