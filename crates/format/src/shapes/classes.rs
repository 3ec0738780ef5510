//! Byte classes of lines as bit masks, 64 bytes at a time.
//!
//! Delimiters end tokens. Soft ones (`: = & ? #`) do so only outside of paths.

/// Bit `i` of each mask describes byte `i` of a block of 64 bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Masks {
    /// A token that starts or contains this byte may be a slot: digits, `/`, `@`, values.
    pub(super) interest: u64,
    /// Ends a token.
    pub(super) delimiter: u64,
    /// Ends a path.
    pub(super) hard: u64,
    /// `"`.
    pub(super) quote: u64,
    /// The first byte of a value: after `=`, `":` or `": `.
    pub(super) value: u64,
    /// `/`.
    pub(super) slash: u64,
    /// `0` to `9`.
    pub(super) digit: u64,
}

/// Masks of a part of the lines, moved forward as encoding goes on.
#[derive(Default)]
pub(super) struct Window {
    base: usize,
    masks: Vec<Masks>,
}

/// Bytes classified at a time: their masks stay in the first-level cache.
const WINDOW: usize = 16 << 10;

/// What one block finds byte by byte; [`Masks`] follow from it and the block before.
#[derive(Clone, Copy, Default)]
struct Raw {
    delimiter: u64,
    soft: u64,
    quote: u64,
    slash: u64,
    at: u64,
    digit: u64,
    equals: u64,
    colon: u64,
    space: u64,
}

/// The last bits of a block that matter to the next one.
#[derive(Clone, Copy, Default)]
struct Carry {
    quote: u64,
    equals: u64,
    key: u64,
    key_space: u64,
}

impl Window {
    /// Starts over with other lines.
    pub(super) fn reset(&mut self) {
        self.base = 0;
        self.masks.clear();
    }

    /// Makes sure that the masks of `lines[start..end]` are there.
    pub(super) fn cover(&mut self, lines: &[u8], start: usize, end: usize) {
        if start >= self.base && end <= self.base + self.masks.len() * 64 {
            return;
        }
        self.base = start & !63;
        let stop = (self.base + WINDOW).max(end).min(lines.len());
        self.masks.clear();
        let mut carry = Carry::default();
        for block in lines[self.base..stop.max(self.base)].chunks(64) {
            let raw = match <&[u8; 64]>::try_from(block) {
                Ok(block) => classify(block),
                Err(_) => {
                    let mut padded = [b'\n'; 64];
                    padded[..block.len()].copy_from_slice(block);
                    classify(&padded)
                }
            };
            self.masks.push(combine(&raw, &mut carry));
        }
    }

    /// The first byte in `[from, end)` whose bit is set in the chosen mask, else `end`.
    #[inline(always)]
    pub(super) fn next(&self, mask: impl Fn(&Masks) -> u64, from: usize, end: usize) -> usize {
        if from >= end {
            return end;
        }
        let offset = from - self.base;
        let mut block = offset >> 6;
        let mut bits = mask(&self.masks[block]) & (u64::MAX << (offset & 63));
        let last = (end - 1 - self.base) >> 6;
        while bits == 0 {
            if block == last {
                return end;
            }
            block += 1;
            bits = mask(&self.masks[block]);
        }
        (self.base + block * 64 + bits.trailing_zeros() as usize).min(end)
    }

    /// One after the last byte in `[low, at)` whose bit is set in the chosen mask, else `low`.
    #[inline(always)]
    pub(super) fn after_last(&self, mask: impl Fn(&Masks) -> u64, low: usize, at: usize) -> usize {
        if at <= low {
            return low;
        }
        let offset = at - 1 - self.base;
        let mut block = offset >> 6;
        let mut bits = mask(&self.masks[block]) & (u64::MAX >> (63 - (offset & 63)));
        let first = (low - self.base) >> 6;
        while bits == 0 {
            if block == first {
                return low;
            }
            block -= 1;
            bits = mask(&self.masks[block]);
        }
        (self.base + block * 64 + 64 - bits.leading_zeros() as usize).max(low)
    }

