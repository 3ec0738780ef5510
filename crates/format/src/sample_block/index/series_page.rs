//! Pages of series: labels in columns, and spans.
//!
//! A column holds a packed value number for each series, 0 where the label is absent. The spans of the
//! series are stored separately ([`super::spans`]).
//!
//! **Reading.** [`SeriesColumns::parts`] returns the parts to read, [`SeriesColumns::decode`] decodes
//! them, [`SeriesColumns::texts`] returns the pages of texts with their values, and
//! [`SeriesColumns::finish`] combines all.

use std::sync::Arc;

use bytes::Bytes;
use roaring::RoaringBitmap;
use sandur_model::Labels;

use super::part::{PART_INDEX, Part};
use super::spans::{PackedSpans, SeriesSpan};
use super::{Column, Index, TextPage};
use crate::codec::Reader;
use crate::codec::bitpack::get_packed_u32;
use crate::error::Error;

/// Numbers within a range of this size are indexed by a table.
const NEAR: u32 = 1 << 14;

/// A page of texts that a page of series needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextRef {
    /// Index of the label.
    pub label: usize,
    /// Number of its page of texts.
    pub page: usize,
}

/// Value numbers of one label.
#[derive(Debug)]
enum Numbers {
    Constant(u32),
    Each(ColumnNumbers),
}

/// The value numbers of one label for the series of a page.
#[derive(Debug)]
pub struct ColumnNumbers {
    /// Distinct numbers except 0, ascending.
    pub distinct: Vec<u32>,
    /// For each series 0, or one more than the index of its number in `distinct`.
    pub rows: Box<[u16]>,
}

/// Columns of a page of series whose texts were not read yet.
#[derive(Debug)]
pub struct SeriesColumns {
    page: u32,
    labels: Vec<(usize, Numbers)>,
    spans: PackedSpans,
}

/// Whether a label is requested.
type Wanted<'a> = &'a (dyn Fn(&str) -> bool + Send + Sync);

impl SeriesColumns {
    /// Returns the parts of a page that must be read for some labels: spans first, then columns.
    pub fn parts(index: &Index, page: u32, wanted: Wanted<'_>) -> Vec<Part> {
        let mut parts = vec![index.pages[page as usize].spans];
        let columns = index.labels.iter().filter(|label| wanted(&label.name));
        parts.extend(columns.filter_map(|label| match label.column(page) {
            Some(Column::Each(part)) => Some(*part),
            _ => None,
        }));
        parts
    }

    /// Decodes the plain bytes of these parts.
    pub fn decode(index: &Index, page: u32, wanted: Wanted<'_>, plain: &[Bytes]) -> Result<Self, Error> {
        let of = &index.pages[page as usize];
        let count = index.series_of(page).len();
        let mut plain = plain.iter();
        let mut next = || plain.next().map_or(&[][..], |bytes| bytes);
        let spans = PackedSpans::get(next(), count, of.min_ms, of.spans.address)?;
        let mut labels = Vec::new();
        for (at, label) in index.labels.iter().enumerate().filter(|(_, label)| wanted(&label.name)) {
            match label.column(page) {
                None => {}
                Some(Column::Constant(number)) => labels.push((at, Numbers::Constant(*number))),
                Some(Column::Each(part)) => {
                    let numbers = ColumnNumbers::decode(part, next(), count, label.values)?;
                    labels.push((at, Numbers::Each(numbers)));
                }
            }
        }
        Ok(Self { page, labels, spans })
    }

    /// Returns the pages of texts that hold the values.
    pub fn texts(&self, index: &Index) -> Vec<TextRef> {
        let mut needed: Vec<TextRef> = Vec::new();
        for (label, numbers) in &self.labels {
            let numbers = match numbers {
                Numbers::Constant(number) => std::slice::from_ref(number),
                Numbers::Each(numbers) => &numbers.distinct,
            };
            // They ascend, so those on the same page are adjacent.
            let (of, mut rest) = (&index.labels[*label], numbers);
            while let [first, others @ ..] = rest {
                let Some((page, _)) = of.text_page_of(*first) else {
                    rest = others;
                    continue;
                };
                needed.push(TextRef { label: *label, page });
                let last = of.text_pages()[page].first + of.text_pages()[page].count;
                rest = &rest[rest.partition_point(|number| *number <= last)..];
            }
        }
        needed
    }

