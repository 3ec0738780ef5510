//! Restricts a source to the samples that a query may see: samples before the start of the tenant's
//! lookback are left out, and for PromQL also Graphite rollups, unless a matcher names their label.

use std::sync::Arc;

use sandur_base::BoxFuture;
use sandur_model::{GRAPHITE_ROLLUP, MatchOp, Matcher, TenantId, TimeRange};
use sandur_query::{
    Error, Exemplars, Holding, Metadata, MetadataSelection, QueryContext, SampleScan, SampleSelection,
    SampleSource, Samples, SeriesBatch, SeriesIndex, SeriesRequest, TextRequest, TextScan, Versions,
};

/// A source restricted to what a query may see.
pub struct Visible<'s> {
    source: &'s dyn SampleSource,
    shows_rollups: bool,
}

impl<'s> Visible<'s> {
    /// Without rollups, for PromQL: a rollup would count the points of its path a second time.
    pub fn new(source: &'s dyn SampleSource) -> Self {
        Self { source, shows_rollups: false }
    }

    /// With rollups, for callers that handle them.
    pub fn with_rollups(source: &'s dyn SampleSource) -> Self {
        Self { source, shows_rollups: true }
    }

    fn shown(&self, mut matchers: Vec<Matcher>) -> Vec<Matcher> {
        let are_named = || matchers.iter().any(|matcher| matcher.name() == GRAPHITE_ROLLUP);
        if !self.shows_rollups && !are_named() {
            matchers.extend(Matcher::new(GRAPHITE_ROLLUP, MatchOp::Equal, "").ok());
        }
        matchers
    }

    fn shown_series(&self, context: &QueryContext, request: SeriesRequest) -> SeriesRequest {
        SeriesRequest {
            any_of: request.any_of.into_iter().map(|matchers| self.shown(matchers)).collect(),
            range: seen(context, request.range),
        }
    }
}

impl SeriesIndex for Visible<'_> {
    fn series<'a>(
        &'a self,
        context: &'a QueryContext,
        request: SeriesRequest,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        self.source.series(context, self.shown_series(context, request))
    }

    fn texts<'a>(
        &'a self,
        context: &'a QueryContext,
        TextRequest { wanted, of }: TextRequest,
    ) -> BoxFuture<'a, Result<Box<dyn TextScan>, Error>> {
        self.source.texts(context, self.shown_series(context, of).texts(wanted))
    }
}

impl Versions for Visible<'_> {
    fn holdings(&self, context: &QueryContext, range: TimeRange) -> Option<Vec<Holding>> {
        self.source.holdings(context, range)
    }

    fn delete_generation(&self, tenant: &TenantId) -> u64 {
        self.source.delete_generation(tenant)
    }
}

impl SampleSource for Visible<'_> {
    fn select<'a>(
        &'a self,
        context: &'a QueryContext,
        mut selection: SampleSelection,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        selection.matchers = self.shown(selection.matchers);
        let earliest_ms = earliest_ms(context);
        if earliest_ms == i64::MIN {
            return self.source.select(context, selection);
        }
        selection.first_ms = selection.first_ms.max(earliest_ms);
        Box::pin(async move {
            let scan = self.source.select(context, selection).await?;
            Ok(Box::new(Later { scan, earliest_ms }) as Box<dyn SampleScan>)
        })
    }

    fn exemplars<'a>(
        &'a self,
        context: &'a QueryContext,
        request: SeriesRequest,
    ) -> BoxFuture<'a, Result<Exemplars, Error>> {
        self.source.exemplars(context, self.shown_series(context, request))
    }

    fn metadata<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: MetadataSelection,
    ) -> BoxFuture<'a, Result<Metadata, Error>> {
        self.source.metadata(context, selection)
    }
}

/// The part of a range that the query may see.
fn seen(context: &QueryContext, range: TimeRange) -> TimeRange {
    TimeRange::new(range.start.max(context.earliest_ns()), range.end)
}

/// The first millisecond that the query may see.
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

/// The samples from a timestamp on; `None` if that is all of them.
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
    fn samples_before_the_lookback_are_left_out() {
        let samples =
            Samples { times: vec![1, 2, 3].into(), values: vec![0.1, 0.2, 0.3], ..Samples::default() };
        let rest = later(&samples, 2).unwrap();
        assert_eq!((&rest.times[..], &rest.values[..]), (&[2, 3][..], &[0.2, 0.3][..]));
        assert!(later(&samples, 1).is_none());
    }

    #[test]
    fn rollups_are_visible_to_queries_that_name_their_label() {
        let source = sandur_query::MemorySeries::default();
        let [promql, all] = [Visible::new(&source), Visible::with_rollups(&source)];
        let shown = |of: &Visible<'_>, matchers: Vec<Matcher>| {
            of.shown(matchers).iter().map(Matcher::to_string).collect::<Vec<_>>().join(" ")
        };
        let one = |name| vec![Matcher::new(name, MatchOp::NotEqual, "x").unwrap()];
        assert_eq!(shown(&promql, one("a")), r#"a!="x" __rollup__="""#);
        assert_eq!(shown(&promql, one("__rollup__")), r#"__rollup__!="x""#);
        assert_eq!(shown(&all, one("a")), r#"a!="x""#);
        let hour = std::time::Duration::from_secs(3_600);
        let budget = sandur_memory::MemoryBudget::root("query", 1 << 20);
        let (env, tenant) = (sandur_runtime::Env::system(1), TenantId::default_tenant());
        let context = QueryContext::new(env, tenant, budget, hour);
        let every = |of: &Visible<'_>| {
            of.shown_series(&context, SeriesRequest::any_of(Vec::new(), TimeRange::ALL)).any_of
        };
        assert_eq!((every(&promql).len(), every(&all)), (1, vec![Vec::new()]));
        assert_eq!(every(&promql)[0].len(), 1);
    }
}
