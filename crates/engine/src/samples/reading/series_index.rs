//! The series calls of metrics. Blocks are read in parts, and the results of several blocks are merged
//! in order.

use futures_util::future::join_all;
use roaring::RoaringBitmap;
use sandur_base::BoxFuture;
use sandur_format::sample_block::Footer;
use sandur_model::{Matcher, TenantId, TimeRange};
use sandur_query::{
    DistinctTexts, Error, JoinedLabels, JoinedTexts, KnownBatch, QueryContext, QueryStats, SampleScan,
    SeriesIndex, SeriesRequest, TextRequest, TextScan, WantedTexts, texts_of_series,
};

use super::in_block::InBlock;
use super::scan::LabelScan;
use super::value_scan::ValueScan;
use crate::error;
use crate::head::Head;
use crate::reading::matching;
use crate::reading::series_reader::{OPEN_AT_ONCE, SeriesInHead, SeriesReader};
use crate::samples::index::{IndexError, IndexReader, or_warn};
use crate::view::View;

/// Up to this many bytes of numbers of combinations are added inline, because a job on the CPU pool costs
/// more.
const LITTLE_BYTES: u64 = 8 << 10;

async fn select(
    index: &IndexReader,
    any_of: &[Vec<Matcher>],
    range: TimeRange,
) -> Result<RoaringBitmap, IndexError> {
    let mut selected = RoaringBitmap::new();
    for matchers in any_of {
        selected |= index.select(matchers).await?;
    }
    index.touching(selected, range).await
}

impl SeriesReader<Footer> {
    /// The matching series of each block that may have samples in the range.
    async fn in_blocks(
        &self,
        context: &QueryContext,
        view: &View,
        any_of: &[Vec<Matcher>],
        range: TimeRange,
    ) -> Result<Vec<InBlock>, Error> {
        let began = context.env().monotonic();
        QueryStats::add(&context.stats().heads_asked, view.heads.len() as u64);
        let mut found = Vec::new();
        for some in Self::blocks(view, context, range).chunks(OPEN_AT_ONCE) {
            context.check()?;
            QueryStats::add(&context.stats().blocks_opened, some.len() as u64);
            let mut indexes = Vec::with_capacity(some.len());
            for block in self.reader().open_all::<Footer>(some, context.stats()).await {
                if let Some(block) = error::or_warn(context, block)? {
                    indexes.push(IndexReader::new(self.reader(), context, &block));
                }
            }
            let selected = join_all(indexes.iter().map(|index| select(index, any_of, range))).await;
            for (index, mut series) in indexes.into_iter().zip(selected) {
                // If there was no memory for all of them concurrently, try one after the other.
                if let Err(IndexError::Query(Error::OverBudget(_))) = series {
                    series = select(&index, any_of, range).await;
                }
                let Some(series) = or_warn(context, series)? else { continue };
                QueryStats::add(&context.stats().streams, series.len());
                if !series.is_empty() {
                    let memory = context.budget().reserve(series.serialized_size() as u64 + 256)?;
                    found.push(InBlock { index, series, _memory: memory });
                }
            }
        }
        let took = context.env().monotonic().saturating_sub(began);
        QueryStats::add_time(&context.stats().index_ns, took);
        Ok(found)
    }

    /// The labels of the selected series, in batches.
    async fn labels_of_each(
        &self,
        context: &QueryContext,
        SeriesRequest { any_of, range }: SeriesRequest,
    ) -> Result<LabelScan, Error> {
        let view = self.view(context).await?;
        let blocks = self.in_blocks(context, &view, &any_of, range).await?;
        let mut heads = Vec::new();
        for matchers in &any_of {
            let look = move |_, head: &Head, tenant: &TenantId, matchers: &[Matcher]| {
                head.samples().select(tenant, matchers, range)
            };
            heads.extend(matching::in_heads(context, &view.heads, matchers, look).await?);
        }
        LabelScan::new(context, blocks, heads)
    }

