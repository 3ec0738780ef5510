//! Entropy coding of integers with the `pco` codec: a chunk of pages that share a table, each page
//! readable on its own.
//!
//! Only 64-bit integers in the classic mode are written, either plain or as deltas from row to row: the
//! caller has chosen the encoding, so the codec does not search for one, and a reader refuses any other.
//! Pages are read by [`super::number_page`].

use pco::metadata::DeltaEncoding;
use pco::wrapped::FileCompressor;
use pco::{ChunkConfig, DeltaSpec, ModeSpec, PagingSpec};

use super::number_page::{BATCH, Moments, NumberScratch, NumberTable, ORDER_MAX, PageError};
use super::varint::put_signed;
use crate::error::Error;

/// A chunk in parts that are stored separately.
#[derive(Debug, Default)]
pub struct NumberChunk {
    /// The table that all pages need.
    pub table: Vec<u8>,
    /// The pages, concatenated.
    pub pages: Vec<u8>,
    /// The end of each page in `pages`.
    pub ends: Vec<usize>,
}

/// Encodes pages of these lengths, as deltas of an order (0: plain numbers). Without stored moments each
/// page must begin with a zero.
pub fn compress(
    numbers: &[i64],
    lengths: Vec<usize>,
    order: usize,
    level: usize,
    moments: Moments,
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
    let order = order_of(&compressor.meta().delta_encoding).unwrap_or(0);
    let (mut page, mut row) = (Vec::new(), 0);
    for (number, length) in lengths.iter().enumerate() {
        page.clear();
        compressor.write_page(number, &mut page).map_err(refused)?;
        let own = numbers.get(row..row + length).unwrap_or_default();
        match moments {
            Moments::Stored => chunk.pages.extend_from_slice(&page),
            Moments::FromZero => put_from_zero(&mut chunk.pages, &page, own, order)?,
        }
        chunk.ends.push(chunk.pages.len());
        row += length;
    }
    Ok(chunk)
}

/// Returns the order of deltas of a chunk, which may differ from the requested one; `None` if the
/// encoding is unsupported.
fn order_of(encoding: &DeltaEncoding) -> Option<usize> {
    match encoding {
        DeltaEncoding::NoOp => Some(0),
        DeltaEncoding::Consecutive { order, .. } => Some(*order).filter(|order| *order <= ORDER_MAX),
        _ => None,
    }
}

/// Appends a page without its first number and deltas.
fn put_from_zero(out: &mut Vec<u8>, page: &[u8], numbers: &[i64], order: usize) -> Result<(), Error> {
    let rest =
        page.get(order * size_of::<u64>()..).filter(|_| numbers.first().is_none_or(|first| *first == 0));
    let rest = rest.ok_or(Error::Misuse("a page of numbers does not begin with zero"))?;
    if order == 2 {
        put_signed(out, numbers.get(1).copied().unwrap_or(0));
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// Decodes complete pages of a chunk.
pub struct NumberDecoder {
    table: NumberTable,
    scratch: Box<NumberScratch>,
}

impl NumberDecoder {
    /// Reads the table of a chunk, which is at `offset`.
    pub fn new(table: &[u8], part: &'static str, offset: u64) -> Result<Self, Error> {
        Ok(Self { table: NumberTable::new(table, part, offset)?, scratch: Box::default() })
    }

    /// Returns the numbers of a page with stored moments; the caller bounds `count`.
    pub fn page(
        &mut self,
        bytes: &[u8],
        count: usize,
        part: &'static str,
        offset: u64,
    ) -> Result<Vec<i64>, Error> {
        self.read(bytes, count, Moments::Stored).map_err(|error| error.within(part, offset))
    }

    fn read(&mut self, bytes: &[u8], count: usize, moments: Moments) -> Result<Vec<i64>, PageError> {
        let mut page = self.table.page(bytes, count, moments, &mut self.scratch)?;
        let (mut numbers, mut batch) = (Vec::with_capacity(count), [0; BATCH]);
        while numbers.len() < count {
            numbers.extend_from_slice(page.next(&mut batch)?);
        }
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use pco::wrapped::FileDecompressor;
    use proptest::prelude::*;

    use super::*;

    fn round_trip(numbers: &[i64], lengths: &[usize], order: usize) {
        let chunk = compress(numbers, lengths.to_vec(), order, 8, Moments::Stored).unwrap();
        check(numbers, lengths, &chunk, Moments::Stored);
        let (mut moved, mut row) = (Vec::new(), 0);
        for length in lengths {
            let run = &numbers[row..row + length];
            moved.extend(run.iter().map(|number| number.wrapping_sub(run[0])));
            row += length;
        }
        let from_zero = compress(&moved, lengths.to_vec(), order, 8, Moments::FromZero).unwrap();
        check(&moved, lengths, &from_zero, Moments::FromZero);
    }

    /// Checks a chunk, also with the library's own reader, and checks that a page that is too short or
    /// too long is refused.
    fn check(numbers: &[i64], lengths: &[usize], chunk: &NumberChunk, moments: Moments) {
        let mut decoder = NumberDecoder::new(&chunk.table, "test", 0).unwrap();
        let file = FileDecompressor::new(&chunk.table[..]).unwrap();
        let mut library = file.0.chunk_decompressor::<i64, _>(file.1).unwrap().0;
        let (mut from, mut row) = (0, 0);
        for (end, length) in chunk.ends.iter().zip(lengths) {
            let (bytes, expected) = (&chunk.pages[from..*end], &numbers[row..row + length]);
            assert_eq!(decoder.read(bytes, *length, moments).unwrap(), expected);
            if moments == Moments::Stored {
                let mut found = vec![0; *length];
                library.page_decompressor(bytes, *length).unwrap().read(&mut found).unwrap();
                assert_eq!(found, expected);
            }
            if let Some((_, cut)) = bytes.split_last() {
                let _ = decoder.read(cut, *length, moments);
                let longer = [bytes, &[1]].concat();
                assert!(decoder.read(&longer, *length, moments).is_err());
            }
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
        assert!(compress(&[], Vec::new(), 1, 8, Moments::Stored).is_err());
        assert!(compress(&[1], vec![2], 1, 8, Moments::Stored).is_err());
        assert!(compress(&[1, 2], vec![2], 1, 8, Moments::FromZero).is_err());
    }

    proptest! {
        #[test]
        fn any_numbers_round_trip(
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
            let read = |mut decoder: NumberDecoder| {
                let _ = decoder.read(&page, 500, Moments::Stored);
                decoder.read(&page, 500, Moments::FromZero)
            };
            let _ = NumberDecoder::new(&table, "test", 0).map(read);
            let numbers: Vec<i64> = page.iter().map(|byte| i64::from(*byte)).chain([1, 2]).collect();
            let mut chunk = compress(&numbers, vec![numbers.len()], 1, 8, Moments::Stored).unwrap();
            let at = at.index(chunk.table.len());
            chunk.table[at] = with;
            if let Ok(mut decoder) = NumberDecoder::new(&chunk.table, "test", 0) {
                let _ = decoder.page(&chunk.pages, numbers.len(), "test", 0);
                let _ = decoder.page(&page, 500, "test", 0);
            }
        }
    }
}
