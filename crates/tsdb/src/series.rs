//! Goes through the series of an index, through a window of the file.

use std::ops::Range;

use crate::bytes::Bytes;
use crate::checksum::verified;
use crate::error::Error;
use crate::source::{ReadAt, read_range};

/// Series begin at multiples of this.
const ALIGNMENT: u64 = 16;
/// Bytes that are read at once.
const WINDOW_BYTES: u64 = 1 << 20;
/// Largest entry of a series: about a million chunks.
const SERIES_BYTES_MAX: u64 = 16 << 20;
/// Most bytes of the varint with the length of an entry.
const LENGTH_BYTES_MAX: u64 = 10;

/// Where a chunk is, and its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkMeta {
    /// Time of the first sample, in milliseconds.
    pub min_ms: i64,
    /// Time of the last sample.
    pub max_ms: i64,
    /// The file in the upper 32 bits, the position in it in the lower ones.
    pub reference: u64,
}

/// A series: numbers of symbols, and chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// The number by which tombstones name it.
    pub reference: u64,
    /// Numbers of the names and values of its labels.
    pub labels: Vec<(u32, u32)>,
    /// Its chunks, in the order of the file.
    pub chunks: Vec<ChunkMeta>,
}

/// Goes through the series of an index.
pub struct SeriesReader<'a, R> {
    source: &'a R,
    range: Range<u64>,
    window: Vec<u8>,
    /// Position of the window in the file.
    window_at: u64,
}

impl<'a, R: ReadAt> SeriesReader<'a, R> {
    pub(crate) fn new(source: &'a R, range: Range<u64>) -> Self {
        let start = range.start.next_multiple_of(ALIGNMENT);
        Self { source, range: start..range.end, window: Vec::new(), window_at: start }
    }

    /// Reads the next series into `series`; `false` after the last one. After an error there is no next one.
    pub fn next_into(&mut self, series: &mut Series) -> Result<bool, Error> {
        let read = self.read_next(series);
        if read.is_err() {
            self.range.start = self.range.end;
        }
        read
    }

    fn read_next(&mut self, series: &mut Series) -> Result<bool, Error> {
        let what = "an entry of a series";
        while self.range.start < self.range.end {
            let at = self.range.start;
            let left = self.range.end - at;
            let head = self.bytes(at, left.min(LENGTH_BYTES_MAX))?;
            let mut from = Bytes::new(what, head);
            let length = from.uvarint()?;
            if length == 0 {
                // Padding after the last series.
                self.range.start = at + ALIGNMENT;
                continue;
            }
            let start = at + (head.len() - from.remaining()) as u64;
            if length > SERIES_BYTES_MAX {
                return Err(Error::TooLarge { what, found: length, limit: SERIES_BYTES_MAX });
            }
            let end = start + length + 4;
            if end > self.range.end {
                return Err(Error::Truncated { what, offset: at, needed: end - self.range.end });
            }
            let entry = verified(what, start, self.bytes(start, length + 4)?)?;
            series.reference = at / ALIGNMENT;
            decode(entry, series)?;
            self.range.start = end.next_multiple_of(ALIGNMENT);
            return Ok(true);
        }
        Ok(false)
    }

    /// Returns bytes of the file, through the window.
    fn bytes(&mut self, at: u64, length: u64) -> Result<&[u8], Error> {
        let window_end = self.window_at + self.window.len() as u64;
        if at < self.window_at || at + length > window_end {
            let size = self.source.size()?;
            let wanted = length.max(WINDOW_BYTES).min(size.saturating_sub(at));
            let limit = SERIES_BYTES_MAX + WINDOW_BYTES;
            self.window = read_range(self.source, ("an entry of a series", limit), at, wanted.max(length))?;
            self.window_at = at;
        }
        let start = (at - self.window_at) as usize;
        Ok(&self.window[start..start + length as usize])
    }
}

fn decode(entry: &[u8], series: &mut Series) -> Result<(), Error> {
    let mut from = Bytes::new("an entry of a series", entry);
    series.labels.clear();
    series.chunks.clear();
    let symbol = |number: u64, from: &Bytes<'_>| u32::try_from(number).map_err(|_| from.malformed());
    for _ in 0..from.uvarint()? {
        let (name, value) = (from.uvarint()?, from.uvarint()?);
        series.labels.push((symbol(name, &from)?, symbol(value, &from)?));
    }
    let (mut time, mut reference) = (0i64, 0u64);
    for n in 0..from.uvarint()? {
        let min_ms = match n {
            0 => from.varint()?,
            _ => time.wrapping_add(from.uvarint()? as i64),
        };
        let max_ms = min_ms.wrapping_add(from.uvarint()? as i64);
        reference = match n {
            0 => from.uvarint()?,
            _ => reference.wrapping_add_signed(from.varint()?),
        };
        time = max_ms;
        if max_ms < min_ms {
            return Err(from.malformed());
        }
        series.chunks.push(ChunkMeta { min_ms, max_ms, reference });
    }
    Ok(())
}
