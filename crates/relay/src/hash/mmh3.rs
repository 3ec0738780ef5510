//! MurmurHash3 (Appleby 2011), 32 bits for x86, seed 0, as a signed number: the result of Python's
//! `mmh3.hash`.

const C1: u32 = 0xcc9e_2d51;
const C2: u32 = 0x1b87_3593;

/// Returns the hash of a key.
pub(crate) fn mmh3(key: &[u8]) -> i32 {
    let mut hash = 0_u32;
    let mut blocks = key.chunks_exact(4);
    for block in &mut blocks {
        let word = u32::from_le_bytes([block[0], block[1], block[2], block[3]]);
        hash = (hash ^ mixed(word)).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    let rest = blocks.remainder();
    let word = rest.iter().rev().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte));
    if !rest.is_empty() {
        hash ^= mixed(word);
    }
    hash ^= key.len() as u32;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    (hash ^ (hash >> 16)) as i32
}

fn mixed(word: u32) -> u32 {
    word.wrapping_mul(C1).rotate_left(15).wrapping_mul(C2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_match_those_of_python() {
        let expected = [("", 0), ("foo", -156_908_512), ("hello", 613_153_351)];
        for (key, hash) in expected {
            assert_eq!(mmh3(key.as_bytes()), hash, "{key}");
        }
    }
}
