//! The series calls of metrics: blocks are read by parts, and what several blocks have is put together in
//! order.

use std::collections::BTreeSet;
use std::sync::Arc;

use roaring::RoaringBitmap;
use sandur_base::{BoxFuture, Reservation};
use sandur_format::sample_block::Footer;
use sandur_model::{Labels, Matcher, TimeRange};
use sandur_query::{Error, QueryContext, QueryStats, SeriesIndex};

use super::index::{IndexError, IndexReader, or_warn};
use crate::block_reader;
use crate::series_reader::{OPEN_AT_ONCE, SeriesInHead, SeriesReader};
use crate::view::View;

/// Bytes that a found series takes beside its labels, and a found name or value beside its text.
const SERIES_BYTES: u64 = 64;
const TEXT_BYTES: u64 = 48;

/// Texts in order, each once, and what pays for them.
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
    matchers: &[Matcher],
    range: TimeRange,
) -> Result<RoaringBitmap, IndexError> {
    let selected = index.select(matchers).await?;
    index.touching(selected, range).await
}

impl SeriesReader<Footer> {
    /// The matching series of some blocks that may have samples in the range.
    async fn in_blocks(
        &self,
        context: &QueryContext,
        view: &View,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<Vec<InBlock>, Error> {
        let began = context.env().monotonic();
        QueryStats::add(&context.stats().heads_asked, view.heads.len() as u64);
        let mut found = Vec::new();
        for some in Self::blocks(view, context, range).chunks(OPEN_AT_ONCE) {
            context.check()?;
            QueryStats::add(&context.stats().blocks_opened, some.len() as u64);
            for block in self.reader().open_all::<Footer>(some, context.stats()).await {
                let Some(block) = block_reader::or_warn(context, block)? else { continue };
                let index = IndexReader::new(self.reader(), context, &block);
                let Some(series) = or_warn(context, select(&index, matchers, range).await)? else { continue };
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

    /// Label sets of the series that match any of the lists, sorted.
    async fn label_sets(
        &self,
        context: &QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> Result<Vec<Arc<Labels>>, Error> {
        let lists = if any_of.is_empty() { vec![Vec::new()] } else { any_of };
        let mut memory = context.budget().reserve(0)?;
        let mut found: BTreeSet<Labels> = BTreeSet::new();
        let mut add = |labels: Labels| {
            if !found.contains(&labels) {
                memory.grow(labels.text_bytes() as u64 + SERIES_BYTES)?;
                found.insert(labels);
            }
            Ok::<_, Error>(())
        };
        for matchers in &lists {
            let view = self.view(context);
            for InBlock { index, series, .. } in self.in_blocks(context, &view, matchers, range).await? {
                let pages = index.pages_of(&series);
                for number in &pages {
                    let page = index.page(*number, pages.len() <= 4).await;
                    let Some(held) = or_warn(context, page)? else { break };
                    series.range(held.page.series()).try_for_each(|n| add(held.page.labels(n)))?;
                }
            }
            for series in self.in_heads(context, &view, matchers, range).await? {
                (0..series.len())
                    .try_for_each(|at| add(SeriesInHead::labels(&series, at).as_ref().clone()))?;
            }
        }
        Ok(found.into_iter().map(Arc::new).collect())
    }

    async fn names_of_labels(
        &self,
        context: &QueryContext,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> Result<Vec<String>, Error> {
        let mut names = Texts { found: BTreeSet::new(), memory: context.budget().reserve(0)? };
        let view = self.view(context);
        for InBlock { index, series, .. } in self.in_blocks(context, &view, &matchers, range).await? {
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
        let mut values = Texts { found: BTreeSet::new(), memory: context.budget().reserve(0)? };
        let view = self.view(context);
        for InBlock { index, series, .. } in self.in_blocks(context, &view, &matchers, range).await? {
            let Some(Some(mut stream)) = or_warn(context, index.values(name, &series).await)? else {
                continue;
            };
            while let Some(Some(page)) = or_warn(context, stream.next().await)? {
                page.iter().try_for_each(|value| values.add(value))?;
            }
        }
        for series in self.in_heads(context, &view, &matchers, range).await? {
            SeriesInHead::label_values(&series, name).try_for_each(|value| values.add(value))?;
        }
        Ok(values.found.into_iter().collect())
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
}
