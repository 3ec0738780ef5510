//! Raw snappy blocks, as push clients send them: opened in bounded memory, and lengthened in place.
//!
//! The declared length is checked before anything is allocated. A block cannot expand by more than
//! 64 bytes per 3 (its longest copy), so a declaration beyond that is a lie and is refused too.

use bytes::Bytes;

use crate::error::Error;
use crate::memory::Meter;

/// More than a valid block can expand: 64 bytes from a copy of 3.
const EXPANSION_MAX: u64 = 22;

/// Decompresses a block of at most `limit` plain bytes.
pub(crate) fn open(block: &[u8], limit: u64, memory: &Meter) -> Result<Vec<u8>, Error> {
    let length = snap::raw::decompress_len(block).map_err(|e| malformed(&e))? as u64;
    if length > limit {
        return Err(Error::DecompressedTooLarge { limit });
    }
    if length > block.len() as u64 * EXPANSION_MAX {
        let what = format!("{length} bytes are declared, {} bytes cannot hold them", block.len());
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

/// The block whose plain form is that of `block` followed by `tail`. `block` must be valid.
///
/// A block is its length and then elements that are applied in order: with a new length in front
/// and `tail` as literal elements behind, the compressed bytes in between stay as they came.
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
        longer.push(61 << 2); // a literal whose length stands in two bytes
        longer.extend_from_slice(&last.to_le_bytes());
        longer.extend_from_slice(piece);
    }
    longer.into()
}

/// Most bytes of an extended block.
pub(crate) fn extended_bytes(block: &[u8], tail: &[u8]) -> usize {
    block.len() + tail.len() + 16 + tail.len() / LITERAL_MAX * 3
}

/// Bytes of one literal element with a length of two bytes.
const LITERAL_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::Purse;
    use proptest::prelude::*;

    fn open(block: &[u8], limit: u64) -> Result<Vec<u8>, Error> {
        super::open(block, limit, &Meter::default())
    }

    fn compress(plain: &[u8]) -> Vec<u8> {
        snap::raw::Encoder::new().compress_vec(plain).unwrap()
    }

    #[test]
    fn a_block_is_opened_and_refused_before_it_is_allocated() {
        let block = compress(b"hello hello hello hello");
        assert_eq!(open(&block, 100).unwrap(), b"hello hello hello hello");
        assert_eq!(open(&block, 5).unwrap_err(), Error::DecompressedTooLarge { limit: 5 });
        // 4 GiB - 1 declared by a block of 6 bytes: above the limit, or beyond what is possible
        let lie = [0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0x00];
        assert!(matches!(open(&lie, 1 << 26), Err(Error::DecompressedTooLarge { .. })));
        let error = open(&lie, u64::MAX).unwrap_err();
        assert!(error.to_string().contains("cannot hold them"), "{error}");
        for broken in [&b""[..], b"\xff", &block[..block.len() - 1], b"plain text is no block"] {
            assert!(matches!(open(broken, 1000), Err(Error::Malformed { format: "snappy", .. })));
        }
    }

    #[test]
    fn the_most_that_a_block_can_expand_is_accepted() {
        let plain = vec![b'a'; 1 << 20];
        assert_eq!(open(&compress(&plain), 1 << 20).unwrap(), plain);
    }

    #[test]
    fn plain_bytes_are_taken_before_they_are_made() {
        let (block, purse) = (compress(&vec![b'a'; 1 << 20]), Purse::of((1 << 20) - 1));
        let refused = super::open(&block, u64::MAX, &Meter::new(purse.clone()));
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
