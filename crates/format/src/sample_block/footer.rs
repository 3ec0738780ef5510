//! The footer of a sample block: series, postings, pages, and what the block is made from.

use bytes::Bytes;
use roaring::RoaringBitmap;
use sandur_model::{Matcher, TimeRange};

use super::page::{PageEntry, get_pages, put_pages};
use super::writer::BlockOptions;
use super::{PART_PAGE, SAMPLE_BYTES, VERSION};
use crate::block::postings::{Postings, select};
use crate::block::{BlockInfo, BlockOrigin, BlockSummary, Layout, PART_FOOTER, SectionInfo, SeriesTable};
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
    info: BlockInfo,
    offset: u64,
    stored_bytes: u32,
    series: SeriesTable,
    postings: Postings,
    pages: Vec<PageEntry>,
    origin: BlockOrigin,
    sections: Vec<SectionInfo>,
}

impl Footer {
    /// Where the footer (with its trailer) of an object of `size` bytes is, from the object's last bytes:
    /// at least 28 of them. For tools that have no catalog entry at hand.
    pub fn locate(tail: &[u8], size: u64) -> Result<std::ops::Range<u64>, Error> {
        LAYOUT.locate(tail, size)
    }

    /// Decodes a footer from its bytes, trailer included: the object from its footer offset to its end.
    pub fn open(bytes: Bytes) -> Result<Self, Error> {
        let mut body = Bytes::new();
        let (trailer, mut sections) = LAYOUT.open(&bytes, &mut body)?;
        let info = BlockInfo::get(&sections.take(META)?.0, trailer.version)?;
        let (plain, offset) = sections.take(SERIES)?;
        let mut reader = Reader::new(PART_FOOTER, offset, &plain);
        let series = SeriesTable::get(&mut reader, info.min_ts)?;
        reader.finish()?;
        let postings = Postings::get(sections.take(POSTINGS)?.0, &series)?;
        let (plain, offset) = sections.take(PAGES)?;
        let mut reader = Reader::new(PART_FOOTER, offset, &plain);
        let pages = get_pages(&mut reader, info.min_ts, series.len() as u32, trailer.footer.offset)?;
        reader.finish()?;
        let (plain, offset) = sections.take(ORIGIN)?;
        let origin = BlockOrigin::get(&plain, offset)?;
        let (offset, stored_bytes) = (trailer.footer.offset, bytes.len() as u32);
        let sections = sections.infos;
        Ok(Self { info, offset, stored_bytes, series, postings, pages, origin, sections })
    }

    /// What the block is.
    pub fn info(&self) -> &BlockInfo {
        &self.info
    }

    /// Where the footer begins in its object.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes of the object.
    pub fn object_bytes(&self) -> u64 {
        self.offset + u64::from(self.stored_bytes)
    }

    /// The series by ordinal, sorted by their labels.
    pub fn series(&self) -> &SeriesTable {
        &self.series
    }

    /// Bytes of the distinct values of a label.
    pub fn value_bytes(&self, name: &str) -> usize {
        self.series.column(name).map_or(0, |column| column.values.iter().map(|value| value.len()).sum())
    }

    /// Ordinals of the series whose labels pass all matchers.
    pub fn select(&self, matchers: &[Matcher]) -> Result<RoaringBitmap, Error> {
        select(&self.series, &self.postings, matchers)
    }

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

    /// What the block was made from.
    pub fn origin(&self) -> &BlockOrigin {
        &self.origin
    }

    /// Sizes of the sections.
    pub fn sections(&self) -> &[SectionInfo] {
        &self.sections
    }

    /// Every piece of the object before the footer with its name: all that a checking tool must read.
    pub fn pieces(&self) -> impl Iterator<Item = (&'static str, Piece)> {
        self.pages.iter().map(|page| (PART_PAGE, page.piece))
    }

    /// Bytes held in memory, label sets included.
    pub fn memory_bytes(&self) -> u64 {
        let pages = self.pages.len() * size_of::<PageEntry>() + size_of::<Self>();
        // Sections that are stored as they are keep the whole footer alive.
        let stored = u64::from(self.stored_bytes);
        pages as u64 + self.series.memory_bytes() + self.postings.memory_bytes() + stored
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
