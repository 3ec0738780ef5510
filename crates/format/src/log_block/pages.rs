//! The page directory: the range, the bounds and the checksums of each page.
//!
//! Pages are stored in groups: the line columns of a group's pages, then their narrow columns. The offset
//! of each group is stored; those of its pages follow from the lengths.

use bytes::Bytes;
use sandur_model::LineColumn;

use crate::block::HEADER_LEN;
use crate::codec::Piece;
use crate::codec::bitpack::{get_packed, get_packed_u32, put_packed};
use crate::codec::reader::Reader;
use crate::codec::varint::put_varint;
use crate::error::Error;
use crate::log_block::limits::{NARROW_BYTES_MAX, PART_LINES, PART_NARROW, ROWS_MAX, TEXT_BYTES_MAX};
use crate::log_block::lines;
use crate::log_block::narrow::{NarrowPage, Wanted, get_narrow};
use crate::log_block::runs::Run;
use crate::shapes::ShapedLines;

/// One page of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageEntry {
    /// Index in the block's page directory.
    pub index: u32,
    /// Number of the group of pages that it is stored in.
    pub group: u32,
    /// The line column.
    pub lines: Piece,
    /// The other columns.
    pub narrow: Piece,
    /// Codec of the line column; see [`crate::log_block::lines`].
    pub line_codec: u8,
    /// Bytes of all lines, without separators.
    pub raw_bytes: u64,
    /// Most bytes of the decoded metadata columns.
    pub metadata_bytes: u64,
    /// Number of rows.
    pub rows: u32,
    /// First timestamp, in nanoseconds since the epoch.
    pub min_ts: i64,
    /// Last timestamp, inclusive.
    pub max_ts: i64,
    /// Lowest stream ordinal.
    pub first_stream: u32,
    /// Highest stream ordinal.
    pub last_stream: u32,
}

impl PageEntry {
    /// Returns the bytes of the decoded line column.
    pub fn line_memory_bytes(&self) -> u64 {
        // The text with its separators, and an end per row.
        self.raw_bytes + u64::from(self.rows) * 5
    }

    /// Returns the most bytes of the decoded narrow columns.
    pub fn narrow_memory_bytes(&self, wanted: Wanted) -> u64 {
        // Per row a timestamp and at most a run; with metadata also a level.
        let rows = u64::from(self.rows);
        let metadata = if wanted.metadata { rows + self.metadata_bytes } else { 0 };
        rows * (8 + size_of::<Run>() as u64) + metadata
    }

    /// Decodes the narrow columns from the bytes of [`PageEntry::narrow`], after verifying checksums.
    pub fn decode_narrow(&self, bytes: &Bytes, wanted: Wanted) -> Result<NarrowPage, Error> {
        self.narrow.check(PART_NARROW, bytes)?;
        let page = get_narrow(bytes, self.rows, self.narrow.offset, wanted)?;
        let bounds = (page.runs.first().map(|r| r.stream), page.runs.last().map(|r| r.stream));
        if bounds != (Some(self.first_stream), Some(self.last_stream)) {
            let (part, offset) = (PART_NARROW, self.narrow.offset);
            return Err(Error::Malformed {
                part,
                offset,
                what: "the streams differ from the directory entry",
            });
        }
        Ok(page)
    }

    /// Decodes the lines from the bytes of [`PageEntry::lines`], after verifying checksums. `timestamps`
    /// are those of the page's rows: lines that repeat them are stored without them.
    pub fn decode_lines(&self, bytes: &Bytes, timestamps: &[i64]) -> Result<LineColumn, Error> {
        self.lines.check(PART_LINES, bytes)?;
        lines::get_lines(bytes, timestamps, self.lines_entry())
    }

    /// Opens the lines from the bytes of [`PageEntry::lines`], after verifying checksums, for reading
    /// parts of them; `None` when they are stored without parts.
    pub fn open_lines(&self, bytes: &Bytes) -> Result<Option<ShapedLines>, Error> {
        self.lines.check(PART_LINES, bytes)?;
        lines::open_lines(bytes, self.lines_entry())
    }

    fn lines_entry(&self) -> lines::LinesEntry {
        // Every line is followed by a separator.
        let text_bytes = self.raw_bytes + u64::from(self.rows);
        lines::LinesEntry { offset: self.lines.offset, rows: self.rows, text_bytes }
    }
}

