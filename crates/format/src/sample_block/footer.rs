//! The footer of a sample block: series, postings, pages, and what the block is made from.

use std::ops::Range;

use bytes::Bytes;
use roaring::RoaringBitmap;
use sandur_model::{Signal, TimeRange};

use super::page::{PageEntry, get_pages, put_pages};
use super::writer::BlockOptions;
use super::{PART_PAGE, SAMPLE_BYTES, VERSION};
use crate::block::postings::Postings;
use crate::block::{BlockIndex, BlockInfo, BlockSummary, IndexBase, Layout, PART_FOOTER, SeriesTable};
use crate::codec::{Piece, Reader};
use crate::error::Error;

const META: u8 = 1;
const SERIES: u8 = 2;
const POSTINGS: u8 = 3;
const PAGES: u8 = 4;
const ORIGIN: u8 = 5;

const SECTIONS: [(u8, &str); 5] =
    [(META, "meta"), (SERIES, "series"), (POSTINGS, "postings"), (PAGES, "pages"), (ORIGIN, "origin")];

/// What tells blocks of samples from others.
pub(super) const LAYOUT: Layout =
    Layout { header_magic: *b"SSMP", trailer_magic: *b"PMSS", version: VERSION, sections: &SECTIONS };

/// The decoded footer of a block.
#[derive(Debug)]
pub struct Footer {
    base: IndexBase,
    pages: Vec<PageEntry>,
}

impl BlockIndex for Footer {
    fn locate(tail: &[u8], size: u64) -> Result<Range<u64>, Error> {
        LAYOUT.locate(tail, size)
    }

    fn open(bytes: Bytes) -> Result<Self, Error> {
        let mut body = Bytes::new();
        let (mut base, trailer, mut sections) = IndexBase::open(&LAYOUT, &bytes, &mut body)?;
        let (plain, offset) = sections.take(PAGES)?;
        let mut reader = Reader::new(PART_FOOTER, offset, &plain);
        let (first_ts, series) = (base.info().min_ts, base.series().len() as u32);
        let pages = get_pages(&mut reader, first_ts, series, trailer.footer.offset)?;
        reader.finish()?;
        base.read_origin(&mut sections, ORIGIN)?;
        Ok(Self { base, pages })
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
        self.pages.len()
    }

    fn pieces(&self) -> Vec<(&'static str, Piece)> {
        self.pages.iter().map(|page| (PART_PAGE, page.piece)).collect()
    }

    fn memory_bytes(&self) -> u64 {
        let pages = self.pages.len() * size_of::<PageEntry>() + size_of::<Self>();
        pages as u64 + self.base.memory_bytes()
    }
}

impl Footer {
    /// The pages in the order in which they are stored, which is that of their series.
    pub fn pages(&self) -> &[PageEntry] {
        &self.pages
    }

    /// Numbers of the pages that may hold samples of these series within the range, rising.
    pub fn pages_of(&self, series: &RoaringBitmap, range: TimeRange) -> Vec<u32> {
        let (Some(first), Some(last)) = (series.min(), series.max()) else { return Vec::new() };
        let from = self.pages.partition_point(|page| page.last_series < first);
        let near = self.pages.iter().enumerate().skip(from).take_while(|(_, page)| page.first_series <= last);
        let wanted = near.filter(|(_, page)| {
            range.touches(page.min_ts, page.max_ts)
                && series.range_cardinality(page.first_series..=page.last_series) > 0
        });
        wanted.map(|(number, _)| number as u32).collect()
    }
}

/// Compares the first bytes of a block.
pub fn check_header(bytes: &[u8]) -> Result<(), Error> {
    LAYOUT.check_header(bytes)
}

/// The footer and trailer that stand at `offset`.
pub(super) fn put_footer(
    options: &BlockOptions,
    series: &SeriesTable,
    pages: &[PageEntry],
    offset: u64,
) -> Result<(BlockSummary, Bytes), Error> {
    let rows = pages.iter().map(|p| u64::from(p.rows)).sum();
    let mut summary = BlockSummary {
        rows,
        raw_bytes: rows * SAMPLE_BYTES,
        min_ts: pages.iter().map(|p| p.min_ts).min().unwrap_or(0),
        max_ts: pages.iter().map(|p| p.max_ts).max().unwrap_or(0),
        streams: series.len() as u32,
        pages: pages.len() as u32,
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
        PAGES => put_pages(plain, pages, summary.min_ts),
        _ => options.origin.put(plain),
    })?;
    summary.footer_len = bytes.len() as u32;
    summary.size = offset + bytes.len() as u64;
    Ok((summary, Bytes::from(bytes)))
}
