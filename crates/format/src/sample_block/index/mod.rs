//! The index of a block: its series and labels, read in parts.
//!
//! The footer holds [`Index`], with the places of the parts: some bytes for each 512 values of a label
//! and for each 4,096 series. A query reads the parts that it needs: pages of texts to find values, pages
//! of lists to find series, columns of pages of series for labels. No reader needs all of them at once.

mod alike;
mod gather;
mod label;
mod lists;
mod part;
mod rising;
mod series_page;
mod spans;
#[cfg(test)]
mod tests;
mod texts;
mod value_set;

use bytes::Bytes;

pub use alike::Alike;
pub(super) use gather::IndexWriter;
pub use label::{Column, Label, PageRef};
pub use lists::ListPage;
pub(super) use part::WrittenArea;
pub(crate) use part::{Area, Areas, PART_INDEX};
pub use part::{Part, Place};

pub use series_page::{ColumnNumbers, SeriesColumns, SeriesPage, TextRef, each_passing_row};
pub use spans::SeriesSpan;
pub use texts::TextPage;

use crate::block::PART_FOOTER;
use crate::codec::bitpack::{get_packed, get_packed_u32, put_packed};
use crate::codec::varint::put_varint;
use crate::codec::{Piece, Reader};
use crate::error::Error;
use part::{get_parts, put_parts};
use spans::PackedSpans;
use texts::SHARED_BYTES_MAX;

/// Number of series of a page.
pub const PAGE_SERIES: u32 = 1 << 12;
/// Most columns of all labels together for which a reader reserves memory.
const COLUMNS_MAX: usize = 1 << 22;

/// A page of series; its first series is `PAGE_SERIES` times its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesPageRef {
    /// The part with the times and numbers of samples.
    pub spans: Part,
    /// First time of all its series in milliseconds since the epoch.
    pub min_ms: i64,
    /// Last time, inclusive.
    pub max_ms: i64,
    /// Whether each of its series has samples.
    pub is_full: bool,
}

/// The places of the parts of a block's index.
#[derive(Clone, Debug, Default)]
pub struct Index {
    series: u32,
    pages: Vec<SeriesPageRef>,
    /// In ascending order of names.
    labels: Vec<Label>,
    areas: Areas,
}

impl Index {
    /// Returns the number of series in the block.
    pub fn series(&self) -> u32 {
        self.series
    }

    /// Returns the pages of series.
    pub fn pages(&self) -> &[SeriesPageRef] {
        &self.pages
    }

    /// Returns the ordinals of the series of a page.
    pub fn series_of(&self, page: u32) -> std::ops::Range<u32> {
        let first = page.saturating_mul(PAGE_SERIES).min(self.series);
        first..first.saturating_add(PAGE_SERIES).min(self.series)
    }

    /// Returns the labels that series have, by name.
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// Returns a label.
    pub fn label(&self, name: &str) -> Option<&Label> {
        let at = self.labels.binary_search_by(|label| (*label.name).cmp(name)).ok()?;
        Some(&self.labels[at])
    }

    /// Returns the place of a part.
    pub fn locate(&self, part: &Part) -> Result<Place, Error> {
        self.areas.locate(part)
    }

    /// Returns the bytes of the parts that are in the object before the footer.
    pub fn object_bytes(&self) -> u64 {
        self.areas.stored_end()
    }

