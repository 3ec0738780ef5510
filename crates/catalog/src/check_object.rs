//! Reads the object of a block that is verified.

use bytes::Bytes;
use sandur_format::codec::Piece;
use sandur_store::{Intent, Store};

/// Bytes per read.
const READ_BYTES: u64 = 8 << 20;

/// The object of a block.
pub(crate) struct Object<'a> {
    pub(crate) store: &'a Store,
    pub(crate) path: String,
    pub(crate) size: u64,
}

impl Object<'_> {
    pub(crate) async fn read(&self, range: std::ops::Range<u64>) -> Result<Bytes, String> {
        self.store.get_range(&self.path, range, Intent::block()).await.map_err(|e| e.to_string())
    }
}

/// Reads an object in large steps; pieces must be requested in ascending order.
pub(crate) struct Window<'a> {
    object: &'a Object<'a>,
    start: u64,
    bytes: Bytes,
}

impl<'a> Window<'a> {
    pub(crate) fn of(object: &'a Object<'a>) -> Self {
        Self { object, start: 0, bytes: Bytes::new() }
    }

    pub(crate) async fn read(&mut self, piece: Piece) -> Result<Bytes, String> {
        let (offset, len) = (piece.offset, u64::from(piece.len));
        let end = self.start + self.bytes.len() as u64;
        if offset < self.start || piece.end() > end {
            let to = (offset + len.max(READ_BYTES)).min(self.object.size);
            if piece.end() > to {
                return Err(format!("a piece of {len} bytes at {offset} lies beyond the object's end"));
            }
            self.bytes = self.object.read(offset..to).await?;
            self.start = offset;
        }
        let from = (offset - self.start) as usize;
        Ok(self.bytes.slice(from..from + len as usize))
    }
}
