//! Filters of a run of pages, stored slice by slice: first slice 0 of every page, then slice 1 of every
//! page, and so on.
//!
//! If all slices are in memory, a test reads one cache line per page and key. If none is, it is enough to
//! read the slices of one or two keys, an eighth of the segment each.

use std::ops::Range;

use bytes::Bytes;

use crate::codec::reader::Reader;
use crate::codec::varint::put_varint;
use crate::codec::{Piece, crc32c};
use crate::error::Error;
use crate::needle::filter::{BLOCK_BYTES, BLOCKS_MAX, PageFilter, Place, SLICES};
use crate::needle::keys::is_word_key;

/// Most pages in a segment: 1 GiB of raw lines, about 8 MiB of filters, 1 MiB per slice.
pub const PAGES_MAX: usize = 512;

const PART: &str = "filter segment";

/// The range of the filters of a run of pages, and their layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterSegment {
    first_page: u32,
    offset: u64,
    /// Blocks per slice of each page; 0 for a page without filter.
    blocks: Vec<u32>,
    /// Start of each page's part within a slice, in blocks, and the length of a slice.
    starts: Vec<u32>,
    /// Whether each page's filter has grams of words.
    words: Vec<bool>,
    checksums: [u32; SLICES],
}

/// Gathers filters of consecutive pages.
#[derive(Default)]
pub struct SegmentBuilder {
    filters: Vec<PageFilter>,
}

impl SegmentBuilder {
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

    /// Returns the segment that begins with page `first_page` at `offset`, and its bytes.
    pub fn finish(&mut self, first_page: u32, offset: u64) -> (FilterSegment, Bytes) {
        let filters = std::mem::take(&mut self.filters);
        let blocks: Vec<u32> = filters.iter().map(PageFilter::blocks_per_slice).collect();
        let mut bytes = Vec::with_capacity(filters.iter().map(PageFilter::len).sum());
        let mut checksums = [0; SLICES];
        for (slice, checksum) in checksums.iter_mut().enumerate() {
            let start = bytes.len();
            for filter in &filters {
                let length = filter.len() / SLICES;
                bytes.extend_from_slice(&filter.bytes[slice * length..][..length]);
            }
            *checksum = crc32c(&bytes[start..]);
        }
        let words = filters.iter().map(|filter| filter.words).collect();
        (FilterSegment::new(first_page, offset, (blocks, words), checksums), Bytes::from(bytes))
    }
}

impl FilterSegment {
    fn new(
        first_page: u32,
        offset: u64,
        (blocks, words): (Vec<u32>, Vec<bool>),
        checksums: [u32; SLICES],
    ) -> Self {
        let mut starts = Vec::with_capacity(blocks.len() + 1);
        let mut at = 0u32;
        starts.push(0);
        for count in &blocks {
            at += count;
            starts.push(at);
        }
        Self { first_page, offset, blocks, starts, words, checksums }
    }

    /// Returns the pages whose filters are in the segment.
    pub fn pages(&self) -> Range<u32> {
        self.first_page..self.first_page + self.blocks.len() as u32
    }

