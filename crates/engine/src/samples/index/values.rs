//! Label names and values of some series of a block.

use std::collections::VecDeque;
use std::sync::Arc;

use roaring::RoaringBitmap;
use sandur_format::sample_block::index::{Column, ColumnNumbers, Index, Label, Part, TextPage};
use sandur_memory::Reservation;

use super::{IndexError, IndexReader, memory_of, plain_of};
use crate::samples::rising;

/// Number of columns that are read together.
const COLUMNS_AT_ONCE: usize = 64;
/// Number of pages of texts that are read together.
const TEXTS_AT_ONCE: usize = 4;

/// The sorted values of one label, read page by page.
pub(crate) struct ValueStream {
    reader: IndexReader,
    label: usize,
    next_page: usize,
    /// The numbers of the wanted values; `None` for all.
    wanted: Option<RoaringBitmap>,
    read: VecDeque<Arc<TextPage>>,
    memory: Reservation,
}

impl IndexReader {
    /// Returns the values of a label of these series; `None` if there are none.
    pub(crate) async fn values(
        &self,
        name: &str,
        series: &RoaringBitmap,
    ) -> Result<Option<ValueStream>, IndexError> {
        let labels = self.index().labels();
        let Ok(label) = labels.binary_search_by(|label| (**label.name()).cmp(name)) else { return Ok(None) };
        let wanted = match series.len() == u64::from(self.index().series()) {
            true => None,
            false => Some(self.numbers(label, series).await?),
        };
        if wanted.as_ref().is_some_and(RoaringBitmap::is_empty) {
            return Ok(None);
        }
        let memory = self.reserve(wanted.as_ref().map_or(0, |wanted| wanted.serialized_size() as u64))?;
        let (reader, read) = (self.clone(), VecDeque::new());
        Ok(Some(ValueStream { reader, label, next_page: 0, wanted, read, memory }))
    }

    /// Returns the numbers of the label's values in these series.
    async fn numbers(&self, label: usize, series: &RoaringBitmap) -> Result<RoaringBitmap, IndexError> {
        let of = &self.index().labels()[label];
        let mut numbers = RoaringBitmap::new();
        let _memory = self.reserve(u64::from(of.values()) / 4 + 1024)?;
        for some in self.pages_of(series).chunks(COLUMNS_AT_ONCE) {
            self.check()?;
            let mut columns: Vec<(u32, Part)> = Vec::new();
            for page in some {
                match of.column(*page) {
                    Some(Column::Constant(number)) => _ = numbers.insert(*number),
                    Some(Column::Each(part)) => columns.push((*page, *part)),
                    None => {}
                }
            }
            let parts: Vec<Part> = columns.iter().map(|(_, part)| *part).collect();
            let _memory = self.reserve(memory_of(&parts) + parts.len() as u64 * (24 << 10))?;
            let decoded = self.kept_columns(label, &columns).await?;
            let (series, plain) = (self.of_pages(series, some), plain_of(&parts));
            let work = move |index: &Index| {
                for ((page, _), column) in columns.iter().zip(&decoded) {
                    numbers |= numbers_among(column, &series, index.series_of(*page));
                }
                Ok(numbers)
            };
            numbers = self.decode(plain, work).await?;
        }
        Ok(numbers)
    }

    /// Returns the sorted names of the labels that at least one of these series has.
    pub(crate) async fn names(&self, series: &RoaringBitmap) -> Result<Vec<Arc<str>>, IndexError> {
        let index = self.index();
        let pages = self.pages_of(series);
        let others = u64::from(index.series()) - series.len();
        let mut names = Vec::new();
        for label in index.labels() {
            let is_constant = |page: &u32| matches!(label.column(*page), Some(Column::Constant(_)));
            // If more series have the label than there are other series, then one of these has it.
            let mut is_there = u64::from(label.series()) > others || pages.iter().any(is_constant);
            if !is_there && pages.iter().any(|page| label.column(*page).is_some()) {
                is_there = !(self.with_label(label).await? & series).is_empty();
            }
            if is_there {
                names.push(Arc::clone(label.name()));
            }
        }
        Ok(names)
    }

    /// Returns all series with a label.
    async fn with_label(&self, label: &Label) -> Result<RoaringBitmap, IndexError> {
        let Some(page) = label.list_pages().first().copied() else { return Ok(RoaringBitmap::new()) };
        let _memory = self.reserve(page.memory_bytes() + u64::from(self.index().series()) / 8)?;
        let stored = self.stored(&[page.part]).await?;
        let work = move |index: &Index| {
            let mut all = RoaringBitmap::new();
            index.lists(&page, &page.part.open(&stored[0])?)?.add(0, index.series(), &mut all)?;
            Ok(all)
        };
        self.decode(u64::from(page.part.plain), work).await
    }
}

/// The numbers in a column that some of the series of a page have.
fn numbers_among(column: &ColumnNumbers, series: &RoaringBitmap, of: std::ops::Range<u32>) -> RoaringBitmap {
    if series.range_cardinality(of.clone()) == of.len() as u64 {
        return rising(column.distinct.iter().copied());
    }
    let mut met = vec![false; column.distinct.len() + 1];
    for ordinal in series.range(of.clone()) {
        met[usize::from(column.rows[(ordinal - of.start) as usize])] = true;
    }
    rising(column.distinct.iter().zip(&met[1..]).filter(|(_, met)| **met).map(|(number, _)| *number))
}

impl ValueStream {
    /// Returns the next values; `None` after the last ones. A page is never empty. If memory is refused,
    /// the call can be repeated.
    pub(crate) async fn next(&mut self) -> Result<Option<Arc<TextPage>>, IndexError> {
        loop {
            if let Some(page) = self.read.pop_front() {
                return Ok(Some(page));
            }
            let label = &self.reader.index().labels()[self.label];
            let of = label.sorted_pages();
            // If numbers ascend with texts, pages without wanted numbers are not read, and pages with
            // only wanted ones are returned without testing each text.
            let wanted = self.wanted.as_ref().filter(|_| label.is_in_order());
            let wanted_of = |page: &usize| {
                let first = of[*page].first + 1;
                let numbers = first..first.saturating_add(of[*page].count);
                wanted.map(|wanted| wanted.range_cardinality(numbers))
            };
            let holds = |page: &usize| wanted_of(page) != Some(0);
            let pages: Vec<usize> = (self.next_page..of.len()).filter(holds).take(TEXTS_AT_ONCE).collect();
            let whole = pages.iter().map(|page| wanted_of(page) == Some(of[*page].count.into()));
            let whole: Vec<bool> = whole.collect();
            let Some(last) = pages.last() else { return Ok(None) };
            self.reader.check()?;
            let own = self.wanted.as_ref().map_or(0, |wanted| wanted.serialized_size() as u64);
            self.memory.resize(own + pages.iter().map(|page| of[*page].memory_bytes() * 2).sum::<u64>())?;
            let read = self.reader.kept_texts(self.label, &pages).await?;
            self.next_page = last + 1;
            for (page, is_whole) in read.iter().zip(whole) {
                let of_page = match &self.wanted {
                    Some(wanted) if !is_whole => {
                        let some = page.texts.iter().zip(&page.numbers);
                        let some = some.filter(|(_, number)| wanted.contains(**number));
                        Arc::new(some.map(|(text, _)| text).collect())
                    }
                    _ => Arc::clone(&page.texts),
                };
                if !of_page.is_empty() {
                    self.read.push_back(of_page);
                }
            }
        }
    }
}
