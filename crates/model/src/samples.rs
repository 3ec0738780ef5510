//! A batch of samples: those of one request of one tenant, on their way to the WAL and the head.
//!
//! A batch is a set of columns, because most requests bring one sample for each of thousands of series:
//! nothing of a series or a sample has an allocation of its own, histograms apart. Labels are shared with the
//! interner of the decoder.
//!
//! **The request's text.** A decoder may keep the body that it read as the [`Arena`] of the batch, and say
//! where the labels of each series ([`SeriesSamples::text`], read as [`LabelText`] says) and the eight
//! bytes of each value ([`SampleBatch::value_offsets`]) stand in it. The WAL then stores the body as it
//! came instead of encoding labels and values again. **Invariant:** what these spans say is what the
//! columns say.
//!
//! Values are compared and kept by their bits: a stale marker is a NaN that differs from other NaNs in its
//! bits alone.

use std::ops::Range;
use std::sync::Arc;

use crate::batch::{Arena, Span};
use crate::exemplar::Exemplar;
use crate::histogram::FloatHistogram;
use crate::labels::{Labels, StreamId};
use crate::metric_metadata::MetricMetadata;
use crate::series_labels::SeriesLabels;
use crate::tenant::TenantId;

/// The bits of the value that marks the end of a series.
pub const STALE_BITS: u64 = 0x7ff0_0000_0000_0002;

/// Raw bytes of a float sample: its timestamp and its value.
pub(crate) const SAMPLE_BYTES: u64 = 16;

/// Whether a value marks the end of a series. Looked at by bits: arithmetic would change them.
#[inline]
pub fn is_stale(value: f64) -> bool {
    value.to_bits() == STALE_BITS
}

/// How the labels of a series are read from the span of the arena that [`SeriesSamples::text`] names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LabelText {
    /// Not at all: the arena is empty.
    #[default]
    None,
    /// Messages of remote write 1.0 one after the other, each with its tag and length in front: `0x0a`, a
    /// varint length, then a message whose field 1 is the name and field 2 the value.
    Messages,
    /// One name as Graphite's senders write it, which [`crate::GraphiteName`] reads.
    Names,
    /// Pairs of varints, numbers of a name and a value among these symbols, as remote write 2.0 packs them.
    References {
        /// Where the symbols are in the arena.
        symbols: Vec<Span>,
    },
}

/// A native histogram of a series.
#[derive(Clone, Debug)]
pub struct HistogramSample {
    /// Milliseconds since the epoch.
    pub timestamp: i64,
    /// When counting began, in milliseconds since the epoch; 0 when it is not known.
    pub start: i64,
    /// Whether it was sent with integer counts.
    pub integer: bool,
    /// The histogram; a stale marker is one whose sum is stale.
    pub histogram: Arc<FloatHistogram>,
}

impl HistogramSample {
    /// Bytes of its time and its parts before they are encoded.
    pub fn raw_bytes(&self) -> u64 {
        let Self { histogram, .. } = self;
        let counts = histogram.positive.len() + histogram.negative.len();
        SAMPLE_BYTES + 8 * (4 + counts + histogram.bounds.len()) as u64
    }
}

/// The samples of one series of a batch, in the order they were sent.
#[derive(Clone, Debug)]
pub struct SeriesSamples {
    /// The series' identity: `labels.stream_id()`.
    pub id: StreamId,
    /// The series' labels, the metric's name as `__name__`.
    pub labels: SeriesLabels,
    /// Where the labels stand in the arena; empty when there is none.
    pub text: Span,
    /// Where its float samples are in the columns of the batch.
    pub samples: Range<u32>,
    /// Where its histograms are.
    pub histograms: Range<u32>,
}

/// An exemplar, and the series of the batch whose it is.
#[derive(Clone, Debug)]
pub struct SeriesExemplar {
    /// Position in [`SampleBatch::series`].
    pub series: u32,
    /// The observation.
    pub exemplar: Exemplar,
}

/// The accepted samples of one request. A series may appear more than once.
#[derive(Clone, Debug)]
pub struct SampleBatch {
    /// Whose data it is.
    pub tenant: TenantId,
    /// The body of the request, when the decoder keeps it.
    pub arena: Arena,
    /// How labels are read from it.
    pub label_text: LabelText,
    /// The series; together they name every sample once, in order.
    pub series: Vec<SeriesSamples>,
    /// Of float samples: milliseconds since the epoch.
    pub timestamps: Vec<i64>,
    /// Values, one for each timestamp.
    pub values: Vec<f64>,
    /// Where the eight little-endian bytes of each value are in the arena; empty when they are not there.
    pub value_offsets: Vec<u32>,
    /// When counting began, in milliseconds since the epoch, for each float sample, 0 where it is not known;
    /// empty when it is never known.
    pub starts: Vec<i64>,
    /// Native histograms.
    pub histograms: Vec<HistogramSample>,
    /// Exemplars.
    pub exemplars: Vec<SeriesExemplar>,
    /// What the request says of metric families.
    pub metadata: Vec<MetricMetadata>,
}

