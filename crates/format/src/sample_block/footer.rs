//! The footer of a sample block: series, postings, groups of pages, lists of times, exemplars and
//! metadata, and the origin of the block.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use roaring::RoaringBitmap;
use sandur_model::{MILLISECOND_NS, Signal, TimeRange};

use super::exemplars::{self, ExemplarPage};
use super::group::GroupEntry;
use super::index::{Index, IndexSections, PART_INDEX};
use super::metadata::{self, MetadataPage};
use super::options::BlockOptions;
use super::times::{TimePageEntry, touches};
use super::{
    GROUP_PAGES_MAX, PART_EXEMPLARS, PART_GROUP, PART_METADATA, PART_TIMES, SAMPLE_BYTES, VERSION,
    VERSION_MIN, VERSION_UNSTAMPED,
};
use crate::block::{
    BlockIndex, BlockInfo, BlockSummary, HEADER_LEN, IndexBase, Layout, OriginParts, PART_FOOTER,
};
use crate::codec::bitpack::{get_packed, get_packed_u32, put_packed};
use crate::codec::varint::put_varint;
use crate::codec::{Piece, Reader};
use crate::error::Error;
use crate::stamp::StampSpan;

const META: u8 = 1;
const GROUPS: u8 = 4;
const ORIGIN: u8 = 5;
const TIMES: u8 = 6;
const SERIES: u8 = 10;
const LABELS: u8 = 11;
const AREAS: u8 = 12;
const PARTS: u8 = 13;
const EXEMPLARS: u8 = 20;
const METADATA: u8 = 21;

const SECTIONS: [(u8, &str); 10] = [
    (META, "meta"),
    (GROUPS, "groups"),
    (ORIGIN, "origin"),
    (TIMES, "times"),
    (SERIES, "series"),
    (LABELS, "labels"),
    (AREAS, "areas"),
    (PARTS, "parts"),
    (EXEMPLARS, "exemplars"),
    (METADATA, "metadata"),
];

/// The version since which the origin holds the place in the order of writing.
const PLACED_SINCE: u16 = 5;
/// The version since which blocks hold their own id.
const NAMED_SINCE: u16 = 7;
/// The version since which samples may have stamps. A program that reads it reads frames of a WAL with stamps
/// and the edits of the catalog about them as well.
pub const STAMPED_SINCE: u16 = 8;

/// Most times in a page of lists.
const TIMES_MAX: u32 = 1 << 17;

/// The properties of sample blocks that differ from those of other signals.
pub(super) const LAYOUT: Layout =
    Layout { header_magic: *b"SSMP", trailer_magic: *b"PMSS", version: VERSION, sections: &SECTIONS };

/// The layout of a block whose samples have stamps, or of one whose samples have none.
pub(super) fn layout_of(stamped: bool) -> Layout {
    LAYOUT.of_version(if stamped { VERSION } else { VERSION_UNSTAMPED })
}

/// The parts between header and footer.
pub(super) struct Parts<'a> {
    pub(super) index: &'a Index,
    pub(super) groups: &'a [GroupEntry],
    pub(super) time_pages: &'a [TimePageEntry],
    pub(super) exemplars: &'a [ExemplarPage],
    pub(super) metadata: &'a [MetadataPage],
    /// The stamps of the samples; `None` without samples.
    pub(super) stamps: Option<StampSpan>,
}

impl Parts<'_> {
    /// Returns the first and last time in milliseconds of samples and exemplars; `None` when there are
    /// neither.
    fn bounds_ms(&self) -> Option<(i64, i64)> {
        let groups = self.groups.iter().map(|group| (group.min_ms, group.max_ms));
        let exemplars = self.exemplars.iter().map(|page| (page.min_ms, page.max_ms));
        groups.chain(exemplars).reduce(|(first, last), (min, max)| (first.min(min), last.max(max)))
    }
}

/// The decoded footer of a block.
#[derive(Debug)]
pub struct Footer {
    base: IndexBase,
    index: Arc<Index>,
    groups: Vec<GroupEntry>,
    time_pages: Vec<TimePageEntry>,
    exemplars: Vec<ExemplarPage>,
    metadata: Vec<MetadataPage>,
    pages: usize,
    stamps: Option<StampSpan>,
}

impl BlockIndex for Footer {
    fn locate(tail: &[u8], size: u64) -> Result<Range<u64>, Error> {
        LAYOUT.locate(tail, size)
    }

