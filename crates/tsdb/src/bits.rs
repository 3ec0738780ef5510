//! Reads the bits of a chunk, most significant bit first.

use crate::error::Error;

/// Bits that one load of eight bytes has at any position within a byte.
const BITS_PER_LOAD: u32 = 57;

/// A reader over the bits of a chunk.
pub struct Bits<'a> {
    bytes: &'a [u8],
    /// Position in bits.
    at: usize,
}

impl<'a> Bits<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn end() -> Error {
        Error::Malformed { what: "the end of a chunk" }
    }

    /// The next bits at the top of a word; bits after the end are zero.
    #[inline]
    fn peek(&self) -> u64 {
        let byte = self.at / 8;
        let word = match self.bytes.get(byte..byte + 8) {
            Some(eight) => {
                let mut fixed = [0; 8];
                fixed.copy_from_slice(eight);
                u64::from_be_bytes(fixed)
            }
            None => {
                let mut fixed = [0; 8];
                if let Some(rest) = self.bytes.get(byte..) {
                    fixed[..rest.len()].copy_from_slice(rest);
                }
                u64::from_be_bytes(fixed)
            }
        };
        word << (self.at % 8)
    }

    #[inline]
    fn skip(&mut self, count: u32) -> Result<(), Error> {
        self.at += count as usize;
        if self.at > self.bytes.len() * 8 { Err(Self::end()) } else { Ok(()) }
    }

    /// Reads up to 64 bits.
    #[inline]
    pub fn read(&mut self, count: u32) -> Result<u64, Error> {
        if count == 0 {
            return Ok(0);
        }
        if count < BITS_PER_LOAD {
            let value = self.peek() >> (64 - count);
            self.skip(count)?;
            return Ok(value);
        }
        let high = self.read(32)?;
        let low = self.read(count - 32)?;
        Ok(high << (count - 32) | low)
    }

    pub fn float(&mut self) -> Result<f64, Error> {
        Ok(f64::from_bits(self.read(64)?))
    }

    pub fn byte(&mut self) -> Result<u8, Error> {
        Ok(self.read(8)? as u8)
    }

    /// Reads ones up to and including the next zero, at most `most`. Returns the number of ones.
    #[inline]
    pub fn ones(&mut self, most: u32) -> Result<u32, Error> {
        let ones = (!self.peek()).leading_zeros().min(most);
        self.skip(if ones == most { most } else { ones + 1 })?;
        Ok(ones)
    }

    /// Reads a signed value of this many bits, where the largest one is positive: `-(2^(n-1) - 1)` to
    /// `2^(n-1)`.
    #[inline]
    pub fn signed(&mut self, count: u32) -> Result<i64, Error> {
        let value = self.read(count)?;
        let is_negative = count < 64 && value > 1 << (count - 1);
        Ok(if is_negative { value.wrapping_sub(1 << count) as i64 } else { value as i64 })
    }

    /// Go's unsigned varint.
    pub fn uvarint(&mut self) -> Result<u64, Error> {
        let mut value = 0u64;
        for n in 0..10 {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F).checked_shl(7 * n).unwrap_or(0);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::Malformed { what: "a varint of a chunk" })
    }

    /// Go's signed varint.
    pub fn varint(&mut self) -> Result<i64, Error> {
        let value = self.uvarint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Bits of each class of a value of variable width.
    fn class(&mut self) -> Result<u32, Error> {
        const BITS: [u32; 9] = [0, 3, 6, 9, 12, 18, 25, 56, 64];
        Ok(BITS[self.ones(8)? as usize])
    }

    /// A signed value of variable width.
    #[inline]
    pub fn varbit(&mut self) -> Result<i64, Error> {
        match self.class()? {
            0 => Ok(0),
            bits => self.signed(bits),
        }
    }

    /// An unsigned value of variable width.
    #[inline]
    pub fn varbit_unsigned(&mut self) -> Result<u64, Error> {
        let bits = self.class()?;
        self.read(bits)
    }
}

/// A float that is stored as its difference (XOR) to the one before.
#[derive(Clone, Copy, Default)]
pub struct Xor {
    pub bits: u64,
    leading: u32,
    trailing: u32,
    has_window: bool,
}

impl Xor {
    pub fn new(value: f64) -> Self {
        Self { bits: value.to_bits(), ..Self::default() }
    }

    pub fn value(&self) -> f64 {
        f64::from_bits(self.bits)
    }

    #[inline]
    pub fn read(&mut self, from: &mut Bits<'_>) -> Result<(), Error> {
        match from.ones(2)? {
            0 => return Ok(()),
            1 if !self.has_window => {
                return Err(Error::Malformed { what: "the first difference of a chunk" });
            }
            1 => {}
            _ => {
                let leading = from.read(5)? as u32;
                let significant = match from.read(6)? as u32 {
                    // 64 does not fit into six bits.
                    0 => 64,
                    significant => significant,
                };
                let trailing = 64u32.checked_sub(leading + significant);
                let trailing = trailing.ok_or(Error::Malformed { what: "a difference of a chunk" })?;
                (self.leading, self.trailing, self.has_window) = (leading, trailing, true);
            }
        }
        self.bits ^= from.read(64 - self.leading - self.trailing)? << self.trailing;
        Ok(())
    }
}
