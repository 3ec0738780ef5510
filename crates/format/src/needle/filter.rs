//! The filter of one page: a Bloom filter of 64-byte blocks in slices.
//!
//! A key determines a slice, a block of the slice and two bits of the block. One absent key in five
//! passes, but a selective needle has several keys, and all of them must pass.

use sandur_simd::{is_word_key, text_keys, word_keys};

use crate::codec::crc32c;

/// Slices of a filter. Each key belongs to one slice.
pub const SLICES: usize = 8;

/// Bytes per block: a cache line.
pub(crate) const BLOCK_BYTES: usize = 64;

/// Bits per distinct key of a filter. With 3.25 bits, (1 - e^(-2/3.25))^2 = 21 % of absent keys pass. A
/// UUID has six keys and 32 hex digits have five, so about one page in 5,000 passes wrongly; a span id of
/// 16 hex digits has one or two, and one page in ten passes.
const BITS_PER_KEY: f64 = 3.25;

/// Bits of the bitmap that counts distinct keys: 32 KiB, enough for pages of 2 MiB of random text.
const COUNTER_BITS: usize = 1 << 18;

/// Most blocks per slice: 32 MiB per filter.
pub(crate) const BLOCKS_MAX: u32 = 1 << 16;

/// The position of a key in filters of any size.
pub(crate) struct KeyPlace {
    pub(crate) slice: usize,
    /// The position in the slice, as a fraction of 2^32.
    fraction: u64,
    bits: [u32; 2],
}

impl KeyPlace {
    #[inline(always)]
    pub(crate) fn of(key: u32) -> Self {
        let spread = u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let bits = (spread ^ (spread >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        Self {
            slice: (spread >> 61) as usize,
            fraction: (spread >> 29) & 0xFFFF_FFFF,
            bits: [(bits >> 55) as u32, (bits >> 46) as u32 & 511],
        }
    }

    /// The block that has the key, in a slice of this many blocks.
    #[inline(always)]
    pub(crate) fn line(&self, blocks_per_slice: u32) -> u32 {
        ((self.fraction * u64::from(blocks_per_slice)) >> 32) as u32
    }

    /// Whether both bits are set in a block.
    #[inline(always)]
    pub(crate) fn is_set(&self, block: &[u8]) -> bool {
        self.bits.iter().all(|bit| block[(bit >> 3) as usize] >> (bit & 7) & 1 == 1)
    }
}

/// Collects the text of one page.
#[derive(Default)]
pub struct FilterBuilder {
    keys: Vec<u32>,
}

/// A finished filter of one page: [`SLICES`] slices of equal length, concatenated. Empty when the page
/// has no filter: then nothing can be ruled out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageFilter {
    pub(crate) bytes: Vec<u8>,
    /// Whether grams of words are among the keys.
    pub(crate) words: bool,
}

impl FilterBuilder {
    /// Returns an empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text: one line, or any number of lines with separators.
    pub fn add_text(&mut self, text: &[u8]) {
        text_keys(text, &mut self.keys);
        word_keys(text, &mut self.keys);
    }

    /// Returns the keys so far; some occur more than once.
    pub fn keys(&self) -> &[u32] {
        &self.keys
    }

    /// Returns the filter of all added text. Empties the builder, which keeps its memory.
    pub fn finish(&mut self) -> PageFilter {
        let filter = PageFilter::of_keys(&self.keys);
        self.keys.clear();
        filter
    }
}

impl PageFilter {
    /// Returns the filter of these keys, which may include grams of words; repetitions are harmless.
    pub fn of_keys(keys: &[u32]) -> Self {
        let distinct = estimate_distinct(keys);
        let bits = distinct * BITS_PER_KEY;
        // A page without keys has one empty block per slice: every needle that is long enough is ruled
        // out.
        let blocks = usual_blocks(bits / (SLICES * BLOCK_BYTES * 8) as f64);
        let mut bytes = vec![0u8; SLICES * blocks as usize * BLOCK_BYTES];
        for key in keys {
            let place = KeyPlace::of(*key);
            let start = (place.slice * blocks as usize + place.line(blocks) as usize) * BLOCK_BYTES;
            let block = &mut bytes[start..start + BLOCK_BYTES];
            for bit in place.bits {
                block[(bit >> 3) as usize] |= 1 << (bit & 7);
            }
        }
        Self { bytes, words: true }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is no filter.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the number of blocks in each slice.
    pub fn blocks_per_slice(&self) -> u32 {
        (self.bytes.len() / (SLICES * BLOCK_BYTES)) as u32
    }

    /// Returns a view for lookups.
    pub fn view(&self) -> FilterView<'_> {
        FilterView { bytes: &self.bytes, blocks: self.blocks_per_slice(), words: self.words }
    }

