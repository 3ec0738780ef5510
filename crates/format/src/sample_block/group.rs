//! Groups of pages: neighbouring series, about 128 Ki samples, read in one request.
//!
//! Layout: the head, then the pages. The head is a codec (u8: 0 stored, 1 zstd), the plain length
//! (LEB128) and the plain bytes or their frame. Plain bytes: number of pages; packed per page: length,
//! checksum, kind, samples, numbers minus samples (only histograms have more), runs, first series minus
//! that of the page before, last minus first, first time minus the group's, last minus first
//! (milliseconds), lowest list of times minus the group's, highest minus lowest; number of tables, the
//! tables (length and bytes each).
//!
//! Pages with numbers of similar size share a table, wherever they are in the group: a series with small
//! differences does not pay for the large ones of its neighbours, and each page can be decoded on its
//! own.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use roaring::RoaringBitmap;
use sandur_model::TimeRange;

use super::histograms::HistogramColumns;
use super::page::{
    Draft, FROM_ZERO, KIND_CONSTANT, KIND_HISTOGRAMS, PageEntry, SamplePage, TABLES_MAX, TimeTable,
    check_entry, runs_with_times,
};
use super::scaling::{Form, Numbers, STARTS};
use super::times::touches;
use super::{GROUP_HEAD_MAX, GROUP_PAGES_MAX, PART_GROUP, PART_PAGE, starts};
use crate::codec::bitpack::{get_packed, get_packed_u32, put_packed};
use crate::codec::number_page::{Moments, NumberScratch, NumberTable};
use crate::codec::numbers::compress;
use crate::codec::varint::{put_blob, put_varint};
use crate::codec::{Piece, Reader, compress as bytes_codec};
use crate::error::Error;

/// A class with fewer numbers shares its table with the next one.
const CLASS_NUMBERS_MIN: usize = 4_096;

/// One group of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    /// Head and pages.
    pub piece: Piece,
    /// The head only.
    pub head: Piece,
    /// Number of samples.
    pub rows: u64,
    /// Number of pages.
    pub pages: u32,
    /// Lowest series ordinal.
    pub first_series: u32,
    /// Highest series ordinal.
    pub last_series: u32,
    /// First time, in milliseconds since the epoch.
    pub min_ms: i64,
    /// Last time, in milliseconds since the epoch, inclusive.
    pub max_ms: i64,
    /// Lowest number of the lists of times that its pages need.
    pub first_list: u32,
    /// Highest number of these lists.
    pub last_list: u32,
}

impl GroupEntry {
    /// Returns the most bytes of the decoded head: about forty times the stored ones.
    pub fn head_memory_bytes(&self) -> u64 {
        u64::from(self.head.len) * 40 + (1 << 12)
    }
}

/// The decoded head of a group: its pages, and the tables for decoding them.
#[derive(Clone, Debug)]
pub struct GroupHead {
    pages: Vec<PageEntry>,
    tables: Vec<Bytes>,
    offset: u64,
}

impl GroupHead {
    /// Decodes a head from the bytes of its piece, after verifying checksums.
    pub fn decode(entry: &GroupEntry, bytes: &[u8]) -> Result<Self, Error> {
        let offset = entry.head.offset;
        entry.head.check(PART_GROUP, bytes)?;
        let mut reader = Reader::new(PART_GROUP, offset, bytes);
        let codec = reader.u8()?;
        let plain_len = reader.count("plain bytes of the head of a group", GROUP_HEAD_MAX)?;
        let plain = match codec {
            bytes_codec::STORED => reader.rest().to_vec(),
            bytes_codec::ZSTD => bytes_codec::get_zstd(reader.rest(), plain_len, PART_GROUP, offset)?,
            codec => return Err(Error::UnknownCodec { part: PART_GROUP, offset, codec }),
        };
        let plain = Bytes::from(plain);
        let mut reader = Reader::new(PART_GROUP, offset, &plain);
        let pages = get_pages(&mut reader, entry)?;
        let count = reader.count("tables of a group", usize::from(FROM_ZERO))?;
        let mut tables = Vec::with_capacity(count);
        for _ in 0..count {
            tables.push(plain.slice_ref(reader.blob()?));
        }
        let valid = pages.iter().all(|page| check_entry(page, count));
        let rows: u64 = pages.iter().map(|page| u64::from(page.rows)).sum();
        if !valid || rows != entry.rows {
            return Err(reader.malformed("the pages of a group are out of bounds"));
        }
        reader.finish()?;
        Ok(Self { pages, tables, offset })
    }

