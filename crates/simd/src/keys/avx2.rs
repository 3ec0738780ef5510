//! The stages for AVX2: eight grams at a time.
//!
//! The unsafe parts are loads and stores of complete arrays, which are always within bounds.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::stages::{Arrays, MULTIPLIERS, ROOM, STEP, Stages, every_key};

/// [`super::text_keys`] for processors with AVX2.
#[target_feature(enable = "avx2,popcnt")]
pub(super) fn text_keys(text: &[u8], keys: &mut Vec<u32>) {
    every_key::<Avx2>(text, keys);
}

struct Avx2;

impl Stages for Avx2 {
    #[inline(always)]
    fn hash(arrays: &mut Arrays) {
        // SAFETY: only reached from `text_keys` above, which is only called on a processor with AVX2.
        unsafe { hash(arrays) }
    }

    #[inline(always)]
    fn changes(minima: &[u32; STEP + 1], count: usize, changed: &mut [u32; STEP + 8]) -> usize {
        // SAFETY: as above.
        unsafe { changes(minima, count, changed) }
    }
}

#[target_feature(enable = "avx2,popcnt")]
fn hash(arrays: &mut Arrays) {
    // Takes four bytes from each of eight positions; the upper lane begins at the fifth.
    let low = _mm256_setr_epi8(
        0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6, 4, 5, 6, 7, 5, 6, 7, 8, 6, 7, 8, 9, 7, 8, 9, 10,
    );
    let high = _mm256_add_epi8(low, _mm256_set1_epi8(2));
    let [first, second, last] = MULTIPLIERS.map(|multiplier| _mm256_set1_epi32(multiplier as i32));
    for at in (0..ROOM).step_by(8) {
        let folded = load_twice(&arrays.folded, at);
        let digits = load_twice(&arrays.digits, at);
        let kinds = _mm256_cvtepu8_epi32(load_low(&arrays.kinds, at));
        // All ones for an id, whose digits are kept; otherwise the digits' low bits are removed.
        let is_id = _mm256_cmpgt_epi32(kinds, _mm256_set1_epi32(1));
        let gram = |order: __m256i| {
            let dropped = _mm256_andnot_si256(is_id, _mm256_shuffle_epi8(digits, order));
            _mm256_andnot_si256(dropped, _mm256_shuffle_epi8(folded, order))
        };
        let words = (_mm256_mullo_epi32(gram(low), first), _mm256_mullo_epi32(gram(high), second));
        let mixed = _mm256_xor_si256(words.0, words.1);
        let mixed = _mm256_xor_si256(mixed, _mm256_srli_epi32::<15>(mixed));
        let hash = _mm256_srli_epi32::<2>(_mm256_mullo_epi32(mixed, last));
        let kinds = _mm256_or_si256(_mm256_slli_epi32::<30>(kinds), _mm256_set1_epi32(1));
        store(&mut arrays.hashes, at, _mm256_or_si256(hash, kinds));
    }
}

/// For each mask of eight bits the positions of its set bits, first to last, one byte each.
static SET_BITS: [u64; 256] = {
    let mut table = [0; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut bit, mut found) = (0, 0);
        while bit < 8 {
            if mask >> bit & 1 == 1 {
                table[mask] |= bit << (8 * found);
                found += 1;
            }
            bit += 1;
        }
        mask += 1;
    }
    table
};

#[target_feature(enable = "avx2,popcnt")]
fn changes(minima: &[u32; STEP + 1], count: usize, changed: &mut [u32; STEP + 8]) -> usize {
    let mut found = 0;
    for at in (0..count).step_by(8) {
        let (before, now) = (load(minima, at), load(minima, at + 1));
        let equal = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(before, now))) as u32;
        // Minima after the last complete window are ignored.
        let asked = 0xFFu32 >> 8usize.saturating_sub(count - at);
        let differ = !equal & asked;
        let order = _mm_cvtsi64_si128(SET_BITS[differ as usize] as i64);
        let gathered = _mm256_permutevar8x32_epi32(now, _mm256_cvtepu8_epi32(order));
        store(changed, found, gathered);
        found += differ.count_ones() as usize;
    }
    found
}

/// Loads sixteen bytes into both lanes.
#[target_feature(enable = "avx2,popcnt")]
#[inline]
fn load_twice(bytes: &[u8], at: usize) -> __m256i {
    let piece = &bytes[at..at + 16];
    // SAFETY: the piece has sixteen bytes, and the load needs no alignment.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(piece.as_ptr().cast()) })
}

/// Loads eight bytes into the lower half.
#[target_feature(enable = "avx2,popcnt")]
#[inline]
fn load_low(bytes: &[u8], at: usize) -> __m128i {
    let piece: [u8; 8] = bytes[at..at + 8].try_into().expect("eight bytes");
    _mm_cvtsi64_si128(i64::from_le_bytes(piece))
}

#[target_feature(enable = "avx2,popcnt")]
#[inline]
fn load(words: &[u32], at: usize) -> __m256i {
    let piece = &words[at..at + 8];
    // SAFETY: the piece has eight words, and the load needs no alignment.
    unsafe { _mm256_loadu_si256(piece.as_ptr().cast()) }
}

#[target_feature(enable = "avx2,popcnt")]
#[inline]
fn store(words: &mut [u32], at: usize, value: __m256i) {
    let piece = &mut words[at..at + 8];
    // SAFETY: the piece has eight words, and the store needs no alignment.
    unsafe { _mm256_storeu_si256(piece.as_mut_ptr().cast(), value) }
}
