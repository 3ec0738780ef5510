//! The streams of an encoded column, while they are read.

use std::ops::Range;

use bytes::Bytes;

use crate::codec::compress::get_zstd;
use crate::codec::reader::Reader;
use crate::error::Error;

use super::PART;
use super::sink::{PLANE_CONSTANT, PLANE_FRAME, PLANE_SMALL, PLANE_STORED};

/// The streams; those that were compressed as a whole are decompressed.
pub(super) struct Streams {
    directory: Vec<u8>,
    text: Vec<u8>,
    small: Vec<u8>,
    bits: Bytes,
    planes: Bytes,
}

/// A position in every stream: directory, text, bits, small planes, planes.
pub(super) type Place = [usize; 5];

/// Cursors over the streams but the text.
pub(super) struct Source<'a> {
    pub(super) directory: Reader<'a>,
    pub(super) bits: Reader<'a>,
    small: Reader<'a>,
    planes: Reader<'a>,
}

impl Streams {
    /// Reads the streams; none that is compressed has more than `limit` bytes.
    pub(super) fn read(bytes: &Bytes, limit: usize) -> Result<Self, Error> {
        let mut reader = Reader::new(PART, 0, bytes);
        let mut unpack = || {
            let len = reader.count("bytes of a stream", limit)?;
            let offset = reader.offset();
            get_zstd(reader.blob()?, len, PART, offset)
        };
        let (directory, text, small) = (unpack()?, unpack()?, unpack()?);
        let (bits, planes) = (reader.blob()?, reader.blob()?);
        reader.finish()?;
        Ok(Self { directory, text, small, bits: bytes.slice_ref(bits), planes: bytes.slice_ref(planes) })
    }

    /// Takes the text out.
    pub(super) fn take_text(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.text)
    }

    /// Where the streams end, when the text has so many bytes.
    pub(super) fn end(&self, text: usize) -> Place {
        [self.directory.len(), text, self.bits.len(), self.small.len(), self.planes.len()]
    }

    /// Cursors over a part of the streams, which must lie inside.
    pub(super) fn source(&self, part: &Range<Place>) -> Source<'_> {
        let of = |stream: usize| part.start[stream]..part.end[stream];
        let base = |stream: usize| part.start[stream] as u64;
        Source {
            directory: Reader::new("directory of line shapes", base(0), &self.directory[of(0)]),
            bits: Reader::new("packed numbers of line shapes", base(2), &self.bits[of(2)]),
            small: Reader::new("short planes of line shapes", base(3), &self.small[of(3)]),
            planes: Reader::new("planes of line shapes", base(4), &self.planes[of(4)]),
        }
    }
}

/// A plane: bytes of a stream, or bytes that were made.
pub(super) enum Plane<'a> {
    There(&'a [u8]),
    Made(Vec<u8>),
}

impl std::ops::Deref for Plane<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::There(bytes) => bytes,
            Self::Made(bytes) => bytes,
        }
    }
}

impl<'a> Source<'a> {
    /// A plane of `len` bytes. The caller bounds `len`.
    pub(super) fn plane(&mut self, len: usize) -> Result<Plane<'a>, Error> {
        if len == 0 {
            return Ok(Plane::There(&[]));
        }
        match self.directory.u8()? {
            PLANE_CONSTANT => Ok(Plane::Made(vec![self.directory.u8()?; len])),
            PLANE_SMALL => Ok(Plane::There(self.small.bytes(len)?)),
            PLANE_STORED => Ok(Plane::There(self.planes.bytes(len)?)),
            PLANE_FRAME => {
                let frame_len = self.directory.count("bytes of a plane", self.planes.remaining())?;
                let offset = self.planes.offset();
                let frame = self.planes.bytes(frame_len)?;
                Ok(Plane::Made(get_zstd(frame, len, self.planes.part(), offset)?))
            }
            _ => Err(self.directory.malformed("unknown kind of plane")),
        }
    }

    /// How far each stream but the text was read.
    pub(super) fn positions(&self) -> [usize; 4] {
        [&self.directory, &self.bits, &self.small, &self.planes].map(Reader::position)
    }

    /// Goes past the description of a plane that has bytes, without reading it.
    pub(super) fn skip_plane(&mut self) -> Result<(), Error> {
        match self.directory.u8()? {
            PLANE_CONSTANT => self.directory.u8().map(|_| ()),
            PLANE_FRAME => self.directory.varint().map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Fails when anything is left over.
    pub(super) fn finish(self) -> Result<(), Error> {
        self.directory.finish()?;
        self.small.finish()?;
        self.bits.finish()?;
        self.planes.finish()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::codec::compress::put_zstd;
    use crate::codec::varint::put_varint;

    /// An encoded page with one byte of its compressed streams, taken one after another, changed.
    pub(in super::super) fn with_changed_stream(page: &[u8], limit: usize, at: usize, change: u8) -> Vec<u8> {
        let mut streams = Streams::read(&Bytes::copy_from_slice(&page[1..]), limit).unwrap();
        let mut at = at % (streams.directory.len() + streams.text.len() + streams.small.len());
        let mut out = page[..1].to_vec();
        for stream in [&mut streams.directory, &mut streams.text, &mut streams.small] {
            if let Some(byte) = stream.get_mut(at) {
                *byte ^= change;
            }
            at = at.wrapping_sub(stream.len());
            put_varint(&mut out, stream.len() as u64);
            let mut frame = Vec::new();
            put_zstd(&mut frame, stream, 1);
            put_varint(&mut out, frame.len() as u64);
            out.extend_from_slice(&frame);
        }
        for stream in [streams.bits, streams.planes] {
            put_varint(&mut out, stream.len() as u64);
            out.extend_from_slice(&stream);
        }
        out
    }
}
