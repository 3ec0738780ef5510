//! Values of a label over blocks and heads, merged while they are read.
//!
//! Each holder gives its values in order, page by page. What no holder has pages before any more is complete:
//! up to the least of the last values of their pages. So a page of each holder is in memory, and one batch.

use std::sync::Arc;

use futures_util::future::join_all;
use sandur_base::{BoxFuture, Reservation};
use sandur_format::sample_block::index::TextPage;
use sandur_query::{Error, QueryContext, TextBatch, TextScan};

use super::head::SortedValues;
use super::index::{ValueStream, or_warn};

/// Values of a head that are made into a page.
const HEAD_PAGE: usize = 512;

/// Values of one holder.
enum Source {
    Block(Box<ValueStream>),
    /// Values of a head, and how far they were taken.
    Head(Arc<SortedValues>, usize),
}

struct Cursor {
    source: Source,
    page: Arc<TextPage>,
    at: usize,
    is_over: bool,
}

/// The values of all holders.
pub(super) struct ValueScan {
    context: QueryContext,
    cursors: Vec<Cursor>,
    /// For what heads have.
    _memory: Reservation,
}

impl Cursor {
    fn new(source: Source) -> Self {
        Self { source, page: Arc::default(), at: 0, is_over: false }
    }

    /// Makes the next page ready, when the one before is used up.
    async fn fill(&mut self, context: &QueryContext) -> Result<(), Error> {
        if self.is_over || self.at < self.page.len() {
            return Ok(());
        }
        // Nothing has changed when memory is refused: it can be asked again.
        let page = match &mut self.source {
            Source::Block(stream) => {
                let read = stream.next().await;
                or_warn(context, read)?.flatten().unwrap_or_default()
            }
            Source::Head(values, from) => {
                let page: TextPage = values.iter(*from).take(HEAD_PAGE).collect();
                *from += page.len();
                Arc::new(page)
            }
        };
        (self.at, self.is_over, self.page) = (0, page.is_empty(), page);
        Ok(())
    }

    fn last(&self) -> Option<&str> {
        self.page.len().checked_sub(1).map(|last| self.page.get(last))
    }

    fn rest(&self) -> impl Iterator<Item = &str> {
        (self.at..self.page.len()).map(|at| self.page.get(at))
    }
}

impl ValueScan {
    pub(super) fn new(
        context: &QueryContext,
        blocks: Vec<ValueStream>,
        heads: Vec<SortedValues>,
    ) -> Result<Self, Error> {
        let bytes = heads.iter().map(SortedValues::memory_bytes).sum();
        let memory = context.budget().reserve(bytes)?;
        let blocks = blocks.into_iter().map(|stream| Cursor::new(Source::Block(Box::new(stream))));
        let heads = heads.into_iter().map(|values| Cursor::new(Source::Head(Arc::new(values), 0)));
        Ok(Self { context: context.clone(), cursors: blocks.chain(heads).collect(), _memory: memory })
    }

    async fn take(&mut self) -> Result<Option<TextBatch>, Error> {
        let context = &self.context;
        context.check()?;
        for filled in join_all(self.cursors.iter_mut().map(|cursor| cursor.fill(context))).await {
            filled?;
        }
        self.cursors.retain(|cursor| !cursor.is_over);
        let Some(bound) = self.cursors.iter().filter_map(Cursor::last).min() else { return Ok(None) };
        let bytes: usize = self.cursors.iter().map(|cursor| cursor.page.text_bytes()).sum();
        let texts: usize = self.cursors.iter().map(|cursor| cursor.page.len()).sum();
        let held = context.budget().reserve((bytes + texts * 24) as u64)?;
        let mut complete: Vec<&str> = Vec::with_capacity(texts);
        let mut ends = Vec::with_capacity(self.cursors.len());
        for cursor in &self.cursors {
            let before = complete.len();
            complete.extend(cursor.rest().take_while(|text| *text <= bound));
            ends.push(cursor.at + complete.len() - before);
        }
        if self.cursors.len() > 1 {
            complete.sort(); // runs that are sorted already are merged
            complete.dedup();
        }
        let mut batch: TextBatch = complete.into_iter().collect();
        batch.held = Some(held);
        self.cursors.iter_mut().zip(ends).for_each(|(cursor, end)| cursor.at = end);
        Ok(Some(batch))
    }
}

impl TextScan for ValueScan {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<TextBatch>, Error>> {
        Box::pin(self.take())
    }
}
