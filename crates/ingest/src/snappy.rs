//! Raw snappy blocks of push clients: decompressed in bounded memory, and extended without recompression.
//!
//! The declared length is checked before memory is allocated. A block expands by at most 64 bytes per 3
//! (its longest copy), so a larger declared length is invalid and refused too.

use bytes::Bytes;

use crate::error::Error;
use crate::memory::DecoderMemory;

/// Bound on the expansion of a valid block: a copy of 3 bytes yields at most 64.
const EXPANSION_MAX: u64 = 22;

/// Decompresses a block to at most `limit` bytes.
pub(crate) fn open(block: &[u8], limit: u64, memory: &DecoderMemory) -> Result<Vec<u8>, Error> {
    let length = snap::raw::decompress_len(block).map_err(|e| malformed(&e))? as u64;
    if length > limit {
        return Err(Error::DecompressedTooLarge { limit });
    }
    if length > block.len() as u64 * EXPANSION_MAX {
        let what = format!("{length} bytes are declared, which a block of {} bytes cannot hold", block.len());
        return Err(Error::malformed("snappy", 0, what));
    }
    memory.take(length)?;
    let mut plain = vec![0; length as usize];
    let written = snap::raw::Decoder::new().decompress(block, &mut plain).map_err(|e| malformed(&e))?;
    plain.truncate(written);
    Ok(plain)
}

fn malformed(error: &snap::Error) -> Error {
    Error::malformed("snappy", 0, error.to_string())
}

/// Returns a block that decompresses to the contents of `block` followed by `tail`. `block` must be
/// valid.
///
/// A block is its length followed by elements that are applied in order. The result has a new length in
/// front, the compressed bytes unchanged, and `tail` as literal elements at the end.
pub(crate) fn extend(block: &[u8], tail: &[u8]) -> Bytes {
    let header = block.iter().position(|b| b & 0x80 == 0).map_or(0, |last| last + 1);
    let length = snap::raw::decompress_len(block).expect("the caller has decompressed the block");
    let mut longer = Vec::with_capacity(extended_bytes(block, tail));
    let mut rest = length + tail.len();
    while rest >= 0x80 {
        longer.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    longer.push(rest as u8);
    longer.extend_from_slice(&block[header..]);
    for piece in tail.chunks(LITERAL_MAX) {
        let last = (piece.len() - 1) as u16;
        longer.push(61 << 2); // a literal with a length of two bytes
        longer.extend_from_slice(&last.to_le_bytes());
        longer.extend_from_slice(piece);
    }
    longer.into()
}

/// Returns the most bytes of an extended block.
pub(crate) fn extended_bytes(block: &[u8], tail: &[u8]) -> usize {
    block.len() + tail.len() + 16 + tail.len() / LITERAL_MAX * 3
}

/// Most bytes of one literal element with a length of two bytes.
const LITERAL_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::LimitedMemory;
    use proptest::prelude::*;

    fn open(block: &[u8], limit: u64) -> Result<Vec<u8>, Error> {
        super::open(block, limit, &DecoderMemory::default())
    }

    fn compress(plain: &[u8]) -> Vec<u8> {
        snap::raw::Encoder::new().compress_vec(plain).unwrap()
    }

    #[test]
    fn a_block_with_an_invalid_length_is_refused_before_allocation() {
        let block = compress(b"hello hello hello hello");
        assert_eq!(open(&block, 100).unwrap(), b"hello hello hello hello");
        assert_eq!(open(&block, 5).unwrap_err(), Error::DecompressedTooLarge { limit: 5 });
        // A block of 6 bytes declares 4 GiB - 1: above the limit, or impossible.
        let lie = [0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0x00];
        assert!(matches!(open(&lie, 1 << 26), Err(Error::DecompressedTooLarge { .. })));
        let error = open(&lie, u64::MAX).unwrap_err();
        assert!(error.to_string().contains("cannot hold"), "{error}");
        for broken in [&b""[..], b"\xff", &block[..block.len() - 1], b"plain text is no block"] {
            assert!(matches!(open(broken, 1000), Err(Error::Malformed { format: "snappy", .. })));
        }
    }

    #[test]
    fn a_block_of_the_highest_expansion_is_accepted() {
        let plain = vec![b'a'; 1 << 20];
        assert_eq!(open(&compress(&plain), 1 << 20).unwrap(), plain);
    }

    #[test]
    fn memory_is_reserved_before_a_block_is_decompressed() {
        let (block, purse) = (compress(&vec![b'a'; 1 << 20]), LimitedMemory::of((1 << 20) - 1));
        let refused = super::open(&block, u64::MAX, &DecoderMemory::new(purse.clone()));
        assert_eq!(refused.unwrap_err(), Error::MemoryShort { asked: 1 << 20 });
        assert_eq!(purse.held.get(), 0);
    }

    proptest! {
        #[test]
        fn an_extended_block_holds_both_parts(
            plain in proptest::collection::vec(0u8..4, 0..300),
            tail in proptest::collection::vec(any::<u8>(), 0..300),
            repeat in 1usize..400,
        ) {
            let tail = tail.repeat(repeat);
            let block = compress(&plain);
            let longer = open(&extend(&block, &tail), u64::MAX).unwrap();
            prop_assert_eq!(longer, [plain, tail].concat());
        }
    }
}
