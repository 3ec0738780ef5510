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

    /// Reads a signed value of variable width for each item, as [`Bits::varbit`] does. After an error more of
    /// the items may have been changed.
    #[inline]
    pub fn varbits<T>(&mut self, items: &mut [T], mut each: impl FnMut(&mut T, i64)) -> Result<(), Error> {
        /// The longest prefix of ones that is decoded here: 8 to 25 bits follow most of the others.
        const ONES_MAX: u32 = 6;
        /// Bits of a value by the number of ones before it.
        const BITS: [u8; 8] = [0, 3, 6, 9, 12, 18, 25, 0];
        /// Bits of the longest value with its prefix.
        const LONGEST: u32 = ONES_MAX + 1 + 25;
        let (mut word, mut left) = (0, 0);
        for item in items {
            if left < LONGEST {
                (word, left) = (self.peek(), 64 - (self.at % 8) as u32);
            }
            let ones = (!word).leading_zeros();
            if ones > ONES_MAX {
                each(item, self.varbit()?);
                left = 0;
                continue;
            }
            let bits = u32::from(BITS[ones as usize & 7]);
            let length = ones + 1 + bits;
            let value = word << (ones + 1) >> 1 >> (63 - bits);
            let is_negative = value > 1 << bits >> 1;
            each(item, value.wrapping_sub(u64::from(is_negative) << bits) as i64);
            (word, left) = (word << length, left - length);
            self.at += length as usize;
        }
        self.skip(0)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_are_read_together_as_they_are_one_by_one(
            parts in prop::collection::vec((0u32..9, any::<u64>()), 0..60),
            start in 0u32..8,
            cut in 0usize..4,
            count in 0usize..70,
        ) {
            // Prefixes of all lengths, each followed by random bits.
            let mut bits = vec![false; start as usize];
            for (ones, rest) in parts {
                bits.extend((0..ones).map(|_| true));
                bits.extend((0..64).map(|at| rest >> at & 1 == 1).take(if ones < 8 { 27 } else { 70 }));
            }
            let mut bytes = vec![0u8; bits.len().div_ceil(8)];
            let ones = bits.iter().enumerate().filter(|(_, bit)| **bit);
            ones.for_each(|(at, _)| bytes[at / 8] |= 0x80 >> (at % 8));
            bytes.truncate(bytes.len().saturating_sub(cut));
            let (mut together, mut single) = (Bits::new(&bytes), Bits::new(&bytes));
            let skipped = (together.skip(start), single.skip(start));
            prop_assert_eq!(skipped.0.is_ok(), skipped.1.is_ok());
            prop_assume!(skipped.0.is_ok());
            let (mut found, mut expected) = (vec![0i64; count], Vec::new());
            let outcome = together.varbits(&mut found, |item, value| *item = value);
            let all = (0..count).try_for_each(|_| single.varbit().map(|value| expected.push(value)));
            prop_assert_eq!(outcome.is_ok(), all.is_ok());
            if outcome.is_ok() {
                prop_assert_eq!((found, together.at), (expected, single.at));
            }
        }
    }
}
