//! Filters of a run of pages, divided into slices, and these into pieces with a checksum each.
//!
//! The pages of a segment that may have a key are found from a few pieces ([`FilterSegment::pieces_for`]),
//! a fraction of the segment. The order of lines within a slice is that of the module `slice_order`.

use std::iter;
use std::ops::Range;

use bytes::Bytes;
use sandur_simd::is_word_key;

use super::page_set::{PAGES_MAX, PageSet};
use super::slice_order::{PageLines, SliceOrder};
use crate::codec::reader::Reader;
use crate::codec::varint::put_varint;
use crate::codec::{Piece, crc32c};
use crate::error::Error;
use crate::needle::filter::{BLOCK_BYTES, BLOCKS_MAX, KeyPlace, PageFilter, SLICES};

const PART: &str = "filter segment";

/// The range of the filters of a run of pages, and their layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterSegment {
    first_page: u32,
    offset: u64,
    /// Lines per slice of each page; 0 for a page without filter.
    lines: Vec<u32>,
    /// Whether each page's filter has grams of words.
    words: Vec<bool>,
    order: SliceOrder,
    /// The checksums of the pieces of all slices.
    checksums: Vec<u32>,
}

/// What entries of segments contain, which depends on the version of the block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentForm {
    /// Whether entries say which filters have grams of words.
    pub(crate) tells_words: bool,
    /// Whether lines are ordered by place.
    pub(crate) by_place: bool,
}

/// Gathers filters of consecutive pages.
pub struct SegmentBuilder {
    filters: Vec<PageFilter>,
    by_place: bool,
}

impl SegmentBuilder {
    /// Returns a builder of segments whose lines are ordered by place, or by page as before version 6.
    pub fn new(by_place: bool) -> Self {
        Self { filters: Vec::new(), by_place }
    }

    /// Adds the next page's filter.
    pub fn push(&mut self, filter: PageFilter) {
        self.filters.push(filter);
    }

    /// Returns the number of pages so far.
    pub fn pages(&self) -> usize {
        self.filters.len()
    }

    /// Returns the bytes held in memory.
    pub fn memory_bytes(&self) -> u64 {
        self.filters.iter().map(|f| f.len() as u64).sum()
    }

    /// Returns the segment that begins with page `first_page` at `offset`, and the bytes of its pieces.
    pub fn finish(&mut self, first_page: u32, offset: u64) -> (FilterSegment, Vec<Bytes>) {
        let filters = std::mem::take(&mut self.filters);
        let lines: Vec<u32> = filters.iter().map(PageFilter::blocks_per_slice).collect();
        let words = filters.iter().map(|filter| filter.words).collect();
        let order = if self.by_place { SliceOrder::by_place(&lines) } else { SliceOrder::by_page(&lines) };
        let (mut pieces, mut checksums) = (Vec::new(), Vec::new());
        for slice in 0..SLICES {
            let mut bytes = Vec::with_capacity(order.len() as usize * BLOCK_BYTES);
            order.each(|page, line| {
                let at = slice * lines[page] as usize + line as usize;
                bytes.extend_from_slice(&filters[page].bytes[at * BLOCK_BYTES..][..BLOCK_BYTES]);
            });
            let bytes = Bytes::from(bytes);
            for piece in 0..order.pieces() {
                let piece = bytes.slice(bytes_of(&order.piece(piece)));
                checksums.push(crc32c(&piece));
                pieces.push(piece);
            }
        }
        (FilterSegment { first_page, offset, lines, words, order, checksums }, pieces)
    }
}

/// The range of lines in bytes.
fn bytes_of(lines: &Range<u32>) -> Range<usize> {
    lines.start as usize * BLOCK_BYTES..lines.end as usize * BLOCK_BYTES
}

/// The filter of a page that is being copied from the pieces of its segment.
#[derive(Debug)]
pub struct FilterCopy {
    page: u32,
    lines: PageLines,
    filter: PageFilter,
}

impl FilterCopy {
    /// Returns the page.
    pub fn page(&self) -> u32 {
        self.page
    }

    /// Returns the page and its filter, once all pieces were copied.
    pub fn finish(self) -> (u32, PageFilter) {
        (self.page, self.filter)
    }
}

/// Checked pieces of a segment. Pieces that are absent rule no page out.
#[derive(Clone, Debug)]
pub struct SegmentPieces(Vec<Option<Bytes>>);