    fn open(bytes: Bytes) -> Result<Self, Error> {
        let mut body = Bytes::new();
        let (mut base, trailer, mut sections) = IndexBase::open(&LAYOUT, &bytes, &mut body)?;
        if trailer.version < VERSION_MIN {
            return Err(Error::Version { part: PART_FOOTER, found: trailer.version, supported: VERSION });
        }
        let (plain, offset) = sections.take(GROUPS)?;
        let mut reader = Reader::new(PART_FOOTER, offset, &plain);
        let first_ms = base.info().min_ts.div_euclid(MILLISECOND_NS);
        let in_footer = sections.take(PARTS)?.0;
        let (series, labels, areas) = (sections.take(SERIES)?, sections.take(LABELS)?, sections.take(AREAS)?);
        let index = Index::get(IndexSections { series, labels, areas, in_footer }, first_ms)?;
        let groups = get_groups(&mut reader, first_ms, index.series())?;
        reader.finish()?;
        let (plain, offset) = sections.take(TIMES)?;
        let mut reader = Reader::new(PART_FOOTER, offset, &plain);
        let is_stamped = trailer.version >= STAMPED_SINCE;
        let time_pages = get_time_pages(&mut reader, is_stamped)?;
        let stamps = if is_stamped { get_stamps(&mut reader)? } else { None };
        reader.finish()?;
        let (plain, offset) = sections.take(EXEMPLARS)?;
        let mut reader = Reader::new(PART_FOOTER, offset, &plain);
        let exemplars = exemplars::get_directory(&mut reader, first_ms)?;
        reader.finish()?;
        let (plain, offset) = sections.take(METADATA)?;
        let mut reader = Reader::new(PART_FOOTER, offset, &plain);
        let metadata = metadata::get_directory(&mut reader)?;
        reader.finish()?;
        let parts =
            OriginParts { place: trailer.version >= PLACED_SINCE, block: trailer.version >= NAMED_SINCE };
        base.read_origin(&mut sections, ORIGIN, parts)?;
        let pages = groups.iter().map(|group| group.pages as usize).sum();
        let index = Arc::new(index);
        let footer = Self { base, index, groups, time_pages, exemplars, metadata, pages, stamps };
        footer.check_pieces(trailer.footer.offset)?;
        Ok(footer)
    }

    fn check_header(&self, bytes: &[u8]) -> Result<(), Error> {
        check_header(bytes)?;
        match Reader::new(PART_FOOTER, 4, &bytes[4..]).u16()? {
            found if found == self.base.info().version => Ok(()),
            _ => Err(Error::Malformed {
                part: PART_FOOTER,
                offset: 4,
                what: "header and footer have different versions",
            }),
        }
    }

    fn signal(&self) -> Signal {
        Signal::Metrics
    }

    fn base(&self) -> &IndexBase {
        &self.base
    }

    fn series_count(&self) -> usize {
        self.index.series() as usize
    }

    fn page_count(&self) -> usize {
        self.pages
    }

    fn pieces(&self) -> Vec<(&'static str, Piece)> {
        let groups = self.groups.iter().map(|group| (PART_GROUP, group.piece));
        let times = self.time_pages.iter().map(|page| (PART_TIMES, page.piece));
        let exemplars = self.exemplars.iter().map(|page| (PART_EXEMPLARS, page.piece()));
        let metadata = self.metadata.iter().map(|page| (PART_METADATA, page.piece()));
        let index = self.index.pieces().map(|piece| (PART_INDEX, piece));
        groups.chain(times).chain(exemplars).chain(metadata).chain(index).collect()
    }

    fn memory_bytes(&self) -> u64 {
        let groups = self.groups.len() * size_of::<GroupEntry>() + size_of::<Self>();
        let times = self.time_pages.len() * size_of::<TimePageEntry>();
        let exemplars = self.exemplars.iter().map(ExemplarPage::entry_bytes).sum::<usize>();
        let metadata = self.metadata.iter().map(MetadataPage::entry_bytes).sum::<usize>();
        let parts = (groups + times + exemplars + metadata) as u64;
        parts + self.base.memory_bytes() + self.index.memory_bytes()
    }
}

impl Footer {
    /// Returns the index, which holds the ranges of its parts.
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// Returns the groups in the order of their series.
    pub fn groups(&self) -> &[GroupEntry] {
        &self.groups
    }

    /// Returns the pages of lists of times, in ascending order of list numbers.
    pub fn time_pages(&self) -> &[TimePageEntry] {
        &self.time_pages
    }

    /// Returns the span of the stamps of all samples; `None` if no sample has a stamp.
    pub fn stamps(&self) -> Option<StampSpan> {
        self.stamps.filter(|span| span.last > 0)
    }

    /// Returns the pages of exemplars, in ascending order of series.
    pub fn exemplars(&self) -> &[ExemplarPage] {
        &self.exemplars
    }

    /// Returns the pages of metadata, sorted.
    pub fn metadata(&self) -> &[MetadataPage] {
        &self.metadata
    }

    /// Fails unless the parts cover the object up to its footer.
    fn check_pieces(&self, footer_offset: u64) -> Result<(), Error> {
        let mut pieces: Vec<Piece> = self.pieces().into_iter().map(|(_, piece)| piece).collect();
        pieces.sort_unstable_by_key(|piece| piece.offset);
        let malformed = |offset, what| Error::Malformed { part: PART_FOOTER, offset, what };
        let mut at = HEADER_LEN;
        for piece in pieces {
            if piece.offset != at || piece.len == 0 {
                return Err(malformed(at, "the parts of a block overlap or have gaps between them"));
            }
            at = at.saturating_add(u64::from(piece.len));
        }
        match at == footer_offset {
            true => Ok(()),
            false => Err(malformed(at, "the parts of a block do not end at its footer")),
        }
    }

