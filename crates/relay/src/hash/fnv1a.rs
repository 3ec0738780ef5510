//! FNV-1a with 32 and 64 bits. The signed variants sign-extend each byte, as C's `char` does on x86 and
//! on Apple's ARM platforms: a byte of 0x80 or more sets all higher bits before it is mixed in.

const OFFSET_32: u32 = 0x811c_9dc5;
const PRIME_32: u32 = 0x0100_0193;
const OFFSET_64: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME_64: u64 = 0x0000_0100_0000_01b3;

/// FNV-1a with 32 bits.
pub(crate) fn fnv1a_32(key: &[u8]) -> u32 {
    key.iter().fold(OFFSET_32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(PRIME_32))
}

/// FNV-1a with 32 bits over signed bytes.
pub(crate) fn fnv1a_32_signed(key: &[u8]) -> u32 {
    key.iter().fold(OFFSET_32, |hash, byte| (hash ^ (*byte as i8) as u32).wrapping_mul(PRIME_32))
}

/// FNV-1a with 64 bits over signed bytes.
pub(crate) fn fnv1a_64_signed(key: &[u8]) -> u64 {
    key.iter().fold(OFFSET_64, |hash, byte| (hash ^ (*byte as i8) as u64).wrapping_mul(PRIME_64))
}

/// Folds a hash of 32 bits to 16: the xor of both halves.
pub(crate) fn folded(hash: u32) -> u16 {
    ((hash >> 16) ^ (hash & 0xffff)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_match_the_published_vectors() {
        assert_eq!(fnv1a_32(b""), 0x811c_9dc5);
        assert_eq!(fnv1a_32(b"foobar"), 0xbf9c_f968);
        assert_eq!(fnv1a_32_signed(b"foobar"), 0xbf9c_f968);
        assert_eq!(fnv1a_64_signed(b"foobar"), 0x8594_4171_f739_67e8);
        assert_ne!(fnv1a_32("ä".as_bytes()), fnv1a_32_signed("ä".as_bytes()));
    }
}
