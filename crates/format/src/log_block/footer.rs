//! The footer: everything that decides which pages to read, in sections that can be decoded apart.
//!
//! Layout: number of sections (u8); per section id (u8), codec (u8, 0 = as is, 1 = zstd), stored length
//! and plain length (LEB128); the sections. Then the trailer of fixed length: footer offset (u64), footer
//! length (u32), crc32c of the footer, version (u16), two zero bytes, crc32c of the trailer so far, magic.

use std::ops::Range;

use bytes::Bytes;
use roaring::RoaringBitmap;
use sandur_model::{Matcher, TenantId, TimeRange};

use crate::codec::varint::{put_blob, put_signed, put_varint};
use crate::codec::{Piece, Reader, compress, crc32c};
use crate::error::Error;
use crate::log_block::limits::{
    HEADER_LEN, HEADER_MAGIC, METADATA_KEYS_SINCE, ORIGIN_SINCE, PART_FOOTER, PART_HEADER, PART_LINES,
    PART_NARROW, SECTION_BYTES_MAX, TRAILER_LEN, TRAILER_MAGIC, VERSION, WORD_KEYS_SINCE,
};
use crate::log_block::metadata_keys::{KeyCollector, MetadataKeys};
use crate::log_block::minutes::{FinishedCounts, MinuteCounts};
use crate::log_block::origin::BlockOrigin;
use crate::log_block::pages::{PageEntry, get_pages, put_pages};
use crate::log_block::postings::{Postings, select};
use crate::log_block::streams::StreamTable;
use crate::log_block::writer::{BlockOptions, BlockSummary};
use crate::needle::{FilterSegment, SLICES};

const META: u8 = 1;
const STREAMS: u8 = 2;
const POSTINGS: u8 = 3;
const PAGES: u8 = 4;
const FILTERS: u8 = 5;
const MINUTES: u8 = 6;
const METADATA_KEYS: u8 = 7;
const ORIGIN: u8 = 8;

const SECTIONS: [(u8, &str); 8] = [
    (META, "meta"),
    (STREAMS, "streams"),
    (POSTINGS, "postings"),
    (PAGES, "pages"),
    (FILTERS, "filters"),
    (MINUTES, "minutes"),
    (METADATA_KEYS, "metadata keys"),
    (ORIGIN, "origin"),
];

/// What a block is and how much it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Version of the format.
    pub version: u16,
    /// Whose rows they are.
    pub tenant: TenantId,
    /// The time window that the block belongs to.
    pub window: TimeRange,
    /// How often its rows were compacted.
    pub level: u8,
    /// Bytes at which pages were closed.
    pub page_bytes: u32,
    /// zstd level that it was written with.
    pub zstd_level: i32,
    /// First timestamp.
    pub min_ts: i64,
    /// Last timestamp.
    pub max_ts: i64,
    /// Rows.
    pub rows: u64,
    /// Bytes of all lines.
    pub raw_bytes: u64,
}

/// A section of a footer, for people who inspect blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionInfo {
    /// Its name.
    pub name: &'static str,
    /// Bytes in the object.
    pub stored_bytes: u32,
    /// Bytes after decompression.
    pub plain_bytes: u32,
}

/// The decoded footer of a block.
#[derive(Debug)]
pub struct Footer {
    info: BlockInfo,
    offset: u64,
    stored_bytes: u32,
    streams: StreamTable,
    postings: Postings,
    pages: Vec<PageEntry>,
    segments: Vec<FilterSegment>,
    minutes: MinuteCounts,
    metadata_keys: MetadataKeys,
    origin: Option<BlockOrigin>,
    sections: Vec<SectionInfo>,
}