    /// Returns the pages, in ascending order of series and time.
    pub fn pages(&self) -> &[PageEntry] {
        &self.pages
    }

    /// Returns empty tables of the group, which several decoders can share.
    pub fn tables(&self) -> Arc<GroupTables> {
        Arc::new(GroupTables(self.tables.iter().map(|_| OnceLock::new()).collect()))
    }

    /// Returns a decoder for pages of the group.
    pub fn decoder(&self) -> PageDecoder<'_> {
        self.decoder_with(self.tables())
    }

    /// Returns a decoder for pages of the group that uses these shared tables.
    pub fn decoder_with(&self, tables: Arc<GroupTables>) -> PageDecoder<'_> {
        PageDecoder { head: self, tables, scratch: Box::default() }
    }
}

fn get_pages(reader: &mut Reader<'_>, group: &GroupEntry) -> Result<Vec<PageEntry>, Error> {
    let count = reader.count("pages of a group", GROUP_PAGES_MAX)?;
    if count != group.pages as usize {
        return Err(reader.malformed("a group and its entry differ in their number of pages"));
    }
    let mut column = || get_packed_u32(reader, count);
    let (lengths, checksums, kinds, rows) = (column()?, column()?, column()?, column()?);
    let (more_numbers, runs, series, more_series) = (column()?, column()?, column()?, column()?);
    let firsts = get_packed(reader, count, |after| group.min_ms.wrapping_add(after as i64))?;
    let spans = get_packed(reader, count, |span| span as i64)?;
    let (lists, more_lists) = (get_packed_u32(reader, count)?, get_packed_u32(reader, count)?);
    let mut pages = Vec::with_capacity(count);
    let (mut offset, mut first_series) = (group.head.end(), group.first_series);
    for n in 0..count {
        let piece = Piece { offset, len: lengths[n], crc: checksums[n] };
        offset = piece.end();
        first_series = first_series.saturating_add(series[n]);
        let first_list = group.first_list.saturating_add(lists[n]);
        pages.push(PageEntry {
            piece,
            kind: u8::try_from(kinds[n]).map_err(|_| reader.malformed("a page has an unknown kind"))?,
            rows: rows[n],
            numbers: rows[n].saturating_add(more_numbers[n]),
            runs: runs[n],
            first_series,
            last_series: first_series.saturating_add(more_series[n]),
            min_ms: firsts[n],
            max_ms: firsts[n].wrapping_add(spans[n]),
            first_list,
            last_list: first_list.saturating_add(more_lists[n]),
        });
    }
    let inside = |page: &PageEntry| {
        page.last_series <= group.last_series
            && page.last_list <= group.last_list
            && page.min_ms >= group.min_ms
            && page.max_ms <= group.max_ms
    };
    if offset != group.piece.end() || !pages.iter().all(inside) {
        return Err(reader.malformed("the pages of a group do not match its entry"));
    }
    Ok(pages)
}

/// The tables of one group, each built when the first page needs it.
#[derive(Debug)]
pub struct GroupTables(Vec<OnceLock<Option<NumberTable>>>);

/// The float values to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// All values of the requested rows.
    All,
    /// Only whether they are stale markers: other values are replaced by arbitrary numbers.
    Presence,
}

/// Decodes pages of one group.
pub struct PageDecoder<'a> {
    head: &'a GroupHead,
    tables: Arc<GroupTables>,
    scratch: Box<NumberScratch>,
}