impl SegmentPieces {
    /// Returns a piece, if it is present.
    pub fn piece(&self, number: usize) -> Option<&Bytes> {
        self.0.get(number)?.as_ref()
    }

    /// Returns the bytes held in memory.
    pub fn memory_bytes(&self) -> u64 {
        (size_of_val(&*self.0) + self.0.iter().flatten().map(Bytes::len).sum::<usize>()) as u64
    }
}

impl FilterSegment {
    /// Returns the pages whose filters are in the segment.
    pub fn pages(&self) -> Range<u32> {
        self.first_page..self.first_page + self.lines.len() as u32
    }

    /// Returns the range of the segment in the object.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + (self.slice_bytes() * SLICES) as u64
    }

    fn slice_bytes(&self) -> usize {
        self.order.len() as usize * BLOCK_BYTES
    }

    /// Returns the number of pieces.
    pub fn pieces(&self) -> usize {
        self.checksums.len()
    }

    /// Returns a piece.
    ///
    /// # Panics
    /// If there are not that many pieces.
    pub fn piece(&self, number: usize) -> Piece {
        let (slice, piece) = (number / self.order.pieces(), number % self.order.pieces());
        let range = bytes_of(&self.order.piece(piece));
        let offset = self.offset + (slice * self.slice_bytes() + range.start) as u64;
        Piece { offset, len: range.len() as u32, crc: self.checksums[number] }
    }

    /// Returns the numbers of the pieces that show which pages have these keys, ascending.
    pub fn pieces_for(&self, keys: &[u32]) -> Vec<usize> {
        let mut numbers = Vec::new();
        for place in keys.iter().map(|key| KeyPlace::of(*key)) {
            let first = place.slice * self.order.pieces();
            self.order.each_piece(&place, |piece| numbers.push(first + piece));
        }
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Returns the memory that opened pieces with these numbers take.
    pub fn pieces_memory(&self, numbers: impl IntoIterator<Item = usize>) -> u64 {
        let bytes: u64 = numbers.into_iter().map(|number| u64::from(self.piece(number).len)).sum();
        bytes + (self.pieces() * size_of::<Option<Bytes>>()) as u64
    }

    /// Checks pieces, given by their numbers.
    pub fn open(&self, present: impl IntoIterator<Item = (usize, Bytes)>) -> Result<SegmentPieces, Error> {
        let mut pieces = vec![None; self.pieces()];
        for (number, bytes) in present {
            self.piece(number).check(PART, &bytes)?;
            pieces[number] = Some(bytes);
        }
        Ok(SegmentPieces(pieces))
    }

    /// Checks all pieces, given the bytes of the segment.
    pub fn open_whole(&self, bytes: &Bytes) -> Result<SegmentPieces, Error> {
        let range = self.range();
        if bytes.len() as u64 != range.end - range.start {
            let (needed, available) = (range.end - range.start, bytes.len() as u64);
            return Err(Error::Truncated { part: PART, offset: range.start, needed, available });
        }
        let piece = |number: usize| {
            let start = (self.piece(number).offset - range.start) as usize;
            (number, bytes.slice(start..start + self.piece(number).len as usize))
        };
        self.open((0..self.pieces()).map(piece))
    }

    /// Returns a line, if its piece is present.
    fn line<'a>(&self, pieces: &'a SegmentPieces, slice: usize, line: u32) -> Option<&'a [u8]> {
        let piece = self.order.piece_of(line);
        let start = bytes_of(&(self.order.piece(piece).start..line)).len();
        let bytes = pieces.0.get(slice * self.order.pieces() + piece)?.as_ref()?;
        bytes.get(start..start + BLOCK_BYTES)
    }

    /// Returns the pages that may have a key, by their positions in the segment. Pages without filter and
    /// positions beyond the end are among them, and pages whose piece is absent.
    pub fn pages_with(&self, pieces: &SegmentPieces, key: u32) -> PageSet {
        let (place, is_word) = (KeyPlace::of(key), is_word_key(key));
        let mut without = [0u16; PAGES_MAX];
        let mut count = 0;
        self.order.each_line(&place, |page, line| {
            let applies = !is_word || self.words[page];
            let lacks = |line: &[u8]| !place.is_set(line);
            if applies && self.line(pieces, place.slice, line).is_some_and(lacks) {
                without[count] = page as u16;
                count += 1;
            }
        });
        let mut pages = PageSet::ALL;
        without[..count].iter().for_each(|page| pages.remove(*page as usize));
        pages
    }

    /// Returns the pages that may have all of these keys, as [`FilterSegment::pages_with`] does for one.
    pub fn pages_with_all(&self, pieces: &SegmentPieces, keys: &[u32]) -> PageSet {
        let mut pages = PageSet::ALL;
        for key in keys {
            pages &= self.pages_with(pieces, *key);
            if pages.is_empty() {
                break;
            }
        }
        pages
    }

    /// Begins to copy the filter of a page, to move it to another block; `None` for a page of another
    /// segment. Each piece of the segment must be copied once.
    pub fn begin_copy(&self, page: u32) -> Option<FilterCopy> {
        let at = page.checked_sub(self.first_page)? as usize;
        let words = *self.words.get(at)?;
        let lines = self.order.lines_of_page(at);
        let bytes = vec![0; SLICES * lines.count as usize * BLOCK_BYTES];
        Some(FilterCopy { page, lines, filter: PageFilter { bytes, words } })
    }

    /// Returns the bytes of the filter of a page of the segment, 0 for other pages.
    pub fn filter_bytes(&self, page: u32) -> u64 {
        let lines = page.checked_sub(self.first_page).and_then(|at| self.lines.get(at as usize));
        lines.map_or(0, |lines| u64::from(*lines) * (SLICES * BLOCK_BYTES) as u64)
    }

    /// Checks a piece, and copies the lines of pages that are in it.
    ///
    /// # Panics
    /// If there are not that many pieces.
    pub fn copy(&self, number: usize, piece: &[u8], copies: &mut [FilterCopy]) -> Result<(), Error> {
        self.piece(number).check(PART, piece)?;
        let slice = number / self.order.pieces();
        let held = self.order.piece(number % self.order.pieces());
        for FilterCopy { lines, filter, .. } in copies {
            for (number, line) in lines.within(held.clone()) {
                let from = bytes_of(&(held.start..line)).len();
                let to = (slice * lines.count as usize + number as usize) * BLOCK_BYTES;
                filter.bytes[to..to + BLOCK_BYTES].copy_from_slice(&piece[from..from + BLOCK_BYTES]);
            }
        }
        Ok(())
    }

    /// Returns the bytes that the entry itself holds in memory.
    pub fn memory_bytes(&self) -> u64 {
        let lists = (self.lines.len() + self.checksums.len()) * 4 + self.words.len();
        (size_of::<Self>() + lists) as u64 + self.order.memory_bytes()
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.first_page));
        put_varint(out, self.offset);
        put_varint(out, self.lines.len() as u64);
        for (count, words) in self.lines.iter().zip(&self.words) {
            put_varint(out, u64::from(*count) << 1 | u64::from(*words));
        }
        // Entries by page have a checksum for each slice, also if the slices are empty.
        let none = if self.order.is_by_page() && self.checksums.is_empty() { SLICES } else { 0 };
        for checksum in self.checksums.iter().chain(iter::repeat_n(&0, none)) {
            out.extend_from_slice(&checksum.to_le_bytes());
        }
    }

    /// Reads an entry of a segment that must end before `limit` in the object.
    pub(crate) fn get(reader: &mut Reader<'_>, form: SegmentForm, limit: u64) -> Result<Self, Error> {
        let first_page = reader.varint32()?;
        let offset = reader.varint()?;
        let pages = reader.count("pages in a filter segment", PAGES_MAX)?;
        let (mut lines, mut words) = (Vec::with_capacity(pages), Vec::with_capacity(pages));
        let bits = u32::from(form.tells_words);
        for _ in 0..pages {
            let most = (BLOCKS_MAX << bits) as usize + bits as usize;
            let count = reader.count("blocks of a filter slice", most)? as u32;
            lines.push(count >> bits);
            words.push(form.tells_words && count & 1 == 1);
        }
        // Before the order is computed, whose size depends on the number of lines.
        let bytes = lines.iter().map(|lines| u64::from(*lines)).sum::<u64>() * (BLOCK_BYTES * SLICES) as u64;
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= limit);
        if !fits || u64::from(first_page) + pages as u64 > u64::from(u32::MAX) {
            return Err(reader.malformed("a filter segment lies outside of the block"));
        }
        let order = if form.by_place { SliceOrder::by_place(&lines) } else { SliceOrder::by_page(&lines) };
        // As `put` writes them.
        let stored = if form.by_place { order.pieces() } else { 1 };
        let mut checksums = Vec::with_capacity(stored * SLICES);
        for _ in 0..stored * SLICES {
            checksums.push(reader.u32()?);
        }
        checksums.truncate(order.pieces() * SLICES);
        Ok(Self { first_page, offset, lines, words, order, checksums })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The filters of all pages of a segment, copied from its pieces.
    pub(crate) fn copied(segment: &FilterSegment, pieces: &[Bytes]) -> Vec<PageFilter> {
        let mut copies: Vec<_> = segment.pages().map(|page| segment.begin_copy(page).unwrap()).collect();
        for (number, piece) in pieces.iter().enumerate() {
            segment.copy(number, piece, &mut copies).unwrap();
        }
        copies.into_iter().map(|copy| copy.finish().1).collect()
    }

    fn filters_of(texts: &[Vec<u32>]) -> Vec<PageFilter> {
        let filter = |(n, keys): (usize, &Vec<u32>)| match keys.len() {
            0 => PageFilter::default(),
            _ => PageFilter { words: n % 3 > 0, ..PageFilter::of_keys(keys) },
        };
        texts.iter().enumerate().map(filter).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// A segment of either order says the same of each page and key as the page's own filter, from
        /// all pieces and from those for the keys alone, and returns the filters unchanged.
        #[test]
        fn segments_agree_with_the_filters_of_their_pages(
            sizes in prop::collection::vec(prop_oneof![Just(0usize), 1..40usize, 300..9_000usize], 1..24),
            seed in any::<u64>(),
        ) {
            let key = |n: u64| xxhash_rust::xxh3::xxh3_64_with_seed(&n.to_le_bytes(), seed) as u32 | 1;
            let keys = |page: usize, size: usize| -> Vec<u32> {
                (0..size as u64).map(|n| key((page as u64) << 32 | n)).collect()
            };
            let sizes = sizes.into_iter().enumerate();
            let texts: Vec<Vec<u32>> = sizes.map(|(page, size)| keys(page, size)).collect();
            let filters = filters_of(&texts);
            for by_place in [false, true] {
                let mut builder = SegmentBuilder::new(by_place);
                filters.iter().for_each(|filter| builder.push(filter.clone()));
                let (segment, pieces) = builder.finish(7, 64);
                let mut entry = Vec::new();
                segment.put(&mut entry);
                let mut reader = Reader::new("entry", 0, &entry);
                let form = SegmentForm { tells_words: true, by_place };
                let read = FilterSegment::get(&mut reader, form, segment.range().end).unwrap();
                prop_assert_eq!((&read, reader.remaining()), (&segment, 0));
                prop_assert_eq!(pieces.len(), segment.pieces());
                let stored = pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
                prop_assert_eq!(segment.range(), 64..64 + stored);
                let mut end = 64;
                for (number, bytes) in pieces.iter().enumerate() {
                    let piece = segment.piece(number);
                    prop_assert_eq!((piece.offset, piece.len as usize), (end, bytes.len()));
                    end = piece.end();
                }
                let all = segment.open(pieces.iter().cloned().enumerate()).unwrap();
                for (page, filter) in (7..).zip(&filters) {
                    prop_assert_eq!(segment.filter_bytes(page), filter.len() as u64);
                }
                prop_assert_eq!(copied(&segment, &pieces), filters.clone());
                for other in [6, 7 + filters.len() as u32, u32::MAX] {
                    prop_assert!(segment.begin_copy(other).is_none() && segment.filter_bytes(other) == 0);
                }
                let present = texts.iter().flat_map(|keys| keys.iter().take(2).copied());
                let asked = present.chain((0..60).map(key));
                for key in asked {
                    let wanted = segment.pieces_for(&[key]);
                    let some = segment.open(wanted.iter().map(|n| (*n, pieces[*n].clone()))).unwrap();
                    let found = segment.pages_with(&some, key);
                    prop_assert_eq!(found, segment.pages_with(&all, key));
                    for (page, filter) in filters.iter().enumerate() {
                        let alone = filter.view().may_contain(&[key]);
                        prop_assert_eq!(found.contains(page), alone, "page {}", page);
                    }
                    let none = segment.open([]).unwrap();
                    prop_assert_eq!(segment.pages_with(&none, key), PageSet::ALL);
                }
            }
        }
    }

    #[test]
    fn a_key_needs_a_small_part_of_a_large_segment() {
        let mut builder = SegmentBuilder::new(true);
        let keys: Vec<u32> = (0..35_000u32).map(|n| n.wrapping_mul(0x9E37_79B1)).collect();
        let filter = PageFilter::of_keys(&keys);
        (0..400).for_each(|_| builder.push(filter.clone()));
        let (segment, pieces) = builder.finish(0, 0);
        let all: usize = pieces.iter().map(Bytes::len).sum();
        for key in [1, 77, u32::MAX, 0x8000_0001] {
            let read: u32 = segment.pieces_for(&[key]).iter().map(|n| segment.piece(*n).len).sum();
            assert!(read as usize * 50 < all, "{read} of {all} bytes");
        }
    }

    /// Pages of several sizes, so that a slice has several classes and pieces.
    fn varied() -> (FilterSegment, Vec<Bytes>) {
        let mut builder = SegmentBuilder::new(true);
        for page in 0..40u32 {
            let keys: Vec<u32> =
                (0..3_000 + page * 400).map(|n| (n << 8 | page).wrapping_mul(0x9E37_79B1) | 1).collect();
            builder.push(PageFilter::of_keys(&keys));
        }
        builder.finish(7, 64)
    }

    /// Goal: no damaged piece rules out a page. Method: each piece is cut, longer, changed, and replaced by
    /// each other piece.
    #[test]
    fn damaged_and_swapped_pieces_are_refused() {
        let (segment, pieces) = varied();
        assert!(pieces.len() > 3 * SLICES, "{} pieces", pieces.len());
        let refused = |number: usize, bytes: &Bytes| {
            let mut copies: Vec<_> = segment.pages().filter_map(|page| segment.begin_copy(page)).collect();
            segment.open([(number, bytes.clone())]).is_err()
                && segment.copy(number, bytes, &mut copies).is_err()
        };
        for (number, piece) in pieces.iter().enumerate() {
            assert!(!refused(number, piece), "piece {number} unchanged");
            assert!(
                refused(number, &Bytes::new()) && refused(number, &piece.slice(1..)),
                "piece {number} cut"
            );
            let longer = [&piece[..], &[0]].concat();
            let mut changed = piece.to_vec();
            changed[number % piece.len()] ^= 1 << (number % 8);
            assert!(refused(number, &longer.into()) && refused(number, &changed.into()), "piece {number}");
            let others =
                pieces.iter().enumerate().filter(|(other, bytes)| *other != number && *bytes != piece);
            assert!(others.into_iter().all(|(_, other)| refused(number, other)), "piece {number} swapped");
        }
        let whole: Bytes = pieces.concat().into();
        assert!(segment.open_whole(&whole).is_ok());
        let swapped = [&whole[whole.len() / 2..], &whole[..whole.len() / 2]].concat();
        assert!(segment.open_whole(&swapped.into()).is_err());
    }

    /// Goal: an entry whose sizes are wrong is refused, or names pieces within the block that the stored
    /// bytes do not match. Method: every byte of an entry gets every value.
    #[test]
    fn entries_with_wrong_sizes_are_refused_or_match_no_stored_bytes() {
        let (segment, pieces) = varied();
        let (mut entry, whole) = (Vec::new(), Bytes::from(pieces.concat()));
        segment.put(&mut entry);
        let (form, limit) = (SegmentForm { tells_words: true, by_place: true }, segment.range().end + 4_096);
        let sizes = entry.len() - pieces.len() * 4;
        let (mut read, mut refused) = (0, 0);
        for at in 0..sizes {
            for value in (0..=u8::MAX).filter(|value| *value != entry[at]) {
                let mut changed = entry.clone();
                changed[at] = value;
                let found = FilterSegment::get(&mut Reader::new("entry", 0, &changed), form, limit);
                let Ok(found) = found else {
                    refused += 1;
                    continue;
                };
                read += 1;
                assert!(found.range().end <= limit && found.pages().len() <= PAGES_MAX);
                let bytes: u64 = (0..found.pieces()).map(|number| u64::from(found.piece(number).len)).sum();
                assert_eq!(bytes, found.range().end - found.range().start);
                // Another first page, offset or mark of words does not change the pieces.
                let is_alike = found.lines == segment.lines && found.checksums == segment.checksums;
                assert_eq!(found.open_whole(&whole).is_ok(), is_alike, "byte {at} is {value}");
            }
        }
        assert!(read > 1_000 && refused > 1_000, "{read} were read, {refused} refused");
    }
}
