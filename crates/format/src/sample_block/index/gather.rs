//! Builds the index of a block that is being written, series by series.
//!
//! A page of series is written as soon as it is full, and so are the names of metrics
//! ([`super::rising`]). Distinct values of other labels stay in memory until the end, with their lists of
//! series: about forty bytes plus its text for a value, and a byte or two for each series that does not
//! directly follow another one with the same value.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use roaring::RoaringBitmap;

use super::label::{Column, Label, PageRef};
use super::lists::{self, ListDraft, PAGE_LIST_BYTES, PAGE_LISTS};
use super::part::{AreaWriter, PartWriter, WrittenArea};
use super::rising::{RisingPages, RisingValues};
use super::spans::{SeriesSpan, put_spans};
use super::texts::{TextPage, is_page_full};
use super::value_set::ValueSet;
use super::{Area, Areas, Index, PAGE_SERIES, SeriesPageRef};
use crate::block::{BOUND_NAME, METRIC_NAME, compare_series};
use crate::codec::bitpack::put_packed;
use crate::error::Error;

/// An index of at most this many bytes is stored in the footer.
const IN_FOOTER_MAX: usize = 256 << 10;

/// Builds an index from series in the order of [`compare_series`].
#[derive(Debug, Default)]
pub(in super::super) struct IndexWriter {
    by_name: HashMap<Arc<str>, usize, RandomState>,
    labels: Vec<LabelDraft>,
    len: u32,
    /// Label and number of the value, for each label of the last series.
    last: Vec<(usize, u32)>,
    /// Series that differ from the series before them only in the bound of their bucket.
    next_buckets: RoaringBitmap,
    /// Spans of the series after the last written page of spans.
    spans: Vec<SeriesSpan>,
    pages: Vec<SeriesPageRef>,
    areas: AreaWriter,
    /// Areas that are already in the object.
    stored: Vec<Area>,
    level: i32,
}

/// One label over all series so far.
#[derive(Debug)]
struct LabelDraft {
    name: Arc<str>,
    values: Values,
    /// For each series of the open page the number of its value, up to the last series that has the
    /// label.
    numbers: Vec<u32>,
    columns: Vec<(u32, Column)>,
}

/// The values of a label and the lists of their series.
#[derive(Debug)]
enum Values {
    /// Values in ascending order of series.
    Rising(Box<RisingValues>),
    /// Values in any order.
    Any(AnyValues),
}

#[derive(Debug)]
struct AnyValues {
    values: ValueSet,
    /// Bytes of the lists in addition to their entries.
    list_bytes: u64,
    /// The list of all series with the label, then one list per value.
    lists: Vec<ListDraft>,
}

impl AnyValues {
    /// Records the value of a series and returns its number.
    fn push(&mut self, value: &str, ordinal: u32) -> u32 {
        let (number, is_new) = self.values.number_of(value);
        if is_new {
            self.lists.push(ListDraft::default());
        }
        let all = self.lists[0].push(ordinal);
        self.list_bytes += (all + self.lists[number as usize].push(ordinal)) as u64;
        number
    }

    fn memory_bytes(&self) -> u64 {
        self.values.memory_bytes() + self.list_bytes + (self.lists.capacity() * size_of::<ListDraft>()) as u64
    }
}

impl LabelDraft {
    fn new(name: Arc<str>) -> Self {
        let any =
            || AnyValues { values: ValueSet::default(), list_bytes: 0, lists: vec![ListDraft::default()] };
        let values = if &*name == METRIC_NAME { Values::Rising(Box::default()) } else { Values::Any(any()) };
        Self { name, values, numbers: Vec::new(), columns: Vec::new() }
    }

    /// Returns the value with a number that the last series has.
    fn last_value(&self, number: u32) -> &str {
        match &self.values {
            Values::Rising(values) => values.last(),
            Values::Any(any) => any.values.get(number),
        }
    }

    fn memory_bytes(&self) -> u64 {
        let values = match &self.values {
            Values::Rising(values) => values.memory_bytes(),
            Values::Any(any) => any.memory_bytes(),
        };
        values + (self.columns.capacity() * size_of::<(u32, Column)>()) as u64
    }
}

impl IndexWriter {
    pub(in super::super) fn new(level: i32) -> Self {
        Self { level, ..Self::default() }
    }

    /// Returns the number of series.
    pub(in super::super) fn len(&self) -> u32 {
        self.len
    }