impl PageDecoder<'_> {
    /// Decodes a page of the group from the bytes of its piece, after verifying checksums.
    pub fn decode(
        &mut self,
        entry: &PageEntry,
        bytes: &[u8],
        times: &TimeTable,
    ) -> Result<SamplePage, Error> {
        self.decode_between(entry, bytes, times, (i64::MIN, i64::MAX), Values::All)
    }

    /// Like [`PageDecoder::decode`], but only the rows from the first to the last of these milliseconds,
    /// both inclusive. For histograms all rows are decoded.
    pub fn decode_between(
        &mut self,
        entry: &PageEntry,
        bytes: &[u8],
        times: &TimeTable,
        (first_ms, last_ms): (i64, i64),
        wanted: Values,
    ) -> Result<SamplePage, Error> {
        entry.piece.check(PART_PAGE, bytes)?;
        let offset = entry.piece.offset;
        let mut reader = Reader::new(PART_PAGE, offset, bytes);
        let mut runs = runs_with_times(&mut reader, entry, times)?;
        let ends: Vec<u32> = runs.iter().map(|run| run.end).collect();
        if entry.kind == KIND_HISTOGRAMS {
            let HistogramColumns { histograms, integers, starts } =
                super::histograms::get(&mut reader, &ends, entry.numbers)?;
            reader.finish()?;
            return Ok(SamplePage { runs, histograms, integers, starts, ..SamplePage::default() });
        }
        let (form, flags) = Form::get(&mut reader, &ends)?;
        let count = entry.rows as usize;
        let mut starts = if flags & STARTS != 0 { starts::get(&mut reader, count)? } else { Vec::new() };
        let kept: Vec<Range<u32>> = runs
            .iter()
            .map(|run| {
                let rows = run.between(first_ms, last_ms);
                run.start + rows.start as u32..run.start + rows.end as u32
            })
            .collect();
        let values = match entry.kind {
            _ if wanted == Values::Presence && !form.may_be_stale(&kept) => {
                Ok(vec![0.0; kept.iter().map(Range::len).sum()])
            }
            KIND_CONSTANT => {
                reader.finish()?;
                form.values(Numbers::Zeros(count), &ends, &kept)
            }
            kind => {
                let moments = if kind < FROM_ZERO { Moments::Stored } else { Moments::FromZero };
                let table = self.tables.table(self.head, kind % FROM_ZERO)?;
                let page = table.page(reader.rest(), count, moments, &mut self.scratch);
                page.and_then(|page| form.values(Numbers::Page(page), &ends, &kept))
            }
        };
        let values = values.map_err(|error| error.within(PART_PAGE, offset))?;
        if !starts.is_empty() && values.len() < count {
            starts = kept
                .iter()
                .flat_map(|rows| &starts[rows.start as usize..rows.end as usize])
                .copied()
                .collect();
        }
        let mut start = 0;
        for (run, rows) in runs.iter_mut().zip(kept) {
            run.skipped = rows.start - run.start;
            (run.start, run.end) = (start, start + rows.len() as u32);
            start = run.end;
        }
        Ok(SamplePage { runs, values, starts, ..SamplePage::default() })
    }
}

impl GroupTables {
    /// Returns the bytes of the tables that were built.
    pub fn memory_bytes(&self) -> u64 {
        let built = self.0.iter().filter_map(|table| table.get()?.as_ref());
        built.map(NumberTable::memory_bytes).sum()
    }

    fn table(&self, head: &GroupHead, number: u8) -> Result<&NumberTable, Error> {
        let offset = head.offset;
        let missing = Error::Malformed { part: PART_GROUP, offset, what: "a table is missing" };
        let (Some(slot), Some(bytes)) =
            (self.0.get(usize::from(number)), head.tables.get(usize::from(number)))
        else {
            return Err(missing);
        };
        match slot.get_or_init(|| NumberTable::new(bytes, PART_GROUP, offset).ok()) {
            Some(table) => Ok(table),
            None => Err(NumberTable::new(bytes, PART_GROUP, offset).err().unwrap_or(missing)),
        }
    }
}

