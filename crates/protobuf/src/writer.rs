//! Writes the fields of a message.
//!
//! A nested message is written in place. Its length is known when it is complete: one byte is reserved for
//! it, and a longer length moves the content. [`Writer::open`] reserves five bytes instead and moves
//! nothing, for messages that are written in pieces or may be taken back.

/// Bytes of a padded length: five groups of seven bits, enough for more than 4 GiB.
const PADDED_BYTES: usize = 5;

/// A nested message whose length is not known yet.
#[must_use = "a message must be closed"]
pub struct Open {
    start: usize,
    length_at: usize,
}

/// Returns the zigzag form of a signed integer.
#[inline]
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Encodes an integer; returns its bytes and their number.
#[inline]
fn coded(mut value: u64) -> ([u8; 10], usize) {
    let (mut bytes, mut length) = ([0; 10], 1);
    while value >= 0x80 {
        bytes[length - 1] = value as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    bytes[length - 1] = value as u8;
    (bytes, length)
}

/// The number of bytes of an integer.
#[inline]
pub fn varint_bytes(value: u64) -> usize {
    // One byte for each seven bits.
    (value | 1).ilog2() as usize / 7 + 1
}

/// A buffer that fields are appended to.
///
/// [`Writer::put`] may append nothing, when memory is short. What was written is then of no use, and the
/// owner of the buffer must know it.
pub trait Writer {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);

    /// Returns what was written.
    fn written(&mut self) -> &mut Vec<u8>;

    /// Appends an integer without a tag: a length before a message, or an element of packed integers.
    #[inline]
    fn raw_varint(&mut self, value: u64) {
        match value {
            // Nearly all integers are short, and a constant length is appended without a call.
            0..0x80 => self.put(&[value as u8]),
            0x80..0x4000 => self.put(&[value as u8 | 0x80, (value >> 7) as u8]),
            _ => {
                let (bytes, length) = coded(value);
                self.put(&bytes[..length]);
            }
        }
    }

    /// Writes an integer.
    #[inline]
    fn varint(&mut self, field: u32, value: u64) {
        self.raw_varint(u64::from(field) << 3);
        self.raw_varint(value);
    }

    /// Writes an integer unless it is 0, which readers assume for a missing field.
    #[inline]
    fn number(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.varint(field, value);
        }
    }

    /// Writes eight bytes.
    #[inline]
    fn fixed64(&mut self, field: u32, value: u64) {
        self.raw_varint(u64::from(field) << 3 | 1);
        self.put(&value.to_le_bytes());
    }

    /// Writes a float of eight bytes.
    #[inline]
    fn double(&mut self, field: u32, value: f64) {
        self.fixed64(field, value.to_bits());
    }

    /// Writes four bytes.
    #[inline]
    fn fixed32(&mut self, field: u32, value: u32) {
        self.raw_varint(u64::from(field) << 3 | 5);
        self.put(&value.to_le_bytes());
    }

    /// Writes bytes, or a message that is complete.
    #[inline]
    fn bytes(&mut self, field: u32, value: &[u8]) {
        self.raw_varint(u64::from(field) << 3 | 2);
        self.raw_varint(value.len() as u64);
        self.put(value);
    }

    /// Writes a text unless it is empty, which readers assume for a missing field.
    #[inline]
    fn text(&mut self, field: u32, value: &str) {
        if !value.is_empty() {
            self.bytes(field, value.as_bytes());
        }
    }

    /// Writes a message whose fields `write` appends. Returns what `write` returns.
    #[inline]
    fn message<R>(&mut self, field: u32, write: impl FnOnce(&mut Self) -> R) -> R {
        self.raw_varint(u64::from(field) << 3 | 2);
        let length_at = self.written().len();
        self.put(&[0]);
        let result = write(self);
        let Some(length) = self.written().len().checked_sub(length_at + 1) else { return result };
        let (coded, width) = coded(length as u64);
        if width > 1 {
            self.put(&[0; 9][..width - 1]);
            let written = self.written();
            if written.len() < length_at + width + length {
                return result;
            }
            written.copy_within(length_at + 1..length_at + 1 + length, length_at + width);
        }
        self.written()[length_at..length_at + width].copy_from_slice(&coded[..width]);
        result
    }

    /// Writes packed integers, if there are any.
    fn packed(&mut self, field: u32, values: impl IntoIterator<Item = u64>) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_some() {
            self.message(field, |packed| values.for_each(|value| packed.raw_varint(value)));
        }
    }

    /// Writes packed floats, if there are any.
    fn doubles(&mut self, field: u32, values: impl ExactSizeIterator<Item = f64>) {
        if values.len() > 0 {
            self.raw_varint(u64::from(field) << 3 | 2);
            self.raw_varint(8 * values.len() as u64);
            values.for_each(|value| self.put(&value.to_le_bytes()));
        }
    }

    /// Starts a nested message, or a text that is written in pieces.
    fn open(&mut self, field: u32) -> Open {
        let start = self.written().len();
        self.raw_varint(u64::from(field) << 3 | 2);
        let length_at = self.written().len();
        self.put(&[0x80, 0x80, 0x80, 0x80, 0]);
        Open { start, length_at }
    }

    /// Ends a nested message and fills in its length.
    fn close(&mut self, open: Open) {
        let written = self.written();
        let Some(mut length) = written.len().checked_sub(open.length_at + PADDED_BYTES) else { return };
        for byte in &mut written[open.length_at..open.length_at + PADDED_BYTES] {
            *byte = *byte & 0x80 | (length & 0x7F) as u8;
            length >>= 7;
        }
    }

    /// Removes an open message with all that was written since.
    fn abandon(&mut self, open: Open) {
        self.written().truncate(open.start);
    }
}

