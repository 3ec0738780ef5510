//! The footer of a sample block: series, postings, groups of pages, lists of times, and what the block is
//! made from.

use std::ops::Range;

use bytes::Bytes;
use roaring::RoaringBitmap;
use sandur_model::{MILLISECOND_NS, Signal, TimeRange};

use super::group::GroupEntry;
use super::times::TimePageEntry;
use super::writer::BlockOptions;
use super::{GROUP_PAGES_MAX, PART_GROUP, PART_TIMES, SAMPLE_BYTES, VERSION};
use crate::block::postings::Postings;
use crate::block::{
    BlockIndex, BlockInfo, BlockSummary, HEADER_LEN, IndexBase, Layout, PART_FOOTER, SeriesTable,
};
use crate::codec::bitpack::{get_packed, get_packed_u32, put_packed};
use crate::codec::varint::put_varint;
use crate::codec::{Piece, Reader};
use crate::error::Error;

const META: u8 = 1;
const SERIES: u8 = 2;
const POSTINGS: u8 = 3;
const GROUPS: u8 = 4;
const ORIGIN: u8 = 5;
const TIMES: u8 = 6;

const SECTIONS: [(u8, &str); 6] = [
    (META, "meta"),
    (SERIES, "series"),
    (POSTINGS, "postings"),
    (GROUPS, "groups"),
    (ORIGIN, "origin"),
    (TIMES, "times"),
];

/// Most times of a page of lists.
const TIMES_MAX: u32 = 1 << 17;

/// What tells blocks of samples from others.
pub(super) const LAYOUT: Layout =
    Layout { header_magic: *b"SSMP", trailer_magic: *b"PMSS", version: VERSION, sections: &SECTIONS };

/// What is between header and footer.
pub(super) struct Parts<'a> {
    pub(super) groups: &'a [GroupEntry],
    pub(super) time_pages: &'a [TimePageEntry],
}

/// The decoded footer of a block.
#[derive(Debug)]
pub struct Footer {
    base: IndexBase,
    groups: Vec<GroupEntry>,
    time_pages: Vec<TimePageEntry>,
    pages: usize,
}

impl BlockIndex for Footer {
    fn locate(tail: &[u8], size: u64) -> Result<Range<u64>, Error> {
        LAYOUT.locate(tail, size)
    }

    fn open(bytes: Bytes) -> Result<Self, Error> {
        let mut body = Bytes::new();
        let (mut base, trailer, mut sections) = IndexBase::open(&LAYOUT, &bytes, &mut body)?;
        if trailer.version != VERSION {
            return Err(Error::Version { part: PART_FOOTER, found: trailer.version, supported: VERSION });
        }
        let (plain, offset) = sections.take(GROUPS)?;
        let mut reader = Reader::new(PART_FOOTER, offset, &plain);
        let first_ms = base.info().min_ts.div_euclid(MILLISECOND_NS);
        let groups = get_groups(&mut reader, first_ms, base.series().len() as u32)?;
        reader.finish()?;
        let (plain, offset) = sections.take(TIMES)?;
        let mut reader = Reader::new(PART_FOOTER, offset, &plain);
        let time_pages = get_time_pages(&mut reader)?;
        check_pieces(&groups, &time_pages, &reader, trailer.footer.offset)?;
        reader.finish()?;
        base.read_origin(&mut sections, ORIGIN)?;
        let pages = groups.iter().map(|group| group.pages as usize).sum();
        Ok(Self { base, groups, time_pages, pages })
    }

    fn check_header(&self, bytes: &[u8]) -> Result<(), Error> {
        check_header(bytes)
    }

    fn signal(&self) -> Signal {
        Signal::Metrics
    }

    fn base(&self) -> &IndexBase {
        &self.base
    }

    fn page_count(&self) -> usize {
        self.pages
    }

    fn pieces(&self) -> Vec<(&'static str, Piece)> {
        let groups = self.groups.iter().map(|group| (PART_GROUP, group.piece));
        groups.chain(self.time_pages.iter().map(|page| (PART_TIMES, page.piece))).collect()
    }

    fn memory_bytes(&self) -> u64 {
        let groups = self.groups.len() * size_of::<GroupEntry>() + size_of::<Self>();
        let times = self.time_pages.len() * size_of::<TimePageEntry>();
        (groups + times) as u64 + self.base.memory_bytes()
    }
}

impl Footer {
    /// The groups in the order of their series.
    pub fn groups(&self) -> &[GroupEntry] {
        &self.groups
    }

    /// The pages of lists of times, by rising numbers of lists.
    pub fn time_pages(&self) -> &[TimePageEntry] {
        &self.time_pages
    }

