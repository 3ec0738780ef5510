//! A page of samples and its entry in the directory.
//!
//! Layout of a page: codec (u8, 0 = as is, 1 = zstd), then the plain bytes: number of runs; per run the
//! distance of its series ordinal from the run before and its number of samples (LEB128 each); the times in
//! milliseconds ([`crate::codec::timestamps`]); the values, eight bytes each, little endian.

use bytes::Bytes;

use super::{MILLISECOND_NS, PAGE_ROWS_MAX, PART_PAGE, SAMPLE_BYTES};
use crate::block::HEADER_LEN;
use crate::codec::bitpack::{get_packed, get_packed_u32, put_packed};
use crate::codec::compress::{self, STORED, ZSTD};
use crate::codec::timestamps::{get_timestamps, put_timestamps};
use crate::codec::varint::put_varint;
use crate::codec::{Piece, Reader};
use crate::error::Error;

/// Most plain bytes of a page: three numbers of at most ten bytes a run, a time and a value a sample.
const PLAIN_BYTES_MAX: usize = PAGE_ROWS_MAX as usize * 64;

/// One page of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEntry {
    /// Where it is.
    pub piece: Piece,
    /// Bytes after decompression.
    pub plain_len: u32,
    /// Samples.
    pub rows: u32,
    /// First time, in nanoseconds.
    pub min_ts: i64,
    /// Last time, in nanoseconds.
    pub max_ts: i64,
    /// Lowest series ordinal.
    pub first_series: u32,
    /// Highest series ordinal.
    pub last_series: u32,
}

/// The samples of one series in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Ordinal of the series.
    pub series: u32,
    /// First row.
    pub start: u32,
    /// Row after the last one.
    pub end: u32,
}

/// A decoded page.
#[derive(Clone, Debug, Default)]
pub struct SamplePage {
    /// One for each series, by rising ordinal; together they name every row once, in order.
    pub runs: Vec<Run>,
    /// Milliseconds since the epoch, rising within a run.
    pub timestamps: Vec<i64>,
    /// Values, one for each timestamp.
    pub values: Vec<f64>,
}

impl SamplePage {
    /// Appends the plain bytes.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.runs.len() as u64);
        let mut before = 0;
        for run in &self.runs {
            put_varint(out, u64::from(run.series - before));
            put_varint(out, u64::from(run.end - run.start));
            before = run.series;
        }
        let ends: Vec<u32> = self.runs.iter().map(|run| run.end).collect();
        put_timestamps(out, &ends, &self.timestamps);
        self.values.iter().for_each(|value| out.extend_from_slice(&value.to_bits().to_le_bytes()));
    }

    fn get(reader: &mut Reader<'_>, rows: u32) -> Result<Self, Error> {
        let count = reader.count("runs of a page", rows as usize)?;
        let mut runs: Vec<Run> = Vec::with_capacity(count);
        let (mut series, mut start) = (0u32, 0u32);
        for n in 0..count {
            let distance = reader.varint32()?;
            if n > 0 && distance == 0 {
                return Err(reader.malformed("a series has two runs in one page"));
            }
            series =
                series.checked_add(distance).ok_or_else(|| reader.malformed("a series is out of bounds"))?;
            let len = reader.count("samples of a run", (rows - start) as usize)? as u32;
            if len == 0 {
                return Err(reader.malformed("a run is empty"));
            }
            runs.push(Run { series, start, end: start + len });
            start += len;
        }
        if start != rows {
            return Err(reader.malformed("the runs hold another number of samples than the page"));
        }
        let ends: Vec<u32> = runs.iter().map(|run| run.end).collect();
        let timestamps = get_timestamps(reader, &ends)?;
        let rising = |run: &Run| {
            timestamps[run.start as usize..run.end as usize].windows(2).all(|pair| pair[0] < pair[1])
        };
        if !runs.iter().all(rising) {
            return Err(reader.malformed("the times of a series do not rise"));
        }
        let bytes = reader.bytes(rows as usize * size_of::<f64>())?;
        let value = |bytes: &[u8]| f64::from_bits(u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
        let values = bytes.chunks_exact(size_of::<f64>()).map(value).collect();
        Ok(Self { runs, timestamps, values })
    }
}

impl PageEntry {
    /// Bytes that the decoded page and its plain form take.
    pub fn memory_bytes(&self) -> u64 {
        let per_row = SAMPLE_BYTES + size_of::<Run>() as u64 + size_of::<u32>() as u64;
        u64::from(self.rows) * per_row + u64::from(self.plain_len)
    }