    /// Returns the range of the segment in the object.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + (self.slice_bytes() * SLICES) as u64
    }

    fn slice_bytes(&self) -> usize {
        *self.starts.last().expect("starts has at least one element") as usize * BLOCK_BYTES
    }

    /// Returns a slice of all pages, with its checksum: see [`crate::needle::slice_of`].
    pub fn slice(&self, slice: usize) -> Piece {
        let len = self.slice_bytes();
        let offset = self.offset + (slice * len) as u64;
        Piece { offset, len: len as u32, crc: self.checksums[slice] }
    }

    /// Returns the bytes that the entry itself holds in memory.
    pub fn memory_bytes(&self) -> u64 {
        (size_of::<Self>() + (self.blocks.len() + self.starts.len()) * 4 + self.words.len()) as u64
    }

    /// Returns a view of the segment's bytes, after verifying every checksum.
    pub fn open(&self, bytes: Bytes) -> Result<SegmentView, Error> {
        let range = self.range();
        if bytes.len() as u64 != range.end - range.start {
            return Err(Error::Truncated {
                part: PART,
                offset: range.start,
                needed: range.end - range.start,
                available: bytes.len() as u64,
            });
        }
        let length = self.slice_bytes();
        let cut = |slice: usize| (slice, bytes.slice(slice * length..(slice + 1) * length));
        self.open_slices((0..SLICES).map(cut))
    }

    /// Returns a view of some slices; keys of other slices rule nothing out.
    pub fn open_slices(
        &self,
        present: impl IntoIterator<Item = (usize, Bytes)>,
    ) -> Result<SegmentView, Error> {
        let mut slices: [Option<Bytes>; SLICES] = Default::default();
        for (slice, bytes) in present {
            self.slice(slice).check(PART, &bytes)?;
            slices[slice] = Some(bytes);
        }
        let (starts, words) = (self.starts.clone(), self.words.clone());
        Ok(SegmentView { first_page: self.first_page, starts, words, slices })
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.first_page));
        put_varint(out, self.offset);
        put_varint(out, self.blocks.len() as u64);
        for (count, words) in self.blocks.iter().zip(&self.words) {
            put_varint(out, u64::from(*count) << 1 | u64::from(*words));
        }
        for checksum in self.checksums {
            out.extend_from_slice(&checksum.to_le_bytes());
        }
    }

    /// Reads an entry; versions before grams of words do not have a bit for them.
    pub(crate) fn get(reader: &mut Reader<'_>, tells_words: bool) -> Result<Self, Error> {
        let first_page = reader.varint32()?;
        let offset = reader.varint()?;
        let pages = reader.count("pages in a filter segment", PAGES_MAX)?;
        let (mut blocks, mut words) = (Vec::with_capacity(pages), Vec::with_capacity(pages));
        let bits = u32::from(tells_words);
        for _ in 0..pages {
            let most = (BLOCKS_MAX << bits) as usize + bits as usize;
            let count = reader.count("blocks of a filter slice", most)? as u32;
            blocks.push(count >> bits);
            words.push(tells_words && count & 1 == 1);
        }
        let mut checksums = [0; SLICES];
        for checksum in &mut checksums {
            *checksum = reader.u32()?;
        }
        let end = u64::from(first_page) + pages as u64;
        let segment = Self::new(first_page, offset, (blocks, words), checksums);
        if end > u64::from(u32::MAX) || offset.checked_add(segment.slice_bytes() as u64 * 8).is_none() {
            return Err(reader.malformed("a filter segment lies outside of any object"));
        }
        Ok(segment)
    }
}

/// Filters of a run of pages, in memory.
#[derive(Clone, Debug)]
pub struct SegmentView {
    first_page: u32,
    starts: Vec<u32>,
    words: Vec<bool>,
    slices: [Option<Bytes>; SLICES],
}

impl SegmentView {
    /// Whether a page of the segment may hold a text with all of these keys. True for pages without a
    /// filter and pages outside of the segment; keys of absent slices are ignored.
    pub fn may_contain(&self, page: u32, keys: &[u32]) -> bool {
        let Some(at) = page.checked_sub(self.first_page).map(|at| at as usize) else { return true };
        let Some(&[start, end]) = self.starts.get(at..at + 2) else { return true };
        if start == end {
            return true;
        }
        let range = start as usize * BLOCK_BYTES..end as usize * BLOCK_BYTES;
        let words = self.words[at];
        keys.iter().filter(|key| words || !is_word_key(**key)).all(|key| {
            let place = Place::of(*key, end - start);
            let slice = self.slices[place.slice].as_ref();
            slice.is_none_or(|bytes| place.is_set(&bytes[range.clone()]))
        })
    }

    /// Returns the complete filter of a page, to be copied to another block; `None` when a slice is
    /// absent.
    pub fn page_filter(&self, page: u32) -> Option<PageFilter> {
        let at = page.checked_sub(self.first_page)? as usize;
        let &[start, end] = self.starts.get(at..at + 2)? else { return None };
        let range = start as usize * BLOCK_BYTES..end as usize * BLOCK_BYTES;
        let mut bytes = Vec::with_capacity(range.len() * SLICES);
        for slice in &self.slices {
            bytes.extend_from_slice(&slice.as_ref()?[range.clone()]);
        }
        Some(PageFilter { bytes, words: self.words[at] })
    }

    /// Returns the bytes held in memory.
    pub fn memory_bytes(&self) -> u64 {
        let slices: usize = self.slices.iter().flatten().map(Bytes::len).sum();
        (size_of::<Self>() + self.starts.len() * 4 + self.words.len() + slices) as u64
    }
}