    /// Returns the crc32c of the bytes.
    pub fn checksum(&self) -> u32 {
        crc32c(&self.bytes)
    }
}

/// Returns the number of blocks of a filter, 2^n or 3 * 2^n, that is nearest by ratio. Filters of few sizes
/// can be stored so that the blocks of a key are adjacent.
fn usual_blocks(wanted: f64) -> u32 {
    let mut blocks = 1;
    while blocks < BLOCKS_MAX {
        // 1, 2, 3, 4, 6, 8, 12, ...
        let next = if blocks.is_power_of_two() { blocks + blocks.div_ceil(2) } else { blocks / 3 * 4 };
        if wanted * wanted < f64::from(blocks) * f64::from(next) {
            break;
        }
        blocks = next;
    }
    blocks
}

/// Estimates the number of distinct keys by linear counting: the share of zeros in a bitmap of hashed
/// keys.
fn estimate_distinct(keys: &[u32]) -> f64 {
    let mut seen = vec![0u64; COUNTER_BITS / 64];
    for key in keys {
        let bit = (key.wrapping_mul(0x9E37_79B1) >> 14) as usize;
        seen[bit / 64] |= 1 << (bit % 64);
    }
    let set: u32 = seen.iter().map(|word| word.count_ones()).sum();
    // A full bitmap would give infinity: one zero bit is the measurable maximum.
    let zeros = (COUNTER_BITS as f64 - f64::from(set)).max(1.0);
    COUNTER_BITS as f64 * (COUNTER_BITS as f64 / zeros).ln()
}

/// A page's filter in its stored form.
#[derive(Clone, Copy)]
pub struct FilterView<'a> {
    bytes: &'a [u8],
    blocks: u32,
    words: bool,
}

impl<'a> FilterView<'a> {
    /// Returns the filter in `bytes`, with grams of words or without; `None` when the length is not that
    /// of a filter.
    pub fn parse(bytes: &'a [u8], words: bool) -> Option<Self> {
        let unit = SLICES * BLOCK_BYTES;
        let whole = bytes.len().is_multiple_of(unit) && bytes.len() / unit <= BLOCKS_MAX as usize;
        whole.then(|| Self { bytes, blocks: (bytes.len() / unit) as u32, words })
    }

    /// Whether the page may hold a text with all of these keys.
    pub fn may_contain(&self, keys: &[u32]) -> bool {
        if self.blocks == 0 {
            return true;
        }
        let slice_bytes = self.blocks as usize * BLOCK_BYTES;
        keys.iter().filter(|key| self.words || !is_word_key(**key)).all(|key| {
            let place = KeyPlace::of(*key);
            let start = place.slice * slice_bytes + place.line(self.blocks) as usize * BLOCK_BYTES;
            place.is_set(&self.bytes[start..start + BLOCK_BYTES])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_have_few_sizes_near_the_wanted_one() {
        let wanted = [0.0, 1.0, 1.4, 1.5, 2.4, 2.5, 3.5, 4.8, 5.0, 6.9, 7.0, 9.7, 9.9];
        let sizes = wanted.map(usual_blocks);
        assert_eq!(sizes, [1, 1, 1, 2, 2, 3, 4, 4, 6, 6, 8, 8, 12]);
        for wanted in (1..60_000).step_by(7) {
            let ratio = f64::from(usual_blocks(f64::from(wanted))) / f64::from(wanted);
            assert!((0.7..1.42).contains(&ratio), "{wanted}: {ratio}");
        }
        assert_eq!(usual_blocks(f64::INFINITY), BLOCKS_MAX);
    }
}
