//! What a metric query reads from: series with their samples, in batches.
//!
//! A [`SampleSource`] answers a [`SampleSelection`] with a [`SampleScan`], which gives the matching series in
//! batches of at most [`BATCH_SERIES`], each series once. Labels come as ids of a dictionary: a text is
//! looked up when it is needed, and once. Samples are columns. A batch may hold samples outside of the
//! selection's time, which the reader leaves out. Who works on samples in several jobs takes series before
//! they are decoded ([`SeriesPart`]).
//!
//! Exemplars and metadata are answered whole: a source keeps a bounded number of them.

use std::sync::Arc;

use sandur_base::{BoxFuture, Reservation};
use sandur_model::{Exemplar, FloatHistogram, Labels, Matcher, MetricMetadata, TimeRange};

use crate::context::QueryContext;
use crate::error::Error;
use crate::series_part::SeriesPart;
use crate::shared_times::SharedTimes;
use crate::source::{SeriesIndex, Versions};

/// Most series of a batch.
pub const BATCH_SERIES: usize = 512;

/// Which series, and what of them. All but matchers, times and labels are hints, which a source may use to
/// read less.
#[derive(Clone, Debug)]
pub struct SampleSelection {
    /// Conditions on the labels.
    pub matchers: Vec<Matcher>,
    /// First millisecond whose samples are looked at.
    pub first_ms: i64,
    /// Last millisecond whose samples are looked at.
    pub last_ms: i64,
    /// Labels that the query looks at; `None`: all. Others may be left out.
    pub labels: Option<Vec<String>>,
    /// Length of the window that is looked at for each step; 0 for instants.
    pub range_ms: i64,
    /// Time between steps; 0 for one step.
    pub step_ms: i64,
    /// The function or aggregation around the selector.
    pub function: &'static str,
    /// Whether start times of samples are looked at.
    pub starts: bool,
    /// Whether only sums, counts and resets of histograms are looked at. Buckets tell resets where hints do
    /// not, so a source leaves none out that has a histogram without a hint behind it.
    pub statistics_only: bool,
    /// Whether of floats is looked at only when there are any: a source may give any number that is no stale
    /// marker in the place of another.
    pub presence_only: bool,
}

impl SampleSelection {
    /// All samples of the matching series from the first to the last of these milliseconds.
    pub fn all(matchers: Vec<Matcher>, first_ms: i64, last_ms: i64) -> Self {
        Self {
            matchers,
            first_ms,
            last_ms,
            labels: None,
            range_ms: 0,
            step_ms: 0,
            function: "",
            starts: true,
            statistics_only: false,
            presence_only: false,
        }
    }

    /// Whether the query looks at a label.
    pub fn wants(&self, name: &str) -> bool {
        self.labels.as_ref().is_none_or(|labels| labels.iter().any(|label| label == name))
    }

    /// The times whose samples are looked at.
    pub fn range(&self) -> TimeRange {
        TimeRange::of_milliseconds(self.first_ms, self.last_ms)
    }
}

/// Texts by id.
pub trait Dictionary: Send + Sync {
    /// The text with this id.
    fn text(&self, id: u32) -> &str;
    /// Bytes that it takes.
    fn memory_bytes(&self) -> u64;
}

/// Samples of one series: floats and histograms apart, each by rising time.
#[derive(Debug, Default)]
pub struct Samples {
    /// Times of float samples, in milliseconds: one list for the series of a batch that have the same.
    pub times: SharedTimes,
    /// Their values; stale markers by their bits.
    pub values: Vec<f64>,
    /// When counting began, for each float sample, 0 where it is not known; empty when it is never known.
    pub starts: Vec<i64>,
    /// Times of histogram samples.
    pub histogram_times: Vec<i64>,
    /// Histograms; a stale marker is one whose sum is stale.
    pub histograms: Vec<Arc<FloatHistogram>>,
    /// When counting began, for each histogram.
    pub histogram_starts: Vec<i64>,
}

/// Labels as pairs of ids, sorted by the text of the name, without empty values.
pub type LabelIds = Box<[(u32, u32)]>;

/// Some of the series.
pub struct SeriesBatch {
    /// The texts of the labels.
    pub dictionary: Arc<dyn Dictionary>,
    /// Labels of each series.
    pub labels: Vec<LabelIds>,
    /// Samples of each series.
    pub samples: Vec<Arc<Samples>>,
    /// Memory that the batch takes.
    pub held: Option<Reservation>,
}

