//! Byte classes as bit masks, 64 bytes at a time.
//!
//! Delimiters end tokens. Soft delimiters (`: = & ? #`) end tokens only outside of paths.

/// The classes of the bytes of a block: bit `i` of each mask is for byte `i`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    /// A token that starts with or contains this byte may be a slot: digits, `/`, `@`, values.
    pub interest: u64,
    /// Ends a token.
    pub delimiter: u64,
    /// Ends a path.
    pub hard: u64,
    /// `"`.
    pub quote: u64,
    /// The first byte of a value: after `=`, `":` or `": `.
    pub value: u64,
    /// `/`.
    pub slash: u64,
    /// `0` to `9`.
    pub digit: u64,
}

/// The masks that depend on one byte only; [`Masks`] are computed from these and the block before.
#[derive(Clone, Copy, Default)]
struct Raw {
    soft: u64,
    hard: u64,
    quote: u64,
    slash: u64,
    digit: u64,
    /// Digits, `/` and `@`.
    interest: u64,
    equals: u64,
    colon: u64,
    space: u64,
}

/// The last bits of a block that affect the next one.
#[derive(Clone, Copy, Default)]
pub struct Carry {
    quote: u64,
    equals: u64,
    key: u64,
    key_space: u64,
}

fn combine(raw: &Raw, carry: &mut Carry) -> Masks {
    let after_quote = raw.quote << 1 | carry.quote;
    let key = raw.colon & after_quote;
    let after_key = key << 1 | carry.key;
    let key_space = after_key & raw.space;
    let value =
        (raw.equals << 1 | carry.equals) | (after_key & !raw.space) | (key_space << 1 | carry.key_space);
    *carry = Carry {
        quote: raw.quote >> 63,
        equals: raw.equals >> 63,
        key: key >> 63,
        key_space: key_space >> 63,
    };
    Masks {
        interest: raw.interest | value,
        delimiter: raw.soft | raw.hard,
        hard: raw.hard,
        quote: raw.quote,
        value,
        slash: raw.slash,
        digit: raw.digit,
    }
}

#[cfg(target_arch = "x86_64")]
mod by_vector {
    use std::arch::x86_64::*;

    use super::{Carry, Masks, Raw, combine};

