//! Reads the fields of a message in a slice. It allocates nothing.
//!
//! Positions are offsets into the complete message, also inside a nested one, so that they can become
//! spans of an arena. They have 32 bits: callers that use them bound messages to 4 GiB. Unknown fields are
//! skipped. Groups are refused: no protocol here uses them.

use sandur_model::Span;

/// A message that is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Malformed {
    /// Offset into the complete message.
    pub offset: usize,
    /// The fault at that offset.
    pub what: &'static str,
}

/// The wire type of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// An integer of up to ten bytes.
    Varint,
    /// Eight bytes.
    Fixed64,
    /// Text, bytes, a message or packed numbers, after their length.
    Bytes,
    /// Four bytes.
    Fixed32,
}

/// Returns the signed integer of a zigzag form.
#[inline]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads the fields of one message, which ends where `bytes` ends.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Returns a reader of a complete message.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the next field's number and wire type; `None` at the end of the message.
    #[inline(always)] // callers match on the result at once; a call costs 10 % of the time of a request
    pub fn key(&mut self) -> Result<Option<(u32, Wire)>, Malformed> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let key = self.varint()?;
        let wire = match key & 7 {
            0 => Wire::Varint,
            1 => Wire::Fixed64,
            2 => Wire::Bytes,
            5 => Wire::Fixed32,
            _ => return Err(self.malformed("an unsupported wire type (a group?)")),
        };
        match u32::try_from(key >> 3) {
            Ok(field) if field > 0 => Ok(Some((field, wire))),
            _ => Err(self.malformed("an invalid field number")),
        }
    }

    /// Reads a variable-length integer.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        match self.bytes.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    /// Reads the packed integers of which the rest of the message consists.
    #[inline]
    pub fn packed_varints(&mut self, mut each: impl FnMut(u64)) -> Result<(), Malformed> {
        loop {
            each(match &self.bytes[self.at..] {
                [] => return Ok(()),
                [byte, ..] if *byte < 0x80 => {
                    self.at += 1;
                    u64::from(*byte)
                }
                [low, high, ..] if *high < 0x80 => {
                    self.at += 2;
                    u64::from(low & 0x7F) | u64::from(*high) << 7
                }
                _ => self.long_varint()?,
            });
        }
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for (n, &byte) in self.bytes[self.at..].iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7F) << (7 * n);
            if byte < 0x80 {
                self.at += n + 1;
                return Ok(value);
            }
        }
        Err(self.malformed("an integer is truncated or too long"))
    }

    /// Reads the length of a value, moves after the value, and returns where it starts.
    #[inline]
    fn delimited(&mut self) -> Result<usize, Malformed> {
        let len = self.varint()?;
        if len > (self.bytes.len() - self.at) as u64 {
            return Err(self.malformed("a length exceeds the rest of the message"));
        }
        let start = self.at;
        self.at += len as usize;
        Ok(start)
    }

    /// Reads a length-delimited value as a span.
    #[inline]
    pub fn span(&mut self) -> Result<Span, Malformed> {
        let start = self.delimited()?;
        Ok(Span { start: start as u32, len: (self.at - start) as u32 })
    }

    /// Reads a length-delimited value.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let start = self.delimited()?;
        Ok(&self.bytes[start..self.at])
    }

    /// Reads a length-delimited value as a nested message.
    #[inline]
    pub fn message(&mut self) -> Result<Reader<'a>, Malformed> {
        let start = self.delimited()?;
        Ok(Reader { bytes: &self.bytes[..self.at], at: start })
    }

    /// Returns a reader of the nested message at `span`, which this reader has returned.
    #[inline]
    pub fn nested(&self, span: Span) -> Reader<'a> {
        Reader { bytes: &self.bytes[..span.end()], at: span.start as usize }
    }

    /// Returns the bytes of a span that this reader has returned.
    #[inline]
    pub fn bytes_of(&self, span: Span) -> &'a [u8] {
        &self.bytes[span.start as usize..span.end()]
    }

    /// Returns the rest of the message.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Returns the reader's position, as an offset into the complete message.
    #[inline]
    pub fn position(&self) -> u32 {
        self.at as u32
    }

    /// Whether the reader is at the end of the message.
    #[inline]
    pub fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Reads eight bytes, little-endian.
    #[inline]
    pub fn fixed64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads a float of eight bytes.
    #[inline]
    pub fn double(&mut self) -> Result<f64, Malformed> {
        self.fixed64().map(f64::from_bits)
    }

    /// Reads four bytes, little-endian.
    #[inline]
    pub fn fixed32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let array = self.bytes[self.at..].first_chunk().copied();
        let array = array.ok_or_else(|| self.malformed("a number is truncated"))?;
        self.at += N;
        Ok(array)
    }

    /// Skips a value.
    #[inline]
    pub fn skip(&mut self, wire: Wire) -> Result<(), Malformed> {
        match wire {
            Wire::Varint => self.varint().map(|_| ()),
            Wire::Fixed64 => self.fixed64().map(|_| ()),
            Wire::Bytes => self.delimited().map(|_| ()),
            Wire::Fixed32 => self.fixed32().map(|_| ()),
        }
    }

    /// Skips the length-delimited values of this field, below 16, that follow directly.
    #[inline]
    pub fn skip_all(&mut self, field: u32) -> Result<(), Malformed> {
        let tag = (field << 3 | 2) as u8;
        while self.bytes.get(self.at) == Some(&tag) {
            self.at += 1;
            self.delimited()?;
        }
        Ok(())
    }

    /// Returns the first length-delimited value of a field; the reader does not move.
    pub fn find(&self, field: u32) -> Result<Option<Span>, Malformed> {
        let mut reader = *self;
        while let Some((number, wire)) = reader.key()? {
            if (number, wire) == (field, Wire::Bytes) {
                return reader.span().map(Some);
            }
            reader.skip(wire)?;
        }
        Ok(None)
    }

    /// Returns an error at the reader's position.
    #[cold]
    #[inline(never)]
    pub fn malformed(&self, what: &'static str) -> Malformed {
        Malformed { offset: self.at, what }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_of_every_wire_type_are_read_and_skipped() {
        let bytes = b"\x08\x96\x01\x11\x01\0\0\0\0\0\0\0\x1a\x02hi\x25\x07\0\0\0";
        let mut reader = Reader::new(bytes);
        assert_eq!(reader.key().unwrap(), Some((1, Wire::Varint)));
        assert_eq!(reader.varint().unwrap(), 150);
        assert_eq!(reader.key().unwrap(), Some((2, Wire::Fixed64)));
        assert_eq!(reader.fixed64().unwrap(), 1);
        assert_eq!(reader.key().unwrap(), Some((3, Wire::Bytes)));
        let span = reader.span().unwrap();
        assert_eq!((span.start, reader.bytes_of(span)), (14, b"hi".as_slice()));
        assert_eq!(reader.key().unwrap(), Some((4, Wire::Fixed32)));
        assert_eq!(reader.fixed32().unwrap(), 7);
        assert_eq!(reader.key().unwrap(), None);
        assert_eq!(Reader::new(bytes).find(3).unwrap(), Some(span));
        assert_eq!(Reader::new(bytes).find(9).unwrap(), None);
    }

    #[test]
    fn truncated_and_invalid_fields_are_refused() {
        let broken: [&[u8]; 8] = [
            b"\x08",                                             // no value
            b"\x08\xff",                                         // half an integer
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", // eleven bytes
            b"\x0a\x05abc",                                      // length 5, but 3 bytes follow
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",         // a huge length
            b"\x09\0\0\0",                                       // half a number
            b"\x0b",                                             // a group
            b"\x02\x00",                                         // field 0
        ];
        for bytes in broken {
            assert!(matches!(Reader::new(bytes).find(7), Err(Malformed { .. })), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn packed_integers_are_read_as_single_ones_are(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0x80u8..], 0..40),
        ) {
            let (mut packed, mut single) = (Reader::new(&bytes), Reader::new(&bytes));
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            let outcome = packed.packed_varints(|value| found.push(value));
            let mut one_by_one = || {
                while !single.is_at_end() {
                    expected.push(single.varint()?);
                }
                Ok(())
            };
            prop_assert_eq!(outcome, one_by_one());
            prop_assert_eq!((found, packed.position()), (expected, single.position()));
        }

        #[test]
        fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = Reader::new(&bytes);
            while let Ok(Some((_, wire))) = reader.key() {
                if wire == Wire::Bytes && let Ok(mut nested) = reader.message() {
                    let _ = nested.key();
                } else if reader.skip(wire).is_err() {
                    break;
                }
            }
        }
    }
}
