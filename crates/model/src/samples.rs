//! A batch of samples: those of one request of one tenant, on their way to the WAL and the head.
//!
//! A batch is a set of columns, because most requests contain one sample for each of thousands of
//! series. Series and float samples have no allocations of their own. Labels are shared with the
//! decoder's interner.
//!
//! **The text of the request.** A decoder may keep the body that it parsed as the [`Arena`] of the
//! batch, together with the positions of the labels of each series ([`SeriesSamples::text`], to be
//! parsed as [`LabelText`] says) and of the eight bytes of each value ([`SampleBatch::value_offsets`]).
//! The WAL then stores the body unchanged instead of encoding labels and values again. **Invariant:**
//! the spans and the columns contain the same data.
//!
//! Values are stored and compared bit for bit: a stale marker is a NaN that differs from other NaNs only
//! in its bits.

use std::ops::Range;
use std::sync::Arc;

use crate::arena::{Arena, Span};
use crate::exemplar::Exemplar;
use crate::histogram::FloatHistogram;
use crate::labels::{Labels, StreamId};
use crate::metric_metadata::MetricMetadata;
use crate::series_labels::SeriesLabels;
use crate::tenant::TenantId;

/// The bits of a stale marker, the value that marks the end of a series.
pub const STALE_BITS: u64 = 0x7ff0_0000_0000_0002;

/// Size of a float sample in bytes: its timestamp and its value.
pub(crate) const SAMPLE_BYTES: u64 = 16;

/// Whether a value is a stale marker. Compares bits, because arithmetic would change them.
#[inline]
pub fn is_stale(value: f64) -> bool {
    value.to_bits() == STALE_BITS
}

/// How to parse the labels of a series from the span [`SeriesSamples::text`] of the arena.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LabelText {
    /// The arena is empty.
    #[default]
    None,
    /// Messages of remote write 1.0, each preceded by its tag `0x0a` and its length as a varint; field 1
    /// of a message is the name and field 2 the value.
    Messages,
    /// A name as Graphite senders write it; see [`crate::GraphiteName`].
    Names,
    /// Pairs of varints as in remote write 2.0: the positions of a name and a value in the symbol table.
    References {
        /// The symbol table: spans of the arena.
        symbols: Vec<Span>,
    },
}

/// A native histogram of a series.
#[derive(Clone, Debug)]
pub struct HistogramSample {
    /// Milliseconds since the epoch.
    pub timestamp: i64,
    /// Start of counting, in milliseconds since the epoch; 0 if unknown.
    pub start: i64,
    /// Whether the client sent integer counts.
    pub integer: bool,
    /// The histogram; in a stale marker, its sum has the stale bits.
    pub histogram: Arc<FloatHistogram>,
}

impl HistogramSample {
    /// Bytes of timestamp and counts before encoding.
    pub fn raw_bytes(&self) -> u64 {
        let Self { histogram, .. } = self;
        let counts = histogram.positive.len() + histogram.negative.len();
        SAMPLE_BYTES + 8 * (4 + counts + histogram.bounds.len()) as u64
    }
}

/// The samples of one series of a batch, in the order of the request.
#[derive(Clone, Debug)]
pub struct SeriesSamples {
    /// The id of the series: `labels.stream_id()`.
    pub id: StreamId,
    /// The labels of the series, with the metric name as `__name__`.
    pub labels: SeriesLabels,
    /// Position of the labels in the arena; empty without an arena.
    pub text: Span,
    /// Rows of its float samples in the columns of the batch.
    pub samples: Range<u32>,
    /// Positions of its histograms in [`SampleBatch::histograms`].
    pub histograms: Range<u32>,
}

/// An exemplar and the series that it belongs to.
#[derive(Clone, Debug)]
pub struct SeriesExemplar {
    /// Position of the series in [`SampleBatch::series`].
    pub series: u32,
    /// The observation.
    pub exemplar: Exemplar,
}

/// The accepted samples of one request. A series may appear more than once.
#[derive(Clone, Debug)]
pub struct SampleBatch {
    /// The owner of the data.
    pub tenant: TenantId,
    /// The body of the request, if the decoder keeps it.
    pub arena: Arena,
    /// How to parse labels from the arena.
    pub label_text: LabelText,
    /// The series. Together they contain every sample once, in order.
    pub series: Vec<SeriesSamples>,
    /// Timestamps of the float samples, in milliseconds since the epoch.
    pub timestamps: Vec<i64>,
    /// Values of the float samples, one for each timestamp.
    pub values: Vec<f64>,
    /// Offsets of the eight little-endian bytes of each value in the arena; empty when the arena does
    /// not contain them.
    pub value_offsets: Vec<u32>,
    /// Start of counting of each float sample, in milliseconds since the epoch, 0 if unknown; empty when
    /// it is unknown for all.
    pub starts: Vec<i64>,
    /// Native histograms.
    pub histograms: Vec<HistogramSample>,
    /// Exemplars.
    pub exemplars: Vec<SeriesExemplar>,
    /// Metadata of metric families.
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