impl Footer {
    /// Where the footer (with its trailer) of an object of `size` bytes is, from the object's last bytes:
    /// at least 28 of them. For tools that have no catalog entry at hand.
    pub fn locate(tail: &[u8], size: u64) -> Result<Range<u64>, Error> {
        let trailer = Trailer::get(tail, size)?;
        let end = trailer.offset.checked_add(u64::from(trailer.len) + TRAILER_LEN as u64);
        if end != Some(size) || trailer.offset < HEADER_LEN {
            let offset = size.saturating_sub(TRAILER_LEN as u64);
            return Err(Error::Malformed {
                part: PART_FOOTER,
                offset,
                what: "the footer does not end where the object ends",
            });
        }
        Ok(trailer.offset..size)
    }

    /// Decodes a footer from its bytes, trailer included: the object from its footer offset to its end.
    pub fn open(bytes: Bytes) -> Result<Self, Error> {
        let trailer = Trailer::get(&bytes, bytes.len() as u64)?;
        let body = bytes.slice(..bytes.len() - TRAILER_LEN);
        Piece { offset: trailer.offset, len: trailer.len, crc: trailer.crc }.check(PART_FOOTER, &body)?;
        let mut sections = Sections::get(&body, trailer.offset)?;
        let (meta, _) = sections.take(META)?;
        let info = get_meta(&meta, trailer.version)?;
        let (plain, offset) = sections.take(STREAMS)?;
        let mut reader = Reader::new(PART_FOOTER, offset, &plain);
        let streams = StreamTable::get(&mut reader, info.min_ts)?;
        reader.finish()?;
        let postings = Postings::get(sections.take(POSTINGS)?.0, &streams)?;
        let (plain, offset) = sections.take(PAGES)?;
        let mut reader = Reader::new(PART_FOOTER, offset, &plain);
        let pages = get_pages(&mut reader, info.min_ts, streams.len() as u32, trailer.offset)?;
        reader.finish()?;
        let (plain, offset) = sections.take(FILTERS)?;
        let segments = get_segments(&plain, offset, trailer.offset, trailer.version >= WORD_KEYS_SINCE)?;
        let minutes = MinuteCounts::get(sections.take(MINUTES)?.0, streams.len() as u32)?;
        let metadata_keys = match trailer.version >= METADATA_KEYS_SINCE {
            true => {
                let (plain, offset) = sections.take(METADATA_KEYS)?;
                MetadataKeys::get(&plain, offset, streams.len() as u32)?
            }
            false => MetadataKeys::default(),
        };
        let origin = match trailer.version >= ORIGIN_SINCE {
            true => {
                let (plain, offset) = sections.take(ORIGIN)?;
                Some(BlockOrigin::get(&plain, offset)?)
            }
            false => None,
        };
        let (offset, stored_bytes) = (trailer.offset, bytes.len() as u32);
        let sections = sections.infos;
        let footer = Self {
            info,
            offset,
            stored_bytes,
            streams,
            postings,
            pages,
            segments,
            minutes,
            metadata_keys,
            origin,
            sections,
        };
        Ok(footer)
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

    /// The streams by ordinal.
    pub fn streams(&self) -> &StreamTable {
        &self.streams
    }

    /// Bytes of the distinct values of a label.
    pub fn value_bytes(&self, name: &str) -> usize {
        let columns = self.streams.columns();
        let at = columns.binary_search_by(|column| (*column.name).cmp(name));
        at.map_or(0, |at| columns[at].values.iter().map(|value| value.len()).sum())
    }

    /// Ordinals of the streams whose labels pass all matchers.
    pub fn select(&self, matchers: &[Matcher]) -> Result<RoaringBitmap, Error> {
        select(&self.streams, &self.postings, matchers)
    }

    /// The pages in the order in which they are stored.
    pub fn pages(&self) -> &[PageEntry] {
        &self.pages
    }

    /// Bytes of the object that hold the line columns of a group's pages, and those that hold their
    /// narrow columns: what to fetch at once. `pages` are entries of one group, in order.
    pub fn group_ranges(pages: &[PageEntry]) -> Option<(Range<u64>, Range<u64>)> {
        let (first, last) = (pages.first()?, pages.last()?);
        Some((first.lines.offset..last.lines.end(), first.narrow.offset..last.narrow.end()))
    }

    /// The filters of runs of pages, in order of pages.
    pub fn filter_segments(&self) -> &[FilterSegment] {
        &self.segments
    }

    /// The segment that holds the filter of a page.
    pub fn filter_segment_of(&self, page: u32) -> Option<&FilterSegment> {
        let at = self.segments.partition_point(|segment| segment.pages().end <= page);
        self.segments.get(at).filter(|segment| segment.pages().contains(&page))
    }

    /// Counts per stream, level and minute.
    pub fn minute_counts(&self) -> &MinuteCounts {
        &self.minutes
    }

    /// Which streams have rows with which structured-metadata key.
    pub fn metadata_keys(&self) -> &MetadataKeys {
        &self.metadata_keys
    }

    /// What the block was made from; `None` in blocks of before version 4.
    pub fn origin(&self) -> Option<&BlockOrigin> {
        self.origin.as_ref()
    }

    /// Sizes of the sections.
    pub fn sections(&self) -> &[SectionInfo] {
        &self.sections
    }

    /// Every piece of the object before the footer with its name: all that a checking tool must read.
    pub fn pieces(&self) -> impl Iterator<Item = (&'static str, Piece)> {
        let pages = self.pages.iter().flat_map(|p| [(PART_LINES, p.lines), (PART_NARROW, p.narrow)]);
        let slices = |segment: &FilterSegment| {
            let slices: [Piece; SLICES] = std::array::from_fn(|slice| segment.slice(slice));
            slices.into_iter().map(|piece| ("filter slice", piece))
        };
        pages.chain(self.segments.iter().flat_map(slices))
    }

    /// Bytes held in memory, label sets included.
    pub fn memory_bytes(&self) -> u64 {
        let pages = self.pages.len() * size_of::<PageEntry>() + size_of::<Self>();
        let segments: u64 = self.segments.iter().map(FilterSegment::memory_bytes).sum();
        let parts = self.streams.memory_bytes()
            + self.postings.memory_bytes()
            + self.minutes.memory_bytes()
            + self.metadata_keys.memory_bytes();
        // Sections that are stored as they are keep the whole footer alive.
        pages as u64 + segments + parts + u64::from(self.stored_bytes)
    }
}

/// Compares the first bytes of a block.
pub fn check_header(bytes: &[u8]) -> Result<(), Error> {
    let mut reader = Reader::new(PART_HEADER, 0, bytes);
    let found: [u8; 4] = reader.bytes(4)?.try_into().expect("four bytes");
    if found != HEADER_MAGIC {
        return Err(Error::Magic { part: PART_HEADER, offset: 0, expected: HEADER_MAGIC, found });
    }
    let version = reader.u16()?;
    if version == 0 || version > VERSION {
        return Err(Error::Version { part: PART_HEADER, found: version, supported: VERSION });
    }
    if reader.u16()? != 0 {
        return Err(reader.malformed("reserved bytes are not zero"));
    }
    Ok(())
}

struct Trailer {
    offset: u64,
    len: u32,
    crc: u32,
    version: u16,
}

impl Trailer {
    /// Reads the trailer at the end of `tail`, which is the end of something of `size` bytes.
    fn get(tail: &[u8], size: u64) -> Result<Self, Error> {
        let at = tail.len().saturating_sub(TRAILER_LEN);
        let base = size.saturating_sub((tail.len() - at) as u64);
        let mut reader = Reader::new(PART_FOOTER, base, &tail[at..]);
        let signed = reader.bytes(TRAILER_LEN - 8)?;
        let (expected, magic) = (reader.u32()?, reader.bytes(4)?);
        if magic != TRAILER_MAGIC {
            let found = magic.try_into().expect("four bytes");
            return Err(Error::Magic { part: PART_FOOTER, offset: base, expected: TRAILER_MAGIC, found });
        }
        let found = crc32c(signed);
        if found != expected {
            return Err(Error::Checksum { part: PART_FOOTER, offset: base, expected, found });
        }
        let mut reader = Reader::new(PART_FOOTER, base, signed);
        let (offset, len, crc, version) = (reader.u64()?, reader.u32()?, reader.u32()?, reader.u16()?);
        if version == 0 || version > VERSION {
            return Err(Error::Version { part: PART_FOOTER, found: version, supported: VERSION });
        }
        Ok(Self { offset, len, crc, version })
    }

    fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&self.crc.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        let crc = crc32c(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&TRAILER_MAGIC);
    }
}

/// The section directory of a footer.
struct Sections<'a> {
    body: &'a Bytes,
    base: u64,
    entries: Vec<(u8, u8, Range<usize>, usize)>,
    infos: Vec<SectionInfo>,
}

impl<'a> Sections<'a> {
    fn get(body: &'a Bytes, base: u64) -> Result<Self, Error> {
        let mut reader = Reader::new(PART_FOOTER, base, body);
        let count = reader.u8()?;
        let mut entries = Vec::new();
        for _ in 0..count {
            let (id, codec) = (reader.u8()?, reader.u8()?);
            let stored = reader.count("bytes of a footer section", body.len())?;
            let plain = reader.count("plain bytes of a footer section", SECTION_BYTES_MAX)?;
            entries.push((id, codec, 0..stored, plain));
        }
        let mut infos = Vec::new();
        for (id, _, range, plain) in &mut entries {
            let at = reader.position();
            reader.bytes(range.len())?;
            *range = at..reader.position();
            let name = SECTIONS.iter().find(|(known, _)| known == id).map_or("unknown", |(_, name)| name);
            infos.push(SectionInfo { name, stored_bytes: range.len() as u32, plain_bytes: *plain as u32 });
        }
        reader.finish()?;
        Ok(Self { body, base, entries, infos })
    }

