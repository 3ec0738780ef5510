//! Writes protobuf's wire format, which the JSON decoders translate to.
//!
//! A nested message is written in place. Its length is reserved as a padded varint of five bytes and
//! filled in when the message is closed, so no bytes are copied twice.

use crate::error::Error;
use crate::memory::Meter;

/// Appends fields to a buffer. After a failed reservation it writes nothing more, and
/// [`Writer::into_bytes`] returns the error.
#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    memory: Meter,
    short: Option<Error>,
}

/// A nested message whose length is not known yet.
#[must_use = "a message must be closed"]
pub(crate) struct Open {
    start: usize,
    length_at: usize,
}

/// Bytes of a padded length: five groups of seven bits, enough for more than 4 GiB.
const LENGTH_BYTES: usize = 5;

impl Writer {
    /// Returns a writer with room for `capacity` bytes.
    pub(crate) fn with_capacity(capacity: usize, memory: &Meter) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        memory.widen(&mut bytes, capacity, capacity)?;
        Ok(Self { bytes, memory: memory.clone(), short: None })
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.short.is_none() {
            match self.memory.widen(&mut self.bytes, bytes.len(), usize::MAX) {
                Ok(()) => self.bytes.extend_from_slice(bytes),
                Err(error) => self.short = Some(error),
            }
        }
    }

    fn key(&mut self, field: u32, wire: u32) {
        self.raw_varint(u64::from(field << 3 | wire));
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put(&[value as u8 | 0x80]);
            value >>= 7;
        }
        self.put(&[value as u8]);
    }

    /// Writes an integer field.
    pub(crate) fn varint(&mut self, field: u32, value: u64) {
        self.key(field, 0);
        self.raw_varint(value);
    }

    /// Writes a field of eight bytes.
    pub(crate) fn fixed64(&mut self, field: u32, value: u64) {
        self.key(field, 1);
        self.put(&value.to_le_bytes());
    }

    /// Writes a field of four bytes.
    pub(crate) fn fixed32(&mut self, field: u32, value: u32) {
        self.key(field, 5);
        self.put(&value.to_le_bytes());
    }

    /// Writes a field of text or bytes.
    pub(crate) fn bytes(&mut self, field: u32, value: &[u8]) {
        self.key(field, 2);
        self.raw_varint(value.len() as u64);
        self.put(value);
    }

    /// Starts a nested message, or a text that is written in pieces.
    pub(crate) fn open(&mut self, field: u32) -> Open {
        let start = self.bytes.len();
        self.key(field, 2);
        let length_at = self.bytes.len();
        self.put(&[0x80, 0x80, 0x80, 0x80, 0]);
        Open { start, length_at }
    }

    /// Ends a nested message and fills in its length.
    pub(crate) fn close(&mut self, open: Open) {
        if self.short.is_some() {
            return;
        }
        let mut length = (self.bytes.len() - open.length_at - LENGTH_BYTES) as u64;
        for n in 0..LENGTH_BYTES {
            let more = if n + 1 < LENGTH_BYTES { 0x80 } else { 0 };
            self.bytes[open.length_at + n] = (length & 0x7F) as u8 | more;
            length >>= 7;
        }
    }

    /// Removes an open message with all that was written since.
    pub(crate) fn abandon(&mut self, open: Open) {
        self.bytes.truncate(open.start);
    }

    /// Appends to the open text.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.put(bytes);
    }

    /// Returns the message, or the error if memory was short.
    pub(crate) fn into_bytes(self) -> Result<Vec<u8>, Error> {
        match self.short {
            Some(error) => Err(error),
            None => Ok(self.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::{Reader, Wire};

    #[test]
    fn written_fields_are_read_back() {
        let mut writer = Writer::default();
        writer.varint(1, u64::MAX);
        let outer = writer.open(2);
        let inner = writer.open(16);
        writer.extend(&[b'x'; 300]);
        writer.close(inner);
        writer.fixed32(3, 7);
        writer.close(outer);
        let taken_back = writer.open(7);
        writer.extend(b"nothing");
        writer.abandon(taken_back);
        writer.fixed64(4, 9);
        writer.bytes(5, b"end");
        let bytes = writer.into_bytes().unwrap();
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.key().unwrap(), Some((1, Wire::Varint)));
        assert_eq!(reader.varint().unwrap(), u64::MAX);
        assert_eq!(reader.key().unwrap(), Some((2, Wire::Bytes)));
        let mut outer = reader.message().unwrap();
        assert_eq!(outer.key().unwrap(), Some((16, Wire::Bytes)));
        assert_eq!(outer.span().unwrap().len, 300);
        assert_eq!(outer.key().unwrap(), Some((3, Wire::Fixed32)));
        assert_eq!(outer.fixed32().unwrap(), 7);
        assert_eq!(outer.key().unwrap(), None);
        assert_eq!(reader.key().unwrap(), Some((4, Wire::Fixed64)));
        assert_eq!(reader.fixed64().unwrap(), 9);
        assert_eq!(reader.find(5).unwrap().map(|s| s.len), Some(3));
    }
}