    /// Returns every part.
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        let spans = self.pages.iter().map(|page| page.spans);
        spans.chain(self.labels.iter().flat_map(Label::parts))
    }

    /// Decodes the texts of a page in order of numbers.
    pub fn texts(&self, page: &PageRef, plain: &[u8]) -> Result<TextPage, Error> {
        let mut reader = Reader::new(PART_INDEX, page.part.address, plain);
        let texts = get_texts(&mut reader, page)?;
        reader.finish()?;
        Ok(texts)
    }

    /// Decodes the texts of a page in order of texts, and their numbers.
    pub fn sorted_texts(
        &self,
        label: &Label,
        page: usize,
        plain: &[u8],
    ) -> Result<(TextPage, Vec<u32>), Error> {
        let of = &label.sorted_pages()[page];
        if label.is_in_order() {
            return Ok((self.texts(of, plain)?, (of.first + 1..=of.first + of.count).collect()));
        }
        let mut reader = Reader::new(PART_INDEX, of.part.address, plain);
        let texts = get_texts(&mut reader, of)?;
        let numbers = get_packed_u32(&mut reader, of.count as usize)?;
        if numbers.iter().any(|number| *number == 0 || *number > label.values) {
            return Err(reader.malformed("a text has a number that its label does not have"));
        }
        reader.finish()?;
        Ok((texts, numbers))
    }

    /// Decodes the spans of the series of a page.
    pub fn spans(&self, page: u32, plain: &[u8]) -> Result<Vec<SeriesSpan>, Error> {
        let of = &self.pages[page as usize];
        let spans = PackedSpans::get(plain, self.series_of(page).len(), of.min_ms, of.spans.address)?;
        Ok(spans.iter().collect())
    }

    /// Decodes the lists of a page.
    pub fn lists(&self, page: &PageRef, plain: &Bytes) -> Result<ListPage, Error> {
        ListPage::get(plain, page.count as usize)
    }

    /// Returns the pieces of the object that hold parts.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Piece> {
        self.areas.stored.iter().map(|area| area.piece)
    }

    /// Returns the bytes held in memory.
    pub fn memory_bytes(&self) -> u64 {
        let labels: u64 = self.labels.iter().map(Label::memory_bytes).sum();
        let pages = self.pages.len() * size_of::<SeriesPageRef>();
        labels + (pages + self.areas.in_footer.len() + self.areas.stored.len() * size_of::<Area>()) as u64
    }

    pub(super) fn put_series(&self, out: &mut Vec<u8>, first_ms: i64) {
        put_varint(out, u64::from(self.series));
        put_parts(out, &self.pages.iter().map(|page| page.spans).collect::<Vec<_>>());
        let mut column = |value: &dyn Fn(&SeriesPageRef) -> u64| {
            put_packed(out, &self.pages.iter().map(value).collect::<Vec<_>>());
        };
        // A page without samples has no times: any value is valid.
        column(&|page| if page.min_ms > page.max_ms { 0 } else { page.min_ms.wrapping_sub(first_ms) as u64 });
        column(&|page| {
            if page.min_ms > page.max_ms { 0 } else { page.max_ms.wrapping_sub(page.min_ms) as u64 }
        });
        column(&|page| u64::from(page.is_full));
    }

    pub(super) fn put_labels(&self, out: &mut Vec<u8>) {
        put_varint(out, self.labels.len() as u64);
        self.labels.iter().for_each(|label| label.put(out));
    }

    pub(super) fn put_areas(&self, out: &mut Vec<u8>) {
        self.areas.put(out);
    }

    pub(super) fn in_footer(&self) -> &Bytes {
        &self.areas.in_footer
    }

    /// Reads series, labels and areas from their sections.
    pub(super) fn get(sections: IndexSections, first_ms: i64) -> Result<Self, Error> {
        let IndexSections { series: (series_bytes, at), labels: (label_bytes, labels_at), .. } = &sections;
        let mut reader = Reader::new(PART_FOOTER, *at, series_bytes);
        let series = reader.varint32()?;
        let count = series.div_ceil(PAGE_SERIES) as usize;
        let spans = get_parts(&mut reader, count)?;
        let firsts = get_packed(&mut reader, count, |after| first_ms.wrapping_add(after as i64))?;
        let lengths = get_packed(&mut reader, count, |span| span as i64)?;
        let full = get_packed(&mut reader, count, |full| full == 1)?;
        reader.finish()?;
        let page = |n: usize| SeriesPageRef {
            spans: spans[n],
            min_ms: firsts[n],
            max_ms: firsts[n].wrapping_add(lengths[n]),
            is_full: full[n],
        };
        let pages = (0..count).map(page).collect();
        let mut reader = Reader::new(PART_FOOTER, *labels_at, label_bytes);
        let names = reader.count("labels of a block", reader.remaining())?;
        let (mut labels, mut columns): (Vec<Label>, usize) = (Vec::new(), 0);
        for _ in 0..names {
            let label = Label::get(&mut reader, count as u32)?;
            columns += label.columns.len();
            let is_sorted = labels.last().is_none_or(|before| before.name < label.name);
            if !is_sorted || columns > COLUMNS_MAX || label.values > series {
                return Err(reader.malformed("labels are not sorted, or have too many columns or values"));
            }
            labels.push(label);
        }
        reader.finish()?;
        let mut reader = Reader::new(PART_FOOTER, sections.areas.1, &sections.areas.0);
        let areas = Areas::get(&mut reader, sections.in_footer)?;
        reader.finish()?;
        Ok(Self { series, pages, labels, areas })
    }
}

/// Decodes the texts of a page. Writers close a page before its texts share many bytes.
fn get_texts(reader: &mut Reader<'_>, page: &PageRef) -> Result<TextPage, Error> {
    if page.bytes as usize > reader.remaining() + SHARED_BYTES_MAX {
        return Err(reader.malformed("a page of texts states more bytes than it can hold"));
    }
    TextPage::get_page(reader, page.count as usize, page.bytes as usize)
}

/// Plain bytes of the sections of an index, and the offset of each.
pub(super) struct IndexSections {
    pub(super) series: (Bytes, u64),
    pub(super) labels: (Bytes, u64),
    pub(super) areas: (Bytes, u64),
    pub(super) in_footer: Bytes,
}
