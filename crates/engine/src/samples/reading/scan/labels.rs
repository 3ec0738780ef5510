//! Labels of series: scans of labels alone, in the order of blocks, each series once; and label ids of
//! batches.
//!
//! **Invariant.** A list is sent while it is read, so a scan for which the query's memory does not
//! suffice should fail before its first batch. The first pages and labels show the need of later ones.
//! In addition to them, half as much is reserved as a margin, which is released for later pages that
//! take more.

use std::sync::Arc;

use sandur_base::BoxFuture;
use sandur_memory::Reservation;
use sandur_query::{BATCH_SERIES, BatchTexts, Error, LabelIds, QueryContext, SampleScan, SeriesBatch};

use super::holder::Holder;
use super::walk::{Found, Walk};
use crate::samples::head::SelectedSeries;
use crate::samples::reading::in_block::InBlock;

/// A running scan of labels.
pub(crate) struct LabelScan {
    context: QueryContext,
    holders: Vec<Holder>,
    walk: Walk,
    /// Series of a batch for which memory was refused.
    pending: Vec<Found>,
    /// The margin for pages and batches that are larger than the first ones.
    margin: Reservation,
    /// The target of the margin; unknown before the first pages are read.
    margin_bytes: Option<u64>,
    /// Pays for the positions of series in heads.
    _memory: Reservation,
}

impl LabelScan {
    /// Begins a scan of these series of blocks and heads.
    pub(crate) fn new(
        context: &QueryContext,
        blocks: Vec<InBlock>,
        heads: Vec<SelectedSeries>,
    ) -> Result<Self, Error> {
        let (mut walk, mut holders) = (Walk::new(context), Vec::new());
        let places: u64 = heads.iter().map(|series| series.len() as u64 * 4).sum();
        let (memory, margin) = (context.budget().reserve(places)?, context.budget().reserve(0)?);
        for InBlock { index, series, .. } in blocks {
            holders.push(Holder::of_labels(&index));
            walk.add_block(index, series)?;
        }
        for series in heads.into_iter().map(Arc::new) {
            walk.add_head(Arc::clone(&series));
            holders.push(Holder::Head { series });
        }
        let (context, pending, margin_bytes) = (context.clone(), Vec::new(), None);
        Ok(Self { context, holders, walk, pending, margin, margin_bytes, _memory: memory })
    }

    /// Returns the series of the next batch.
    async fn found(&mut self) -> Result<Vec<Found>, Error> {
        match self.walk.take(BATCH_SERIES, u64::MAX).await {
            Err(Error::OverBudget(_)) if self.gives_margin() => self.walk.take(BATCH_SERIES, u64::MAX).await,
            found => found,
        }
    }

    /// Reserves memory for the labels of the next batch.
    fn held(&mut self) -> Result<Reservation, Error> {
        let bytes = self.pending.iter().map(Found::label_bytes).sum();
        match self.context.budget().reserve(bytes) {
            Err(_) if self.gives_margin() => Ok(self.context.budget().reserve(bytes)?),
            held => Ok(held?),
        }
    }

    /// Releases the margin. Returns whether there was one.
    fn gives_margin(&mut self) -> bool {
        let held = self.margin.bytes();
        self.margin.shrink(held);
        held > 0
    }

    /// Reserves the margin. The first batch requires it. Later it is optional, because there may be no
    /// memory for it and the next pages may be smaller.
    fn take_margin(&mut self, label_bytes: u64) -> Result<(), Error> {
        if self.margin_bytes.is_none() {
            let bytes = (self.walk.page_bytes() + label_bytes) / 2;
            self.margin.resize(bytes)?;
            self.margin_bytes = Some(bytes);
        }
        _ = self.margin.resize(self.margin_bytes.unwrap_or(0));
        Ok(())
    }

    async fn take(&mut self) -> Result<Option<SeriesBatch>, Error> {
        self.context.check()?;
        if self.pending.is_empty() {
            self.pending = self.found().await?;
        }
        if self.pending.is_empty() {
            return Ok(None);
        }
        let held = self.held()?;
        self.take_margin(held.bytes())?;
        let found = std::mem::take(&mut self.pending);
        let (mut texts, mut labels_of) = (BatchTexts::default(), LabelsOfSeries::default());
        let of = |one| labels_of.ids(one, &self.holders, |_| true, &mut texts);
        let labels: Vec<LabelIds> = found.iter().map(of).collect();
        Ok(Some(SeriesBatch { dictionary: texts.finish(), labels, samples: Vec::new(), held: Some(held) }))
    }
}

/// A label of the previous series.
struct KnownLabel<'a> {
    name: &'a str,
    /// The id of the name, if the label is wanted.
    name_id: Option<u32>,
    value: &'a str,
    value_id: u32,
}

/// Converts labels of series to ids. Reuses those of the previous series, which usually has mostly the
/// same labels.
#[derive(Default)]
pub(super) struct LabelsOfSeries<'a> {
    before: Vec<KnownLabel<'a>>,
    ids: Vec<(u32, u32)>,
}

impl<'a> LabelsOfSeries<'a> {
    /// The ids of a series' wanted labels.
    pub(super) fn ids(
        &mut self,
        found: &'a Found,
        holders: &'a [Holder],
        wants: impl Fn(&str) -> bool,
        texts: &mut BatchTexts,
    ) -> LabelIds {
        let Self { before, ids } = self;
        ids.clear();
        let mut n = 0;
        found.each_label(holders, |name, value| {
            if before.get(n).is_none_or(|known| known.name != name) {
                let name_id = wants(name).then(|| texts.id(name));
                let value_id = name_id.map_or(0, |_| texts.id(value));
                before.truncate(n);
                before.push(KnownLabel { name, name_id, value, value_id });
            }
            let known = &mut before[n];
            n += 1;
            let Some(name_id) = known.name_id else { return };
            if known.value != value {
                (known.value, known.value_id) = (value, texts.id(value));
            }
            ids.push((name_id, known.value_id));
        });
        ids.as_slice().into()
    }
}

impl SampleScan for LabelScan {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<SeriesBatch>, Error>> {
        Box::pin(self.take())
    }
}