    /// Returns the page with its texts. `texts` are the pages returned by [`SeriesColumns::texts`], in
    /// the same order.
    pub fn finish(self, index: &Index, texts: &[(TextRef, Arc<TextPage>)]) -> Result<SeriesPage, Error> {
        let missing =
            || Error::Malformed { part: PART_INDEX, offset: 0, what: "a value has no text in its page" };
        let mut columns = Vec::with_capacity(self.labels.len());
        let mut texts = texts.iter().peekable();
        for (at, numbers) in self.labels {
            let label = &index.labels[at];
            let (numbers, rows) = match numbers {
                Numbers::Constant(number) => (vec![number], None),
                Numbers::Each(ColumnNumbers { distinct, rows }) => (distinct, Some(rows)),
            };
            let mut values = TextPage::default();
            let mut rest = numbers.as_slice();
            while let Some(number) = rest.first() {
                let (page, within) = label.text_page_of(*number).ok_or_else(missing)?;
                while texts.peek().is_some_and(|(text, _)| (text.label, text.page) < (at, page)) {
                    texts.next();
                }
                let found = texts.peek().filter(|(text, _)| (text.label, text.page) == (at, page));
                let (_, found) = found.ok_or_else(missing)?;
                let most = found.len().checked_sub(within + 1).ok_or_else(missing)?;
                let run = rest.windows(2).take(most).take_while(|pair| pair[0] + 1 == pair[1]).count() + 1;
                values.push_some(found, within..within + run);
                rest = &rest[run..];
            }
            columns.push(SeriesColumn { name: Arc::clone(&label.name), values, rows });
        }
        Ok(SeriesPage { first: index.series_of(self.page).start, columns, spans: self.spans })
    }

    /// Returns the most bytes of the page with its texts, when these are in pages of such sizes.
    pub fn memory_bytes(&self) -> u64 {
        let columns = self.labels.iter().map(|(_, numbers)| match numbers {
            Numbers::Constant(_) => 64,
            Numbers::Each(numbers) => numbers.memory_bytes(),
        });
        columns.sum::<u64>() + self.spans.memory_bytes()
    }
}

impl ColumnNumbers {
    /// Decodes the numbers of a column of `count` series, each at most `values`.
    pub fn decode(part: &Part, plain: &[u8], count: usize, values: u32) -> Result<Self, Error> {
        let mut reader = Reader::new(PART_INDEX, part.address, plain);
        let numbers = get_packed_u32(&mut reader, count)?;
        if numbers.iter().fold(0, |high, number| high.max(*number)) > values {
            return Err(reader.malformed("a column names a value that does not exist"));
        }
        reader.finish()?;
        Ok(Self::of(&numbers))
    }

    fn of(numbers: &[u32]) -> Self {
        let high = numbers.iter().fold(0, |high, number| high.max(*number));
        // One less than the lowest number that is not 0; 0 wraps around and is ignored.
        let below =
            numbers.iter().fold(u32::MAX, |below, number| below.min(number.wrapping_sub(1))).min(high);
        if high - below >= NEAR {
            let mut distinct: Vec<u32> = numbers.iter().copied().filter(|number| *number > 0).collect();
            distinct.sort_unstable();
            distinct.dedup();
            let place = |number: &u32| match number {
                0 => 0,
                number => distinct.binary_search(number).map_or(0, |at| at as u16 + 1),
            };
            let rows = numbers.iter().map(place).collect();
            return Self { distinct, rows };
        }
        // The first slot is for series without the label.
        let mut table = vec![0u16; (high - below) as usize + 1];
        let slot = |number: &u32| number.saturating_sub(below) as usize;
        numbers.iter().for_each(|number| table[slot(number)] = 1);
        let mut distinct = Vec::new();
        table[0] = 0;
        for (at, code) in table.iter_mut().enumerate().filter(|(_, code)| **code == 1) {
            distinct.push(below + at as u32);
            *code = distinct.len() as u16;
        }
        Self { rows: numbers.iter().map(|number| table[slot(number)]).collect(), distinct }
    }

    /// Returns the bytes held in memory.
    pub fn memory_bytes(&self) -> u64 {
        (self.distinct.len() * 4 + self.rows.len() * 2 + size_of::<Self>()) as u64
    }
}

/// Calls `each` with the rows of a column whose value passes. A row is 0 where the label is absent,
/// otherwise one more than the index of its value; `verdicts` has one element for each of these numbers.
pub fn each_passing_row(rows: &[u16], verdicts: &[bool], mut each: impl FnMut(usize)) {
    /// Rows that are compared together.
    const LANES: usize = 32;
    let mut passing = (0..).zip(verdicts).filter(|(_, passes)| **passes).map(|(code, _)| code);
    let (Some(only), None) = (passing.next(), passing.next()) else {
        let rows = rows.iter().enumerate().filter(|(_, code)| verdicts[usize::from(**code)]);
        return rows.for_each(|(row, _)| each(row));
    };
    // One value passes, as with most matchers: most rows do not.
    for (n, lanes) in rows.chunks(LANES).enumerate() {
        if lanes.iter().fold(false, |any, code| any | (*code == only)) {
            let rows = lanes.iter().enumerate().filter(|(_, code)| **code == only);
            rows.for_each(|(row, _)| each(n * LANES + row));
        }
    }
}

/// One label over the series of a page.
#[derive(Debug)]
pub(super) struct SeriesColumn {
    name: Arc<str>,
    values: TextPage,
    /// For each series 0, or one more than the index of its value; `None` if all series have the only
    /// value.
    rows: Option<Box<[u16]>>,
}

