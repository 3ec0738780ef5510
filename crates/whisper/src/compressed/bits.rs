//! Reads bits, starting with the highest of each byte.
//!
//! A number of more than eight bits is stored as its bytes, the lowest first, each with eight bits,
//! followed by the remaining bits of the highest byte.

/// A position within a block.
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    /// Number of bits read so far.
    at: usize,
}

impl<'a> Bits<'a> {
    /// Starts at a byte.
    pub(super) fn from(bytes: &'a [u8], start: usize) -> Self {
        Self { bytes, at: start * 8 }
    }

    /// Returns the next `count` bits in big-endian order, at most 56. Returns `None` if there are fewer.
    #[inline]
    fn plain(&mut self, count: usize) -> Option<u64> {
        let (byte, bit) = (self.at / 8, self.at % 8);
        if self.at + count > self.bytes.len() * 8 {
            return None;
        }
        self.at += count;
        let word = match self.bytes.get(byte..byte + 8).and_then(|eight| eight.try_into().ok()) {
            Some(eight) => u64::from_be_bytes(eight),
            None => {
                let mut eight = [0; 8];
                let rest = &self.bytes[byte.min(self.bytes.len())..];
                eight[..rest.len()].copy_from_slice(rest);
                u64::from_be_bytes(eight)
            }
        };
        match count {
            0 => Some(0),
            count => Some((word << bit) >> (64 - count)),
        }
    }

    /// Returns the next bit.
    #[inline]
    pub(super) fn bit(&mut self) -> Option<bool> {
        self.plain(1).map(|bit| bit == 1)
    }

    /// Returns a number of `count` bits, at most 64.
    #[inline]
    pub(super) fn number(&mut self, count: usize) -> Option<u64> {
        let (whole, rest) = (count / 8, count % 8);
        let mut number = 0;
        for byte in 0..whole {
            number |= self.plain(8)? << (8 * byte);
        }
        match rest {
            0 => Some(number),
            rest => Some(number | self.plain(rest)? << (8 * whole)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_stored_with_the_lowest_byte_first() {
        let bytes = [0b1010_1100, 0b1111_0000, 0xFF];
        let mut bits = Bits::from(&bytes, 0);
        assert_eq!(bits.bit(), Some(true));
        assert_eq!(bits.number(3), Some(0b010));
        assert_eq!(bits.number(12), Some(0b1100_1111));

        assert_eq!(bits.number(8), Some(0xFF));
        assert_eq!((bits.bit(), bits.number(9)), (None, None));
        assert_eq!(Bits::from(&[0xAB; 9], 0).number(64), Some(u64::from_le_bytes([0xAB; 8])));
    }
}
