//! Operations on eight bytes at a time: loads that never read beyond the end, conversion of digits and
//! hexadecimal digits to numbers and back, hashes and comparisons of short strings. Hashes are used only
//! in the encoder's tables and never stored.
//!
//! The first byte of a text is the lowest byte of its word.

const ZEROS: u64 = 0x3030_3030_3030_3030;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
const ONES: u64 = 0x0101_0101_0101_0101;

/// Returns eight bytes from `at`; those beyond the end are zero.
#[inline(always)]
pub(super) fn load8(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..at + 8) {
        Some(eight) => u64::from_le_bytes(eight.try_into().expect("eight bytes")),
        None => load_last(bytes, at),
    }
}

/// Returns four bytes from `at`; those beyond the end are zero.
#[inline(always)]
pub(super) fn load4(bytes: &[u8], at: usize) -> u32 {
    match bytes.get(at..at + 4) {
        Some(four) => u32::from_le_bytes(four.try_into().expect("four bytes")),
        None => load_last(bytes, at) as u32,
    }
}

#[cold]
fn load_last(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or(&[]);
    let mut eight = [0; 8];
    let len = rest.len().min(8);
    eight[..len].copy_from_slice(&rest[..len]);
    u64::from_le_bytes(eight)
}

/// Returns one to eight bytes from `at`.
#[inline(always)]
pub(super) fn load_up_to8(bytes: &[u8], at: usize, len: usize) -> u64 {
    debug_assert!((1..=8).contains(&len));
    load8(bytes, at) & (u64::MAX >> (64 - 8 * len))
}

/// Returns the highest bit of each byte that is not a digit.
#[inline(always)]
pub(super) fn not_digits(word: u64) -> u64 {
    let moved = word ^ ZEROS;
    (((moved & !HIGH_BITS) + ONES * (0x80 - 10)) | moved) & HIGH_BITS
}

/// Returns how many of the eight bytes from `at` are digits before the first other byte.
#[inline(always)]
pub(super) fn digit_run(bytes: &[u8], at: usize) -> usize {
    not_digits(load8(bytes, at)).trailing_zeros() as usize / 8
}

/// Returns the value of eight digits; bytes of zero count as the digit 0.
#[inline(always)]
fn value_of_eight(digits: u64) -> u64 {
    let ones = digits & 0x0f0f_0f0f_0f0f_0f0f;
    let pairs = ones.wrapping_mul(10).wrapping_add(ones >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff
}

/// Returns the value of 1 to 19 digits at `at`.
#[inline(always)]
pub(super) fn decimal(bytes: &[u8], at: usize, len: usize) -> u64 {
    debug_assert!((1..=19).contains(&len));
    let head = (len - 1) % 8 + 1;
    let mut value = value_of_eight(load8(bytes, at) << (64 - 8 * head));
    let mut done = head;
    while done < len {
        value = value * 100_000_000 + value_of_eight(load8(bytes, at + done));
        done += 8;
    }
    value
}

/// Returns the eight digits of a value below 10^8.
#[inline(always)]
pub(super) fn eight_digits(value: u32) -> u64 {
    let fours = u64::from(value / 10_000) | u64::from(value % 10_000) << 32;
    // x / 100 is x * 10486 >> 20 below 10^4, and x / 10 is x * 103 >> 10 below 100
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    (tens | (pairs - tens * 10) << 8) + ZEROS
}

/// Returns the bytes of eight hexadecimal digits of one case, or `None`. `letter` is the distance from
/// `'9' + 1` to the first letter.
#[inline(always)]
fn bytes_of_hex(text: u64, letter: u64) -> Option<u32> {
    let letters = text >> 6 & ONES;
    let nibbles = (text & (ONES * 0x0f)) + letters * 9;
    if nibbles & (ONES * 0xf0) != 0 || hex_text(nibbles, letter) != text {
        return None;
    }
    let pairs = (nibbles << 4 | nibbles >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
    Some((fours | fours >> 16) as u32)
}

#[inline(always)]
fn hex_text(nibbles: u64, letter: u64) -> u64 {
    let above_nine = ((nibbles + ONES * (0x80 - 10)) & HIGH_BITS) >> 7;
    nibbles + ZEROS + above_nine * letter
}

/// Whether letters among hexadecimal digits are upper or lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Lower,
    Upper,
}

impl Case {
    fn letter(self) -> u64 {
        match self {
            Self::Lower => u64::from(b'a' - b'9' - 1),
            Self::Upper => u64::from(b'A' - b'9' - 1),
        }
    }

    /// Returns the four bytes of eight hexadecimal digits, the first one lowest.
    #[inline(always)]
    pub(super) fn read(self, text: u64) -> Option<u32> {
        bytes_of_hex(text, self.letter())
    }

    /// The inverse of [`Case::read`].
    #[inline(always)]
    pub(super) fn write(self, bytes: u32) -> u64 {
        let spread = u64::from(bytes);
        let spread = (spread | spread << 16) & 0x0000_ffff_0000_ffff;
        let spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
        let nibbles = (spread >> 4 & 0x000f_000f_000f_000f) | (spread & 0x000f_000f_000f_000f) << 8;
        hex_text(nibbles, self.letter())
    }
}

/// Folds one word into a hash.
#[inline(always)]
pub(super) fn fold(hash: u64, word: u64) -> u64 {
    fold_two(hash, word, 0)
}

/// Folds two words into a hash.
#[inline(always)]
pub(super) fn fold_two(hash: u64, first: u64, second: u64) -> u64 {
    let product = u128::from(hash ^ first) * u128::from(second ^ 0x9e37_79b9_7f4a_7c15);
    (product as u64) ^ (product >> 64) as u64
}

/// Folds bytes into a hash. Their number is not folded in.
#[inline(always)]
pub(super) fn fold_bytes(hash: u64, bytes: &[u8]) -> u64 {
    let (pairs, rest) = bytes.as_chunks::<16>();
    let two = |hash, pair: &[u8; 16]| fold_two(hash, load8(pair, 0), load8(pair, 8));
    let hash = pairs.iter().fold(hash, two);
    match (rest.len(), bytes.last_chunk()) {
        (0, _) => hash,
        (_, Some(last)) => two(hash, last),
        (8.., _) => fold_two(hash, load8(rest, 0), load8(rest, rest.len() - 8)),
        _ => fold(hash, few_bytes(rest)),
    }
}

/// Returns a number that distinguishes one to seven bytes from others of the same length.
#[inline(always)]
fn few_bytes(bytes: &[u8]) -> u64 {
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
        }
        _ => [0, bytes.len() / 2, bytes.len() - 1].iter().fold(0, |n, &at| n << 8 | u64::from(bytes[at])),
    }
}

