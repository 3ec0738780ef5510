//! Parts of the index, which are read one by one, and the areas of the object that hold them.
//!
//! A part has a checksum and is compressed on its own. Its address counts through all areas in the order
//! in which they were written, because a writer refers to parts before it knows the offset of their area.
//! The last area is in the footer if it is small.

use bytes::Bytes;

use crate::block::PART_FOOTER;
use crate::codec::bitpack::{get_packed, get_packed_u32, put_packed};
use crate::codec::{Piece, Reader, compress, crc32c};
use crate::error::Error;

/// Most plain bytes of a part.
pub(crate) const PART_BYTES_MAX: usize = 1 << 25;
/// An area is closed when it has this many bytes.
const AREA_BYTES: usize = 1 << 20;
/// Name of a part in errors.
pub(crate) const PART_INDEX: &str = "part of the index";

/// A part of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Address of the first byte, counted through the areas.
    pub address: u64,
    /// Number of stored bytes.
    pub len: u32,
    /// crc32c of the stored bytes.
    pub crc: u32,
    /// Number of plain bytes.
    pub plain: u32,
}

impl Part {
    /// Returns the bytes of memory for reading and decompressing it.
    pub fn memory_bytes(&self) -> u64 {
        u64::from(self.len) + u64::from(self.plain)
    }

    /// Returns the plain bytes from the stored ones, after verifying checksums.
    pub fn open(&self, stored: &Bytes) -> Result<Bytes, Error> {
        let piece = Piece { offset: self.address, len: self.len, crc: self.crc };
        piece.check(PART_INDEX, stored)?;
        let mut reader = Reader::new(PART_INDEX, self.address, stored);
        let codec = reader.u8()?;
        if self.plain as usize > PART_BYTES_MAX {
            let (found, limit) = (u64::from(self.plain), PART_BYTES_MAX as u64);
            return Err(Error::TooLarge { part: PART_INDEX, what: "its plain length", found, limit });
        }
        let body = stored.slice(1..);
        match codec {
            compress::STORED if body.len() == self.plain as usize => Ok(body),
            compress::STORED => Err(reader.malformed("a part's length differs from the stored one")),
            compress::ZSTD => {
                let plain = compress::get_zstd(&body, self.plain as usize, PART_INDEX, self.address)?;
                Ok(Bytes::from(plain))
            }
            codec => Err(Error::UnknownCodec { part: PART_INDEX, offset: self.address, codec }),
        }
    }
}

/// Appends the fields of parts in columns.
pub(super) fn put_parts(out: &mut Vec<u8>, parts: &[Part]) {
    let mut column = |value: &dyn Fn(&Part) -> u64| {
        put_packed(out, &parts.iter().map(value).collect::<Vec<_>>());
    };
    column(&|part| part.address);
    column(&|part| u64::from(part.len));
    column(&|part| u64::from(part.crc));
    column(&|part| u64::from(part.plain));
}

/// Reads `count` parts; the caller bounds their number.
pub(super) fn get_parts(reader: &mut Reader<'_>, count: usize) -> Result<Vec<Part>, Error> {
    let addresses = get_packed(reader, count, |address| address)?;
    let mut column = || get_packed_u32(reader, count);
    let (lengths, checksums, plains) = (column()?, column()?, column()?);
    let part =
        |n: usize| Part { address: addresses[n], len: lengths[n], crc: checksums[n], plain: plains[n] };
    Ok((0..count).map(part).collect())
}

/// A contiguous range of the object that holds parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) piece: Piece,
    /// Address of its first byte.
    pub(crate) address: u64,
}

/// The places of all areas.
#[derive(Clone, Debug, Default)]
pub(crate) struct Areas {
    /// In ascending order of addresses, without gaps.
    pub(crate) stored: Vec<Area>,
    /// The area in the footer, which follows the others.
    pub(crate) in_footer: Bytes,
}

/// The place of a part.
#[derive(Clone, Debug)]
pub enum Place {
    /// In the object before the footer.
    Object(Piece),
    /// In the footer: its stored bytes.
    Footer(Bytes),
}

impl Areas {
    pub(super) fn stored_end(&self) -> u64 {
        self.stored.last().map_or(0, |area| area.address + u64::from(area.piece.len))
    }

    pub(crate) fn locate(&self, part: &Part) -> Result<Place, Error> {
        let outside = || Error::Malformed {
            part: PART_INDEX,
            offset: part.address,
            what: "a part of the index is in no area",
        };
        let len = u64::from(part.len);
        if let Some(start) = part.address.checked_sub(self.stored_end()) {
            let end = start.checked_add(len).filter(|end| *end <= self.in_footer.len() as u64);
            let end = end.ok_or_else(outside)?;
            return Ok(Place::Footer(self.in_footer.slice(start as usize..end as usize)));
        }
        let at = self.stored.partition_point(|area| area.address <= part.address).checked_sub(1);
        let area = &self.stored[at.ok_or_else(outside)?];
        let start = part.address - area.address;
        if start + len > u64::from(area.piece.len) {
            return Err(outside());
        }
        Ok(Place::Object(Piece { offset: area.piece.offset + start, len: part.len, crc: part.crc }))
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        crate::codec::varint::put_varint(out, self.stored.len() as u64);
        let mut column = |value: &dyn Fn(&Area) -> u64| {
            put_packed(out, &self.stored.iter().map(value).collect::<Vec<_>>());
        };
        column(&|area| area.piece.offset);
        column(&|area| u64::from(area.piece.len));
        column(&|area| u64::from(area.piece.crc));
    }

