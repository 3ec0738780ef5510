//! A label in the footer: the places of its texts, its lists of series and its columns.
//!
//! Values are numbered from 1 in the order in which they first occur in the series, so neighbouring
//! series have neighbouring values. Texts are stored in that order, and once more sorted by text with
//! their numbers, unless both orders are the same.

use std::sync::Arc;

use super::part::{PART_INDEX, Part, get_parts, put_parts};
use super::texts::TextPage;
use crate::codec::Reader;
use crate::codec::bitpack::{get_packed_u32, put_packed};
use crate::codec::varint::{put_blob, put_varint};
use crate::error::Error;

/// Most bytes of the first texts of all pages of a label.
const FIRSTS_BYTES_MAX: usize = 1 << 26;
/// Most texts or lists of a page.
const PAGE_ITEMS_MAX: u32 = 512;

/// A page of texts or of lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageRef {
    /// The part that holds the page.
    pub part: Part,
    /// Number of texts or lists before it.
    pub first: u32,
    /// Number of texts or lists in it.
    pub count: u32,
    /// Bytes of its texts; for lists the number of entries of the longest one.
    pub bytes: u32,
}

impl PageRef {
    /// Returns the bytes of memory for reading and decoding it.
    pub fn memory_bytes(&self) -> u64 {
        self.kept_bytes() + u64::from(self.part.plain)
    }

    /// Returns the bytes of its stored form and of its decoded form.
    pub fn kept_bytes(&self) -> u64 {
        u64::from(self.part.len) + u64::from(self.bytes) + u64::from(self.count) * 16
    }
}

/// The values of the series of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// All series have the value with this number.
    Constant(u32),
    /// A value number for each series; 0 where the label is absent.
    Each(Part),
}

/// A label and the places of its parts.
#[derive(Clone, Debug, Default)]
pub struct Label {
    pub(super) name: Arc<str>,
    pub(super) values: u32,
    /// In order of numbers.
    pub(super) texts: Vec<PageRef>,
    /// In order of texts; empty when both orders are the same.
    pub(super) sorted: Vec<PageRef>,
    /// The first text of each page, in order of texts.
    pub(super) firsts: TextPage,
    /// The first list holds all series that have the label; one list per value follows.
    pub(super) lists: Vec<PageRef>,
    /// By the number of the page of series; absent for pages without the label.
    pub(super) columns: Vec<(u32, Column)>,
}

impl Label {
    /// Returns the name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the number of values.
    pub fn values(&self) -> u32 {
        self.values
    }

    /// Whether the order of numbers is the order of texts.
    pub fn is_in_order(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Returns the number of series that have the label. Their list is the longest one.
    pub fn series(&self) -> u32 {
        self.lists.first().map_or(0, |page| page.bytes)
    }

    /// Returns the pages of texts in order of texts.
    pub fn sorted_pages(&self) -> &[PageRef] {
        if self.sorted.is_empty() { &self.texts } else { &self.sorted }
    }

    /// Returns the pages of texts in order of numbers.
    pub fn text_pages(&self) -> &[PageRef] {
        &self.texts
    }

    /// Returns the pages of lists.
    pub fn list_pages(&self) -> &[PageRef] {
        &self.lists
    }

    /// Returns the page in order of texts that may hold this text.
    pub fn sorted_page_of(&self, text: &str) -> Option<usize> {
        let at = self.firsts.lower_bound(text);
        match at < self.firsts.len() && self.firsts.get(at) == text {
            true => Some(at),
            false => at.checked_sub(1),
        }
    }

    /// Returns the pages in order of texts that may hold texts with this prefix.
    pub fn sorted_pages_from(&self, start: &str) -> std::ops::Range<usize> {
        let from = self.firsts.lower_bound(start).saturating_sub(1);
        let beyond = |at: &usize| {
            let first = self.firsts.get(*at);
            first > start && !first.starts_with(start)
        };
        let end = (from..self.firsts.len()).find(beyond).unwrap_or(self.firsts.len());
        from..end
    }

    /// Returns the pages in order of texts that hold only texts with this prefix.
    pub fn sorted_pages_within(&self, start: &str) -> std::ops::Range<usize> {
        let from = self.firsts.lower_bound(start);
        let has_it = |at: &usize| self.firsts.get(*at).starts_with(start);
        let end = (from..self.firsts.len()).take_while(has_it).count() + from;
        // The last one may also hold texts after the prefix.
        from..end.saturating_sub(1).max(from)
    }

    /// Returns the page that holds the text with this number (from 1), and its index there.
    pub fn text_page_of(&self, number: u32) -> Option<(usize, usize)> {
        place_of(&self.texts, number.checked_sub(1)?)
    }

    /// Returns the page that holds a list (0: all series with the label), and its index there.
    pub fn list_page_of(&self, list: u32) -> Option<(usize, usize)> {
        place_of(&self.lists, list)
    }

    /// Returns the values of the series of a page; `None` when no series has the label.
    pub fn column(&self, page: u32) -> Option<&Column> {
        // Pages ascend, so the column of a page is at its number, or before it if a page lacks the label.
        let end = self.columns.len().min(page as usize + 1);
        let (last, column) = self.columns[..end].last()?;
        if *last == page {
            return Some(column);
        }
        let at = self.columns[..end].binary_search_by_key(&page, |(page, _)| *page).ok()?;
        Some(&self.columns[at].1)
    }

    /// Returns the pages of series with the label, and their columns.
    pub fn columns(&self) -> &[(u32, Column)] {
        &self.columns
    }

    /// Returns every part of the label.
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        let pages = self.texts.iter().chain(&self.sorted).chain(&self.lists).map(|page| page.part);
        pages.chain(self.columns.iter().filter_map(|(_, column)| match column {
            Column::Each(part) => Some(*part),
            Column::Constant(_) => None,
        }))
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let pages = self.texts.len() + self.sorted.len() + self.lists.len();
        let columns = self.columns.len() * size_of::<(u32, Column)>();
        (pages * size_of::<PageRef>() + columns + size_of::<Self>()) as u64 + self.firsts.memory_bytes()
    }

