//! The footer of a log block: the information that decides which pages to read, in sections that can be
//! decoded separately.
//!
//! The container is that of [`crate::block`].

use std::ops::Range;

use bytes::Bytes;
use roaring::RoaringBitmap;
use sandur_model::{Matcher, Signal};

use crate::block::postings::Postings;
use crate::block::{
    BlockIndex, BlockInfo, BlockSummary, IndexBase, Layout, OriginParts, PART_FOOTER, SeriesTable,
    StreamIndex,
};
use crate::codec::varint::put_varint;
use crate::codec::{Piece, Reader};
use crate::error::Error;
use crate::log_block::limits::{
    BY_PLACE_SINCE, HEADER_MAGIC, METADATA_KEYS_SINCE, NAMED_SINCE, ORIGIN_SINCE, PART_LINES, PART_NARROW,
    TRAILER_MAGIC, VERSION, WORD_KEYS_SINCE,
};
use crate::log_block::metadata_keys::{KeyCollector, MetadataKeys};
use crate::log_block::minutes::{FinishedCounts, MinuteCounts};
use crate::log_block::options::BlockOptions;
use crate::log_block::pages::{PageEntry, get_pages, put_pages};
use crate::needle::{FilterSegment, SegmentForm};

const META: u8 = 1;
const STREAMS: u8 = 2;
const POSTINGS: u8 = 3;
const PAGES: u8 = 4;
const FILTERS: u8 = 5;
const MINUTES: u8 = 6;
const METADATA_KEYS: u8 = 7;
const ORIGIN: u8 = 8;

const SECTIONS: [(u8, &str); 8] = [
    (META, "meta"),
    (STREAMS, "streams"),
    (POSTINGS, "postings"),
    (PAGES, "pages"),
    (FILTERS, "filters"),
    (MINUTES, "minutes"),
    (METADATA_KEYS, "metadata keys"),
    (ORIGIN, "origin"),
];

/// The properties of log blocks that differ from those of other signals.
pub(super) const LAYOUT: Layout = Layout {
    header_magic: HEADER_MAGIC,
    trailer_magic: TRAILER_MAGIC,
    version: VERSION,
    sections: &SECTIONS,
};

/// The decoded footer of a block.
#[derive(Debug)]
pub struct Footer {
    base: IndexBase,
    streams: StreamIndex,
    pages: Vec<PageEntry>,
    segments: Vec<FilterSegment>,
    minutes: MinuteCounts,
    metadata_keys: MetadataKeys,
}

impl BlockIndex for Footer {
    fn locate(tail: &[u8], size: u64) -> Result<Range<u64>, Error> {
        LAYOUT.locate(tail, size)
    }

    fn open(bytes: Bytes) -> Result<Self, Error> {
        let mut body = Bytes::new();
        let (mut base, trailer, mut sections) = IndexBase::open(&LAYOUT, &bytes, &mut body)?;
        let index = StreamIndex::get(&mut sections, base.info().min_ts)?;
        let streams = index.table().len() as u32;
        let (plain, offset) = sections.take(PAGES)?;
        let mut reader = Reader::new(PART_FOOTER, offset, &plain);
        let pages = get_pages(&mut reader, base.info().min_ts, streams, trailer.footer.offset)?;
        reader.finish()?;
        let (plain, offset) = sections.take(FILTERS)?;
        let form = SegmentForm {
            tells_words: trailer.version >= WORD_KEYS_SINCE,
            by_place: trailer.version >= BY_PLACE_SINCE,
        };
        let segments = get_segments(&plain, offset, trailer.footer.offset, form)?;
        let minutes = MinuteCounts::get(sections.take(MINUTES)?.0, streams)?;
        let metadata_keys = match trailer.version >= METADATA_KEYS_SINCE {
            true => {
                let (plain, offset) = sections.take(METADATA_KEYS)?;
                MetadataKeys::get(&plain, offset, streams)?
            }
            false => MetadataKeys::default(),
        };
        if trailer.version >= ORIGIN_SINCE {
            let parts = OriginParts { place: false, block: trailer.version >= NAMED_SINCE };
            base.read_origin(&mut sections, ORIGIN, parts)?;
        }
        Ok(Self { base, streams: index, pages, segments, minutes, metadata_keys })
    }

    fn check_header(&self, bytes: &[u8]) -> Result<(), Error> {
        check_header(bytes)
    }

    fn signal(&self) -> Signal {
        Signal::Logs
    }

    fn base(&self) -> &IndexBase {
        &self.base
    }

    fn series_count(&self) -> usize {
        self.streams().len()
    }

    fn page_count(&self) -> usize {
        self.pages.len()
    }

    fn pieces(&self) -> Vec<(&'static str, Piece)> {
        let pages = self.pages.iter().flat_map(|p| [(PART_LINES, p.lines), (PART_NARROW, p.narrow)]);
        let filters = |segment: &FilterSegment| -> Vec<_> {
            (0..segment.pieces()).map(|number| ("filters", segment.piece(number))).collect()
        };
        pages.chain(self.segments.iter().flat_map(filters)).collect()
    }

    fn memory_bytes(&self) -> u64 {
        let pages = self.pages.len() * size_of::<PageEntry>() + size_of::<Self>();
        let segments: u64 = self.segments.iter().map(FilterSegment::memory_bytes).sum();
        let parts = self.minutes.memory_bytes() + self.metadata_keys.memory_bytes();
        pages as u64 + segments + parts + self.streams.memory_bytes() + self.base.memory_bytes()
    }
}