    /// Adds a series and returns its ordinal. Its labels are sorted by name, and it must come after the
    /// series before in the order of [`compare_series`].
    pub(in super::super) fn push<'a>(
        &mut self,
        labels: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    ) -> Result<u32, Error> {
        if self.len > 0 && self.compare_last(labels.clone()) != Ordering::Less {
            return Err(Error::Misuse("the series of a block must be sorted and distinct"));
        }
        let ordinal = self.len;
        self.len = ordinal.checked_add(1).ok_or(Error::Misuse("a block has too many series"))?;
        let row = (ordinal % PAGE_SERIES) as usize;
        let before = std::mem::take(&mut self.last);
        for (name, value) in labels {
            let at = self.label(name);
            let label = &mut self.labels[at];
            let number = match &mut label.values {
                Values::Rising(values) => values.push(value, ordinal, (&mut self.areas, self.level))?,
                Values::Any(any) => any.push(value, ordinal),
            };
            label.numbers.resize(row, 0);
            label.numbers.push(number);
            self.last.push((at, number));
        }
        if self.is_next_bucket(&before) {
            self.next_buckets.insert(ordinal);
        }
        if row + 1 == PAGE_SERIES as usize {
            self.end_columns()?;
        }
        Ok(ordinal)
    }

    /// Whether the last series differs from the one before only in the bound of its bucket.
    fn is_next_bucket(&self, before: &[(usize, u32)]) -> bool {
        let Some(le) = self.by_name.get(BOUND_NAME) else { return false };
        let is_bound = |(label, _): &&(usize, u32)| label == le;
        let plain = |labels: &[(usize, u32)]| labels.iter().filter(|pair| !is_bound(pair)).count();
        before.len() == self.last.len()
            && plain(before) + 1 == before.len()
            && before.iter().zip(&self.last).all(|(a, b)| a == b || (a.0 == *le && b.0 == *le))
    }

    /// Whether a series differs from the series before it only in the bound of its bucket.
    pub(in super::super) fn continues_histogram(&self, ordinal: u32) -> bool {
        self.next_buckets.contains(ordinal)
    }

    fn compare_last<'a>(&self, labels: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Ordering {
        let last = self
            .last
            .iter()
            .map(|&(at, number)| (&*self.labels[at].name, self.labels[at].last_value(number)));
        compare_series(last, labels)
    }

    fn label(&mut self, name: &str) -> usize {
        if let Some(at) = self.by_name.get(name) {
            return *at;
        }
        let name: Arc<str> = name.into();
        self.by_name.insert(Arc::clone(&name), self.labels.len());
        self.labels.push(LabelDraft::new(name));
        self.labels.len() - 1
    }

    /// Writes the columns of the series since the last page.
    fn end_columns(&mut self) -> Result<(), Error> {
        let page = (self.len - 1) / PAGE_SERIES;
        let rows = (self.len - page * PAGE_SERIES) as usize;
        let mut plain = Vec::new();
        for label in self.labels.iter_mut().filter(|label| !label.numbers.is_empty()) {
            label.numbers.resize(rows, 0);
            let first = label.numbers[0];
            let column = if label.numbers.iter().all(|number| *number == first) {
                Column::Constant(first)
            } else {
                plain.clear();
                put_packed(&mut plain, &label.numbers.iter().map(|n| u64::from(*n)).collect::<Vec<_>>());
                Column::Each(self.areas.put(&plain, self.level)?)
            };
            label.columns.push((page, column));
            label.numbers.clear();
        }
        Ok(())
    }

    /// Adds to the span of a series: ordinals ascend, and one may occur several times in a row.
    pub(in super::super) fn count(&mut self, ordinal: u32, more: SeriesSpan) -> Result<(), Error> {
        if ordinal >= self.len {
            return Err(Error::Misuse("a sample names a series that the block does not have"));
        }
        while ordinal / PAGE_SERIES > self.pages.len() as u32 {
            self.end_spans(PAGE_SERIES as usize)?;
        }
        let row = (ordinal % PAGE_SERIES) as usize;
        if self.spans.len() <= row {
            self.spans.resize(row + 1, SeriesSpan::default());
        }
        let span = &mut self.spans[row];
        span.rows += more.rows;
        span.min_ms = span.min_ms.min(more.min_ms);
        span.max_ms = span.max_ms.max(more.max_ms);
        Ok(())
    }

    fn end_spans(&mut self, rows: usize) -> Result<(), Error> {
        self.spans.resize(rows, SeriesSpan::default());
        let min_ms = self.spans.iter().map(|span| span.min_ms).min().unwrap_or(i64::MAX);
        let max_ms = self.spans.iter().map(|span| span.max_ms).max().unwrap_or(i64::MIN);
        let mut plain = Vec::new();
        put_spans(&mut plain, &self.spans, min_ms);
        let spans = self.areas.put(&plain, self.level)?;
        let is_full = self.spans.iter().all(|span| span.rows > 0);
        self.pages.push(SeriesPageRef { spans, min_ms, max_ms, is_full });
        self.spans.clear();
        Ok(())
    }

    /// Returns an area that is ready to be stored.
    pub(in super::super) fn full_area(&mut self) -> Option<WrittenArea> {
        if self.areas.is_full() { self.areas.take() } else { None }
    }

    /// Records where an area was stored.
    pub(in super::super) fn stored(&mut self, area: Area) {
        self.stored.push(area);
    }

    /// Returns the bytes held in memory.
    pub(in super::super) fn memory_bytes(&self) -> u64 {
        let labels: u64 = self.labels.iter().map(LabelDraft::memory_bytes).sum();
        labels + self.areas.memory_bytes() as u64
    }

    /// Writes the rest; `store` stores areas in the object and returns where they are.
    pub(in super::super) fn finish(
        mut self,
        mut store: impl FnMut(WrittenArea) -> Area,
    ) -> Result<Index, Error> {
        if !self.len.is_multiple_of(PAGE_SERIES) {
            self.end_columns()?;
        }
        while (self.pages.len() as u32) < self.len.div_ceil(PAGE_SERIES) {
            let first = self.pages.len() as u32 * PAGE_SERIES;
            self.end_spans((self.len - first).min(PAGE_SERIES) as usize)?;
        }
        let (mut stored, mut labels) =
            (std::mem::take(&mut self.stored), Vec::with_capacity(self.labels.len()));
        let mut drafts = std::mem::take(&mut self.labels);
        drafts.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        for draft in drafts {
            let mut writer = PartWriter { areas: &mut self.areas, level: self.level, stored: &mut stored };
            let label = writer.label(draft, &mut store)?;
            label.check()?;
            labels.push(label);
        }
        let mut in_footer = bytes::Bytes::new();
        match self.areas.take() {
            Some(area) if stored.is_empty() && area.bytes.len() <= IN_FOOTER_MAX => in_footer = area.bytes,
            Some(area) => stored.push(store(area)),
            None => {}
        }
        let areas = Areas { stored, in_footer };
        Ok(Index { series: self.len, pages: self.pages, labels, areas })
    }
}