    /// Fails where [`Label::get`] would refuse the label: no block may be written that readers refuse.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.firsts.text_bytes() <= FIRSTS_BYTES_MAX {
            return Ok(());
        }
        let (found, limit) = (self.firsts.text_bytes() as u64, FIRSTS_BYTES_MAX as u64);
        Err(Error::TooLarge {
            part: PART_INDEX,
            what: "the first texts of the pages of a label",
            found,
            limit,
        })
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_blob(out, self.name.as_bytes());
        put_varint(out, u64::from(self.values));
        put_pages(out, &self.texts);
        put_pages(out, &self.sorted);
        put_varint(out, self.firsts.text_bytes() as u64);
        TextPage::put(out, self.firsts.iter());
        put_pages(out, &self.lists);
        put_varint(out, self.columns.len() as u64);
        put_packed(out, &self.columns.iter().map(|(page, _)| u64::from(*page)).collect::<Vec<_>>());
        let constant = |(_, column): &(u32, Column)| match column {
            Column::Constant(number) => u64::from(*number),
            Column::Each(_) => 0,
        };
        put_packed(out, &self.columns.iter().map(constant).collect::<Vec<_>>());
        let part = |(_, column): &(u32, Column)| match column {
            Column::Constant(_) => None,
            Column::Each(part) => Some(*part),
        };
        put_parts(out, &self.columns.iter().filter_map(part).collect::<Vec<_>>());
    }

    /// Reads a label of a block with this many pages of series.
    pub(super) fn get(reader: &mut Reader<'_>, pages: u32) -> Result<Self, Error> {
        let name = Arc::from(reader.text()?);
        let values = reader.varint32()?;
        let (texts, sorted) = (get_pages(reader)?, get_pages(reader)?);
        let firsts_bytes = reader.count("bytes of the first texts of a label", FIRSTS_BYTES_MAX)?;
        let count = if sorted.is_empty() { texts.len() } else { sorted.len() };
        let firsts = TextPage::get_page(reader, count, firsts_bytes)?;
        let lists = get_pages(reader)?;
        let count = reader.count("columns of a label", pages as usize)?;
        let of_pages = get_packed_u32(reader, count)?;
        let constants = get_packed_u32(reader, count)?;
        let each = constants.iter().filter(|constant| **constant == 0).count();
        let mut parts = get_parts(reader, each)?.into_iter();
        let column = |(page, constant): (&u32, &u32)| match constant {
            0 => parts.next().map(|part| (*page, Column::Each(part))),
            number => Some((*page, Column::Constant(*number))),
        };
        let columns: Vec<(u32, Column)> = of_pages.iter().zip(&constants).filter_map(column).collect();
        let all = |pages: &[PageRef]| pages.last().map_or(0, |page| u64::from(page.first + page.count));
        let valid = values > 0
            && all(&texts) == u64::from(values)
            && (sorted.is_empty() || all(&sorted) == u64::from(values))
            && all(&lists) == u64::from(values) + 1
            && constants.iter().all(|constant| *constant <= values)
            && of_pages.windows(2).all(|pair| pair[0] < pair[1])
            && of_pages.last().is_none_or(|last| *last < pages);
        if !valid {
            return Err(reader.malformed("the pages of a label do not match its values"));
        }
        Ok(Self { name, values, texts, sorted, firsts, lists, columns })
    }
}

fn place_of(pages: &[PageRef], number: u32) -> Option<(usize, usize)> {
    let at = pages.partition_point(|page| page.first <= number).checked_sub(1)?;
    let within = number - pages[at].first;
    (within < pages[at].count).then_some((at, within as usize))
}

fn put_pages(out: &mut Vec<u8>, pages: &[PageRef]) {
    put_varint(out, pages.len() as u64);
    put_parts(out, &pages.iter().map(|page| page.part).collect::<Vec<_>>());
    put_packed(out, &pages.iter().map(|page| u64::from(page.count)).collect::<Vec<_>>());
    put_packed(out, &pages.iter().map(|page| u64::from(page.bytes)).collect::<Vec<_>>());
}

fn get_pages(reader: &mut Reader<'_>) -> Result<Vec<PageRef>, Error> {
    // Every page has a checksum of four bytes.
    let count = reader.count("pages of a label", reader.remaining() / 4)?;
    let parts = get_parts(reader, count)?;
    let (counts, bytes) = (get_packed_u32(reader, count)?, get_packed_u32(reader, count)?);
    let mut first = 0u32;
    let mut pages = Vec::with_capacity(count);
    for (n, part) in parts.into_iter().enumerate() {
        let (count, bytes) = (counts[n], bytes[n]);
        pages.push(PageRef { part, first, count, bytes });
        let next = first.checked_add(count).filter(|_| (1..=PAGE_ITEMS_MAX).contains(&count));
        first = next.ok_or_else(|| reader.malformed("a page of a label is empty or too large"))?;
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_that_readers_refuse_is_not_written() {
        let mut label = Label::default();
        let text = "x".repeat(FIRSTS_BYTES_MAX / 4);
        (0..4).for_each(|_| label.firsts.push(&text));
        assert_eq!(label.check().err(), None);
        label.firsts.push("x");
        assert!(matches!(label.check(), Err(Error::TooLarge { .. })));
    }
}