impl SeriesBatch {
    /// The labels of a series, by name.
    pub fn pairs(&self, series: usize) -> impl Iterator<Item = (&str, &str)> {
        let text = |id| self.dictionary.text(id);
        self.labels[series].iter().map(move |(name, value)| (text(*name), text(*value)))
    }
}

/// The answer to a selection. Fetches ahead while batches are used.
pub trait SampleScan: Send {
    /// The next batch; `None` after the last.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<SeriesBatch>, Error>>;

    /// The next series, which the caller decodes; `None` after the last.
    fn next_part(&mut self) -> BoxFuture<'_, Result<Option<Arc<dyn SeriesPart>>, Error>> {
        Box::pin(async { Ok(self.next().await?.map(|batch| Arc::new(batch) as Arc<dyn SeriesPart>)) })
    }

    /// Lets go of what was fetched ahead, which is fetched again when it is asked for: memory is short.
    fn give_back(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Whether it is known that nothing follows.
    fn is_over(&self) -> bool {
        false
    }
}

/// Exemplars of one series.
#[derive(Clone, Debug)]
pub struct SeriesExemplars {
    /// The series.
    pub labels: Arc<Labels>,
    /// Its exemplars by rising time.
    pub exemplars: Vec<Exemplar>,
}

/// Exemplars of series, sorted by labels.
#[derive(Default)]
pub struct Exemplars {
    /// The series that have some.
    pub series: Vec<SeriesExemplars>,
    /// Memory that they take.
    pub held: Option<Reservation>,
}

/// Which metadata, and how much of it.
#[derive(Clone, Debug, Default)]
pub struct MetadataSelection {
    /// The family; `None`: all.
    pub family: Option<String>,
    /// Most families; `None`: all that there are.
    pub limit: Option<usize>,
    /// Most different metadata of one family; `None`: all that there are.
    pub limit_per_family: Option<usize>,
}

/// Metadata sorted by family, each once; a family has several when senders say different things of it.
#[derive(Default)]
pub struct Metadata {
    /// What is told of the families.
    pub metrics: Vec<MetricMetadata>,
    /// Memory that it takes.
    pub held: Option<Reservation>,
}

impl MetadataSelection {
    /// What is selected of metadata that are sorted and come once each.
    pub fn of_sorted<'a>(
        &self,
        sorted: impl IntoIterator<Item = &'a MetricMetadata>,
    ) -> Vec<&'a MetricMetadata> {
        let (mut found, mut families, mut of_family) = (Vec::new(), 0usize, 0usize);
        let mut before: Option<&str> = None;
        let is_wanted = |one: &&MetricMetadata| self.family.as_deref().is_none_or(|f| *f == *one.family);
        for one in sorted.into_iter().filter(is_wanted) {
            if before != Some(&*one.family) {
                (families, of_family, before) = (families + 1, 0, Some(&*one.family));
            }
            of_family += 1;
            if self.limit.is_some_and(|most| families > most) {
                break;
            }
            if self.limit_per_family.is_none_or(|most| of_family <= most) {
                found.push(one);
            }
        }
        found
    }
}

/// Where samples come from. Every call sees the tenant, budget and deadline in the context.
pub trait SampleSource: SeriesIndex + Versions {
    /// Starts reading series. The scan must reserve what it holds from the query's budget.
    fn select<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: SampleSelection,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>>;

    /// The exemplars with a time in the range of series that pass all matchers of one of the lists.
    fn exemplars<'a>(
        &'a self,
        context: &'a QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Exemplars, Error>>;

    /// What is told of metric families.
    fn metadata<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: MetadataSelection,
    ) -> BoxFuture<'a, Result<Metadata, Error>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_metadata_count_families_and_what_is_said_of_each() {
        let of = |family: &str, help: &str| MetricMetadata {
            family: family.into(),
            help: help.into(),
            ..MetricMetadata::default()
        };
        let all = [of("a", "1"), of("a", "2"), of("a", "3"), of("b", "1"), of("c", "1")];
        let found = |limit, limit_per_family, family: Option<&str>| -> Vec<String> {
            let selection = MetadataSelection { family: family.map(str::to_owned), limit, limit_per_family };
            selection.of_sorted(&all).into_iter().map(|one| format!("{}{}", one.family, one.help)).collect()
        };
        assert_eq!(found(None, None, None).len(), 5);
        assert_eq!(found(Some(2), Some(1), None), ["a1", "b1"]);
        assert_eq!(found(Some(1), Some(2), Some("b")), ["b1"]);
        assert_eq!(found(Some(0), None, None), Vec::<String>::new());
    }
}