/// Pages that wait until their group is full.
#[derive(Debug, Default)]
pub(super) struct GroupDraft {
    pages: Vec<Draft>,
    rows: u64,
}

impl GroupDraft {
    pub(super) fn push(&mut self, page: Draft) {
        self.rows += u64::from(page.entry.rows);
        self.pages.push(page);
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Returns the entry and the bytes of the group for `offset`; `None` when it has no pages.
    pub(super) fn finish(mut self, offset: u64, level: usize) -> Result<Option<(GroupEntry, Bytes)>, Error> {
        if self.pages.is_empty() {
            return Ok(None);
        }
        // The sort is stable: the pages of a series stay in order of time.
        self.pages.sort_by_key(|page| page.entry.first_series);
        let tables = self.code(level)?;
        let (mut plain, mut head) = (Vec::new(), Vec::new());
        let pages: Vec<PageEntry> = self.pages.iter().map(|page| page.entry).collect();
        let mut entry = GroupEntry {
            piece: Piece { offset, len: 0, crc: 0 },
            head: Piece { offset, len: 0, crc: 0 },
            rows: self.rows,
            pages: pages.len() as u32,
            first_series: pages.iter().map(|page| page.first_series).min().unwrap_or(0),
            last_series: pages.iter().map(|page| page.last_series).max().unwrap_or(0),
            min_ms: pages.iter().map(|page| page.min_ms).min().unwrap_or(0),
            max_ms: pages.iter().map(|page| page.max_ms).max().unwrap_or(0),
            first_list: pages.iter().map(|page| page.first_list).min().unwrap_or(0),
            last_list: pages.iter().map(|page| page.last_list).max().unwrap_or(0),
        };
        put_pages(&mut plain, &pages, &entry);
        put_varint(&mut plain, tables.len() as u64);
        tables.iter().for_each(|table| put_blob(&mut plain, table));
        let mut body = Vec::new();
        head.push(bytes_codec::put_smaller(&mut body, &plain, 3));
        put_varint(&mut head, plain.len() as u64);
        head.append(&mut body);
        entry.head = Piece::of(offset, &head);
        self.pages.iter().for_each(|page| head.extend_from_slice(&page.head));
        entry.piece = Piece::of(offset, &head);
        Ok(Some((entry, Bytes::from(head))))
    }

    /// Encodes the numbers of all pages, appends them to the pages' heads, and returns the tables.
    fn code(&mut self, level: usize) -> Result<Vec<Vec<u8>>, Error> {
        let mut tables = Vec::new();
        for members in self.classes() {
            let lengths = members.iter().map(|page| self.pages[*page].numbers.len()).collect();
            let order = usize::from(self.pages[members[0]].class.0);
            let numbers: Vec<i64> =
                members.iter().flat_map(|page| std::mem::take(&mut self.pages[*page].numbers)).collect();
            let chunk = compress(&numbers, lengths, order, level, Moments::FromZero)?;
            let mut start = 0;
            for (page, end) in members.iter().zip(&chunk.ends) {
                let page = &mut self.pages[*page];
                page.head.extend_from_slice(&chunk.pages[start..*end]);
                page.entry.kind = tables.len() as u8 | FROM_ZERO;
                start = *end;
            }
            tables.push(chunk.table);
        }
        for page in &mut self.pages {
            page.entry.piece = Piece::of(0, &page.head);
        }
        Ok(tables)
    }

    /// Returns the sets of pages that share a table.
    fn classes(&self) -> Vec<Vec<usize>> {
        let mut by_class: BTreeMap<(u8, u8), Vec<usize>> = BTreeMap::new();
        for (number, page) in self.pages.iter().enumerate().filter(|(_, page)| !page.numbers.is_empty()) {
            by_class.entry(page.class).or_default().push(number);
        }
        let size =
            |members: &[usize]| -> usize { members.iter().map(|page| self.pages[*page].numbers.len()).sum() };
        let mut classes: Vec<(u8, Vec<usize>)> = Vec::new();
        let many = by_class.len() > TABLES_MAX;
        for ((order, _), members) in by_class {
            match classes.last_mut() {
                Some((last, before)) if *last == order && (many || size(before) < CLASS_NUMBERS_MIN) => {
                    before.extend(members);
                }
                _ => classes.push((order, members)),
            }
        }
        // In page order, in which a reader decodes them.
        classes
            .into_iter()
            .map(|(_, mut members)| {
                members.sort_unstable();
                members
            })
            .collect()
    }
}

fn put_pages(out: &mut Vec<u8>, pages: &[PageEntry], group: &GroupEntry) {
    put_varint(out, pages.len() as u64);
    let mut column = |value: &dyn Fn(&PageEntry) -> u64| {
        put_packed(out, &pages.iter().map(value).collect::<Vec<_>>());
    };
    column(&|page| u64::from(page.piece.len));
    column(&|page| u64::from(page.piece.crc));
    column(&|page| u64::from(page.kind));
    column(&|page| u64::from(page.rows));
    column(&|page| u64::from(page.numbers - page.rows));
    column(&|page| u64::from(page.runs));
    let mut before = group.first_series;
    let series: Vec<u64> = pages
        .iter()
        .map(|page| {
            let distance = page.first_series - before;
            before = page.first_series;
            u64::from(distance)
        })
        .collect();
    put_packed(out, &series);
    let mut column = |value: &dyn Fn(&PageEntry) -> u64| {
        put_packed(out, &pages.iter().map(value).collect::<Vec<_>>());
    };
    column(&|page| u64::from(page.last_series - page.first_series));
    column(&|page| page.min_ms.wrapping_sub(group.min_ms) as u64);
    column(&|page| page.max_ms.wrapping_sub(page.min_ms) as u64);
    column(&|page| u64::from(page.first_list - group.first_list));
    column(&|page| u64::from(page.last_list - page.first_list));
}

/// A group that is completely in memory, for tools and merges.
pub struct OpenGroup {
    head: Arc<GroupHead>,
    bytes: Bytes,
    offset: u64,
}

impl OpenGroup {
    /// Opens a group from the bytes of its piece.
    pub fn open(entry: &GroupEntry, bytes: Bytes) -> Result<Self, Error> {
        let head = bytes.get(..entry.head.len as usize).filter(|_| bytes.len() == entry.piece.len as usize);
        let offset = entry.piece.offset;
        let head = head.ok_or(Error::Malformed { part: PART_GROUP, offset, what: "a group is truncated" })?;
        Ok(Self { head: Arc::new(GroupHead::decode(entry, head)?), bytes, offset })
    }

    /// Returns the head.
    pub fn head(&self) -> &Arc<GroupHead> {
        &self.head
    }

    /// Returns the stored bytes of a page.
    pub fn page_bytes(&self, page: &PageEntry) -> Bytes {
        let start = (page.piece.offset - self.offset) as usize;
        self.bytes.slice(start..start + page.piece.len as usize)
    }
}

impl GroupHead {
    /// Returns the bytes held in memory.
    pub fn memory_bytes(&self) -> u64 {
        let tables: usize = self.tables.iter().map(|table| table.len() + size_of::<Bytes>()).sum();
        (self.pages.len() * size_of::<PageEntry>() + tables + size_of::<Self>()) as u64
    }

    /// Returns the numbers of the pages that may hold samples of these series within the range,
    /// ascending.
    pub fn pages_of(&self, series: &RoaringBitmap, range: TimeRange) -> Vec<u32> {
        let wanted = self.pages.iter().enumerate().filter(|(_, page)| {
            touches(range, page.min_ms, page.max_ms)
                && series.range_cardinality(page.first_series..=page.last_series) > 0
        });
        wanted.map(|(number, _)| number as u32).collect()
    }
}
