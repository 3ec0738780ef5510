//! Storage of the pages of exemplars and of metadata, which accompany the samples: plain bytes or one
//! zstd frame, and a directory entry that holds the plain length.

use bytes::Bytes;

use crate::codec::bitpack::{get_packed, get_packed_u32, put_packed};
use crate::codec::{Piece, Reader, compress};
use crate::error::Error;

/// Most plain bytes of a page: several times what a writer puts into one.
pub(super) const PLAIN_MAX: u32 = 16 << 20;

/// The range and the lengths of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) piece: Piece,
    /// Number of bytes before compression.
    pub(super) plain: u32,
    /// The codec: stored, or a zstd frame.
    pub(super) codec: u8,
}

/// Encodes a page for `offset`.
pub(super) fn put_page(
    plain: &[u8],
    level: i32,
    offset: u64,
    part: &'static str,
) -> Result<(Stored, Bytes), Error> {
    if plain.len() > PLAIN_MAX as usize {
        let (found, limit) = (plain.len() as u64, u64::from(PLAIN_MAX));
        return Err(Error::TooLarge { part, what: "its plain length", found, limit });
    }
    let mut bytes = Vec::new();
    let codec = compress::put_smaller(&mut bytes, plain, level);
    let stored = Stored { piece: Piece::of(offset, &bytes), plain: plain.len() as u32, codec };
    Ok((stored, Bytes::from(bytes)))
}

impl Stored {
    /// Returns the plain bytes, given the bytes of the piece.
    pub(super) fn open(&self, bytes: &Bytes, part: &'static str) -> Result<Bytes, Error> {
        self.piece.check(part, bytes)?;
        let offset = self.piece.offset;
        match self.codec {
            compress::STORED if bytes.len() == self.plain as usize => Ok(bytes.clone()),
            compress::STORED => {
                Err(Error::Malformed { part, offset, what: "its length differs from its entry" })
            }
            compress::ZSTD => Ok(Bytes::from(compress::get_zstd(bytes, self.plain as usize, part, offset)?)),
            codec => Err(Error::UnknownCodec { part, offset, codec }),
        }
    }

    /// Returns the bytes of the stored and of the plain page together.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.piece.len) + u64::from(self.plain)
    }
}

/// Appends the directory columns that all pages have.
pub(super) fn put_stored(out: &mut Vec<u8>, pages: impl Iterator<Item = Stored> + Clone) {
    let mut column = |value: fn(&Stored) -> u64| {
        put_packed(out, &pages.clone().map(|page| value(&page)).collect::<Vec<_>>());
    };
    column(|page| page.piece.offset);
    column(|page| u64::from(page.piece.len));
    column(|page| u64::from(page.piece.crc));
    column(|page| u64::from(page.plain));
    column(|page| u64::from(page.codec));
}

/// Reads these columns for `count` pages.
pub(super) fn get_stored(reader: &mut Reader<'_>, count: usize) -> Result<Vec<Stored>, Error> {
    let offsets = get_packed(reader, count, |offset| offset)?;
    let mut column = || get_packed_u32(reader, count);
    let (lengths, checksums, plain, codecs) = (column()?, column()?, column()?, column()?);
    if plain.iter().any(|length| *length > PLAIN_MAX) || codecs.iter().any(|codec| *codec > 255) {
        return Err(reader.malformed("a page of exemplars or metadata is out of bounds"));
    }
    let page = |n: usize| Stored {
        piece: Piece { offset: offsets[n], len: lengths[n], crc: checksums[n] },
        plain: plain[n],
        codec: codecs[n] as u8,
    };
    Ok((0..count).map(page).collect())
}