/// Writes the texts and lists of labels.
impl PartWriter<'_> {
    fn label(
        &mut self,
        draft: LabelDraft,
        store: &mut impl FnMut(WrittenArea) -> Area,
    ) -> Result<Label, Error> {
        let LabelDraft { name, values, columns, .. } = draft;
        let AnyValues { values, lists, .. } = match values {
            Values::Rising(values) => {
                let count = values.len();
                let RisingPages { texts, firsts, lists } = values.finish(self, store)?;
                return Ok(Label { name, values: count, texts, sorted: Vec::new(), firsts, lists, columns });
            }
            Values::Any(any) => any,
        };
        let lists = self.lists(lists, store)?;
        let (texts, mut firsts) = self.texts(values.iter().map(|value| (value, 0)), false, store)?;
        let mut sorted = Vec::new();
        if !values.iter().is_sorted() {
            let mut order: Vec<u32> = (1..=values.len() as u32).collect();
            order.sort_unstable_by(|a, b| values.get(*a).cmp(values.get(*b)));
            let by_text = order.iter().map(|number| (values.get(*number), *number));
            (sorted, firsts) = self.texts(by_text, true, store)?;
        }
        Ok(Label { name, values: values.len() as u32, texts, sorted, firsts, lists, columns })
    }

    /// Writes pages of texts, with their numbers or without, and returns them with the first text of each
    /// page.
    fn texts<'t>(
        &mut self,
        texts: impl Iterator<Item = (&'t str, u32)>,
        numbered: bool,
        store: &mut impl FnMut(WrittenArea) -> Area,
    ) -> Result<(Vec<PageRef>, TextPage), Error> {
        let (mut pages, mut firsts, mut page, mut bytes) = (Vec::new(), TextPage::default(), Vec::new(), 0);
        let mut texts = texts.peekable();
        let mut first = 0;
        while let Some((text, number)) = texts.next() {
            bytes += text.len();
            page.push((text, number));
            if !is_page_full(page.len(), bytes, &firsts) && texts.peek().is_some() {
                continue;
            }
            let mut plain = Vec::new();
            TextPage::put_page(&mut plain, page.iter().map(|(text, _)| *text), bytes);
            if numbered {
                put_packed(&mut plain, &page.iter().map(|(_, n)| u64::from(*n)).collect::<Vec<_>>());
            }
            let part = self.put(&plain, store)?;
            pages.push(PageRef { part, first, count: page.len() as u32, bytes: bytes as u32 });
            firsts.push(page[0].0);
            first += page.len() as u32;
            bytes = 0;
            page.clear();
        }
        Ok((pages, firsts))
    }

    fn lists(
        &mut self,
        mut lists: Vec<ListDraft>,
        store: &mut impl FnMut(WrittenArea) -> Area,
    ) -> Result<Vec<PageRef>, Error> {
        lists.iter_mut().for_each(ListDraft::end);
        let (mut pages, mut from, mut bytes) = (Vec::new(), 0, 0);
        for at in 0..lists.len() {
            bytes += lists[at].rest().len();
            let count = at + 1 - from;
            if count < PAGE_LISTS && bytes < PAGE_LIST_BYTES && at + 1 < lists.len() {
                continue;
            }
            let page = &lists[from..=at];
            let mut plain = Vec::new();
            lists::put_page(&mut plain, page);
            let part = self.put(&plain, store)?;
            let longest = lists::longest(page);
            pages.push(PageRef { part, first: from as u32, count: count as u32, bytes: longest });
            (from, bytes) = (at + 1, 0);
        }
        Ok(pages)
    }
}
