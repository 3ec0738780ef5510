//! Labels of series alone, in the order of blocks: each series once, whatever holds it.

use std::sync::Arc;

use sandur_base::{BoxFuture, Reservation};
use sandur_query::{BATCH_SERIES, BatchTexts, Error, LabelIds, QueryContext, SampleScan, SeriesBatch};

use super::Holder;
use super::walk::{Found, Walk};
use crate::samples::head::SelectedSeries;
use crate::samples::series_index::InBlock;

/// A running scan of labels.
pub(crate) struct LabelScan {
    context: QueryContext,
    holders: Vec<Holder>,
    walk: Walk,
    /// Series of a batch for which memory was refused.
    pending: Vec<Found>,
    /// For the places of series in heads.
    _memory: Reservation,
}

impl LabelScan {
    /// These series of blocks and of heads.
    pub(crate) fn new(
        context: &QueryContext,
        blocks: Vec<InBlock>,
        heads: Vec<SelectedSeries>,
    ) -> Result<Self, Error> {
        let (mut walk, mut holders) = (Walk::new(context), Vec::new());
        let places: u64 = heads.iter().map(|series| series.len() as u64 * 4).sum();
        let memory = context.budget().reserve(places)?;
        for InBlock { index, series, .. } in blocks {
            holders.push(Holder::of_labels(&index));
            walk.add_block(index, series)?;
        }
        for series in heads.into_iter().map(Arc::new) {
            walk.add_head(Arc::clone(&series));
            holders.push(Holder::Head { series });
        }
        Ok(Self { context: context.clone(), holders, walk, pending: Vec::new(), _memory: memory })
    }

    async fn take(&mut self) -> Result<Option<SeriesBatch>, Error> {
        self.context.check()?;
        if self.pending.is_empty() {
            self.pending = self.walk.take(BATCH_SERIES, u64::MAX).await?;
        }
        if self.pending.is_empty() {
            return Ok(None);
        }
        let held = self.context.budget().reserve(self.pending.iter().map(Found::label_bytes).sum())?;
        let found = std::mem::take(&mut self.pending);
        let mut texts = BatchTexts::default();
        let mut labels: Vec<LabelIds> = Vec::with_capacity(found.len());
        for one in &found {
            let mut ids = Vec::new();
            one.each_label(&self.holders, |name, value| ids.push((texts.id(name), texts.id(value))));
            labels.push(ids.into_boxed_slice());
        }
        Ok(Some(SeriesBatch { dictionary: texts.finish(), labels, samples: Vec::new(), held: Some(held) }))
    }
}

impl SampleScan for LabelScan {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<SeriesBatch>, Error>> {
        Box::pin(self.take())
    }
}
