//! Finds the blocks and heads that hold the series of a signal; the common part of the label calls.
//!
//! A signal implements how its series are found in a head ([`IndexedSignal`]) and in its blocks: blocks
//! of logs have all streams in their footers ([`crate::logs`]), blocks of samples are read in parts
//! ([`crate::samples`]).
//!
//! **Invariants.** Memory that grows with the number of series is reserved from the query's budget
//! first. A damaged or missing block adds a warning that names it. A store that does not answer fails
//! the call.

use std::marker::PhantomData;
use std::sync::Arc;

use sandur_format::block::BlockIndex;
use sandur_format::catalog_entry::BlockMeta;
use sandur_model::{Dataset, Labels, Matcher, Signal, StreamId, TenantId, TimeRange};
use sandur_query::{Error, Holding, QueryContext, QueryStats};

use crate::blocks::reader::BlockReader;
use crate::head::Head;
use crate::logs::head::WantedStreams;
use crate::reading::freshness::Freshness;
use crate::reading::matching;
use crate::same_rows::of_block;
use crate::view::{View, Views};

/// The most footers that are open at once when a call reads all blocks of a range.
pub(crate) const OPEN_AT_ONCE: usize = 16;

/// A signal whose blocks have this footer, which lists or finds their series.
pub(crate) trait IndexedSignal: BlockIndex + Sized {
    /// The signal.
    const SIGNAL: Signal;
    /// The result of a search in a head.
    type InHead: SeriesInHead;

    /// The matching series of a head that are in the part and have rows in the range.
    fn in_head(head: &Head, wanted: WantedStreams<'_>, range: TimeRange) -> Self::InHead;
}

/// Series that were found in a head.
pub(crate) trait SeriesInHead: Send + 'static {
    /// The id of series `at`.
    fn id(&self, at: usize) -> StreamId;
    /// The labels of series `at`.
    fn labels(&self, at: usize) -> Arc<Labels>;
    /// The label names that occur in these series.
    fn label_names(&self) -> impl Iterator<Item = &str>;
    /// The values of a label that occur in these series.
    fn label_values(&self, name: &str) -> impl Iterator<Item = &str>;
}

/// Finds series of one signal in all blocks and heads of the engine.
pub(crate) struct SeriesReader<F> {
    views: Arc<Views>,
    freshness: Freshness,
    reader: BlockReader,
    signal: PhantomData<fn() -> F>,
}

impl<F: IndexedSignal> SeriesReader<F> {
    pub(crate) fn new(views: Arc<Views>, freshness: Freshness, reader: BlockReader) -> Self {
        Self { views, freshness, reader, signal: PhantomData }
    }

    /// The age of the view.
    pub(crate) fn freshness(&self) -> &Freshness {
        &self.freshness
    }

    /// The dataset that the query reads.
    pub(crate) fn dataset(context: &QueryContext) -> Dataset {
        Dataset { tenant: context.tenant().clone(), signal: F::SIGNAL }
    }

    /// The reader of stored bytes.
    pub(crate) fn reader(&self) -> &BlockReader {
        &self.reader
    }

    /// The current view, brought up to date if it is too old. Rows that are or may be missing from it add
    /// warnings. Fails if the query requires a newer view than there is.
    pub(crate) async fn view(&self, context: &QueryContext) -> Result<Arc<View>, Error> {
        self.freshness.ensure(context).await?;
        self.freshness.warn(context);
        Ok(self.views.current())
    }

    /// The blocks with rows in the range.
    pub(crate) fn blocks(view: &View, context: &QueryContext, range: TimeRange) -> Vec<Arc<BlockMeta>> {
        let blocks: Vec<_> = view.snapshot.blocks(&Self::dataset(context), range).cloned().collect();
        QueryStats::add(&context.stats().blocks_total, blocks.len() as u64);
        blocks
    }

    /// The matching series of each head.
    pub(crate) async fn in_heads(
        &self,
        context: &QueryContext,
        view: &View,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<Vec<F::InHead>, Error> {
        let part = context.part();
        let look = move |_, head: &Head, tenant: &TenantId, matchers: &[Matcher]| {
            F::in_head(head, WantedStreams { tenant, matchers, part }, range)
        };
        matching::in_heads(context, &view.heads, matchers, look).await
    }

    /// What holds the rows of the range; `None` while some rows cannot be read, and while the view is too old
    /// and reading it would bring it up to date.
    pub(crate) fn holdings(&self, context: &QueryContext, range: TimeRange) -> Option<Vec<Holding>> {
        if !self.freshness.is_settled(context) {
            return None;
        }
        // An answer from the step cache calls nothing else, so the warning is added here.
        self.freshness.warn(context);
        let (view, dataset) = (self.views.current(), Self::dataset(context));
        let mut holdings = Vec::new();
        for block in view.snapshot.blocks(&dataset, range) {
            match self.views.same_rows().of(block.id) {
                Some(earlier) => {
                    holdings.extend(earlier.iter().filter(|one| range.touches(one.first, one.last)))
                }
                None => holdings.push(of_block(block)),
            }
        }
        for head in &view.heads {
            holdings.extend(head.holdings(&dataset, range));
        }
        // The generation of deletes is part of every version. It is an odd factor, so that sums of versions
        // keep their relations.
        let deletes = u128::from(view.snapshot.delete_generation(&dataset));
        let factor = deletes.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835 << 1) | 1;
        holdings.iter_mut().for_each(|holding| holding.version = holding.version.wrapping_mul(factor));
        Some(holdings)
    }

    /// A number that changes when delete requests hide other rows.
    pub(crate) fn delete_generation(&self, tenant: &TenantId) -> u64 {
        let dataset = Dataset { tenant: tenant.clone(), signal: F::SIGNAL };
        self.views.current().snapshot.delete_generation(&dataset)
    }
}