/// Whether `len` bytes of `a` and `b`, from the given positions, are equal.
#[inline(always)]
pub(super) fn same_bytes((a, a_at): (&[u8], usize), (b, b_at): (&[u8], usize), len: usize) -> bool {
    let mut done = 0;
    while len - done > 8 {
        if load8(a, a_at + done) != load8(b, b_at + done) {
            return false;
        }
        done += 8;
    }
    let rest = len - done;
    rest == 0 || load_up_to8(a, a_at + done, rest) == load_up_to8(b, b_at + done, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_found_and_read() {
        for byte in 0..=255_u8 {
            let text = [byte; 8];
            let expected = if byte.is_ascii_digit() { 8 } else { 0 };
            assert_eq!(digit_run(&text, 0), expected, "byte {byte}");
        }
        assert_eq!(digit_run(b"123x5678", 0), 3);
        assert_eq!(digit_run(b"x12", 1), 2);
        let text = b"x1234567890123456789y";
        for len in 1..=19 {
            let expected: u64 = std::str::from_utf8(&text[1..1 + len]).unwrap().parse().unwrap();
            assert_eq!(decimal(text, 1, len), expected);
        }
    }

    #[test]
    fn eight_digits_are_written() {
        for value in (0..10_000).map(|half| half * 10_000 + (half * 7) % 10_000) {
            let text = eight_digits(value).to_le_bytes();
            assert_eq!(std::str::from_utf8(&text).unwrap(), format!("{value:08}"));
        }
    }

    #[test]
    fn hexadecimal_digits_of_one_case_round_trip() {
        for case in [Case::Lower, Case::Upper] {
            for byte in 0..=255_u8 {
                let mut text = *b"01289fFa";
                text[5..].copy_from_slice(if case == Case::Lower { b"fad" } else { b"FAD" });
                text[3] = byte;
                let right = match case {
                    Case::Lower => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
                    Case::Upper => matches!(byte, b'0'..=b'9' | b'A'..=b'F'),
                };
                let word = u64::from_le_bytes(text);
                let read = case.read(word);
                assert_eq!(read.is_some(), right, "{case:?} {byte}");
                if let Some(bytes) = read {
                    let expected = u32::from_str_radix(std::str::from_utf8(&text).unwrap(), 16).unwrap();
                    assert_eq!(bytes.swap_bytes(), expected);
                    assert_eq!(case.write(bytes), word);
                }
            }
        }
    }

    #[test]
    fn comparison_reads_exactly_the_given_bytes() {
        let a: Vec<u8> = (0..40).collect();
        for len in 0..20 {
            assert!(same_bytes((&a, 3), (&a[3..], 0), len));
            for wrong in 0..len + 3 {
                let mut b = a[2..].to_vec();
                b[wrong + 1] ^= 0x80;
                assert_eq!(same_bytes((&a, 3), (&b, 1), len), wrong >= len, "len {len}, byte {wrong}");
            }
        }
    }

    #[test]
    fn every_byte_changes_the_hash() {
        let text: Vec<u8> = (0..30).collect();
        for len in 0..text.len() {
            let hash = fold_bytes(1, &text[..len]);
            for at in 0..len {
                let mut other = text[..len].to_vec();
                other[at] ^= 0x10;
                assert_ne!(fold_bytes(1, &other), hash, "byte {at} of {len}");
            }
        }
    }
}