    /// The plain bytes of a section, and where it begins in the object.
    fn take(&mut self, wanted: u8) -> Result<(Bytes, u64), Error> {
        let entry = self.entries.iter().find(|(id, ..)| *id == wanted);
        let Some((_, codec, range, plain)) = entry else {
            let (part, offset) = (PART_FOOTER, self.base);
            return Err(Error::Malformed { part, offset, what: "a section is missing" });
        };
        let offset = self.base + range.start as u64;
        let stored = self.body.slice(range.clone());
        let bytes = match *codec {
            compress::STORED => stored,
            compress::ZSTD => Bytes::from(compress::get_zstd(&stored, *plain, PART_FOOTER, offset)?),
            codec => return Err(Error::UnknownCodec { part: PART_FOOTER, offset, codec }),
        };
        Ok((bytes, offset))
    }
}

fn get_meta(bytes: &[u8], version: u16) -> Result<BlockInfo, Error> {
    let mut reader = Reader::new(PART_FOOTER, 0, bytes);
    let tenant = TenantId::new(reader.text()?);
    let tenant = tenant.map_err(|_| reader.malformed("the tenant id is not valid"))?;
    let window = TimeRange::new(reader.signed()?, reader.signed()?);
    let info = BlockInfo {
        version,
        tenant,
        window,
        level: reader.u8()?,
        page_bytes: reader.varint32()?,
        zstd_level: reader.signed()? as i32,
        min_ts: reader.signed()?,
        max_ts: reader.signed()?,
        rows: reader.varint()?,
        raw_bytes: reader.varint()?,
    };
    reader.finish()?;
    Ok(info)
}

fn put_meta(out: &mut Vec<u8>, options: &BlockOptions, summary: &BlockSummary) {
    put_blob(out, options.tenant.as_str().as_bytes());
    put_signed(out, options.window.start);
    put_signed(out, options.window.end);
    out.push(options.level);
    put_varint(out, u64::from(options.page_bytes));
    put_signed(out, i64::from(options.zstd_level));
    put_signed(out, summary.min_ts);
    put_signed(out, summary.max_ts);
    put_varint(out, summary.rows);
    put_varint(out, summary.raw_bytes);
}

