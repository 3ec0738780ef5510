//! A cursor over stored bytes whose errors say where in the object they happened.

use crate::codec::varint::unzigzag;
use crate::error::Error;

/// Reads values one after the other. `base` is the object's offset of the first byte.
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
    /// A cursor at the start of `bytes`, which stand at offset `base` of their object.
    pub fn new(part: &'static str, base: u64, bytes: &'a [u8]) -> Self {
        Self { part, base, bytes, at: 0 }
    }

    /// What is being read.
    pub fn part(&self) -> &'static str {
        self.part
    }

    /// Offset of the next byte in the object.
    pub fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Bytes that are left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Position of the next byte relative to where the cursor began.
    pub fn position(&self) -> usize {
        self.at
    }

    /// An error at the current offset.
    pub fn malformed(&self, what: &'static str) -> Error {
        Error::Malformed { part: self.part, offset: self.offset(), what }
    }

    /// The next `count` bytes.
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
        /// One byte.
        u8: u8,
        /// Two bytes, little endian.
        u16: u16,
        /// Four bytes, little endian.
        u32: u32,
        /// Eight bytes, little endian.
        u64: u64,
        /// Eight bytes, little endian, signed.
        i64: i64
    }

    /// A LEB128 value.
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

    /// A zigzag LEB128 value.
    #[inline]
    pub fn signed(&mut self) -> Result<i64, Error> {
        Ok(unzigzag(self.varint()?))
    }

    /// A LEB128 value of at most `limit`, for counts and lengths that decide allocations.
    pub fn count(&mut self, what: &'static str, limit: usize) -> Result<usize, Error> {
        let found = self.varint()?;
        if found > limit as u64 {
            return Err(Error::TooLarge { part: self.part, what, found, limit: limit as u64 });
        }
        Ok(found as usize)
    }

    /// A LEB128 value that fits 32 bits.
    pub fn varint32(&mut self) -> Result<u32, Error> {
        let value = self.varint()?;
        u32::try_from(value).map_err(|_| self.malformed("a value has more than 32 bits"))
    }

    /// A length and that many bytes.
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

    /// A length and that many bytes of UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Error> {
        let offset = self.offset();
        std::str::from_utf8(self.blob()?).map_err(|_| Error::Malformed {
            part: self.part,
            offset,
            what: "text is not UTF-8",
        })
    }

    /// Everything that is left.
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
