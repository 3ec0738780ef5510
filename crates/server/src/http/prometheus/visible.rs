//! Samples as a tenant may see them: those before the first instant that exists for the query are left out.

use std::sync::Arc;

use sandur_base::BoxFuture;
use sandur_model::{Labels, Matcher, TenantId, TimeRange};
use sandur_query::{
    Error, Exemplars, Holding, JoinedLabels, Metadata, MetadataSelection, QueryContext, SampleScan,
    SampleSelection, SampleSource, Samples, SeriesBatch, SeriesIndex, TextBatch, TextScan, Versions,
};

/// A source as a query may see it.
pub struct Visible<'s>(pub &'s dyn SampleSource);

impl SeriesIndex for Visible<'_> {
    fn streams<'a>(
        &'a self,
        context: &'a QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<Arc<Labels>>, Error>> {
        self.0.streams(context, any_of, seen(context, range))
    }

    fn label_names<'a>(
        &'a self,
        context: &'a QueryContext,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        self.0.label_names(context, matchers, seen(context, range))
    }

    fn label_values<'a>(
        &'a self,
        context: &'a QueryContext,
        name: String,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        self.0.label_values(context, name, matchers, seen(context, range))
    }

    fn value_scan<'a>(
        &'a self,
        context: &'a QueryContext,
        name: String,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Box<dyn TextScan>, Error>> {
        self.0.value_scan(context, name, any_of, seen(context, range))
    }

    fn joined_values<'a>(
        &'a self,
        context: &'a QueryContext,
        wanted: JoinedLabels,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<TextBatch, Error>> {
        self.0.joined_values(context, wanted, matchers, seen(context, range))
    }

    fn series_scan<'a>(
        &'a self,
        context: &'a QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        self.0.series_scan(context, any_of, seen(context, range))
    }
}

impl Versions for Visible<'_> {
    fn holdings(&self, context: &QueryContext, range: TimeRange) -> Option<Vec<Holding>> {
        self.0.holdings(context, range)
    }

    fn delete_generation(&self, tenant: &TenantId) -> u64 {
        self.0.delete_generation(tenant)
    }
}

impl SampleSource for Visible<'_> {
    fn select<'a>(
        &'a self,
        context: &'a QueryContext,
        mut selection: SampleSelection,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        let earliest_ms = earliest_ms(context);
        if earliest_ms == i64::MIN {
            return self.0.select(context, selection);
        }
        selection.first_ms = selection.first_ms.max(earliest_ms);
        Box::pin(async move {
            let scan = self.0.select(context, selection).await?;
            Ok(Box::new(Later { scan, earliest_ms }) as Box<dyn SampleScan>)
        })
    }

    fn exemplars<'a>(
        &'a self,
        context: &'a QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Exemplars, Error>> {
        self.0.exemplars(context, any_of, seen(context, range))
    }

    fn metadata<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: MetadataSelection,
    ) -> BoxFuture<'a, Result<Metadata, Error>> {
        self.0.metadata(context, selection)
    }
}

/// The part of a range that exists for the query.
fn seen(context: &QueryContext, range: TimeRange) -> TimeRange {
    TimeRange::new(range.start.max(context.earliest_ns()), range.end)
}

/// The first millisecond that exists for the query.
fn earliest_ms(context: &QueryContext) -> i64 {
    match context.earliest_ns() {
        i64::MIN => i64::MIN,
        ns => ns.saturating_add(999_999).div_euclid(1_000_000),
    }
}

struct Later {
    scan: Box<dyn SampleScan>,
    earliest_ms: i64,
}

impl SampleScan for Later {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<SeriesBatch>, Error>> {
        Box::pin(async move {
            let Some(mut batch) = self.scan.next().await? else { return Ok(None) };
            for samples in &mut batch.samples {
                if let Some(later) = later(samples, self.earliest_ms) {
                    *samples = Arc::new(later);
                }
            }
            Ok(Some(batch))
        })
    }

    fn is_over(&self) -> bool {
        self.scan.is_over()
    }
}

/// The samples from an instant on, unless all are.
fn later(samples: &Samples, earliest_ms: i64) -> Option<Samples> {
    let floats = samples.times.partition_point(|time| *time < earliest_ms);
    let histograms = samples.histogram_times.partition_point(|time| *time < earliest_ms);
    if floats == 0 && histograms == 0 {
        return None;
    }
    let rest = |of: &[i64], from: usize| of.get(from..).unwrap_or_default().to_vec();
    Some(Samples {
        times: rest(&samples.times, floats).into(),
        values: samples.values[floats..].to_vec(),
        starts: rest(&samples.starts, floats),
        histogram_times: rest(&samples.histogram_times, histograms),
        histograms: samples.histograms[histograms..].to_vec(),
        histogram_starts: rest(&samples.histogram_starts, histograms),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_forgotten_past_are_left_out() {
        let samples =
            Samples { times: vec![1, 2, 3].into(), values: vec![0.1, 0.2, 0.3], ..Samples::default() };
        let rest = later(&samples, 2).unwrap();
        assert_eq!((&rest.times[..], &rest.values[..]), (&[2, 3][..], &[0.2, 0.3][..]));
        assert!(later(&samples, 1).is_none());
    }
}