    /// Returns the numbers of the groups that may hold samples of these series within the range,
    /// ascending.
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

    /// Returns the numbers of the pages of times that these groups need, ascending.
    pub fn time_pages_of(&self, groups: &[u32]) -> Vec<u32> {
        let mut needed = RoaringBitmap::new();
        for group in groups.iter().map(|number| &self.groups[*number as usize]) {
            let at = |list| self.time_pages.partition_point(|times| times.first_list <= list) as u32;
            needed.insert_range(at(group.first_list).saturating_sub(1)..at(group.last_list));
        }
        needed.iter().collect()
    }
}

/// Checks the first bytes of a block.
pub fn check_header(bytes: &[u8]) -> Result<(), Error> {
    LAYOUT.check_header(bytes)?;
    match Reader::new(PART_FOOTER, 4, &bytes[4..]).u16()? {
        VERSION_MIN..=VERSION => Ok(()),
        found => Err(Error::Version { part: PART_FOOTER, found, supported: VERSION }),
    }
}

/// Returns the footer and trailer for `offset`.
pub(super) fn put_footer(
    options: &BlockOptions,
    parts: Parts<'_>,
    offset: u64,
) -> Result<(BlockSummary, Bytes), Error> {
    let (groups, layout) = (parts.groups, layout_of(options.stamped));
    let rows = groups.iter().map(|group| group.rows).sum();
    let window_ms = options.window.start.div_euclid(MILLISECOND_NS);
    let (first_ms, last_ms) = parts.bounds_ms().unwrap_or((window_ms, window_ms));
    let mut summary = BlockSummary {
        rows,
        raw_bytes: rows * SAMPLE_BYTES,
        min_ts: first_ms.saturating_mul(MILLISECOND_NS),
        max_ts: last_ms.saturating_mul(MILLISECOND_NS),
        streams: parts.index.series(),
        pages: groups.iter().map(|group| group.pages).sum(),
        footer_offset: offset,
        footer_len: 0,
        size: 0,
    };
    let info = BlockInfo {
        version: layout.version,
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
    let bytes = layout.put_footer(offset, options.zstd_level, |id, plain| match id {
        META => info.put(plain),
        SERIES => parts.index.put_series(plain, first_ms),
        LABELS => parts.index.put_labels(plain),
        AREAS => parts.index.put_areas(plain),
        PARTS => plain.extend_from_slice(parts.index.in_footer()),
        GROUPS => put_groups(plain, groups, first_ms),
        TIMES => {
            put_time_pages(plain, parts.time_pages, options.stamped);
            if options.stamped {
                put_stamps(plain, parts.stamps);
            }
        }
        EXEMPLARS => exemplars::put_directory(plain, parts.exemplars, first_ms),
        METADATA => metadata::put_directory(plain, parts.metadata),
        _ => options.origin.put_placed(plain),
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

fn put_time_pages(out: &mut Vec<u8>, pages: &[TimePageEntry], stamped: bool) {
    put_varint(out, pages.len() as u64);
    let mut column = |value: &dyn Fn(&TimePageEntry) -> u64| {
        put_packed(out, &pages.iter().map(value).collect::<Vec<_>>());
    };
    column(&|page| page.piece.offset);
    column(&|page| u64::from(page.piece.len));
    column(&|page| u64::from(page.piece.crc));
    column(&|page| u64::from(page.lists));
    column(&|page| u64::from(page.times));
    if stamped {
        column(&|page| u64::from(page.stamped));
    }
}

fn put_stamps(out: &mut Vec<u8>, stamps: Option<StampSpan>) {
    out.push(u8::from(stamps.is_some()));
    if let Some(StampSpan { first, last }) = stamps {
        put_varint(out, first);
        put_varint(out, last);
    }
}

fn get_stamps(reader: &mut Reader<'_>) -> Result<Option<StampSpan>, Error> {
    match reader.u8()? {
        0 => Ok(None),
        1 => Ok(Some(StampSpan { first: reader.varint()?, last: reader.varint()? })),
        other => Err(reader.unknown("span of stamps", other)),
    }
}

fn get_time_pages(reader: &mut Reader<'_>, is_stamped: bool) -> Result<Vec<TimePageEntry>, Error> {
    let count = reader.count("pages of times of a block", reader.remaining())?;
    let offsets = get_packed(reader, count, |offset| offset)?;
    let mut column = || get_packed_u32(reader, count);
    let (lengths, checksums, lists, times) = (column()?, column()?, column()?, column()?);
    let stamped = if is_stamped { column()? } else { vec![0; count] };
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
            stamped: stamped[n] != 0,
        });
        let next = first_list.checked_add(lists[n]);
        first_list = next.ok_or_else(|| reader.malformed("a block has too many lists of times"))?;
    }
    Ok(pages)
}