impl Writer for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline]
    fn written(&mut self) -> &mut Vec<u8> {
        self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Reader, Wire, unzigzag};

    #[test]
    fn fields_have_the_bytes_that_the_format_defines() {
        let mut out = Vec::new();
        out.varint(1, 150);
        out.number(1, 0);
        out.fixed64(2, 1);
        out.text(3, "hi");
        out.text(3, "");
        out.bytes(3, b"");
        out.fixed32(4, 7);
        out.double(16, -2.0);
        out.message(5, |inner| inner.number(1, 1));
        out.packed(6, [3, 270, 86_942]);
        out.packed(6, []);
        out.doubles(7, [1.0].into_iter());
        out.doubles(7, [].into_iter());
        let expected: [&[u8]; 9] = [
            b"\x08\x96\x01",
            b"\x11\x01\0\0\0\0\0\0\0",
            b"\x1a\x02hi",
            b"\x1a\0",
            b"\x25\x07\0\0\0",
            b"\x81\x01\0\0\0\0\0\0\0\xc0",
            b"\x2a\x02\x08\x01",
            b"\x32\x06\x03\x8e\x02\x9e\xa7\x05",
            b"\x3a\x08\0\0\0\0\0\0\xf0\x3f",
        ];
        assert_eq!(out, expected.concat());
        assert_eq!([0, -1, 1, -2, i64::MIN].map(zigzag), [0, 1, 2, 3, u64::MAX]);
    }

    #[test]
    fn an_open_message_has_a_padded_length_and_may_be_abandoned() {
        let mut out = Vec::new();
        let outer = out.open(2);
        let inner = out.open(16);
        out.put(&[b'x'; 300]);
        out.close(inner);
        let abandoned = out.open(7);
        out.put(b"nothing");
        out.abandon(abandoned);
        out.close(outer);
        assert_eq!(out[..13], *b"\x12\xb3\x82\x80\x80\0\x82\x01\xac\x82\x80\x80\0");
        assert_eq!(out.len(), 313);
    }

    /// A buffer that has room for a number of bytes.
    struct Full(Vec<u8>, usize);

    impl Writer for Full {
        fn put(&mut self, bytes: &[u8]) {
            if self.0.len() + bytes.len() <= self.1 {
                self.0.extend_from_slice(bytes);
            }
        }

        fn written(&mut self) -> &mut Vec<u8> {
            &mut self.0
        }
    }

    #[test]
    fn a_buffer_without_room_causes_no_panic() {
        for room in 0..700 {
            let mut out = Full(Vec::new(), room);
            let open = out.open(1);
            out.message(2, |out| {
                out.message(3, |out| out.bytes(4, &[7; 300]));
                out.doubles(5, [1.0; 40].into_iter());
            });
            out.close(open);
            assert!(out.0.len() <= room);
        }
    }

    proptest! {
        #[test]
        fn nested_messages_of_any_length_are_read_back(
            text in proptest::collection::vec(any::<u8>(), 0..400),
            repeats in 1usize..80,
            number in any::<i64>(),
        ) {
            let text = text.repeat(repeats);
            let mut out = Vec::new();
            out.message(1, |outer| outer.message(2, |inner| inner.bytes(3, &text)));
            out.varint(4, zigzag(number));
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.key(), Ok(Some((1, Wire::Bytes))));
            let mut outer = reader.message().unwrap();
            prop_assert_eq!(outer.key(), Ok(Some((2, Wire::Bytes))));
            let mut inner = outer.message().unwrap();
            prop_assert_eq!(inner.key(), Ok(Some((3, Wire::Bytes))));
            prop_assert_eq!(inner.bytes(), Ok(&text[..]));
            prop_assert_eq!(inner.key(), Ok(None));
            prop_assert_eq!(outer.key(), Ok(None));
            prop_assert_eq!(reader.key(), Ok(Some((4, Wire::Varint))));
            prop_assert_eq!(reader.varint().map(unzigzag), Ok(number));
            prop_assert_eq!(reader.key(), Ok(None));
        }
    }
}
