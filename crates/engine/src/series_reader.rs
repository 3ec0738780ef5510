//! Reads which series are stored: what the label calls of every signal need, footers and heads alone.
//!
//! A signal says how it finds series in a head ([`IndexedSignal`]); blocks are told apart by their footers.
//!
//! **Invariants.** What grows with the number of series is reserved from the query's budget first. A damaged
//! or missing block is a warning that names it; a store that does not answer fails the call.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::marker::PhantomData;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use roaring::RoaringBitmap;
use sandur_base::{BoxFuture, Reservation};
use sandur_format::block::BlockIndex;
use sandur_format::catalog_entry::BlockMeta;
use sandur_model::{Dataset, Labels, Matcher, Signal, StreamId, TenantId, TimeRange};
use sandur_query::{Error, Holding, QueryContext, QueryStats, SeriesIndex};

use crate::block_reader::{BlockReader, ReadError, or_warn};
use crate::head::Head;
use crate::matching;
use crate::open_block::OpenBlock;
use crate::view::{View, Views};

/// Footers that are open at a time when a call walks over all blocks of a range.
pub(crate) const OPEN_AT_ONCE: usize = 16;
/// Bytes that a found series takes beside its labels, and a found name or value beside its text.
const SERIES_BYTES: u64 = 64;
const TEXT_BYTES: u64 = 48;

/// A signal whose series are found in blocks with this footer.
pub(crate) trait IndexedSignal: BlockIndex + Sized {
    /// Which signal it is.
    const SIGNAL: Signal;
    /// Series of a head.
    type InHead: SeriesInHead;

    /// The matching series of a head that have rows in the range.
    fn in_head(head: &Head, tenant: &TenantId, matchers: &[Matcher], range: TimeRange) -> Self::InHead;
}

/// Series that were found in a head.
pub(crate) trait SeriesInHead: Send + 'static {
    /// How many there are.
    fn len(&self) -> usize;
    /// The identity of one.
    fn id(&self, at: usize) -> StreamId;
    /// The labels of one.
    fn labels(&self, at: usize) -> Arc<Labels>;
    /// Names of labels that one of them has.
    fn label_names(&self) -> impl Iterator<Item = &str>;
    /// Values of a label that one of them has.
    fn label_values(&self, name: &str) -> impl Iterator<Item = &str>;
}

/// Finds series of one signal in everything that the engine holds.
pub(crate) struct SeriesReader<F> {
    views: Arc<Views>,
    reader: BlockReader,
    signal: PhantomData<fn() -> F>,
}

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

impl<F: IndexedSignal> SeriesReader<F> {
    pub(crate) fn new(views: Arc<Views>, reader: BlockReader) -> Self {
        Self { views, reader, signal: PhantomData }
    }

    /// What the query asks.
    pub(crate) fn dataset(context: &QueryContext) -> Dataset {
        Dataset { tenant: context.tenant().clone(), signal: F::SIGNAL }
    }

    /// How stored bytes are read.
    pub(crate) fn reader(&self) -> &BlockReader {
        &self.reader
    }

    /// What there is now; what is missing of it is a warning.
    pub(crate) fn view(&self, context: &QueryContext) -> Arc<View> {
        let view = self.views.current();
        view.missing.iter().for_each(|missing| context.warn(&**missing));
        view
    }

    /// The blocks of the range.
    pub(crate) fn blocks(view: &View, context: &QueryContext, range: TimeRange) -> Vec<Arc<BlockMeta>> {
        let blocks: Vec<_> = view.snapshot.blocks(&Self::dataset(context), range).cloned().collect();
        QueryStats::add(&context.stats().blocks_total, blocks.len() as u64);
        blocks
    }

    /// Calls `visit` with every block of the range and its matching series with rows in the range.
    pub(crate) async fn visit_blocks(
        &self,
        context: &QueryContext,
        matchers: &[Matcher],
        range: TimeRange,
        mut visit: impl FnMut(&OpenBlock<F>, &RoaringBitmap) -> Result<(), Error>,
    ) -> Result<Arc<View>, Error> {
        let began = context.env().monotonic();
        let view = self.view(context);
        QueryStats::add(&context.stats().heads_asked, view.heads.len() as u64);
        let blocks = Self::blocks(&view, context, range);
        for some in blocks.chunks(OPEN_AT_ONCE) {
            context.check()?;
            QueryStats::add(&context.stats().blocks_opened, some.len() as u64);
            for block in self.reader.open_all::<F>(some, context.stats()).await {
                let Some(block) = or_warn(context, block)? else { continue };
                let selected = matching::in_block(context, &block, matchers).await?;
                let selected = selected.map_err(|reason| ReadError::damaged(&block.meta, reason));
                let Some(selected) = or_warn(context, selected)? else { continue };
                let series = block.footer.series().touching(selected, range);
                QueryStats::add(&context.stats().streams, series.len());
                visit(&block, &series)?;
            }
        }
        let took = context.env().monotonic().saturating_sub(began);
        QueryStats::add_time(&context.stats().index_ns, took);
        Ok(view)
    }

