//! The container of blocks of every signal: header, pieces with checksums, a footer of sections that can
//! be decoded separately, a trailer of fixed length.
//!
//! Layout of the footer: number of sections (u8); per section id (u8), codec (u8, 0 = stored, 1 = zstd),
//! stored length and plain length (LEB128); the sections. Then the trailer: footer offset (u64), footer
//! length (u32), crc32c of the footer, version (u16), two zero bytes, crc32c of the trailer so far,
//! magic.

use std::ops::Range;

use bytes::Bytes;

use crate::codec::varint::put_varint;
use crate::codec::{Piece, Reader, compress, crc32c};
use crate::error::Error;

/// Bytes of the header: magic, version, two zero bytes.
pub const HEADER_LEN: u64 = 8;
/// Bytes of the trailer.
pub const TRAILER_LEN: usize = 28;
/// Most plain bytes of a footer section.
pub(crate) const SECTION_BYTES_MAX: usize = 1 << 30;
/// Name of the header in errors.
pub(crate) const PART_HEADER: &str = "block header";
/// Name of footer and trailer in errors.
pub(crate) const PART_FOOTER: &str = "block footer";

/// The properties of the blocks of one signal that differ from those of other signals.
pub(crate) struct Layout {
    /// First bytes of a block.
    pub(crate) header_magic: [u8; 4],
    /// Last bytes of a block.
    pub(crate) trailer_magic: [u8; 4],
    /// The newest version that is written; this one and all earlier ones are read.
    pub(crate) version: u16,
    /// Ids and names of the sections, in the order in which they are stored.
    pub(crate) sections: &'static [(u8, &'static str)],
}

/// A section of a footer, for tools that inspect blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionInfo {
    /// Name of the section.
    pub name: &'static str,
    /// Bytes in the object.
    pub stored_bytes: u32,
    /// Bytes after decompression.
    pub plain_bytes: u32,
}

impl Layout {
    /// The layout of blocks that are written in an earlier version.
    pub(crate) fn of_version(&self, version: u16) -> Self {
        let Self { header_magic, trailer_magic, sections, .. } = *self;
        Self { header_magic, trailer_magic, version, sections }
    }

    /// Returns the header of a block.
    pub(crate) fn header(&self) -> Vec<u8> {
        let mut header = self.header_magic.to_vec();
        header.extend_from_slice(&self.version.to_le_bytes());
        header.extend_from_slice(&[0; 2]);
        header
    }

    /// Checks the first bytes of a block.
    pub(crate) fn check_header(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut reader = Reader::new(PART_HEADER, 0, bytes);
        reader.magic(self.header_magic)?;
        let version = reader.u16()?;
        reader.version(version, self.version)?;
        if reader.u16()? != 0 {
            return Err(reader.malformed("reserved bytes are not zero"));
        }
        Ok(())
    }

    /// Returns the range of the footer with its trailer in an object of `size` bytes, from the object's
    /// last bytes.
    pub(crate) fn locate(&self, tail: &[u8], size: u64) -> Result<Range<u64>, Error> {
        let trailer = self.trailer(tail, size)?;
        let end = trailer.footer.offset.checked_add(u64::from(trailer.footer.len) + TRAILER_LEN as u64);
        if end != Some(size) || trailer.footer.offset < HEADER_LEN {
            let offset = size.saturating_sub(TRAILER_LEN as u64);
            let what = "the footer does not end where the object ends";
            return Err(Error::Malformed { part: PART_FOOTER, offset, what });
        }
        Ok(trailer.footer.offset..size)
    }

