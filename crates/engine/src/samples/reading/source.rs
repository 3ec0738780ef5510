//! The engine as a source of metric queries: scans and series calls.

use std::sync::Arc;

use sandur_base::BoxFuture;
use sandur_format::sample_block::Footer;
use sandur_model::{Labels, Signal, StreamId, TenantId, TimeRange};
use sandur_query::{
    Error, Exemplars, Holding, Indexed, Metadata, MetadataSelection, QueryContext, SampleScan,
    SampleSelection, SampleSource, SeriesRequest, Versions,
};

use super::exemplars::read_exemplars;
use super::metadata::read_metadata;
use super::scan::SeriesScan;
use crate::blocks::reader::BlockReader;
use crate::head::Head;
use crate::logs::head::WantedStreams;
use crate::reading::freshness::Freshness;
use crate::reading::series_reader::{IndexedSignal, SeriesInHead, SeriesReader};
use crate::rules::Rulebook;
use crate::samples::head::MatchingSeries;
use crate::view::Views;

/// The source of queries over all samples of the engine.
pub(crate) struct EngineSamples {
    series: SeriesReader<Footer>,
    rulebook: Arc<Rulebook>,
}

impl EngineSamples {
    pub(crate) fn new(
        (views, freshness): (Arc<Views>, Freshness),
        reader: BlockReader,
        rulebook: Arc<Rulebook>,
    ) -> Self {
        Self { series: SeriesReader::new(views, freshness, reader), rulebook }
    }
}

impl IndexedSignal for Footer {
    const SIGNAL: Signal = Signal::Metrics;
    type InHead = MatchingSeries;

    fn in_head(
        head: &Head,
        WantedStreams { tenant, matchers, part }: WantedStreams<'_>,
        range: TimeRange,
    ) -> Self::InHead {
        debug_assert!(part.is_whole(), "parts read the labels of each series");
        head.samples().matching(tenant, matchers, range)
    }
}

impl SeriesInHead for MatchingSeries {
    fn id(&self, at: usize) -> StreamId {
        self.id(at)
    }

    fn labels(&self, at: usize) -> Arc<Labels> {
        Arc::new(self.labels(at))
    }

    fn label_names(&self) -> impl Iterator<Item = &str> {
        self.label_names()
    }

    fn label_values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.label_values(name)
    }
}

impl Indexed for EngineSamples {
    type Index = SeriesReader<Footer>;

    fn index(&self) -> &SeriesReader<Footer> {
        &self.series
    }
}

impl Versions for EngineSamples {
    fn holdings(&self, context: &QueryContext, range: TimeRange) -> Option<Vec<Holding>> {
        self.series.holdings(context, range)
    }

    fn delete_generation(&self, tenant: &TenantId) -> u64 {
        self.series.delete_generation(tenant)
    }
}

impl SampleSource for EngineSamples {
    fn select<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: SampleSelection,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        Box::pin(async move {
            let view = self.series.view(context).await?;
            let dataset = SeriesReader::<Footer>::dataset(context);
            let rules = self.rulebook.hiding(&view.snapshot, &dataset).await?;
            rules.warn(context);
            let scan = SeriesScan::open(self.series.reader(), rules, &view, context, selection).await?;
            Ok(Box::new(scan) as Box<dyn SampleScan>)
        })
    }

    fn exemplars<'a>(
        &'a self,
        context: &'a QueryContext,
        request: SeriesRequest,
    ) -> BoxFuture<'a, Result<Exemplars, Error>> {
        Box::pin(async move {
            let view = self.series.view(context).await?;
            let dataset = SeriesReader::<Footer>::dataset(context);
            let rules = self.rulebook.hiding(&view.snapshot, &dataset).await?;
            rules.warn(context);
            read_exemplars(self.series.reader(), &view, &rules, context, request).await
        })
    }

    fn metadata<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: MetadataSelection,
    ) -> BoxFuture<'a, Result<Metadata, Error>> {
        Box::pin(async move {
            let view = self.series.view(context).await?;
            if !context.part().is_first() {
                return Ok(Metadata::default());
            }
            read_metadata(self.series.reader(), &view, context, &selection).await
        })
    }
}