    pub(crate) fn get(reader: &mut Reader<'_>, in_footer: Bytes) -> Result<Self, Error> {
        // Every area has a checksum of four bytes.
        let count = reader.count("areas of an index", reader.remaining() / 4)?;
        let offsets = get_packed(reader, count, |offset| offset)?;
        let (lengths, checksums) = (get_packed_u32(reader, count)?, get_packed_u32(reader, count)?);
        let (mut address, mut stored) = (0, Vec::with_capacity(count));
        for n in 0..count {
            let piece = Piece { offset: offsets[n], len: lengths[n], crc: checksums[n] };
            if piece.offset.checked_add(u64::from(piece.len)).is_none() {
                return Err(Error::Malformed { part: PART_FOOTER, offset: 0, what: "an area has no end" });
            }
            stored.push(Area { piece, address });
            address += u64::from(piece.len);
        }
        Ok(Self { stored, in_footer })
    }
}

/// Adjacent parts.
#[derive(Debug, Default)]
pub(super) struct PartRun {
    bytes: Vec<u8>,
    /// The end of each part.
    ends: Vec<usize>,
}

/// Gathers parts into areas.
#[derive(Debug, Default)]
pub(super) struct AreaWriter {
    open: PartRun,
    /// Address of the open area.
    address: u64,
}

/// The parts of an area. Each can be taken separately, so that a cache can keep it separately.
pub(crate) struct WrittenArea {
    pub(crate) address: u64,
    pub(crate) bytes: Bytes,
    pub(crate) ends: Vec<usize>,
}

impl PartRun {
    /// Adds a part; its address counts from the start of the run.
    pub(super) fn put(&mut self, plain: &[u8], level: i32) -> Result<Part, Error> {
        if plain.len() > PART_BYTES_MAX {
            let (found, limit) = (plain.len() as u64, PART_BYTES_MAX as u64);
            return Err(Error::TooLarge { part: PART_INDEX, what: "its plain length", found, limit });
        }
        let start = self.bytes.len();
        self.bytes.push(0);
        let codec = compress::put_smaller(&mut self.bytes, plain, level);
        self.bytes[start] = codec;
        self.ends.push(self.bytes.len());
        Ok(Part {
            address: start as u64,
            len: (self.bytes.len() - start) as u32,
            crc: crc32c(&self.bytes[start..]),
            plain: plain.len() as u32,
        })
    }

    /// Returns the stored bytes of all parts.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes held in memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}

impl AreaWriter {
    pub(super) fn put(&mut self, plain: &[u8], level: i32) -> Result<Part, Error> {
        let mut part = self.open.put(plain, level)?;
        part.address += self.address;
        Ok(part)
    }

    /// Moves all parts of a run to the open area, and returns the address of the first.
    pub(super) fn append(&mut self, run: &mut PartRun) -> u64 {
        let start = self.open.bytes.len();
        self.open.bytes.append(&mut run.bytes);
        self.open.ends.extend(run.ends.drain(..).map(|end| start + end));
        self.address + start as u64
    }

    pub(super) fn is_full(&self) -> bool {
        self.open.len() >= AREA_BYTES
    }

    /// Returns the bytes held in memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.open.memory_bytes()
    }

    /// Closes the open area, if it is not empty.
    pub(super) fn take(&mut self) -> Option<WrittenArea> {
        if self.open.bytes.is_empty() {
            return None;
        }
        let PartRun { bytes, ends } = std::mem::take(&mut self.open);
        let address = self.address;
        self.address += bytes.len() as u64;
        Some(WrittenArea { address, bytes: Bytes::from(bytes), ends })
    }
}

/// Writes parts, and stores areas when they are full.
pub(super) struct PartWriter<'a> {
    pub(super) areas: &'a mut AreaWriter,
    pub(super) level: i32,
    pub(super) stored: &'a mut Vec<Area>,
}

impl PartWriter<'_> {
    pub(super) fn put(
        &mut self,
        plain: &[u8],
        store: &mut impl FnMut(WrittenArea) -> Area,
    ) -> Result<Part, Error> {
        let part = self.areas.put(plain, self.level)?;
        self.store_full(store);
        Ok(part)
    }

    /// Stores the open area when it is full.
    pub(super) fn store_full(&mut self, store: &mut impl FnMut(WrittenArea) -> Area) {
        if self.areas.is_full() {
            self.stored.extend(self.areas.take().map(store));
        }
    }
}