    /// Whether byte `at` has its bit set in the chosen mask.
    #[inline(always)]
    pub(super) fn has(&self, mask: impl Fn(&Masks) -> u64, at: usize) -> bool {
        let offset = at - self.base;
        mask(&self.masks[offset >> 6]) >> (offset & 63) & 1 != 0
    }
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
        interest: raw.digit | raw.slash | raw.at | value,
        delimiter: raw.delimiter,
        hard: raw.delimiter & !raw.soft,
        quote: raw.quote,
        value,
        slash: raw.slash,
        digit: raw.digit,
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn classify(block: &[u8; 64]) -> Raw {
    // SAFETY: every x86_64 processor has SSE2, which is all that is asked for.
    #[allow(unsafe_code)]
    unsafe {
        classify_sse2(block)
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse2")]
fn classify_sse2(block: &[u8; 64]) -> Raw {
    use std::arch::x86_64::*;
    let mut raw = Raw::default();
    for quarter in 0..4 {
        let at = quarter * 16;
        let low = i64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"));
        let high = i64::from_le_bytes(block[at + 8..at + 16].try_into().expect("eight bytes"));
        let v = _mm_set_epi64x(high, low);
        let is = |b: u8| _mm_cmpeq_epi8(v, _mm_set1_epi8(b as i8));
        let from = |low: u8, count: u8| {
            let moved = _mm_sub_epi8(v, _mm_set1_epi8(low as i8));
            _mm_cmpeq_epi8(_mm_min_epu8(moved, _mm_set1_epi8(count as i8 - 1)), moved)
        };
        let or = |a, b| _mm_or_si128(a, b);
        let bits = |m| u64::from(_mm_movemask_epi8(m) as u16) << at;
        let (quote, equals, colon, space) = (is(b'"'), is(b'='), is(b':'), is(b' '));
        let folded = _mm_or_si128(v, _mm_set1_epi8(0x20));
        let braces = or(
            _mm_cmpeq_epi8(folded, _mm_set1_epi8(b'{' as i8)),
            _mm_cmpeq_epi8(folded, _mm_set1_epi8(b'}' as i8)),
        );
        let hard = or(or(from(0, 0x21), from(b'\'', 3)), or(or(braces, is(b'|')), or(is(b','), quote)));
        let delimiter = or(or(hard, from(b':', 6)), or(is(b'#'), is(b'&')));
        let soft = or(or(is(b'#'), is(b'&')), or(or(colon, equals), is(b'?')));
        raw.delimiter |= bits(delimiter);
        raw.soft |= bits(soft);
        raw.quote |= bits(quote);
        raw.slash |= bits(is(b'/'));
        raw.at |= bits(is(b'@'));
        raw.digit |= bits(from(b'0', 10));
        raw.equals |= bits(equals);
        raw.colon |= bits(colon);
        raw.space |= bits(space);
    }
    raw
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod by_table {
    use super::Raw;

    const DELIMITER: u16 = 1;
    const SOFT: u16 = 2;
    const QUOTE: u16 = 4;
    const SLASH: u16 = 8;
    const AT: u16 = 16;
    const DIGIT: u16 = 32;
    const EQUALS: u16 = 128;
    const COLON: u16 = 256;
    const SPACE: u16 = 512;

    const fn flags_of(byte: u8) -> u16 {
        match byte {
            b' ' => DELIMITER | SPACE,
            b'"' => DELIMITER | QUOTE,
            b'=' => DELIMITER | SOFT | EQUALS,
            b':' => DELIMITER | SOFT | COLON,
            b'&' | b'?' | b'#' => DELIMITER | SOFT,
            0..=0x1f | b'\'' | b'(' | b')' | b',' | b';' | b'<' | b'>' | b'[' | b']' | b'{' | b'|' | b'}' => {
                DELIMITER
            }
            b'/' => SLASH,
            b'@' => AT,
            b'0'..=b'9' => DIGIT,
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

    pub(super) fn classify(block: &[u8; 64]) -> Raw {
        let mut raw = Raw::default();
        for (i, &byte) in block.iter().enumerate() {
            let flags = FLAGS[byte as usize];
            let bit = |flag: u16| u64::from(flags & flag != 0) << i;
            raw.delimiter |= bit(DELIMITER);
            raw.soft |= bit(SOFT);
            raw.quote |= bit(QUOTE);
            raw.slash |= bit(SLASH);
            raw.at |= bit(AT);
            raw.digit |= bit(DIGIT);
            raw.equals |= bit(EQUALS);
            raw.colon |= bit(COLON);
            raw.space |= bit(SPACE);
        }
        raw
    }
}

#[cfg(not(target_arch = "x86_64"))]
use by_table::classify;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_classifiers_agree_on_every_byte() {
        for start in (0..256).step_by(64) {
            let block: [u8; 64] = std::array::from_fn(|i| (start + i) as u8);
            let (a, b) = (classify(&block), by_table::classify(&block));
            let fields =
                |r: &Raw| [r.delimiter, r.soft, r.quote, r.slash, r.at, r.digit, r.equals, r.colon, r.space];
            assert_eq!(fields(&a), fields(&b), "bytes from {start}");
        }
    }

    #[test]
    fn values_start_after_keys_across_blocks() {
        for shift in 0..70 {
            let text = format!("{}k=v {{\"a\":1,\"b\": \"x\"}}\n", ".".repeat(shift));
            let mut window = Window::default();
            window.cover(text.as_bytes(), 0, text.len());
            let starts: Vec<u8> =
                (0..text.len()).filter(|&i| window.has(|m| m.value, i)).map(|i| text.as_bytes()[i]).collect();
            assert_eq!(starts, b"v1\"", "shift {shift}");
            let digit = window.next(|m| m.digit, 0, text.len());
            assert_eq!(text.as_bytes()[digit], b'1');
            assert_eq!(window.after_last(|m| m.delimiter, 0, shift + 2), shift + 2);
            assert_eq!(window.after_last(|m| m.delimiter, 0, shift + 1), 0);
        }
    }
}