impl SeriesColumn {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the code of a row: 0 where a series lacks the label, equal for equal values.
    pub(super) fn code(&self, row: usize) -> u16 {
        self.rows.as_ref().map_or(1, |rows| rows[row])
    }

    /// Returns an exclusive bound of the codes.
    pub(super) fn codes(&self) -> usize {
        self.values.len() + 1
    }

    pub(super) fn value(&self, row: usize) -> Option<&str> {
        match &self.rows {
            None => Some(self.values.get(0)),
            Some(rows) => usize::from(rows[row]).checked_sub(1).map(|at| self.values.get(at)),
        }
    }
}

/// Some series of a block by ordinal, with the requested labels.
#[derive(Debug)]
pub struct SeriesPage {
    first: u32,
    columns: Vec<SeriesColumn>,
    spans: PackedSpans,
}

impl SeriesPage {
    /// Returns the ordinals of the series in the page.
    pub fn series(&self) -> std::ops::Range<u32> {
        self.first..self.first + self.spans.len() as u32
    }

    /// Whether the page holds a series.
    pub fn holds(&self, ordinal: u32) -> bool {
        self.series().contains(&ordinal)
    }

    pub(super) fn columns(&self) -> &[SeriesColumn] {
        &self.columns
    }

    /// Returns the row of a series in the columns.
    pub(super) fn row(&self, ordinal: u32) -> usize {
        (ordinal - self.first) as usize
    }

    /// Returns the labels of a series, by name.
    ///
    /// # Panics
    /// When the page does not hold the series; this applies to the other methods too.
    pub fn pairs(&self, ordinal: u32) -> impl Iterator<Item = (&str, &str)> + Clone {
        let row = (ordinal - self.first) as usize;
        self.columns.iter().filter_map(move |column| Some((&*column.name, column.value(row)?)))
    }

    /// Returns the value of a label of a series.
    pub fn label(&self, ordinal: u32, name: &str) -> Option<&str> {
        let column = self.columns.iter().find(|column| *column.name == *name)?;
        column.value((ordinal - self.first) as usize)
    }

    /// Returns about the bytes of the values of a label that [`SeriesPage::retain`] tests for this many
    /// series.
    pub fn text_bytes(&self, name: &str, series: u64) -> u64 {
        let Some(column) = self.columns.iter().find(|column| *column.name == *name) else { return 0 };
        let (bytes, values) = (column.values.memory_bytes(), column.values.len() as u64);
        if series < values { bytes / values * series } else { bytes }
    }

    /// Removes the series whose value of a label does not pass; an absent label counts as the empty text.
    /// Tests each value once, or each series if there are fewer. The page must hold all of the series.
    pub fn retain(&self, series: &mut RoaringBitmap, name: &str, passes: impl Fn(&str) -> bool) {
        let column = self.columns.iter().find(|column| *column.name == *name);
        if let Some(column) = column.filter(|column| series.len() < column.values.len() as u64) {
            let value = |ordinal: u32| column.value(self.row(ordinal)).unwrap_or_default();
            let stay = series.iter().filter(|ordinal| passes(value(*ordinal)));
            *series = RoaringBitmap::from_sorted_iter(stay.collect::<Vec<u32>>()).unwrap_or_default();
            return;
        }
        let verdicts: Vec<bool> = std::iter::once("")
            .chain(column.iter().flat_map(|column| column.values.iter()))
            .map(passes)
            .collect();
        let rows = match column.map(|column| &column.rows) {
            Some(Some(rows)) => rows,
            of_all => {
                if !verdicts[usize::from(of_all.is_some())] {
                    series.clear();
                }
                return;
            }
        };
        let mut stay: Vec<u32> = Vec::new();
        if series.len() == rows.len() as u64 {
            each_passing_row(rows, &verdicts, |row| stay.push(self.first + row as u32));
        } else {
            let passes = |ordinal: &u32| verdicts[usize::from(rows[(ordinal - self.first) as usize])];
            stay.extend(series.iter().filter(passes));
        }
        // Building a set from ascending numbers is fast; removing numbers from a run one by one is slow.
        *series = RoaringBitmap::from_sorted_iter(stay).unwrap_or_default();
    }

    /// Returns the label set of a series.
    pub fn labels(&self, ordinal: u32) -> Labels {
        Labels::from_pairs(self.pairs(ordinal))
    }

    /// Returns the span of a series.
    pub fn span(&self, ordinal: u32) -> SeriesSpan {
        self.spans.at((ordinal - self.first) as usize)
    }

    /// Returns the bytes held in memory.
    pub fn memory_bytes(&self) -> u64 {
        let column = |column: &SeriesColumn| {
            let rows = column.rows.as_ref().map_or(0, |rows| rows.len() * 2);
            column.values.memory_bytes() + (rows + size_of::<SeriesColumn>()) as u64
        };
        self.columns.iter().map(column).sum::<u64>() + self.spans.memory_bytes()
    }
}
