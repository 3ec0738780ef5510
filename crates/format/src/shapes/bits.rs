//! Bit packing, low bits first. A run of fields starts and ends at a byte boundary; its length is not
//! stored, because the reader knows it.

/// Appends fields of up to 64 bits to a byte vector.
pub(super) struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    pending: u64,
    used: u32,
}

impl<'a> BitWriter<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, pending: 0, used: 0 }
    }

    /// Appends the low `width` bits of `value`; its higher bits must be zero.
    #[inline(always)]
    pub(super) fn put(&mut self, value: u64, width: u32) {
        self.pending |= value << self.used;
        let total = self.used + width;
        if total < 64 {
            self.used = total;
            return;
        }
        self.out.extend_from_slice(&self.pending.to_le_bytes());
        self.pending = if self.used == 0 { 0 } else { value >> (64 - self.used) };
        self.used = total - 64;
    }

    /// Writes the pending bits, up to the next byte boundary.
    pub(super) fn finish(self) {
        let bytes = self.used.div_ceil(8) as usize;
        self.out.extend_from_slice(&self.pending.to_le_bytes()[..bytes]);
    }
}

/// Reads the fields of a [`BitWriter`]. The caller has checked that they are present: beyond the end it
/// reads zeros.
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    #[inline(always)]
    fn window(&self, byte: usize) -> u64 {
        match self.bytes.get(byte..byte + 8) {
            Some(eight) => u64::from_le_bytes(eight.try_into().expect("eight bytes")),
            None => self.last_window(byte),
        }
    }

    #[cold]
    fn last_window(&self, byte: usize) -> u64 {
        let mut eight = [0; 8];
        let rest = self.bytes.get(byte..).unwrap_or(&[]);
        let len = rest.len().min(8);
        eight[..len].copy_from_slice(&rest[..len]);
        u64::from_le_bytes(eight)
    }

    /// Returns the next field of `width` bits, at most 64.
    #[inline(always)]
    pub(super) fn get(&mut self, width: u32) -> u64 {
        let (byte, shift) = (self.at >> 3, (self.at & 7) as u32);
        self.at += width as usize;
        let mut value = self.window(byte) >> shift;
        if width + shift > 64 {
            value |= self.window(byte + 8) << (64 - shift);
        }
        if width >= 64 { value } else { value & ((1 << width) - 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_width_round_trip() {
        let mut bytes = Vec::new();
        let mut writer = BitWriter::new(&mut bytes);
        let value = |width: u32| 0x9e37_79b9_7f4a_7c15_u64 >> (64 - width);
        for round in 0..3 {
            for width in 1..=64 {
                writer.put(value(width), width);
                writer.put(0, round);
            }
        }
        writer.finish();
        assert_eq!(bytes.len(), (3 * 65 * 32 + 64 * 3_usize).div_ceil(8));
        let mut reader = BitReader::new(&bytes);
        for round in 0..3 {
            for width in 1..=64 {
                assert_eq!(reader.get(width), value(width), "width {width}");
                assert_eq!(reader.get(round), 0);
            }
        }
    }
}