impl SampleBatch {
    /// An empty batch.
    pub fn new(tenant: TenantId) -> Self {
        Self {
            tenant,
            arena: Arena::default(),
            label_text: LabelText::None,
            series: Vec::new(),
            timestamps: Vec::new(),
            values: Vec::new(),
            value_offsets: Vec::new(),
            starts: Vec::new(),
            histograms: Vec::new(),
            exemplars: Vec::new(),
            metadata: Vec::new(),
        }
    }

    /// Begins a series, to which all samples belong that are added until the next one begins. `text` is where
    /// its labels stand in the arena.
    #[inline]
    pub fn begin_series(&mut self, id: StreamId, labels: impl Into<SeriesLabels>, text: Span) {
        let (labels, at, histograms_at) =
            (labels.into(), self.timestamps.len() as u32, self.histograms.len() as u32);
        let (samples, histograms) = (at..at, histograms_at..histograms_at);
        self.series.push(SeriesSamples { id, labels, text, samples, histograms });
    }

    /// Adds a float sample of the series that was begun last.
    #[inline]
    pub fn push_sample(&mut self, timestamp: i64, value: f64) {
        self.timestamps.push(timestamp);
        self.values.push(value);
        if !self.starts.is_empty() {
            self.starts.push(0);
        }
        if let Some(series) = self.series.last_mut() {
            series.samples.end += 1;
        }
    }

    /// Adds a float sample whose value stands at `offset` of the arena: for batches all of whose values do.
    #[inline]
    pub fn push_stored_sample(&mut self, timestamp: i64, value: f64, offset: u32) {
        self.push_sample(timestamp, value);
        self.value_offsets.push(offset);
    }

    /// Says when counting began for the float sample that was added last.
    pub fn set_start(&mut self, start: i64) {
        if start != 0 {
            self.starts.resize(self.timestamps.len(), 0);
        }
        if let Some(last) = self.starts.last_mut() {
            *last = start;
        }
    }

    /// Adds a histogram of the series that was begun last.
    pub fn push_histogram(&mut self, sample: HistogramSample) {
        self.histograms.push(sample);
        if let Some(series) = self.series.last_mut() {
            series.histograms.end += 1;
        }
    }

    /// Adds an exemplar of the series that was begun last.
    pub fn push_exemplar(&mut self, exemplar: Exemplar) {
        if let Some(series) = self.series.len().checked_sub(1) {
            self.exemplars.push(SeriesExemplar { series: series as u32, exemplar });
        }
    }

    /// Adds samples (milliseconds since the epoch, value) of a series.
    pub fn push(&mut self, labels: Arc<Labels>, samples: impl IntoIterator<Item = (i64, f64)>) {
        self.begin_series(labels.stream_id(), labels, Span::default());
        samples.into_iter().for_each(|(timestamp, value)| self.push_sample(timestamp, value));
    }

    /// Forgets the body: the columns say the same.
    pub fn drop_text(&mut self) {
        self.arena = Arena::default();
        self.label_text = LabelText::None;
        self.value_offsets = Vec::new();
    }

    /// The batch without the series at these positions, which rise, and without their exemplars.
    pub fn without_series(mut self, left_out: &[u32]) -> Self {
        let mut rest = Self::new(self.tenant.clone());
        rest.metadata = std::mem::take(&mut self.metadata);
        let mut exemplars = std::mem::take(&mut self.exemplars).into_iter().peekable();
        for (at, series) in (0u32..).zip(&self.series) {
            let own = std::iter::from_fn(|| exemplars.next_if(|of| of.series <= at));
            if left_out.binary_search(&at).is_ok() {
                own.for_each(drop);
                continue;
            }
            rest.begin_series(series.id, series.labels.clone(), Span::default());
            for (n, (timestamp, value)) in self.samples_of(series).enumerate() {
                rest.push_sample(timestamp, value);
                rest.set_start(self.start_of(series.samples.start as usize + n));
            }
            self.histograms_of(series).iter().for_each(|sample| rest.push_histogram(sample.clone()));
            own.for_each(|of| rest.push_exemplar(of.exemplar));
        }
        rest
    }

