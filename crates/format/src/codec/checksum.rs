//! Checksums: crc32c (Castagnoli) for all formats, over the bytes as stored.

use std::ops::Range;

use crate::error::Error;

pub use crc32c::{crc32c, crc32c_append};

/// A contiguous part of an object with its checksum: the unit of reading and verifying.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Piece {
    /// Offset of the first byte in the object.
    pub offset: u64,
    /// Number of bytes.
    pub len: u32,
    /// crc32c of the bytes.
    pub crc: u32,
}

impl Piece {
    /// Returns the piece for `bytes` at `offset`.
    pub fn of(offset: u64, bytes: &[u8]) -> Self {
        Self { offset, len: bytes.len() as u32, crc: crc32c(bytes) }
    }

    /// Returns the range of the piece in the object.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.end()
    }

    /// Returns the offset after the last byte.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }

    /// Verifies that `bytes` are the stored ones; the error names `part`.
    pub fn check(&self, part: &'static str, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() != self.len as usize {
            return Err(Error::Truncated {
                part,
                offset: self.offset,
                needed: u64::from(self.len),
                available: bytes.len() as u64,
            });
        }
        let found = crc32c(bytes);
        if found != self.crc {
            return Err(Error::Checksum { part, offset: self.offset, expected: self.crc, found });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_and_a_wrong_length_are_errors() {
        let piece = Piece::of(7, b"sediment");
        piece.check("test", b"sediment").unwrap();
        assert!(matches!(piece.check("test", b"sedimenT"), Err(Error::Checksum { offset: 7, .. })));
        assert!(matches!(piece.check("test", b"sedimen"), Err(Error::Truncated { .. })));
        // The published check value of CRC-32C.
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }
}