    /// Defines a classifier for the instructions of one vector width.
    macro_rules! classifier {
        ($name:ident, $one_block:ident, $feature:literal, $bytes:literal, $mask:ty, $load:ident,
         $splat:ident, $equal:ident, $subtract:ident, $min:ident, $or:ident, $bits:ident) => {
            #[target_feature(enable = $feature)]
            pub(super) fn $name(blocks: &[[u8; 64]], carry: &mut Carry, masks: &mut Vec<Masks>) {
                masks.extend(blocks.iter().map(|block| combine(&$one_block(block), carry)));
            }

            #[inline]
            #[target_feature(enable = $feature)]
            fn $one_block(block: &[u8; 64]) -> Raw {
                let mut raw = Raw::default();
                for at in (0..64).step_by($bytes) {
                    let v = $load(block[at..at + $bytes].try_into().expect("a part of the block"));
                    let is = |byte: u8| $equal(v, $splat(byte as i8));
                    let from = |low: u8, count: u8| {
                        let moved = $subtract(v, $splat(low as i8));
                        $equal($min(moved, $splat(count as i8 - 1)), moved)
                    };
                    let bits = |mask| u64::from($bits(mask) as $mask) << at;
                    // Brackets differ from braces in one bit.
                    let folded = $or(v, $splat(0x20));
                    let braces = $or($equal(folded, $splat(b'{' as i8)), $equal(folded, $splat(b'}' as i8)));
                    let (quote, equals, colon) = (is(b'"'), is(b'='), is(b':'));
                    let soft = $or($or(is(b'#'), is(b'&')), $or($or(colon, equals), is(b'?')));
                    let hard = $or($or(from(0, 0x21), from(b'\'', 3)), $or(braces, is(b'|')));
                    let hard = $or($or(hard, quote), $or(is(b','), $or(from(b';', 2), is(b'>'))));
                    let (slash, digit) = (is(b'/'), from(b'0', 10));
                    raw.soft |= bits(soft);
                    raw.hard |= bits(hard);
                    raw.quote |= bits(quote);
                    raw.slash |= bits(slash);
                    raw.digit |= bits(digit);
                    raw.interest |= bits($or($or(slash, digit), is(b'@')));
                    raw.equals |= bits(equals);
                    raw.colon |= bits(colon);
                    raw.space |= bits(is(b' '));
                }
                raw
            }
        };
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn load_16(bytes: &[u8; 16]) -> __m128i {
        let half = |at: usize| i64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        _mm_set_epi64x(half(8), half(0))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load_32(bytes: &[u8; 32]) -> __m256i {
        let part = |at: usize| i64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        _mm256_set_epi64x(part(24), part(16), part(8), part(0))
    }

    classifier!(
        sse2,
        sse2_block,
        "sse2",
        16,
        u16,
        load_16,
        _mm_set1_epi8,
        _mm_cmpeq_epi8,
        _mm_sub_epi8,
        _mm_min_epu8,
        _mm_or_si128,
        _mm_movemask_epi8
    );
    classifier!(
        avx2,
        avx2_block,
        "avx2",
        32,
        u32,
        load_32,
        _mm256_set1_epi8,
        _mm256_cmpeq_epi8,
        _mm256_sub_epi8,
        _mm256_min_epu8,
        _mm256_or_si256,
        _mm256_movemask_epi8
    );
}

/// Appends the masks of blocks.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
pub fn classify(blocks: &[[u8; 64]], carry: &mut Carry, masks: &mut Vec<Masks>) {
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, as was just checked.
        unsafe { by_vector::avx2(blocks, carry, masks) }
    } else {
        // SAFETY: every x86_64 processor has SSE2.
        unsafe { by_vector::sse2(blocks, carry, masks) }
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod by_table {
    use super::{Carry, Masks, Raw, combine};

    const HARD: u16 = 1;
    const SOFT: u16 = 2;
    const QUOTE: u16 = 4;
    const SLASH: u16 = 8;
    const INTEREST: u16 = 16;
    const DIGIT: u16 = 32;
    const EQUALS: u16 = 128;
    const COLON: u16 = 256;
    const SPACE: u16 = 512;

    const fn flags_of(byte: u8) -> u16 {
        match byte {
            b' ' => HARD | SPACE,
            b'"' => HARD | QUOTE,
            b'=' => SOFT | EQUALS,
            b':' => SOFT | COLON,
            b'&' | b'?' | b'#' => SOFT,
            0..=0x1f | b'\'' | b'(' | b')' | b',' | b';' | b'<' | b'>' | b'[' | b']' | b'{' | b'|' | b'}' => {
                HARD
            }
            b'/' => SLASH | INTEREST,
            b'@' => INTEREST,
            b'0'..=b'9' => DIGIT | INTEREST,
            _ => 0,
        }
    }

    const FLAGS: [u16; 256] = {
        let mut flags = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            flags[byte] = flags_of(byte as u8);
            byte += 1;
        }
        flags
    };

    /// Appends the masks of blocks.
    pub fn classify(blocks: &[[u8; 64]], carry: &mut Carry, masks: &mut Vec<Masks>) {
        masks.extend(blocks.iter().map(|block| combine(&one_block(block), carry)));
    }

    fn one_block(block: &[u8; 64]) -> Raw {
        let mut raw = Raw::default();
        for (i, &byte) in block.iter().enumerate() {
            let flags = FLAGS[byte as usize];
            let bit = |flag: u16| u64::from(flags & flag != 0) << i;
            raw.hard |= bit(HARD);
            raw.soft |= bit(SOFT);
            raw.quote |= bit(QUOTE);
            raw.slash |= bit(SLASH);
            raw.interest |= bit(INTEREST);
            raw.digit |= bit(DIGIT);
            raw.equals |= bit(EQUALS);
            raw.colon |= bit(COLON);
            raw.space |= bit(SPACE);
        }
        raw
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub use by_table::classify;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_classifiers_agree_on_every_byte() {
        let mut text: Vec<u8> = (0..=255).collect();
        text.extend(br#"{"a":1,"b": "x","c":  null,d=e f="g"}"#.iter().cycle().take(640));
        let (blocks, _) = text.as_chunks();
        let mut expected = Vec::new();
        by_table::classify(blocks, &mut Carry::default(), &mut expected);
        let mut masks = Vec::new();
        classify(blocks, &mut Carry::default(), &mut masks);
        assert_eq!(masks, expected);
        #[cfg(target_arch = "x86_64")]
        #[allow(unsafe_code)]
        {
            masks.clear();
            // SAFETY: every x86_64 processor has SSE2.
            unsafe { by_vector::sse2(blocks, &mut Carry::default(), &mut masks) };
            assert_eq!(masks, expected);
        }
    }
}
