//! The series calls of metrics. Blocks are read in parts, and the results of several blocks are merged
//! in order.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use roaring::RoaringBitmap;
use sandur_base::{BoxFuture, Reservation};
use sandur_format::sample_block::Footer;
use sandur_model::{Labels, Matcher, TenantId, TimeRange};
use sandur_query::{
    Error, JoinedLabels, JoinedTexts, QueryContext, QueryStats, SampleScan, SeriesIndex, TextBatch, TextScan,
    any_or_all,
};

use super::index::{IndexError, IndexReader, or_warn};
use super::scan::LabelScan;
use super::value_scan::ValueScan;
use crate::block_reader;
use crate::head::Head;
use crate::matching;
use crate::series_reader::{OPEN_AT_ONCE, SeriesInHead, SeriesReader};
use crate::view::View;

/// Bytes of a found series in addition to its labels, and of a found name or value in addition to its text.
const SERIES_BYTES: u64 = 64;
const TEXT_BYTES: u64 = 48;

/// Sorted distinct texts, with the reservation of their memory.
struct Texts {
    found: BTreeSet<String>,
    memory: Reservation,
}

impl Texts {
    fn add(&mut self, text: &str) -> Result<(), Error> {
        if !self.found.contains(text) {
            self.memory.grow(text.len() as u64 + TEXT_BYTES)?;
            self.found.insert(text.to_owned());
        }
        Ok(())
    }
}

/// Series of one block.
pub(super) struct InBlock {
    pub(super) index: IndexReader,
    pub(super) series: RoaringBitmap,
    _memory: Reservation,
}

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
                if let Some(block) = block_reader::or_warn(context, block)? {
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

    /// The label sets of the series that match any of the lists, sorted.
    async fn label_sets(
        &self,
        context: &QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> Result<Vec<Arc<Labels>>, Error> {
        let mut memory = context.budget().reserve(0)?;
        let (mut series, mut scan) = (Vec::new(), self.labels_of_each(context, any_of, range).await?);
        while let Some(batch) = scan.next().await? {
            for at in 0..batch.labels.len() {
                let labels = Labels::from_pairs(batch.pairs(at));
                memory.grow(labels.text_bytes() as u64 + SERIES_BYTES)?;
                series.push(Arc::new(labels));
            }
        }
        series.sort_unstable();
        Ok(series)
    }

    /// The same, in batches.
    async fn labels_of_each(
        &self,
        context: &QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> Result<LabelScan, Error> {
        let lists = any_or_all(any_of);
        let view = self.view(context);
        let blocks = self.in_blocks(context, &view, &lists, range).await?;
        let mut heads = Vec::new();
        for matchers in &lists {
            let look = move |_, head: &Head, tenant: &TenantId, matchers: &[Matcher]| {
                head.samples().select(tenant, matchers, range)
            };
            heads.extend(matching::in_heads(context, &view.heads, matchers, look).await?);
        }
        LabelScan::new(context, blocks, heads)
    }

    async fn names_of_labels(
        &self,
        context: &QueryContext,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> Result<Vec<String>, Error> {
        let mut names = Texts { found: BTreeSet::new(), memory: context.budget().reserve(0)? };
        let view = self.view(context);
        for InBlock { index, series, .. } in
            self.in_blocks(context, &view, std::slice::from_ref(&matchers), range).await?
        {
            let found = or_warn(context, index.names(&series).await)?.unwrap_or_default();
            found.iter().try_for_each(|name| names.add(name))?;
        }
        for series in self.in_heads(context, &view, &matchers, range).await? {
            SeriesInHead::label_names(&series).try_for_each(|name| names.add(name))?;
        }
        Ok(names.found.into_iter().collect())
    }

    async fn values_of_label(
        &self,
        context: &QueryContext,
        name: &str,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> Result<Vec<String>, Error> {
        let mut memory = context.budget().reserve(0)?;
        let (mut values, mut scan) =
            (Vec::new(), self.values_in_order(context, name, vec![matchers], range).await?);
        while let Some(batch) = scan.next().await? {
            memory.grow(batch.iter().map(|value| value.len() as u64 + TEXT_BYTES).sum())?;
            values.extend(batch.iter().map(str::to_owned));
        }
        Ok(values)
    }

    /// The same, in batches.
    async fn values_in_order(
        &self,
        context: &QueryContext,
        name: &str,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> Result<ValueScan, Error> {
        let lists = any_or_all(any_of);
        let view = self.view(context);
        let (mut streams, mut heads) = (Vec::new(), Vec::new());
        for InBlock { index, series, .. } in self.in_blocks(context, &view, &lists, range).await? {
            streams.extend(or_warn(context, index.values(name, &series).await)?.flatten());
        }
        for matchers in &lists {
            let name = name.to_owned();
            let look = move |_, head: &Head, tenant: &TenantId, matchers: &[Matcher]| {
                head.samples().sorted_values(tenant, &name, matchers, range)
            };
            heads.extend(matching::in_heads(context, &view.heads, matchers, look).await?);
        }
        ValueScan::new(context, streams, heads)
    }
}

impl SeriesReader<Footer> {
    /// Combinations of label values in blocks and heads.
    async fn combinations(
        &self,
        context: &QueryContext,
        wanted: JoinedLabels,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> Result<TextBatch, Error> {
        let mut texts = JoinedTexts::new(context, wanted.limit)?;
        let view = self.view(context);
        let lists = std::slice::from_ref(&matchers);
        for InBlock { index, series, .. } in self.in_blocks(context, &view, lists, range).await? {
            or_warn(context, index.joined_values(&wanted, &series, &mut texts).await)?;
            texts.end_holder()?;
        }
        let (labels, separator) = (wanted.clone(), wanted.separator);
        let look = move |_, head: &Head, tenant: &TenantId, matchers: &[Matcher]| {
            head.samples().joined_values(tenant, &labels, matchers, range)
        };
        for of_head in matching::in_heads(context, &view.heads, &matchers, look).await? {
            let _memory = context.budget().reserve(of_head.memory_bytes())?;
            let add = move || {
                of_head.iter().try_for_each(|values| texts.add(values, separator))?;
                texts.end_holder()?;
                Ok(texts)
            };
            texts = context.compute(add).await?;
        }
        texts.finish()
    }
}

impl SeriesIndex for SeriesReader<Footer> {
    fn streams<'a>(
        &'a self,
        context: &'a QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<Arc<Labels>>, Error>> {
        Box::pin(self.label_sets(context, any_of, range))
    }

    fn label_names<'a>(
        &'a self,
        context: &'a QueryContext,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        Box::pin(self.names_of_labels(context, matchers, range))
    }

    fn label_values<'a>(
        &'a self,
        context: &'a QueryContext,
        name: String,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        Box::pin(async move { self.values_of_label(context, &name, matchers, range).await })
    }

    fn value_scan<'a>(
        &'a self,
        context: &'a QueryContext,
        name: String,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Box<dyn TextScan>, Error>> {
        Box::pin(async move {
            let scan = self.values_in_order(context, &name, any_of, range).await?;
            Ok(Box::new(scan) as Box<dyn TextScan>)
        })
    }

    fn joined_values<'a>(
        &'a self,
        context: &'a QueryContext,
        wanted: JoinedLabels,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<TextBatch, Error>> {
        Box::pin(self.combinations(context, wanted, matchers, range))
    }

    fn series_scan<'a>(
        &'a self,
        context: &'a QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        Box::pin(async move {
            let scan = self.labels_of_each(context, any_of, range).await?;
            Ok(Box::new(scan) as Box<dyn SampleScan>)
        })
    }
}
