//! The source of metric queries: series with their samples, in batches.
//!
//! A [`SampleSource`] answers a [`SampleSelection`] with a [`SampleScan`], which returns the matching
//! series in batches, each series once. A batch may contain samples outside of the selected time; the
//! reader ignores them.
//!
//! Exemplars and metadata are returned all at once, because a source keeps a bounded number of them.

use std::sync::Arc;

use sandur_base::BoxFuture;
use sandur_memory::Reservation;
use sandur_model::{Exemplar, Labels, Matcher, MetricMetadata, TimeRange};

use crate::context::QueryContext;
use crate::error::Error;
use crate::series_batch::SampleScan;
use crate::series_index::{SeriesIndex, SeriesRequest};
use crate::source::Versions;

/// Which series to read, and which of their data. Everything except matchers, times and labels is a hint
/// that lets a source read less.
#[derive(Clone, Debug)]
pub struct SampleSelection {
    /// Conditions on the labels, all of which must match.
    pub matchers: Vec<Matcher>,
    /// First millisecond of the selected samples, inclusive.
    pub first_ms: i64,
    /// Last millisecond of the selected samples, inclusive.
    pub last_ms: i64,
    /// Labels that the query reads; `None`: all. Others may be left out.
    pub labels: Option<Vec<String>>,
    /// Length of the window of each step, in milliseconds; 0 for instants.
    pub range_ms: i64,
    /// Time between steps, in milliseconds; 0 for one step.
    pub step_ms: i64,
    /// The function or aggregation around the selector.
    pub function: &'static str,
    /// Whether the query reads the start times of samples.
    pub starts: bool,
    /// Whether the query reads only sums, counts and resets of histograms. Without a reset hint, buckets
    /// are needed to detect a reset, so a source must not leave out the buckets of a histogram that is
    /// followed by one without a hint.
    pub statistics_only: bool,
    /// Whether the query reads only whether float samples exist: a source may replace their values by
    /// any number that is not a stale marker.
    pub presence_only: bool,
}

impl SampleSelection {
    /// All samples of the matching series from `first_ms` to `last_ms`, both inclusive.
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

    /// Whether the query reads a label.
    pub fn wants(&self, name: &str) -> bool {
        self.labels.as_ref().is_none_or(|labels| labels.iter().any(|label| label == name))
    }

    /// The time range of the selected samples.
    pub fn range(&self) -> TimeRange {
        TimeRange::of_milliseconds(self.first_ms, self.last_ms)
    }
}

/// Exemplars of one series.
#[derive(Clone, Debug)]
pub struct SeriesExemplars {
    /// Labels of the series.
    pub labels: Arc<Labels>,
    /// Its exemplars by rising time.
    pub exemplars: Vec<Exemplar>,
}

/// Exemplars of series, sorted by labels.
#[derive(Default)]
pub struct Exemplars {
    /// The series that have exemplars in the range.
    pub series: Vec<SeriesExemplars>,
    /// The memory of the exemplars.
    pub held: Option<Reservation>,
}

/// Which metadata to return, and how much of it.
#[derive(Clone, Debug, Default)]
pub struct MetadataSelection {
    /// The metric family; `None`: all.
    pub family: Option<String>,
    /// The most families; `None`: no limit.
    pub limit: Option<usize>,
    /// The most distinct metadata of one family; `None`: no limit.
    pub limit_per_family: Option<usize>,
}

/// Distinct metadata, sorted by family. A family has several when clients sent different ones.
#[derive(Default)]
pub struct Metadata {
    /// The metadata.
    pub metrics: Vec<MetricMetadata>,
    /// The memory of the metadata.
    pub held: Option<Reservation>,
}

impl MetadataSelection {
    /// The selected part of metadata that are sorted and distinct.
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

/// A source of samples. The context determines tenant, budget and deadline of every call.
pub trait SampleSource: SeriesIndex + Versions {
    /// Starts reading series. The scan must reserve the memory that it holds in the query's budget.
    fn select<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: SampleSelection,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>>;

    /// The exemplars in the range of the selected series.
    fn exemplars<'a>(
        &'a self,
        context: &'a QueryContext,
        request: SeriesRequest,
    ) -> BoxFuture<'a, Result<Exemplars, Error>>;

    /// Metadata of metric families.
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
    fn limits_of_metadata_count_families_and_metadata_of_each() {
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
