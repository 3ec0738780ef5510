//! Reads bytes, fixed integers (big-endian) and Go's varints.

use crate::error::Error;

/// A reader over bytes of a part of a file.
pub struct Bytes<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Bytes<'a> {
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { rest: bytes, what }
    }

    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub fn malformed(&self) -> Error {
        Error::Malformed { what: self.what }
    }

    pub fn take(&mut self, count: u64) -> Result<&'a [u8], Error> {
        let count = usize::try_from(count).ok().filter(|count| *count <= self.rest.len());
        let (taken, rest) = self.rest.split_at(count.ok_or_else(|| self.malformed())?);
        self.rest = rest;
        Ok(taken)
    }

    pub fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.take(1)?[0])
    }

    pub fn u32(&mut self) -> Result<u32, Error> {
        let mut fixed = [0; 4];
        fixed.copy_from_slice(self.take(4)?);
        Ok(u32::from_be_bytes(fixed))
    }

    pub fn u64(&mut self) -> Result<u64, Error> {
        let mut fixed = [0; 8];
        fixed.copy_from_slice(self.take(8)?);
        Ok(u64::from_be_bytes(fixed))
    }

    /// An unsigned varint of at most ten bytes.
    pub fn uvarint(&mut self) -> Result<u64, Error> {
        let mut value = 0u64;
        for n in 0..10 {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7F);
            if n == 9 && byte > 1 {
                break;
            }
            value |= bits << (7 * n);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.malformed())
    }

    /// A signed varint: zigzag.
    pub fn varint(&mut self) -> Result<i64, Error> {
        let value = self.uvarint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }
}
