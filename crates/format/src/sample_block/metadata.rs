//! Metadata of metric families in a block: pages of type, unit and help, sorted, and the directory that
//! decides which page may describe a family.

use bytes::Bytes;
use sandur_model::{MetricKind, MetricMetadata};

use super::PART_METADATA;
use super::annotations::{Stored, get_stored, put_page, put_stored};
use crate::codec::bitpack::{get_packed_u32, put_packed};
use crate::codec::varint::{put_blob, put_varint};
use crate::codec::{Piece, Reader};
use crate::error::Error;

/// A page is closed at this many plain bytes.
const PAGE_BYTES: usize = 1 << 17;
/// Longer texts of one family are dropped: a page holds at least one description.
const METADATA_BYTES_MAX: u64 = 1 << 20;
/// Bytes of the shortest metadata: the type and the lengths of three texts.
const METADATA_BYTES_MIN: usize = 4;
/// Bytes of the shortest directory entry: the lengths of two names.
const ENTRY_BYTES_MIN: usize = 2;

/// One page of metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataPage {
    pub(super) stored: Stored,
    /// Number of descriptions.
    pub metadata: u32,
    first_family: Box<str>,
    last_family: Box<str>,
}

impl MetadataPage {
    /// Returns the range of the page in the object.
    pub fn piece(&self) -> Piece {
        self.stored.piece
    }

    /// Returns the bytes of memory for reading and decoding the page.
    pub fn memory_bytes(&self) -> u64 {
        let texts = u64::from(self.stored.plain);
        self.stored.bytes() + texts + u64::from(self.metadata) * size_of::<MetricMetadata>() as u64
    }

    /// Whether the page may describe a family.
    pub fn may_describe(&self, family: &str) -> bool {
        (&*self.first_family..=&*self.last_family).contains(&family)
    }

    /// Returns the bytes of its directory entry in memory.
    pub(super) fn entry_bytes(&self) -> usize {
        size_of::<Self>() + self.first_family.len() + self.last_family.len()
    }

    /// Decodes the metadata from the bytes of the piece, after verifying checksums.
    pub fn decode(&self, bytes: &Bytes) -> Result<Vec<MetricMetadata>, Error> {
        self.get(&self.stored.open(bytes, PART_METADATA)?)
    }

    fn get(&self, plain: &[u8]) -> Result<Vec<MetricMetadata>, Error> {
        let mut reader = Reader::new(PART_METADATA, self.stored.piece.offset, plain);
        if (self.metadata as usize).saturating_mul(METADATA_BYTES_MIN) > plain.len() {
            return Err(reader.malformed("a page holds less metadata than its entry states"));
        }
        let mut all: Vec<MetricMetadata> = Vec::with_capacity(self.metadata as usize);
        for _ in 0..self.metadata {
            let tag = reader.u8()?;
            let kind = MetricKind::from_number(tag.into());
            let kind = kind.ok_or_else(|| reader.unknown("type of a metric", tag))?;
            let (family, unit, help) = (reader.text()?.into(), reader.text()?.into(), reader.text()?.into());
            let one = MetricMetadata { family, kind, unit, help };
            if all.last().is_some_and(|before| *before >= one) {
                return Err(reader.malformed("metadata are not sorted"));
            }
            all.push(one);
        }
        reader.finish()?;
        Ok(all)
    }
}

/// Creates pages of metadata.
#[derive(Debug, Default)]
pub(super) struct MetadataWriter {
    waiting: Vec<u8>,
    count: u32,
    first_family: Box<str>,
    last: Option<MetricMetadata>,
    pub(super) pages: Vec<MetadataPage>,
}

impl MetadataWriter {
    /// Adds metadata, which must be sorted. Returns whether a page is full.
    pub(super) fn push(&mut self, one: &MetricMetadata) -> Result<bool, Error> {
        if self.last.as_ref().is_some_and(|before| before >= one) {
            return Err(Error::Misuse("metadata must be sorted and distinct"));
        }
        if one.memory_bytes() > METADATA_BYTES_MAX {
            return Ok(false);
        }
        self.last = Some(one.clone());
        if self.count == 0 {
            self.first_family = one.family.clone();
        }
        self.count += 1;
        let MetricMetadata { family, kind, unit, help } = one;
        self.waiting.push(kind.number());
        [family, unit, help].into_iter().for_each(|text| put_blob(&mut self.waiting, text.as_bytes()));
        Ok(self.waiting.len() >= PAGE_BYTES)
    }

    /// Returns the number of written descriptions, including waiting ones.
    pub(super) fn metadata(&self) -> u64 {
        self.pages.iter().map(|page| u64::from(page.metadata)).sum::<u64>() + u64::from(self.count)
    }

    /// Returns the page of the waiting metadata for `offset`; `None` when none wait.
    pub(super) fn take_page(&mut self, level: i32, offset: u64) -> Result<Option<Bytes>, Error> {
        let (plain, metadata) = (std::mem::take(&mut self.waiting), std::mem::take(&mut self.count));
        let Some(last) = self.last.as_ref().filter(|_| metadata > 0) else { return Ok(None) };
        let (stored, bytes) = put_page(&plain, level, offset, PART_METADATA)?;
        let (first_family, last_family) = (std::mem::take(&mut self.first_family), last.family.clone());
        self.pages.push(MetadataPage { stored, metadata, first_family, last_family });
        Ok(Some(bytes))
    }
}

/// Appends the directory.
pub(super) fn put_directory(out: &mut Vec<u8>, pages: &[MetadataPage]) {
    put_varint(out, pages.len() as u64);
    put_stored(out, pages.iter().map(|page| page.stored));
    put_packed(out, &pages.iter().map(|page| u64::from(page.metadata)).collect::<Vec<_>>());
    for page in pages {
        put_blob(out, page.first_family.as_bytes());
        put_blob(out, page.last_family.as_bytes());
    }
}

/// Reads the directory.
pub(super) fn get_directory(reader: &mut Reader<'_>) -> Result<Vec<MetadataPage>, Error> {
    let count = reader.count_of(ENTRY_BYTES_MIN)?;
    let stored = get_stored(reader, count)?;
    let metadata = get_packed_u32(reader, count)?;
    let mut pages: Vec<MetadataPage> = Vec::with_capacity(count);
    for (stored, metadata) in stored.into_iter().zip(metadata) {
        let (first_family, last_family): (Box<str>, Box<str>) =
            (reader.text()?.into(), reader.text()?.into());
        let before = pages.last().map_or("", |page| &*page.last_family);
        if metadata == 0 || *first_family < *before || last_family < first_family {
            return Err(reader.malformed("a page of metadata is out of bounds or out of order"));
        }
        pages.push(MetadataPage { stored, metadata, first_family, last_family });
    }
    Ok(pages)
}

/// Decodes the metadata of a page with these plain bytes, whose entry states this number; for tests with
/// arbitrary bytes.
pub fn metadata_of_plain(plain: &[u8], metadata: u32) -> Result<Vec<MetricMetadata>, Error> {
    let stored = Stored { piece: Piece::default(), plain: plain.len() as u32, codec: 0 };
    MetadataPage { stored, metadata, first_family: Box::default(), last_family: Box::default() }.get(plain)
}