    async fn in_heads(
        &self,
        context: &QueryContext,
        view: &View,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<Vec<F::InHead>, Error> {
        let look = move |_, head: &Head, tenant: &TenantId, matchers: &[Matcher]| {
            F::in_head(head, tenant, matchers, range)
        };
        matching::in_heads(context, &view.heads, matchers, look).await
    }

    /// The label sets of the series that match any of the lists, sorted.
    async fn series(
        &self,
        context: &QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> Result<Vec<Arc<Labels>>, Error> {
        let lists = if any_of.is_empty() { vec![Vec::new()] } else { any_of };
        let mut memory = context.budget().reserve(0)?;
        // By identity: most blocks hold the same series, and comparing labels costs more than all the rest.
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
            let visit = |block: &OpenBlock<F>, series: &RoaringBitmap| {
                let mut all = series.iter();
                all.try_for_each(|n| add(block.series_id(n), &|| block.footer.series().labels(n)))
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

    /// Names of labels of matching series, sorted.
    async fn names_of_labels(
        &self,
        context: &QueryContext,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> Result<Vec<String>, Error> {
        let mut names = Texts { found: BTreeSet::new(), memory: context.budget().reserve(0)? };
        let visit = |block: &OpenBlock<F>, series: &RoaringBitmap| {
            block.footer.series().label_names_of(series).try_for_each(|name| names.add(name))
        };
        let view = self.visit_blocks(context, &matchers, range, visit).await?;
        for series in self.in_heads(context, &view, &matchers, range).await? {
            series.label_names().try_for_each(|name| names.add(name))?;
        }
        Ok(names.found.into_iter().collect())
    }

    /// Values of one label of matching series, sorted.
    async fn values_of_label(
        &self,
        context: &QueryContext,
        name: &str,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> Result<Vec<String>, Error> {
        let mut values = Texts { found: BTreeSet::new(), memory: context.budget().reserve(0)? };
        let visit = |block: &OpenBlock<F>, series: &RoaringBitmap| {
            let some = block.footer.series().label_values_of(name, series);
            some.into_iter().try_for_each(|value| values.add(value))
        };
        let view = self.visit_blocks(context, &matchers, range, visit).await?;
        for series in self.in_heads(context, &view, &matchers, range).await? {
            series.label_values(name).try_for_each(|value| values.add(value))?;
        }
        Ok(values.found.into_iter().collect())
    }

    /// What the rows of the range are held by; `None` while some cannot be read.
    pub(crate) fn holdings(&self, context: &QueryContext, range: TimeRange) -> Option<Vec<Holding>> {
        let (view, dataset) = (self.views.current(), Self::dataset(context));
        if !view.missing.is_empty() {
            return None;
        }
        let block = |block: &Arc<BlockMeta>| Holding {
            first: block.min_ts,
            last: block.max_ts,
            version: block.id.0,
            bytes: block.raw_bytes.max(1),
        };
        let mut holdings: Vec<Holding> = view.snapshot.blocks(&dataset, range).map(block).collect();
        for head in &view.heads {
            holdings.extend(head.holdings(&dataset, range));
        }
        // What deletes hide belongs to the version of everything: an odd factor keeps generations apart.
        let deletes = u128::from(view.snapshot.delete_generation(&dataset));
        let mixed = deletes.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
        holdings.iter_mut().for_each(|holding| holding.version ^= mixed);
        Some(holdings)
    }

    /// A number that changes with what deletes hide.
    pub(crate) fn delete_generation(&self, tenant: &TenantId) -> u64 {
        let dataset = Dataset { tenant: tenant.clone(), signal: F::SIGNAL };
        self.views.current().snapshot.delete_generation(&dataset)
    }
}

impl<F: IndexedSignal> SeriesIndex for SeriesReader<F> {
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