    /// The float samples of a series of the batch.
    pub fn samples_of(
        &self,
        series: &SeriesSamples,
    ) -> impl ExactSizeIterator<Item = (i64, f64)> + Clone + '_ {
        let rows = series.samples.start as usize..series.samples.end as usize;
        self.timestamps[rows.clone()].iter().copied().zip(self.values[rows].iter().copied())
    }

    /// The histograms of a series of the batch.
    pub fn histograms_of(&self, series: &SeriesSamples) -> &[HistogramSample] {
        &self.histograms[series.histograms.start as usize..series.histograms.end as usize]
    }

    /// When counting began for a float sample; 0 when it is not known.
    pub fn start_of(&self, row: usize) -> i64 {
        self.starts.get(row).copied().unwrap_or(0)
    }

    /// Number of samples, floats and histograms.
    pub fn rows(&self) -> usize {
        self.timestamps.len() + self.histograms.len()
    }

    /// Whether it brings nothing: no sample, no exemplar, no metadata.
    pub fn is_empty(&self) -> bool {
        self.rows() == 0 && self.exemplars.is_empty() && self.metadata.is_empty()
    }

    /// Bytes of timestamps and values before they are encoded.
    pub fn raw_bytes(&self) -> u64 {
        let histograms: u64 = self.histograms.iter().map(HistogramSample::raw_bytes).sum();
        self.timestamps.len() as u64 * SAMPLE_BYTES + histograms
    }

    /// First and last timestamp in nanoseconds since the epoch; `None` when there is no sample.
    pub fn time_bounds(&self) -> Option<(i64, i64)> {
        let times = || self.timestamps.iter().copied().chain(self.histograms.iter().map(|h| h.timestamp));
        let (first, last) = (times().min()?, times().max()?);
        Some((first.saturating_mul(crate::MILLISECOND_NS), last.saturating_mul(crate::MILLISECOND_NS)))
    }

    /// Bytes that the batch holds in memory, for budgets.
    pub fn memory_bytes(&self) -> u64 {
        let compressed = self.arena.compressed.as_ref().map_or(0, |(_, bytes)| bytes.len());
        let symbols = match &self.label_text {
            LabelText::References { symbols } => size_of_val::<[Span]>(symbols),
            LabelText::None | LabelText::Messages | LabelText::Names => 0,
        };
        let columns = size_of_val::<[SeriesSamples]>(&self.series)
            + size_of_val::<[i64]>(&self.timestamps)
            + size_of_val::<[f64]>(&self.values)
            + size_of_val::<[u32]>(&self.value_offsets)
            + size_of_val::<[i64]>(&self.starts);
        let histogram =
            |sample: &HistogramSample| size_of::<HistogramSample>() as u64 + sample.histogram.memory_bytes();
        let exemplar = |of: &SeriesExemplar| size_of::<SeriesExemplar>() as u64 + of.exemplar.held_bytes();
        (self.arena.bytes.len() + compressed + symbols + columns) as u64
            + self.series.iter().map(|series| series.labels.name_bytes()).sum::<u64>()
            + self.histograms.iter().map(histogram).sum::<u64>()
            + self.exemplars.iter().map(exemplar).sum::<u64>()
            + self.metadata.iter().map(MetricMetadata::memory_bytes).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_times_cost_nothing_until_one_is_known() {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        let labels = Arc::new(Labels::from_pairs([("__name__", "up")]));
        batch.push(labels, [(1, 1.0), (2, 2.0)]);
        batch.set_start(0);
        assert!(batch.starts.is_empty());
        batch.push_sample(3, 3.0);
        batch.set_start(7);
        batch.push_sample(4, 4.0);
        assert_eq!(batch.starts, [0, 0, 7, 0]);
        assert_eq!(batch.series[0].samples, 0..4);
    }

    #[test]
    fn a_series_that_is_left_out_takes_its_samples_and_exemplars_along() {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        for (n, name) in (1i64..).zip(["a", "b", "c"]) {
            batch.push(Arc::new(Labels::from_pairs([("__name__", name)])), [(n, n as f64)]);
            batch.set_start(n * 10);
            batch.push_exemplar(Exemplar { labels: Labels::default(), value: 1.0, timestamp: n });
        }
        let rest = batch.clone().without_series(&[1]);
        let names = |batch: &SampleBatch| -> Vec<String> {
            batch.series.iter().map(|s| s.labels.get("__name__").unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(names(&rest), ["a", "c"]);
        assert_eq!((&rest.timestamps[..], &rest.starts[..]), (&[1, 3][..], &[10, 30][..]));
        let of: Vec<(u32, i64)> = rest.exemplars.iter().map(|e| (e.series, e.exemplar.timestamp)).collect();
        assert_eq!(of, [(0, 1), (1, 3)]);
        assert!(batch.without_series(&[0, 1, 2]).is_empty());
    }

    #[test]
    fn a_batch_of_metadata_alone_is_not_empty() {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        assert!(batch.is_empty());
        batch.metadata.push(MetricMetadata { family: "up".into(), ..MetricMetadata::default() });
        assert!(!batch.is_empty() && batch.rows() == 0 && batch.time_bounds().is_none());
    }
}