    /// Numbers of the groups that may hold samples of these series within the range, rising.
    pub fn groups_of(&self, series: &RoaringBitmap, range: TimeRange) -> Vec<u32> {
        let (Some(first), Some(last)) = (series.min(), series.max()) else { return Vec::new() };
        let from = self.groups.partition_point(|group| group.last_series < first);
        let near = self.groups.iter().enumerate().skip(from);
        let near = near.take_while(|(_, group)| group.first_series <= last);
        let wanted = near.filter(|(_, group)| {
            touches(range, group.min_ms, group.max_ms)
                && series.range_cardinality(group.first_series..=group.last_series) > 0
        });
        wanted.map(|(number, _)| number as u32).collect()
    }

    /// Numbers of the pages of times that these groups need, rising.
    pub fn time_pages_of(&self, groups: &[u32]) -> Vec<u32> {
        let mut needed = RoaringBitmap::new();
        for group in groups.iter().map(|number| &self.groups[*number as usize]) {
            let at = |list| self.time_pages.partition_point(|times| times.first_list <= list) as u32;
            needed.insert_range(at(group.first_list).saturating_sub(1)..at(group.last_list));
        }
        needed.iter().collect()
    }
}

/// Whether times in milliseconds, both included, touch a range.
pub(super) fn touches(range: TimeRange, min_ms: i64, max_ms: i64) -> bool {
    range.touches(min_ms.saturating_mul(MILLISECOND_NS), max_ms.saturating_mul(MILLISECOND_NS))
}

/// Compares the first bytes of a block.
pub fn check_header(bytes: &[u8]) -> Result<(), Error> {
    LAYOUT.check_header(bytes)
}

/// The footer and trailer that stand at `offset`.
pub(super) fn put_footer(
    options: &BlockOptions,
    series: &SeriesTable,
    parts: Parts<'_>,
    offset: u64,
) -> Result<(BlockSummary, Bytes), Error> {
    let groups = parts.groups;
    let rows = groups.iter().map(|group| group.rows).sum();
    let first_ms = groups.iter().map(|group| group.min_ms).min().unwrap_or(0);
    let last_ms = groups.iter().map(|group| group.max_ms).max().unwrap_or(0);
    let mut summary = BlockSummary {
        rows,
        raw_bytes: rows * SAMPLE_BYTES,
        min_ts: first_ms.saturating_mul(MILLISECOND_NS),
        max_ts: last_ms.saturating_mul(MILLISECOND_NS),
        streams: series.len() as u32,
        pages: groups.iter().map(|group| group.pages).sum(),
        footer_offset: offset,
        footer_len: 0,
        size: 0,
    };
    let info = BlockInfo {
        version: LAYOUT.version,
        tenant: options.tenant.clone(),
        window: options.window,
        level: options.level,
        page_bytes: options.page_rows.saturating_mul(SAMPLE_BYTES as u32),
        zstd_level: options.zstd_level,
        min_ts: summary.min_ts,
        max_ts: summary.max_ts,
        rows: summary.rows,
        raw_bytes: summary.raw_bytes,
    };
    let bytes = LAYOUT.put_footer(offset, options.zstd_level, |id, plain| match id {
        META => info.put(plain),
        SERIES => series.put(plain, summary.min_ts),
        POSTINGS => Postings::put(plain, series),
        GROUPS => put_groups(plain, groups, first_ms),
        TIMES => put_time_pages(plain, parts.time_pages),
        _ => options.origin.put(plain),
    })?;
    summary.footer_len = bytes.len() as u32;
    summary.size = offset + bytes.len() as u64;
    Ok((summary, Bytes::from(bytes)))
}

fn put_groups(out: &mut Vec<u8>, groups: &[GroupEntry], first_ms: i64) {
    put_varint(out, groups.len() as u64);
    let mut column = |value: &dyn Fn(&GroupEntry) -> u64| {
        put_packed(out, &groups.iter().map(value).collect::<Vec<_>>());
    };
    column(&|group| group.piece.offset);
    column(&|group| u64::from(group.piece.len));
    column(&|group| u64::from(group.piece.crc));
    column(&|group| u64::from(group.head.len));
    column(&|group| u64::from(group.head.crc));
    column(&|group| group.rows);
    column(&|group| u64::from(group.pages));
    column(&|group| u64::from(group.first_series));
    column(&|group| u64::from(group.last_series - group.first_series));
    column(&|group| group.min_ms.wrapping_sub(first_ms) as u64);
    column(&|group| group.max_ms.wrapping_sub(group.min_ms) as u64);
    column(&|group| u64::from(group.first_list));
    column(&|group| u64::from(group.last_list - group.first_list));
}

