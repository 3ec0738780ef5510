//! The index of a block: table of contents, symbols, and where the series are.

use crate::bytes::Bytes;
use crate::checksum::verified;
use crate::error::Error;
use crate::series::SeriesReader;
use crate::source::{ReadAt, read_range};
use crate::symbols::Symbols;

const MAGIC: u32 = 0xBAAA_D700;
/// The version with symbols by number; version 1 (of 2017) has them by position.
const VERSION: u8 = 2;
/// Bytes of magic and version.
const HEAD_BYTES: u64 = 5;
/// Six positions and a checksum.
const CONTENTS_BYTES: u64 = 6 * 8 + 4;
/// Positions of texts have 32 bits.
const SYMBOLS_BYTES_MAX: u64 = u32::MAX as u64;

/// The positions of an index.
#[derive(Clone, Copy, Debug)]
struct Contents {
    symbols: u64,
    series: u64,
    /// Where the series end.
    series_end: u64,
}

/// An open index.
#[derive(Debug)]
pub struct Index<R> {
    source: R,
    contents: Contents,
    symbols: Symbols,
}

impl Contents {
    fn read(source: &impl ReadAt) -> Result<Self, Error> {
        let size = source.size()?;
        let kind = "an index of a block";
        let at = size.checked_sub(CONTENTS_BYTES).filter(|at| *at >= HEAD_BYTES);
        let at = at.ok_or(Error::Truncated { what: kind, offset: size, needed: CONTENTS_BYTES })?;
        let head = read_range(source, (kind, HEAD_BYTES), 0, HEAD_BYTES)?;
        let mut from = Bytes::new(kind, &head);
        if from.u32()? != MAGIC || from.u8()? != VERSION {
            return Err(Error::Kind { what: "an index of version 2" });
        }
        let what = "the table of contents";
        let table = read_range(source, (what, CONTENTS_BYTES), at, CONTENTS_BYTES)?;
        let mut from = Bytes::new(what, verified(what, at, &table)?);
        let (symbols, series) = (from.u64()?, from.u64()?);
        let mut series_end = at;
        for _ in 0..4 {
            let next = from.u64()?;
            if next > series {
                series_end = series_end.min(next);
            }
        }
        if symbols < HEAD_BYTES || symbols > at || series > at || (series > 0 && series < symbols) {
            return Err(Error::Malformed { what });
        }
        Ok(Self { symbols, series, series_end })
    }

    fn symbols_bytes(&self, source: &impl ReadAt) -> Result<u64, Error> {
        let what = "the table of symbols";
        let length = read_range(source, (what, 4), self.symbols, 4)?;
        Ok(u64::from(Bytes::new(what, &length).u32()?) + 4)
    }
}

impl<R: ReadAt> Index<R> {
    /// Returns the memory that [`Index::open`] needs, in bytes.
    pub fn memory_bytes(source: &R) -> Result<u64, Error> {
        // The table, its texts, and four bytes for each of at most as many texts as bytes.
        Ok(Contents::read(source)?.symbols_bytes(source)?.saturating_mul(6))
    }

    /// Reads the table of contents and the symbols.
    pub fn open(source: R) -> Result<Self, Error> {
        let contents = Contents::read(&source)?;
        let length = contents.symbols_bytes(&source)?;
        let (what, at) = ("the table of symbols", contents.symbols + 4);
        let table = read_range(&source, (what, SYMBOLS_BYTES_MAX), at, length)?;
        let symbols = Symbols::decode(verified(what, at, &table)?)?;
        Ok(Self { source, contents, symbols })
    }

    /// The texts of the labels.
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// Goes through the series in the order of the file.
    pub fn series(&self) -> SeriesReader<'_, R> {
        let Contents { series, series_end, .. } = self.contents;
        let range = if series == 0 { 0..0 } else { series..series_end };
        SeriesReader::new(&self.source, range)
    }
}