    /// Begins a series; samples that are added afterwards belong to it. `text` is the position of its
    /// labels in the arena.
    #[inline]
    pub fn begin_series(&mut self, id: StreamId, labels: impl Into<SeriesLabels>, text: Span) {
        let (labels, at, histograms_at) =
            (labels.into(), self.timestamps.len() as u32, self.histograms.len() as u32);
        let (samples, histograms) = (at..at, histograms_at..histograms_at);
        self.series.push(SeriesSamples { id, labels, text, samples, histograms });
    }

    /// Adds a float sample to the last series.
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

    /// Adds a float sample whose value is at `offset` of the arena. A batch uses this for all of its
    /// samples or for none.
    #[inline]
    pub fn push_stored_sample(&mut self, timestamp: i64, value: f64, offset: u32) {
        self.push_sample(timestamp, value);
        self.value_offsets.push(offset);
    }

    /// Sets the start of counting of the last float sample, in milliseconds since the epoch.
    pub fn set_start(&mut self, start: i64) {
        if start != 0 {
            self.starts.resize(self.timestamps.len(), 0);
        }
        if let Some(last) = self.starts.last_mut() {
            *last = start;
        }
    }

    /// Adds a histogram to the last series.
    pub fn push_histogram(&mut self, sample: HistogramSample) {
        self.histograms.push(sample);
        if let Some(series) = self.series.last_mut() {
            series.histograms.end += 1;
        }
    }

    /// Adds an exemplar to the last series.
    pub fn push_exemplar(&mut self, exemplar: Exemplar) {
        if let Some(series) = self.series.len().checked_sub(1) {
            self.exemplars.push(SeriesExemplar { series: series as u32, exemplar });
        }
    }

    /// Adds a series with samples (milliseconds since the epoch, value).
    pub fn push(&mut self, labels: Arc<Labels>, samples: impl IntoIterator<Item = (i64, f64)>) {
        self.begin_series(labels.stream_id(), labels, Span::default());
        samples.into_iter().for_each(|(timestamp, value)| self.push_sample(timestamp, value));
    }

    /// Drops the body of the request; the columns contain the same data.
    pub fn drop_text(&mut self) {
        self.arena = Arena::default();
        self.label_text = LabelText::None;
        self.value_offsets = Vec::new();
    }

    /// Removes the series at these rising positions, with their samples and exemplars.
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

    /// Start of counting of a float sample, in milliseconds since the epoch; 0 if unknown.
    pub fn start_of(&self, row: usize) -> i64 {
        self.starts.get(row).copied().unwrap_or(0)
    }

    /// The number of samples: floats and histograms.
    pub fn rows(&self) -> usize {
        self.timestamps.len() + self.histograms.len()
    }

    /// Whether the batch contains no samples, no exemplars and no metadata.
    pub fn is_empty(&self) -> bool {
        self.rows() == 0 && self.exemplars.is_empty() && self.metadata.is_empty()
    }

    /// Bytes of timestamps and values before encoding.
    pub fn raw_bytes(&self) -> u64 {
        let histograms: u64 = self.histograms.iter().map(HistogramSample::raw_bytes).sum();
        self.timestamps.len() as u64 * SAMPLE_BYTES + histograms
    }

    /// The first and last timestamp in nanoseconds since the epoch; `None` without samples.
    pub fn time_bounds(&self) -> Option<(i64, i64)> {
        let times = || self.timestamps.iter().copied().chain(self.histograms.iter().map(|h| h.timestamp));
        let (first, last) = (times().min()?, times().max()?);
        Some((first.saturating_mul(crate::MILLISECOND_NS), last.saturating_mul(crate::MILLISECOND_NS)))
    }

    /// Bytes of memory that the batch uses, for budgets.
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
    fn start_times_use_no_memory_until_one_is_known() {
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
    fn removing_a_series_removes_its_samples_and_exemplars() {
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
    fn a_batch_with_only_metadata_is_not_empty() {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        assert!(batch.is_empty());
        batch.metadata.push(MetricMetadata { family: "up".into(), ..MetricMetadata::default() });
        assert!(!batch.is_empty() && batch.rows() == 0 && batch.time_bounds().is_none());
    }
}
