//! The text of a batch, and ranges of it.

use bytes::Bytes;

/// A range of an arena: `len` bytes from `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Number of bytes.
    pub len: u32,
}

impl Span {
    /// The bytes of the span in `arena`.
    pub fn of(self, arena: &[u8]) -> &[u8] {
        &arena[self.start as usize..self.start as usize + self.len as usize]
    }

    /// Offset after the last byte.
    pub fn end(self) -> usize {
        self.start as usize + self.len as usize
    }
}

/// The compression of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArenaCodec {
    /// A raw snappy block, as Loki push clients send it.
    Snappy,
}

/// The text that a batch's spans point into; at most 4 GiB.
#[derive(Clone, Debug, Default)]
pub struct Arena {
    /// The uncompressed bytes.
    pub bytes: Bytes,
    /// The same bytes as received, if they arrived compressed with a codec of the WAL.
    pub compressed: Option<(ArenaCodec, Bytes)>,
}
