//! Entropy coding of whole numbers with the `pco` codec: a chunk of pages that share a table, each page
//! readable alone.
//!
//! Only numbers of 64 bits in its classic mode, as they are or as distances from row to row: the caller has
//! chosen what to code, so nothing is searched for, and a reader refuses anything else. One page is decoded
//! at about a nanosecond per number.

use pco::metadata::{DeltaEncoding, Mode};
use pco::wrapped::{ChunkDecompressor, FileCompressor, FileDecompressor};
use pco::{ChunkConfig, DeltaSpec, ModeSpec, PagingSpec};

use crate::error::Error;

/// Most numbers of a chunk.
pub const CHUNK_NUMBERS_MAX: usize = 1 << 23;
/// Highest order of distances that is written.
pub const ORDER_MAX: usize = 2;

/// A chunk in parts that are stored apart.
#[derive(Debug, Default)]
pub struct NumberChunk {
    /// What all pages need.
    pub table: Vec<u8>,
    /// The pages one after the other.
    pub pages: Vec<u8>,
    /// Where each page ends.
    pub ends: Vec<usize>,
}

/// Codes pages of so many numbers each, as distances of an order (0: as they are).
pub fn compress(
    numbers: &[i64],
    lengths: Vec<usize>,
    order: usize,
    level: usize,
) -> Result<NumberChunk, Error> {
    let refused = |_| Error::Misuse("numbers do not fit a chunk");
    let delta = if order == 0 { DeltaSpec::NoOp } else { DeltaSpec::TryConsecutive(order) };
    let config = ChunkConfig::default()
        .with_compression_level(level)
        .with_mode_spec(ModeSpec::Classic)
        .with_delta_spec(delta)
        .with_paging_spec(PagingSpec::Exact(lengths.clone()));
    let file = FileCompressor::default();
    let mut chunk = NumberChunk::default();
    file.write_header(&mut chunk.table).map_err(refused)?;
    let mut compressor = file.chunk_compressor(numbers, &config).map_err(refused)?;
    compressor.write_meta(&mut chunk.table).map_err(refused)?;
    for page in 0..lengths.len() {
        compressor.write_page(page, &mut chunk.pages).map_err(refused)?;
        chunk.ends.push(chunk.pages.len());
    }
    Ok(chunk)
}

/// Decodes the pages of a chunk.
pub struct NumberDecoder {
    chunk: ChunkDecompressor<i64>,
}

impl NumberDecoder {
    /// Reads the table of a chunk, which stands at `offset`.
    pub fn new(table: &[u8], part: &'static str, offset: u64) -> Result<Self, Error> {
        let malformed = |what| Error::Malformed { part, offset, what };
        let damaged = |_| malformed("a table of numbers is damaged");
        let (file, rest) = FileDecompressor::new(table).map_err(damaged)?;
        let (chunk, rest) = file.chunk_decompressor::<i64, _>(rest).map_err(damaged)?;
        if !rest.is_empty() {
            return Err(malformed("bytes follow a table of numbers"));
        }
        let plain = match chunk.meta().delta_encoding {
            DeltaEncoding::NoOp => true,
            DeltaEncoding::Consecutive { order, .. } => order <= ORDER_MAX,
            _ => false,
        };
        if !plain || !matches!(chunk.meta().mode, Mode::Classic) {
            return Err(malformed("numbers are coded in a way that is not written"));
        }
        Ok(Self { chunk })
    }

    /// The numbers of a page; `count` is bounded by the caller.
    pub fn page(
        &mut self,
        bytes: &[u8],
        count: usize,
        part: &'static str,
        offset: u64,
    ) -> Result<Vec<i64>, Error> {
        let malformed = |what| Error::Malformed { part, offset, what };
        let damaged = |_| malformed("a page of numbers is damaged");
        let mut page = self.chunk.page_decompressor(bytes, count).map_err(damaged)?;
        let mut numbers = vec![0; count];
        page.read(&mut numbers).map_err(damaged)?;
        match page.into_src().is_empty() {
            true => Ok(numbers),
            false => Err(malformed("bytes follow a page of numbers")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(numbers: &[i64], lengths: &[usize], order: usize) {
        let chunk = compress(numbers, lengths.to_vec(), order, 8).unwrap();
        let mut decoder = NumberDecoder::new(&chunk.table, "test", 0).unwrap();
        let (mut from, mut row) = (0, 0);
        for (end, length) in chunk.ends.iter().zip(lengths) {
            let found = decoder.page(&chunk.pages[from..*end], *length, "test", 0).unwrap();
            assert_eq!(found, numbers[row..row + length]);
            (from, row) = (*end, row + length);
        }
    }

    #[test]
    fn pages_are_decoded_alone() {
        let numbers: Vec<i64> = (0..3_000).map(|n| n * 7 + (n % 3)).collect();
        for order in 0..=ORDER_MAX {
            round_trip(&numbers, &[1, 999, 2_000], order);
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        assert!(compress(&[], Vec::new(), 1, 8).is_err());
        assert!(compress(&[1], vec![2], 1, 8).is_err());
    }

    proptest! {
        #[test]
        fn any_numbers_come_back(
            numbers in prop::collection::vec(any::<i64>(), 1..700),
            shift in 0..64u32,
            order in 0..3usize,
        ) {
            let numbers: Vec<i64> = numbers.iter().map(|number| number >> shift).collect();
            round_trip(&numbers, &[numbers.len()], order);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(
            table in prop::collection::vec(any::<u8>(), 0..60),
            page in prop::collection::vec(any::<u8>(), 0..200),
            at in any::<prop::sample::Index>(),
            with in any::<u8>(),
        ) {
            let read = |mut decoder: NumberDecoder| decoder.page(&page, 500, "test", 0);
            let _ = NumberDecoder::new(&table, "test", 0).map(read);
            let numbers: Vec<i64> = page.iter().map(|byte| i64::from(*byte)).chain([1, 2]).collect();
            let mut chunk = compress(&numbers, vec![numbers.len()], 1, 8).unwrap();
            let at = at.index(chunk.table.len());
            chunk.table[at] = with;
            if let Ok(mut decoder) = NumberDecoder::new(&chunk.table, "test", 0) {
                let _ = decoder.page(&chunk.pages, numbers.len(), "test", 0);
                let _ = decoder.page(&page, 500, "test", 0);
            }
        }
    }
}
