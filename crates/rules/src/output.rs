//! The samples that one evaluation of a rule writes, in batches that one push may have.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sandur_model::{FloatHistogram, HistogramSample, Labels, STALE_BITS, SampleBatch, Span, StreamId};

use crate::data::{Data, Instant, Number};
use crate::error::EvaluationError;

/// The most series of a batch.
const SERIES_MAX: usize = 2_000;
/// The most bytes of labels of a batch.
const LABEL_BYTES_MAX: usize = 1 << 20;

/// The series that a rule wrote at its last evaluation.
pub type Written = HashMap<StreamId, Arc<Labels>>;

/// Series with their values at one time.
pub type Output = Vec<(Arc<Labels>, Number)>;

/// Stores the samples of an evaluation, and stale markers for the series that ended. On return `written`
/// has the series that need a marker later; after a failure these are the former ones and those that were
/// stored. Series in `stored` have a sample of this time.
pub async fn store(
    data: &dyn Data,
    output: Output,
    at: Instant,
    written: &mut Written,
    stored: &HashSet<StreamId>,
) -> Result<(), EvaluationError> {
    let mut now = Written::with_capacity(output.len());
    let mut batch = Batch::new(data, at);
    for (labels, number) in output {
        let id = labels.stream_id();
        if batch.is_full(&labels) {
            batch.store(data, written).await?;
        }
        if !stored.contains(&id) {
            batch.push(id, &labels, number);
        }
        now.insert(id, labels);
    }
    let is_ended = |id: &&StreamId| !now.contains_key(id) && !stored.contains(id);
    let ended: Vec<StreamId> = written.keys().filter(is_ended).copied().collect();
    for id in ended {
        let Some(labels) = written.get(&id).cloned() else { continue };
        if batch.is_full(&labels) {
            batch.store(data, written).await?;
        }
        batch.push(id, &labels, Number::Float(f64::from_bits(STALE_BITS)));
    }
    batch.store(data, written).await?;
    *written = now;
    Ok(())
}

/// Writes stale markers for all series.
pub async fn end_all(data: &dyn Data, at: Instant, written: &mut Written) -> Result<(), EvaluationError> {
    store(data, Vec::new(), at, written, &HashSet::new()).await
}

/// The samples that are stored next.
struct Batch {
    samples: SampleBatch,
    label_bytes: usize,
    series: Written,
    at: Instant,
}

impl Batch {
    fn new(data: &dyn Data, at: Instant) -> Self {
        Self { samples: data.batch(), label_bytes: 0, series: Written::new(), at }
    }

    fn is_full(&self, labels: &Labels) -> bool {
        let bytes = self.label_bytes + labels.text_bytes();
        !self.samples.series.is_empty()
            && (self.samples.series.len() >= SERIES_MAX || bytes > LABEL_BYTES_MAX)
    }

    fn push(&mut self, id: StreamId, labels: &Arc<Labels>, number: Number) {
        self.label_bytes += labels.text_bytes();
        self.samples.begin_series(id, Arc::clone(labels), Span::default());
        match number {
            Number::Float(value) => self.samples.push_sample(self.at.ms(), value),
            Number::Histogram(histogram) => self.samples.push_histogram(HistogramSample {
                timestamp: self.at.ms(),
                start: 0,
                integer: false,
                histogram: Arc::<FloatHistogram>::clone(&histogram),
            }),
        }
        self.series.insert(id, Arc::clone(labels));
    }

    /// Stores the batch, and begins the next one. Its series are in `written` from then on.
    async fn store(&mut self, data: &dyn Data, written: &mut Written) -> Result<(), EvaluationError> {
        if self.samples.series.is_empty() {
            return Ok(());
        }
        self.label_bytes = 0;
        data.store(std::mem::replace(&mut self.samples, data.batch())).await?;
        written.extend(self.series.drain());
        Ok(())
    }
}
