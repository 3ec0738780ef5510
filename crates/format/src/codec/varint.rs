//! Variable-length integers: LEB128, and zigzag for signed values.

/// Appends `value` in 1 to 10 bytes, seven bits each, least significant first.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    if (0x80..0x4000).contains(&value) {
        return out.extend_from_slice(&[value as u8 | 0x80, (value >> 7) as u8]);
    }
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed value so that small magnitudes are short: 0, -1, 1, -2 become 0, 1, 2, 3.
#[inline]
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, zigzag(value));
}

/// Appends the length of `bytes` and the bytes.
pub fn put_blob(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Returns the zigzag form of a signed value.
#[inline]
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Returns the signed value of a zigzag form.
#[inline]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Reader;

    #[test]
    fn values_at_every_length_round_trip() {
        let mut values: Vec<u64> = (0..64).flat_map(|b| [1u64 << b, (1 << b) - 1]).collect();
        values.push(u64::MAX);
        for value in values {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            put_signed(&mut bytes, value as i64);
            let mut reader = Reader::new("test", 0, &bytes);
            assert_eq!(reader.varint().unwrap(), value);
            assert_eq!(reader.signed().unwrap(), value as i64);
            reader.finish().unwrap();
        }
    }

    #[test]
    fn a_varint_that_never_ends_is_refused() {
        assert!(Reader::new("test", 0, &[0xFF; 11]).varint().is_err());
        assert!(Reader::new("test", 0, &[0x80; 3]).varint().is_err());
        // The tenth byte holds only one bit.
        let mut too_big = [0xFF; 10];
        too_big[9] = 2;
        assert!(Reader::new("test", 0, &too_big).varint().is_err());
    }
}