/// Appends the directory: counts, then one packed column per field.
pub(crate) fn put_pages(out: &mut Vec<u8>, pages: &[PageEntry], first_ts: i64) {
    put_varint(out, pages.len() as u64);
    let groups: Vec<u64> = pages.chunk_by(|a, b| a.group == b.group).map(|g| g.len() as u64).collect();
    put_varint(out, groups.len() as u64);
    put_packed(out, &groups);
    let starts = pages.chunk_by(|a, b| a.group == b.group).map(|g| g[0].lines.offset);
    put_packed(out, &starts.collect::<Vec<_>>());
    let mut column = |value: &dyn Fn(&PageEntry) -> u64| {
        put_packed(out, &pages.iter().map(value).collect::<Vec<_>>());
    };
    column(&|p| u64::from(p.lines.len));
    column(&|p| u64::from(p.lines.crc));
    column(&|p| u64::from(p.narrow.len));
    column(&|p| u64::from(p.narrow.crc));
    column(&|p| u64::from(p.line_codec));
    column(&|p| p.raw_bytes);
    column(&|p| p.metadata_bytes);
    column(&|p| u64::from(p.rows));
    column(&|p| p.min_ts.wrapping_sub(first_ts) as u64);
    column(&|p| p.max_ts.wrapping_sub(p.min_ts) as u64);
    column(&|p| u64::from(p.first_stream));
    column(&|p| u64::from(p.last_stream - p.first_stream));
}

/// Reads the directory of a block whose footer begins at `footer_offset` and which has `streams` streams.
pub(crate) fn get_pages(
    reader: &mut Reader<'_>,
    first_ts: i64,
    streams: u32,
    footer_offset: u64,
) -> Result<Vec<PageEntry>, Error> {
    // Every page has a checksum of four bytes and every group a page.
    let count = reader.count("pages of a block", reader.remaining())?;
    let group_count = reader.count("groups of a block", count)?;
    let groups = get_packed_u32(reader, group_count)?;
    let starts = get_packed(reader, group_count, |v| v)?;
    let mut pages = vec![EMPTY; count];
    let mut column32 = |set: fn(&mut PageEntry, u32)| {
        let values = get_packed_u32(reader, count)?;
        pages.iter_mut().zip(values).for_each(|(page, value)| set(page, value));
        Ok::<_, Error>(())
    };
    column32(|p, v| p.lines.len = v)?;
    column32(|p, v| p.lines.crc = v)?;
    column32(|p, v| p.narrow.len = v)?;
    column32(|p, v| p.narrow.crc = v)?;
    column32(|p, v| p.line_codec = v as u8)?;
    let mut column = |set: &dyn Fn(&mut PageEntry, u64)| {
        let values = get_packed(reader, count, |v| v)?;
        pages.iter_mut().zip(values).for_each(|(page, value)| set(page, value));
        Ok::<_, Error>(())
    };
    column(&|p, v| p.raw_bytes = v)?;
    column(&|p, v| p.metadata_bytes = v)?;
    column(&|p, v| p.rows = v.min(u64::from(u32::MAX)) as u32)?;
    column(&|p, v| p.min_ts = first_ts.wrapping_add(v as i64))?;
    column(&|p, v| p.max_ts = p.min_ts.wrapping_add(v as i64))?;
    column(&|p, v| p.first_stream = v.min(u64::from(u32::MAX)) as u32)?;
    column(&|p, v| p.last_stream = p.first_stream.saturating_add(v.min(u64::from(u32::MAX)) as u32))?;
    let valid = |p: &PageEntry| {
        (1..=ROWS_MAX).contains(&p.rows)
            && p.raw_bytes <= u64::from(TEXT_BYTES_MAX)
            && p.metadata_bytes <= NARROW_BYTES_MAX as u64 * 4
            && p.last_stream < streams
            && p.min_ts <= p.max_ts
    };
    if !pages.iter().all(valid) {
        return Err(reader.malformed("a page directory entry is out of bounds"));
    }
    let groups = groups.into_iter().zip(starts);
    place(&mut pages, groups, footer_offset)
        .ok_or_else(|| reader.malformed("the groups do not hold all pages or lie outside of the block"))?;
    Ok(pages)
}

const EMPTY: PageEntry = PageEntry {
    index: 0,
    group: 0,
    lines: Piece { offset: 0, len: 0, crc: 0 },
    narrow: Piece { offset: 0, len: 0, crc: 0 },
    line_codec: 0,
    raw_bytes: 0,
    metadata_bytes: 0,
    rows: 0,
    min_ts: 0,
    max_ts: 0,
    first_stream: 0,
    last_stream: 0,
};

/// Sets indexes, groups and offsets; `None` when the pages do not fit before `limit`.
fn place(pages: &mut [PageEntry], groups: impl Iterator<Item = (u32, u64)>, limit: u64) -> Option<()> {
    let (mut before, mut first) = (HEADER_LEN, 0usize);
    for (group, (count, start)) in groups.enumerate() {
        if start < before || start > limit {
            return None;
        }
        let mut at = start;
        let members = pages.get_mut(first..first.checked_add(count as usize)?).filter(|m| !m.is_empty())?;
        for (position, page) in members.iter_mut().enumerate() {
            (page.index, page.group) = ((first + position) as u32, group as u32);
            page.lines.offset = at;
            at = page.lines.end();
        }
        for page in members {
            page.narrow.offset = at;
            at = page.narrow.end();
        }
        first += count as usize;
        before = at;
    }
    (first == pages.len() && before <= limit).then_some(())
}