fn get_segments(
    bytes: &[u8],
    offset: u64,
    footer_offset: u64,
    tells_words: bool,
) -> Result<Vec<FilterSegment>, Error> {
    let mut reader = Reader::new(PART_FOOTER, offset, bytes);
    let count = reader.count("filter segments", reader.remaining())?;
    let mut segments: Vec<FilterSegment> = Vec::new();
    for _ in 0..count {
        let segment = FilterSegment::get(&mut reader, tells_words)?;
        let in_order = segments.last().is_none_or(|before| before.pages().end <= segment.pages().start);
        if !in_order || segment.range().end > footer_offset {
            return Err(reader.malformed("filter segments are not in order or lie beyond the footer"));
        }
        segments.push(segment);
    }
    reader.finish()?;
    Ok(segments)
}

/// Everything that a footer is made of.
pub(crate) struct FooterParts<'a> {
    pub(crate) options: &'a BlockOptions,
    pub(crate) streams: &'a StreamTable,
    pub(crate) pages: &'a [PageEntry],
    pub(crate) segments: &'a [FilterSegment],
    pub(crate) counts: &'a FinishedCounts,
    pub(crate) metadata_keys: &'a KeyCollector,
}

/// The footer and trailer that stand at `offset`.
pub(crate) fn put_footer(parts: &FooterParts<'_>, offset: u64) -> Result<(BlockSummary, Bytes), Error> {
    let pages = parts.pages;
    let mut summary = BlockSummary {
        rows: pages.iter().map(|p| u64::from(p.rows)).sum(),
        raw_bytes: pages.iter().map(|p| p.raw_bytes).sum(),
        min_ts: pages.iter().map(|p| p.min_ts).min().unwrap_or(0),
        max_ts: pages.iter().map(|p| p.max_ts).max().unwrap_or(0),
        streams: parts.streams.len() as u32,
        pages: pages.len() as u32,
        footer_offset: offset,
        footer_len: 0,
        size: 0,
    };
    let (mut directory, mut body) = (vec![SECTIONS.len() as u8], Vec::new());
    let level = parts.options.zstd_level;
    let mut plain = Vec::new();
    for (id, _) in SECTIONS {
        plain.clear();
        match id {
            META => put_meta(&mut plain, parts.options, &summary),
            STREAMS => parts.streams.put(&mut plain, summary.min_ts),
            POSTINGS => Postings::put(&mut plain, parts.streams),
            PAGES => put_pages(&mut plain, pages, summary.min_ts),
            FILTERS => {
                put_varint(&mut plain, parts.segments.len() as u64);
                parts.segments.iter().for_each(|segment| segment.put(&mut plain));
            }
            MINUTES => parts.counts.put(&mut plain),
            METADATA_KEYS => parts.metadata_keys.put(&mut plain),
            _ => parts.options.origin.put(&mut plain),
        }
        if plain.len() > SECTION_BYTES_MAX {
            let (found, limit) = (plain.len() as u64, SECTION_BYTES_MAX as u64);
            return Err(Error::TooLarge { part: PART_FOOTER, what: "a section", found, limit });
        }
        let start = body.len();
        let codec = compress::put_smaller(&mut body, &plain, level);
        directory.extend_from_slice(&[id, codec]);
        put_varint(&mut directory, (body.len() - start) as u64);
        put_varint(&mut directory, plain.len() as u64);
    }
    directory.append(&mut body);
    let mut bytes = directory;
    let len = u32::try_from(bytes.len()).ok().filter(|len| *len < u32::MAX - TRAILER_LEN as u32);
    let len = len.ok_or(Error::TooLarge {
        part: PART_FOOTER,
        what: "its length",
        found: bytes.len() as u64,
        limit: u64::from(u32::MAX),
    })?;
    Trailer { offset, len, crc: crc32c(&bytes), version: VERSION }.put(&mut bytes);
    summary.footer_len = bytes.len() as u32;
    summary.size = offset + bytes.len() as u64;
    Ok((summary, Bytes::from(bytes)))
}