    /// Opens the sections of a footer, given its bytes with the trailer, and returns the decoded trailer.
    pub(crate) fn open<'a>(
        &self,
        bytes: &Bytes,
        body: &'a mut Bytes,
    ) -> Result<(Trailer, Sections<'a>), Error> {
        let trailer = self.trailer(bytes, bytes.len() as u64)?;
        *body = bytes.slice(..bytes.len() - TRAILER_LEN);
        trailer.footer.check(PART_FOOTER, body)?;
        let sections = Sections::get(body, trailer.footer.offset, self.sections)?;
        Ok((trailer, sections))
    }

    /// Reads the trailer at the end of `tail`, which is the end of `size` bytes.
    fn trailer(&self, tail: &[u8], size: u64) -> Result<Trailer, Error> {
        let at = tail.len().saturating_sub(TRAILER_LEN);
        let base = size.saturating_sub((tail.len() - at) as u64);
        let mut reader = Reader::new(PART_FOOTER, base, &tail[at..]);
        let signed = reader.bytes(TRAILER_LEN - 8)?;
        let expected = reader.u32()?;
        reader.magic(self.trailer_magic)?;
        let found = crc32c(signed);
        if found != expected {
            return Err(Error::Checksum { part: PART_FOOTER, offset: base, expected, found });
        }
        let mut reader = Reader::new(PART_FOOTER, base, signed);
        let footer = Piece { offset: reader.u64()?, len: reader.u32()?, crc: reader.u32()? };
        let version = reader.u16()?;
        reader.version(version, self.version)?;
        Ok(Trailer { footer, version })
    }

    /// Returns the bytes of a footer and its trailer for `offset`; `put` appends the plain bytes of a
    /// section.
    pub(crate) fn put_footer(
        &self,
        offset: u64,
        zstd_level: i32,
        mut put: impl FnMut(u8, &mut Vec<u8>),
    ) -> Result<Vec<u8>, Error> {
        let (mut directory, mut body) = (vec![self.sections.len() as u8], Vec::new());
        let mut plain = Vec::new();
        for (id, _) in self.sections {
            plain.clear();
            put(*id, &mut plain);
            if plain.len() > SECTION_BYTES_MAX {
                let (found, limit) = (plain.len() as u64, SECTION_BYTES_MAX as u64);
                return Err(Error::TooLarge { part: PART_FOOTER, what: "a section", found, limit });
            }
            let start = body.len();
            let codec = compress::put_smaller(&mut body, &plain, zstd_level);
            directory.extend_from_slice(&[*id, codec]);
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
        let footer = Piece { offset, len, crc: crc32c(&bytes) };
        self.put_trailer(&Trailer { footer, version: self.version }, &mut bytes);
        Ok(bytes)
    }

    fn put_trailer(&self, trailer: &Trailer, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&trailer.footer.offset.to_le_bytes());
        out.extend_from_slice(&trailer.footer.len.to_le_bytes());
        out.extend_from_slice(&trailer.footer.crc.to_le_bytes());
        out.extend_from_slice(&trailer.version.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        let crc = crc32c(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&self.trailer_magic);
    }
}

/// A decoded trailer.
pub(crate) struct Trailer {
    /// The footer without the trailer.
    pub(crate) footer: Piece,
    /// Version of the block.
    pub(crate) version: u16,
}

/// The section directory of a footer.
pub(crate) struct Sections<'a> {
    body: &'a Bytes,
    base: u64,
    entries: Vec<(u8, u8, Range<usize>, usize)>,
    pub(crate) infos: Vec<SectionInfo>,
}

impl<'a> Sections<'a> {
    fn get(body: &'a Bytes, base: u64, known: &[(u8, &'static str)]) -> Result<Self, Error> {
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
            let name = known.iter().find(|(known, _)| known == id).map_or("unknown", |(_, name)| name);
            infos.push(SectionInfo { name, stored_bytes: range.len() as u32, plain_bytes: *plain as u32 });
        }
        reader.finish()?;
        Ok(Self { body, base, entries, infos })
    }

    /// Returns the plain bytes of a section, and its offset in the object.
    pub(crate) fn take(&mut self, wanted: u8) -> Result<(Bytes, u64), Error> {
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