impl Footer {
    /// Returns the streams by ordinal.
    pub fn streams(&self) -> &SeriesTable {
        self.streams.table()
    }

    /// Returns the bytes of the distinct values of a label.
    pub fn value_bytes(&self, name: &str) -> usize {
        self.streams.value_bytes(name)
    }

    /// Returns the ordinals of the streams whose labels pass all matchers.
    pub fn select(&self, matchers: &[Matcher]) -> Result<RoaringBitmap, Error> {
        self.streams.select(matchers)
    }

    /// Returns the pages in the order in which they are stored.
    pub fn pages(&self) -> &[PageEntry] {
        &self.pages
    }

    /// Returns the range of the line columns of pages of one group and the range of their narrow columns,
    /// each to be read in one request. `pages` are entries of one group, in order.
    pub fn group_ranges(pages: &[PageEntry]) -> Option<(Range<u64>, Range<u64>)> {
        let (first, last) = (pages.first()?, pages.last()?);
        Some((first.lines.offset..last.lines.end(), first.narrow.offset..last.narrow.end()))
    }

    /// Returns the filters of runs of pages, in order of pages.
    pub fn filter_segments(&self) -> &[FilterSegment] {
        &self.segments
    }

    /// Returns the segment that holds the filter of a page.
    pub fn filter_segment_of(&self, page: u32) -> Option<&FilterSegment> {
        let at = self.segments.partition_point(|segment| segment.pages().end <= page);
        self.segments.get(at).filter(|segment| segment.pages().contains(&page))
    }

    /// Returns the counts per stream, level and minute.
    pub fn minute_counts(&self) -> &MinuteCounts {
        &self.minutes
    }

    /// Returns which streams have rows with which structured-metadata key.
    pub fn metadata_keys(&self) -> &MetadataKeys {
        &self.metadata_keys
    }
}

/// Checks the first bytes of a block.
pub fn check_header(bytes: &[u8]) -> Result<(), Error> {
    LAYOUT.check_header(bytes)
}

fn get_segments(
    bytes: &[u8],
    offset: u64,
    footer_offset: u64,
    form: SegmentForm,
) -> Result<Vec<FilterSegment>, Error> {
    let mut reader = Reader::new(PART_FOOTER, offset, bytes);
    let count = reader.count("filter segments", reader.remaining())?;
    let mut segments: Vec<FilterSegment> = Vec::new();
    for _ in 0..count {
        let segment = FilterSegment::get(&mut reader, form, footer_offset)?;
        let in_order = segments.last().is_none_or(|before| before.pages().end <= segment.pages().start);
        if !in_order {
            return Err(reader.malformed("filter segments are not in order"));
        }
        segments.push(segment);
    }
    reader.finish()?;
    Ok(segments)
}

/// The parts of a footer.
pub(crate) struct FooterParts<'a> {
    pub(crate) options: &'a BlockOptions,
    pub(crate) streams: &'a SeriesTable,
    pub(crate) pages: &'a [PageEntry],
    pub(crate) segments: &'a [FilterSegment],
    pub(crate) counts: &'a FinishedCounts,
    pub(crate) metadata_keys: &'a KeyCollector,
}

/// Returns the footer and trailer for `offset`.
pub(crate) fn put_footer(parts: &FooterParts<'_>, offset: u64) -> Result<(BlockSummary, Bytes), Error> {
    let pages = parts.pages;
    let mut summary = BlockSummary {
        rows: pages.iter().map(|p| u64::from(p.rows)).sum(),
        raw_bytes: pages.iter().map(|p| p.raw_bytes).sum(),
        min_ts: pages.iter().map(|p| p.min_ts).min().unwrap_or(0),
        max_ts: pages.iter().map(|p| p.max_ts).max().unwrap_or(0),
        streams: parts.streams.len() as u32,
        pages: pages.len() as u32,
        footer_offset: offset,
        footer_len: 0,
        size: 0,
    };
    let info = BlockInfo {
        version: parts.options.version,
        tenant: parts.options.tenant.clone(),
        window: parts.options.window,
        level: parts.options.level,
        page_bytes: parts.options.page_bytes,
        zstd_level: parts.options.zstd_level,
        min_ts: summary.min_ts,
        max_ts: summary.max_ts,
        rows: summary.rows,
        raw_bytes: summary.raw_bytes,
    };
    let layout = LAYOUT.of_version(parts.options.version);
    let bytes = layout.put_footer(offset, parts.options.zstd_level, |id, plain| match id {
        META => info.put(plain),
        STREAMS => parts.streams.put(plain, summary.min_ts),
        POSTINGS => Postings::put(plain, parts.streams),
        PAGES => put_pages(plain, pages, summary.min_ts),
        FILTERS => {
            put_varint(plain, parts.segments.len() as u64);
            parts.segments.iter().for_each(|segment| segment.put(plain));
        }
        MINUTES => parts.counts.put(plain),
        METADATA_KEYS => parts.metadata_keys.put(plain),
        _ => parts.options.origin.put(plain),
    })?;
    summary.footer_len = bytes.len() as u32;
    summary.size = offset + bytes.len() as u64;
    Ok((summary, Bytes::from(bytes)))
}