    /// Decodes the page from the bytes of its piece, after comparing checksums.
    pub fn decode(&self, bytes: &Bytes) -> Result<SamplePage, Error> {
        self.piece.check(PART_PAGE, bytes)?;
        let offset = self.piece.offset;
        let mut stored = Reader::new(PART_PAGE, offset, bytes);
        let codec = stored.u8()?;
        let body = stored.rest();
        let plain = match codec {
            STORED => body.to_vec(),
            ZSTD => compress::get_zstd(body, self.plain_len as usize, PART_PAGE, offset)?,
            _ => return Err(Error::Malformed { part: PART_PAGE, offset, what: "the codec is unknown" }),
        };
        let mut reader = Reader::new(PART_PAGE, offset, &plain);
        let page = SamplePage::get(&mut reader, self.rows)?;
        reader.finish()?;
        let bounds = (page.runs.first().map(|r| r.series), page.runs.last().map(|r| r.series));
        if bounds != (Some(self.first_series), Some(self.last_series)) {
            let what = "the series are not those of the directory entry";
            return Err(Error::Malformed { part: PART_PAGE, offset, what });
        }
        let (first, last) = (self.min_ts.div_euclid(MILLISECOND_NS), self.max_ts.div_euclid(MILLISECOND_NS));
        if !page.timestamps.iter().all(|time| (first..=last).contains(time)) {
            let what = "a time is not within those of the directory entry";
            return Err(Error::Malformed { part: PART_PAGE, offset, what });
        }
        Ok(page)
    }
}

/// Appends the directory: the number of pages, then one packed column per field.
pub(super) fn put_pages(out: &mut Vec<u8>, pages: &[PageEntry], first_ts: i64) {
    put_varint(out, pages.len() as u64);
    let mut column = |value: &dyn Fn(&PageEntry) -> u64| {
        put_packed(out, &pages.iter().map(value).collect::<Vec<_>>());
    };
    column(&|p| u64::from(p.piece.len));
    column(&|p| u64::from(p.piece.crc));
    column(&|p| u64::from(p.plain_len));
    column(&|p| u64::from(p.rows));
    column(&|p| p.min_ts.wrapping_sub(first_ts) as u64);
    column(&|p| p.max_ts.wrapping_sub(p.min_ts) as u64);
    column(&|p| u64::from(p.first_series));
    column(&|p| u64::from(p.last_series - p.first_series));
}

/// Reads the directory of a block whose footer begins at `footer_offset` and which has so many series.
pub(super) fn get_pages(
    reader: &mut Reader<'_>,
    first_ts: i64,
    series: u32,
    footer_offset: u64,
) -> Result<Vec<PageEntry>, Error> {
    // Every page has a checksum of four bytes.
    let count = reader.count("pages of a block", reader.remaining())?;
    let mut columns32 = || get_packed_u32(reader, count);
    let (lens, crcs, plains, rows) = (columns32()?, columns32()?, columns32()?, columns32()?);
    let firsts = get_packed(reader, count, |v| first_ts.wrapping_add(v as i64))?;
    let spans = get_packed(reader, count, |v| v as i64)?;
    let (first_series, more_series) = (get_packed_u32(reader, count)?, get_packed_u32(reader, count)?);
    let mut pages = Vec::with_capacity(count);
    let mut offset = HEADER_LEN;
    for n in 0..count {
        let piece = Piece { offset, len: lens[n], crc: crcs[n] };
        offset = piece.end();
        pages.push(PageEntry {
            piece,
            plain_len: plains[n],
            rows: rows[n],
            min_ts: firsts[n],
            max_ts: firsts[n].wrapping_add(spans[n]),
            first_series: first_series[n],
            last_series: first_series[n].saturating_add(more_series[n]),
        });
    }
    let valid = |p: &PageEntry| {
        (1..=PAGE_ROWS_MAX).contains(&p.rows)
            && p.plain_len as usize <= PLAIN_BYTES_MAX
            && p.last_series < series
            && p.min_ts <= p.max_ts
    };
    let in_order = |pair: &[PageEntry]| pair[0].last_series <= pair[1].first_series;
    if offset != footer_offset || !pages.iter().all(valid) || !pages.windows(2).all(in_order) {
        return Err(reader.malformed("the page directory is out of bounds or out of order"));
    }
    Ok(pages)
}
