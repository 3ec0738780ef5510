//! A source of series in memory, for tests and for data that never leaves the process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use sandur_base::BoxFuture;
use sandur_model::{Exemplar, Labels, MILLISECOND_NS, Matcher, MetricMetadata, TimeRange, matches_all};

use crate::batch_texts::BatchTexts;
use crate::context::QueryContext;
use crate::error::Error;
use crate::part::Part;
use crate::sample_source::{
    Exemplars, Metadata, MetadataSelection, SampleSelection, SampleSource, SeriesExemplars,
};
use crate::series_batch::{BATCH_SERIES, LabelIds, SampleScan, Samples, SeriesBatch};
use crate::series_index::{KnownSeries, SeriesIndex, SeriesRequest};
use crate::source::Versions;

/// Series with their samples, in the order of insertion. A clone shares the samples.
#[derive(Clone, Default)]
pub struct MemorySeries {
    series: Vec<(Arc<Labels>, Arc<Samples>)>,
    by_labels: HashMap<Labels, usize>,
    exemplars: BTreeMap<Labels, Vec<Exemplar>>,
    metadata: BTreeSet<MetricMetadata>,
}

impl MemorySeries {
    /// Lets `change` edit the samples of the series with these labels; `change` must keep them sorted by
    /// time.
    pub fn edit(&mut self, labels: &Labels, change: impl FnOnce(&mut Samples)) {
        let next = self.series.len();
        let at = *self.by_labels.entry(labels.clone()).or_insert(next);
        if at == next {
            self.series.push((Arc::new(labels.clone()), Arc::default()));
        }
        change(Arc::make_mut(&mut self.series[at].1));
    }

    /// Adds an exemplar to the series with these labels.
    pub fn add_exemplar(&mut self, labels: &Labels, exemplar: Exemplar) {
        let all = self.exemplars.entry(labels.clone()).or_default();
        all.insert(all.partition_point(|before| before.timestamp <= exemplar.timestamp), exemplar);
    }

    /// Adds the metadata of a metric family.
    pub fn add_metadata(&mut self, metadata: MetricMetadata) {
        self.metadata.insert(metadata);
    }

    /// The number of series.
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Whether there are no series.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// All series with their samples.
    pub fn iter(&self) -> impl Iterator<Item = (&Labels, &Samples)> {
        self.series.iter().map(|(labels, samples)| (&**labels, &**samples))
    }
}

impl Samples {
    /// Whether there is a sample from `first_ms` to `last_ms`, both inclusive.
    fn touch(&self, (first_ms, last_ms): (i64, i64)) -> bool {
        let touches = |times: &[i64]| {
            let from = times.partition_point(|time| *time < first_ms);
            times.get(from).is_some_and(|time| *time <= last_ms)
        };
        touches(&self.times) || touches(&self.histogram_times)
    }
}

/// Labels of the matching series with samples in the range.
fn labels_of<'a>(
    source: &'a MemorySeries,
    part: Part,
    matchers: &'a [Matcher],
    range: TimeRange,
) -> impl Iterator<Item = &'a Labels> {
    let times = range.milliseconds();
    let found = source.series.iter().filter(move |(_, samples)| samples.touch(times));
    let matching = found.map(|(labels, _)| &**labels).filter(|labels| matches_all(matchers, labels));
    matching.filter(move |labels| part.has_labels(labels))
}

/// Every tenant sees the same series.
impl SeriesIndex for MemorySeries {
    fn series<'a>(
        &'a self,
        context: &'a QueryContext,
        SeriesRequest { any_of, range }: SeriesRequest,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        let found: BTreeSet<&Labels> =
            any_of.iter().flat_map(|m| labels_of(self, context.part(), m, range)).collect();
        let series = found.into_iter().map(|labels| Arc::new(labels.clone())).collect();
        let scan = KnownSeries::new(context, series).map(|scan| Box::new(scan) as Box<dyn SampleScan>);
        Box::pin(std::future::ready(scan))
    }
}

impl Versions for MemorySeries {}

/// The matching series that were not delivered yet.
struct Found {
    series: std::vec::IntoIter<(Arc<Labels>, Arc<Samples>)>,
    selection: SampleSelection,
}

impl SampleSource for MemorySeries {
    fn select<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: SampleSelection,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        let times = (selection.first_ms, selection.last_ms);
        let matches =
            |labels: &Labels| matches_all(&selection.matchers, labels) && context.part().has_labels(labels);
        let found = self.series.iter().filter(|(labels, samples)| samples.touch(times) && matches(labels));
        let series = found.cloned().collect::<Vec<_>>().into_iter();
        let found: Box<dyn SampleScan> = Box::new(Found { series, selection });
        Box::pin(std::future::ready(Ok(found)))
    }

    fn exemplars<'a>(
        &'a self,
        context: &'a QueryContext,
        request: SeriesRequest,
    ) -> BoxFuture<'a, Result<Exemplars, Error>> {
        let is_inside =
            |one: &&Exemplar| request.range.contains(one.timestamp.saturating_mul(MILLISECOND_NS));
        let of_series = |(labels, all): (&Labels, &Vec<Exemplar>)| SeriesExemplars {
            labels: Arc::new(labels.clone()),
            exemplars: all.iter().filter(is_inside).cloned().collect(),
        };
        let is_wanted = |labels: &Labels| request.matches(labels) && context.part().has_labels(labels);
        let found = self.exemplars.iter().filter(|(labels, _)| is_wanted(labels)).map(of_series);
        let series = found.filter(|of| !of.exemplars.is_empty()).collect();
        Box::pin(std::future::ready(Ok(Exemplars { series, held: None })))
    }

    fn metadata<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: MetadataSelection,
    ) -> BoxFuture<'a, Result<Metadata, Error>> {
        let all = self.metadata.iter().filter(|_| context.part().is_first());
        let metrics = selection.of_sorted(all).into_iter().cloned().collect();
        Box::pin(std::future::ready(Ok(Metadata { metrics, held: None })))
    }
}

impl Found {
    fn batch(&mut self) -> Option<SeriesBatch> {
        let mut texts = BatchTexts::default();
        let (mut labels, mut samples): (Vec<LabelIds>, _) = (Vec::new(), Vec::new());
        for (own, columns) in self.series.by_ref().take(BATCH_SERIES) {
            let wanted = own.iter().filter(|(name, _)| self.selection.wants(name));
            labels.push(wanted.map(|(name, value)| (texts.id(name), texts.id(value))).collect());
            samples.push(columns);
        }
        let dictionary = texts.finish();
        (!labels.is_empty()).then_some(SeriesBatch { dictionary, labels, samples, held: None })
    }
}

impl SampleScan for Found {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<SeriesBatch>, Error>> {
        let batch = self.batch();
        Box::pin(std::future::ready(Ok(batch)))
    }
}
