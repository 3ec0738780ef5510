//! The series calls of logs. The streams are in the footers of blocks, which are decoded completely.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use roaring::RoaringBitmap;
use sandur_base::{BoxFuture, Reservation};
use sandur_format::log_block::Footer;
use sandur_model::{Labels, Matcher, StreamId, TimeRange};
use sandur_query::{Error, QueryContext, QueryStats, SeriesIndex, any_or_all};

use super::block::OpenLogs;
use crate::block_reader::{ReadError, or_warn};
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
        let view = self.view(context);
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

    /// The label sets of the series that match any of the lists, sorted.
    async fn series(
        &self,
        context: &QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> Result<Vec<Arc<Labels>>, Error> {
        let lists = any_or_all(any_of);
        let mut memory = context.budget().reserve(0)?;
        // By identity, because most blocks have the same series, and comparing labels would dominate the
        // cost.
        let mut found: HashMap<StreamId, Arc<Labels>> = HashMap::new();
        let mut add = |id: StreamId, labels: &dyn Fn() -> Arc<Labels>| {
            if let Entry::Vacant(unknown) = found.entry(id) {
                let labels = labels();
                memory.grow(labels.text_bytes() as u64 + SERIES_BYTES)?;
                unknown.insert(labels);
            }
            Ok::<_, Error>(())
        };
        for matchers in &lists {
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
        Ok(series)
    }

    /// The label names of matching series, sorted.
    async fn names_of_labels(
        &self,
        context: &QueryContext,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> Result<Vec<String>, Error> {
        let mut names = Texts { found: BTreeSet::new(), memory: context.budget().reserve(0)? };
        let visit = |block: &OpenLogs, series: &RoaringBitmap| {
            block.footer.streams().label_names_of(series).try_for_each(|name| names.add(name))
        };
        let view = self.visit_blocks(context, &matchers, range, visit).await?;
        for series in self.in_heads(context, &view, &matchers, range).await? {
            series.label_names().try_for_each(|name| names.add(name))?;
        }
        Ok(names.found.into_iter().collect())
    }

    /// The values of one label in matching series, sorted.
    async fn values_of_label(
        &self,
        context: &QueryContext,
        name: &str,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> Result<Vec<String>, Error> {
        let mut values = Texts { found: BTreeSet::new(), memory: context.budget().reserve(0)? };
        let visit = |block: &OpenLogs, series: &RoaringBitmap| {
            let some = block.footer.streams().label_values_of(name, series);
            some.into_iter().try_for_each(|value| values.add(value))
        };
        let view = self.visit_blocks(context, &matchers, range, visit).await?;
        for series in self.in_heads(context, &view, &matchers, range).await? {
            series.label_values(name).try_for_each(|value| values.add(value))?;
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
        Box::pin(self.series(context, any_of, range))
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
