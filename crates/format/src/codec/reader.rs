//! A cursor over stored bytes whose errors contain the offset in the object.

use sandur_base::Id;

use crate::codec::varint::unzigzag;
use crate::error::Error;

/// Reads consecutive values. `base` is the object's offset of the first byte.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    part: &'static str,
    base: u64,
    bytes: &'a [u8],
    at: usize,
}

macro_rules! fixed {
    ($($(#[$doc:meta])* $name:ident: $type:ty),*) => {$(
        $(#[$doc])*
        pub fn $name(&mut self) -> Result<$type, Error> {
            let bytes = self.bytes(size_of::<$type>())?;
            Ok(<$type>::from_le_bytes(bytes.try_into().expect("as many bytes as the type has")))
        }
    )*};
}

impl<'a> Reader<'a> {
    /// Returns a cursor at the start of `bytes`, which are at offset `base` of their object.
    pub fn new(part: &'static str, base: u64, bytes: &'a [u8]) -> Self {
        Self { part, base, bytes, at: 0 }
    }

    /// Returns the name of the part that is being read.
    pub fn part(&self) -> &'static str {
        self.part
    }

    /// Returns the offset of the next byte in the object.
    pub fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Returns the number of bytes that are left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Returns the position of the next byte relative to the start of `bytes`.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns an error at the current offset.
    pub fn malformed(&self, what: &'static str) -> Error {
        Error::Malformed { part: self.part, offset: self.offset(), what }
    }

    /// Reads the next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Error> {
        if count > self.remaining() {
            return Err(Error::Truncated {
                part: self.part,
                offset: self.offset(),
                needed: count as u64,
                available: self.remaining() as u64,
            });
        }
        let start = self.at;
        self.at += count;
        Ok(&self.bytes[start..self.at])
    }

    fixed! {
        /// Reads one byte.
        u8: u8,
        /// Reads two bytes, little-endian.
        u16: u16,
        /// Reads four bytes, little-endian.
        u32: u32,
        /// Reads eight bytes, little-endian.
        u64: u64,
        /// Reads eight bytes, little-endian, signed.
        i64: i64
    }

    /// Reads a LEB128 value.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = *self.bytes.get(self.at).ok_or_else(|| self.cut_short())?;
            self.at += 1;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.malformed("a variable-length integer has more than 64 bits"))
    }

    fn cut_short(&self) -> Error {
        Error::Truncated { part: self.part, offset: self.offset(), needed: 1, available: 0 }
    }

    /// Reads a zigzag LEB128 value.
    #[inline]
    pub fn signed(&mut self) -> Result<i64, Error> {
        Ok(unzigzag(self.varint()?))
    }

    /// Reads a LEB128 value of at most `limit`, for counts and lengths that determine allocations.
    pub fn count(&mut self, what: &'static str, limit: usize) -> Result<usize, Error> {
        let found = self.varint()?;
        if found > limit as u64 {
            return Err(Error::TooLarge { part: self.part, what, found, limit: limit as u64 });
        }
        Ok(found as usize)
    }

    /// Reads a LEB128 value that fits into 32 bits.
    pub fn varint32(&mut self) -> Result<u32, Error> {
        let value = self.varint()?;
        u32::try_from(value).map_err(|_| self.malformed("a value has more than 32 bits"))
    }

    /// Reads a length and as many bytes.
    pub fn blob(&mut self) -> Result<&'a [u8], Error> {
        let available = self.remaining();
        let length = self.varint()?;
        match usize::try_from(length) {
            Ok(length) if length <= available => self.bytes(length),
            _ => Err(Error::Truncated {
                part: self.part,
                offset: self.offset(),
                needed: length,
                available: self.remaining() as u64,
            }),
        }
    }

    /// Reads a length and as many bytes of UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Error> {
        let offset = self.offset();
        std::str::from_utf8(self.blob()?).map_err(|_| Error::Malformed {
            part: self.part,
            offset,
            what: "text is not UTF-8",
        })
    }

    /// Reads a text of at most `limit` bytes.
    pub fn text_within(&mut self, what: &'static str, limit: usize) -> Result<&'a str, Error> {
        let text = self.text()?;
        match text.len() <= limit {
            true => Ok(text),
            false => {
                let (found, limit) = (text.len() as u64, limit as u64);
                Err(Error::TooLarge { part: self.part, what, found, limit })
            }
        }
    }

    /// Reads an id of sixteen bytes.
    pub fn id(&mut self) -> Result<Id, Error> {
        Ok(Id::from_bytes(self.bytes(16)?.try_into().expect("sixteen bytes")))
    }

    /// Reads a LEB128 number of elements that follow, each of at least `size_min` bytes: never more than
    /// fit.
    pub fn count_of(&mut self, size_min: usize) -> Result<usize, Error> {
        let count = self.varint()?;
        let available = self.remaining() as u64;
        let needed = count.saturating_mul(size_min.max(1) as u64);
        if needed > available {
            return Err(Error::Truncated { part: self.part, offset: self.offset(), needed, available });
        }
        Ok(count as usize)
    }

    /// Reads the four bytes that identify the kind of an object, and compares them with `expected`.
    pub fn magic(&mut self, expected: [u8; 4]) -> Result<(), Error> {
        let offset = self.offset();
        let found: [u8; 4] = self.bytes(4)?.try_into().expect("four bytes");
        match found == expected {
            true => Ok(()),
            false => Err(Error::Magic { part: self.part, offset, expected, found }),
        }
    }

    /// Fails unless a version is in 1 to `supported`.
    pub fn version(&self, found: u16, supported: u16) -> Result<(), Error> {
        match (1..=supported).contains(&found) {
            true => Ok(()),
            false => Err(Error::Version { part: self.part, found, supported }),
        }
    }

    /// Returns an error about a tag that this program does not know.
    pub fn unknown(&self, what: &'static str, tag: u8) -> Error {
        Error::UnknownTag { part: self.part, offset: self.offset(), what, tag }
    }

    /// Reads all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    /// Fails when bytes are left over.
    pub fn finish(self) -> Result<(), Error> {
        if self.remaining() == 0 {
            return Ok(());
        }
        Err(self.malformed("bytes are left over"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::varint::put_varint;

    #[test]
    fn a_count_never_exceeds_what_the_bytes_can_hold() {
        for (count, size, fits) in
            [(2, 4, true), (3, 4, false), (8, 0, true), (9, 0, false), (u64::MAX, 8, false)]
        {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, count);
            bytes.extend_from_slice(&[0; 8]);
            let read = Reader::new("test", 0, &bytes).count_of(size);
            assert_eq!(read.is_ok(), fits, "{count} things of {size} bytes in 8: {read:?}");
        }
    }

    #[test]
    fn varints_of_more_than_64_bits_are_refused() {
        assert!(Reader::new("test", 0, &[0xFF; 11]).varint().is_err());
        let mut ten = [0x80; 10];
        ten[9] = 1;
        assert_eq!(Reader::new("test", 0, &ten).varint().unwrap(), 1 << 63);
        ten[9] = 2;
        assert!(Reader::new("test", 0, &ten).varint().is_err());
    }
}