    async fn names(
        &self,
        context: &QueryContext,
        SeriesRequest { any_of, range }: SeriesRequest,
    ) -> Result<Box<dyn TextScan>, Error> {
        let mut names = DistinctTexts::new(context)?;
        let view = self.view(context).await?;
        for InBlock { index, series, .. } in self.in_blocks(context, &view, &any_of, range).await? {
            let found = or_warn(context, index.names(&series).await)?.unwrap_or_default();
            found.iter().try_for_each(|name| names.add(name))?;
        }
        for matchers in &any_of {
            for series in self.in_heads(context, &view, matchers, range).await? {
                SeriesInHead::label_names(&series).try_for_each(|name| names.add(name))?;
            }
        }
        Ok(names.into_scan())
    }

    async fn values(
        &self,
        context: &QueryContext,
        name: &str,
        SeriesRequest { any_of, range }: SeriesRequest,
    ) -> Result<Box<dyn TextScan>, Error> {
        let view = self.view(context).await?;
        let (mut streams, mut heads) = (Vec::new(), Vec::new());
        for InBlock { index, series, .. } in self.in_blocks(context, &view, &any_of, range).await? {
            streams.extend(or_warn(context, index.values(name, &series).await)?.flatten());
        }
        for matchers in &any_of {
            let name = name.to_owned();
            let examined = |head: &Head| head.samples().examined(context.tenant(), matchers, range);
            let look = move |_, head: &Head, tenant: &TenantId, matchers: &[Matcher]| {
                head.samples().sorted_values(tenant, &name, matchers, range)
            };
            let looks = (examined, look);
            heads.extend(matching::in_heads_examining(context, &view.heads, matchers, looks).await?);
        }
        Ok(Box::new(ValueScan::new(context, streams, heads)?))
    }

    /// Combinations of label values in blocks and heads.
    async fn combinations(
        &self,
        context: &QueryContext,
        wanted: JoinedLabels,
        SeriesRequest { any_of, range }: SeriesRequest,
    ) -> Result<Box<dyn TextScan>, Error> {
        let mut texts = JoinedTexts::new(context, wanted.limit)?;
        let view = self.view(context).await?;
        for InBlock { index, series, .. } in self.in_blocks(context, &view, &any_of, range).await? {
            or_warn(context, index.joined_values(&wanted, &series, &mut texts).await)?;
            texts.end_holder()?;
        }
        for matchers in &any_of {
            let (labels, separator) = (wanted.clone(), wanted.separator);
            let examined = |head: &Head| head.samples().examined(context.tenant(), matchers, range);
            let look = move |_, head: &Head, tenant: &TenantId, matchers: &[Matcher]| {
                head.samples().joined_values(tenant, &labels, matchers, range)
            };
            let looks = (examined, look);
            for of_head in matching::in_heads_examining(context, &view.heads, matchers, looks).await? {
                let bytes = of_head.memory_bytes();
                let _memory = context.budget().reserve(bytes)?;
                let add = move || {
                    of_head.iter().try_for_each(|values| texts.add(values, separator))?;
                    texts.end_holder()?;
                    Ok(texts)
                };
                texts = context.compute_sized(bytes <= LITTLE_BYTES, add).await?;
            }
        }
        Ok(Box::new(KnownBatch::new(texts.finish()?)))
    }
}

impl SeriesIndex for SeriesReader<Footer> {
    fn series<'a>(
        &'a self,
        context: &'a QueryContext,
        request: SeriesRequest,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        Box::pin(
            async move { Ok(Box::new(self.labels_of_each(context, request).await?) as Box<dyn SampleScan>) },
        )
    }

    fn texts<'a>(
        &'a self,
        context: &'a QueryContext,
        TextRequest { wanted, of }: TextRequest,
    ) -> BoxFuture<'a, Result<Box<dyn TextScan>, Error>> {
        Box::pin(async move {
            if !context.part().is_whole() {
                // The index has names and values of all series.
                return texts_of_series(self, context, of.texts(wanted)).await;
            }
            match wanted {
                WantedTexts::Names => self.names(context, of).await,
                WantedTexts::Values(name) => self.values(context, &name, of).await,
                WantedTexts::Joined(wanted) => self.combinations(context, wanted, of).await,
            }
        })
    }
}