fn get_groups(reader: &mut Reader<'_>, first_ms: i64, series: u32) -> Result<Vec<GroupEntry>, Error> {
    // Every group has two checksums of four bytes.
    let count = reader.count("groups of a block", reader.remaining())?;
    let offsets = get_packed(reader, count, |offset| offset)?;
    let mut column = || get_packed_u32(reader, count);
    let (lengths, checksums, heads, head_checksums) = (column()?, column()?, column()?, column()?);
    let rows = get_packed(reader, count, |rows| rows)?;
    let pages = get_packed_u32(reader, count)?;
    let (first_series, more_series) = (get_packed_u32(reader, count)?, get_packed_u32(reader, count)?);
    let firsts = get_packed(reader, count, |after| first_ms.wrapping_add(after as i64))?;
    let spans = get_packed(reader, count, |span| span as i64)?;
    let (first_list, more_lists) = (get_packed_u32(reader, count)?, get_packed_u32(reader, count)?);
    let group = |n: usize| GroupEntry {
        piece: Piece { offset: offsets[n], len: lengths[n], crc: checksums[n] },
        head: Piece { offset: offsets[n], len: heads[n], crc: head_checksums[n] },
        rows: rows[n],
        pages: pages[n],
        first_series: first_series[n],
        last_series: first_series[n].saturating_add(more_series[n]),
        min_ms: firsts[n],
        max_ms: firsts[n].wrapping_add(spans[n]),
        first_list: first_list[n],
        last_list: first_list[n].saturating_add(more_lists[n]),
    };
    let groups: Vec<GroupEntry> = (0..count).map(group).collect();
    let valid = |group: &GroupEntry| {
        group.head.len <= group.piece.len
            && (1..=GROUP_PAGES_MAX as u32).contains(&group.pages)
            && group.rows >= u64::from(group.pages)
            && group.rows <= u64::from(u32::MAX)
            && group.last_series < series
            && group.min_ms <= group.max_ms
    };
    let in_order = |pair: &[GroupEntry]| pair[0].last_series <= pair[1].first_series;
    if !groups.iter().all(valid) || !groups.windows(2).all(in_order) {
        return Err(reader.malformed("the groups are out of bounds or out of order"));
    }
    Ok(groups)
}

fn put_time_pages(out: &mut Vec<u8>, pages: &[TimePageEntry]) {
    put_varint(out, pages.len() as u64);
    let mut column = |value: &dyn Fn(&TimePageEntry) -> u64| {
        put_packed(out, &pages.iter().map(value).collect::<Vec<_>>());
    };
    column(&|page| page.piece.offset);
    column(&|page| u64::from(page.piece.len));
    column(&|page| u64::from(page.piece.crc));
    column(&|page| u64::from(page.lists));
    column(&|page| u64::from(page.times));
}

fn get_time_pages(reader: &mut Reader<'_>) -> Result<Vec<TimePageEntry>, Error> {
    let count = reader.count("pages of times of a block", reader.remaining())?;
    let offsets = get_packed(reader, count, |offset| offset)?;
    let mut column = || get_packed_u32(reader, count);
    let (lengths, checksums, lists, times) = (column()?, column()?, column()?, column()?);
    let mut first_list = 0u32;
    let mut pages = Vec::with_capacity(count);
    for n in 0..count {
        if !(1..=times[n]).contains(&lists[n]) || times[n] > TIMES_MAX {
            return Err(reader.malformed("a page of times is out of bounds"));
        }
        pages.push(TimePageEntry {
            piece: Piece { offset: offsets[n], len: lengths[n], crc: checksums[n] },
            first_list,
            lists: lists[n],
            times: times[n],
        });
        let next = first_list.checked_add(lists[n]);
        first_list = next.ok_or_else(|| reader.malformed("a block has too many lists of times"))?;
    }
    Ok(pages)
}

/// Fails unless groups and pages of times fill the object up to its footer.
fn check_pieces(
    groups: &[GroupEntry],
    time_pages: &[TimePageEntry],
    reader: &Reader<'_>,
    footer_offset: u64,
) -> Result<(), Error> {
    let groups = groups.iter().map(|group| group.piece);
    let mut pieces: Vec<Piece> = groups.chain(time_pages.iter().map(|page| page.piece)).collect();
    pieces.sort_unstable_by_key(|piece| piece.offset);
    let mut at = HEADER_LEN;
    for piece in pieces {
        if piece.offset != at || piece.len == 0 {
            return Err(reader.malformed("the parts of a block overlap or have gaps between them"));
        }
        at = at.saturating_add(u64::from(piece.len));
    }
    match at == footer_offset {
        true => Ok(()),
        false => Err(reader.malformed("the parts of a block do not end at its footer")),
    }
}
