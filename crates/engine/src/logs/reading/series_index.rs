//! The series calls of logs. The streams are in the footers of blocks, which are decoded completely.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use roaring::RoaringBitmap;
use sandur_base::BoxFuture;
use sandur_format::log_block::Footer;
use sandur_model::{Labels, Matcher, StreamId, TimeRange};
use sandur_query::{
    DistinctTexts, Error, KnownSeries, QueryContext, QueryStats, SampleScan, SeriesIndex, SeriesRequest,
    TextRequest, TextScan, WantedTexts, series_bytes, texts_of_series,
};

use crate::error::{ReadError, or_warn};
use crate::logs::block::OpenLogs;
use crate::reading::matching;
use crate::reading::series_reader::{OPEN_AT_ONCE, SeriesInHead, SeriesReader};
use crate::view::View;

impl SeriesReader<Footer> {
    /// Calls `visit` with every block of the range and its matching series with rows in the range.
    pub(crate) async fn visit_blocks(
        &self,
        context: &QueryContext,
        matchers: &[Matcher],
        range: TimeRange,
        mut visit: impl FnMut(&OpenLogs, &RoaringBitmap) -> Result<(), Error>,
    ) -> Result<Arc<View>, Error> {
        let began = context.env().monotonic();
        let view = self.view(context).await?;
        QueryStats::add(&context.stats().heads_asked, view.heads.len() as u64);
        let blocks = Self::blocks(&view, context, range);
        for some in blocks.chunks(OPEN_AT_ONCE) {
            context.check()?;
            QueryStats::add(&context.stats().blocks_opened, some.len() as u64);
            for block in self.reader().open_all::<Footer>(some, context.stats()).await {
                let Some(block) = or_warn(context, block)? else { continue };
                let selected = matching::in_block(context, &block, matchers).await?;
                let selected = selected.map_err(|reason| ReadError::damaged(&block.meta, reason));
                let Some(selected) = or_warn(context, selected)? else { continue };
                let series = block.footer.streams().touching(selected, range);
                QueryStats::add(&context.stats().streams, series.len());
                visit(&block, &series)?;
            }
        }
        let took = context.env().monotonic().saturating_sub(began);
        QueryStats::add_time(&context.stats().index_ns, took);
        Ok(view)
    }

    /// The label sets of the selected series, sorted.
    async fn streams(
        &self,
        context: &QueryContext,
        SeriesRequest { any_of, range }: SeriesRequest,
    ) -> Result<KnownSeries, Error> {
        let mut memory = context.budget().reserve(0)?;
        // By identity, because most blocks have the same series, and comparing labels would dominate the
        // cost.
        let mut found: HashMap<StreamId, Arc<Labels>> = HashMap::new();
        let mut add = |id: StreamId, labels: &dyn Fn() -> Arc<Labels>| {
            if let Entry::Vacant(unknown) = found.entry(id) {
                let labels = labels();
                memory.grow(series_bytes(&labels))?;
                unknown.insert(labels);
            }
            Ok::<_, Error>(())
        };
        for matchers in &any_of {
            let visit = |block: &OpenLogs, series: &RoaringBitmap| {
                let mut all = series.iter();
                all.try_for_each(|n| add(block.series_id(n), &|| block.footer.streams().labels(n)))
            };
            let view = self.visit_blocks(context, matchers, range, visit).await?;
            for series in self.in_heads(context, &view, matchers, range).await? {
                (0..series.len()).try_for_each(|at| add(series.id(at), &|| series.labels(at)))?;
            }
        }
        let mut series: Vec<Arc<Labels>> = found.into_values().collect();
        series.sort_unstable();
        Ok(KnownSeries::held(series, memory))
    }

    /// Names or values of the labels of the selected series.
    async fn names_or_values(
        &self,
        context: &QueryContext,
        value_of: Option<&str>,
        SeriesRequest { any_of, range }: SeriesRequest,
    ) -> Result<Box<dyn TextScan>, Error> {
        let mut texts = DistinctTexts::new(context)?;
        for matchers in &any_of {
            let visit = |block: &OpenLogs, series: &RoaringBitmap| {
                let table = block.footer.streams();
                match value_of {
                    None => table.label_names_of(series).try_for_each(|name| texts.add(name)),
                    Some(name) => {
                        table.label_values_of(name, series).into_iter().try_for_each(|value| texts.add(value))
                    }
                }
            };
            let view = self.visit_blocks(context, matchers, range, visit).await?;
            for series in self.in_heads(context, &view, matchers, range).await? {
                match value_of {
                    None => series.label_names().try_for_each(|name| texts.add(name))?,
                    Some(name) => series.label_values(name).try_for_each(|value| texts.add(value))?,
                }
            }
        }
        Ok(texts.into_scan())
    }
}

impl SeriesIndex for SeriesReader<Footer> {
    fn series<'a>(
        &'a self,
        context: &'a QueryContext,
        request: SeriesRequest,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        Box::pin(async move { Ok(Box::new(self.streams(context, request).await?) as Box<dyn SampleScan>) })
    }

    fn texts<'a>(
        &'a self,
        context: &'a QueryContext,
        TextRequest { wanted, of }: TextRequest,
    ) -> BoxFuture<'a, Result<Box<dyn TextScan>, Error>> {
        Box::pin(async move {
            match wanted {
                WantedTexts::Names => self.names_or_values(context, None, of).await,
                WantedTexts::Values(name) => self.names_or_values(context, Some(&name), of).await,
                WantedTexts::Joined(_) => texts_of_series(self, context, of.texts(wanted)).await,
            }
        })
    }
}
