//! Digits as numbers, and the classes by which skewed numbers are stored.
//!
//! Strings of 1 to 19 digits, including leading zeros, map one to one to numbers: the strings are ordered
//! by length, then by value. So `7` is 7, `00` is 10 and `10` is 20.

use super::words::{decimal, eight_digits};

/// `FIRST[n]` is the number of the string of `n` zeros.
const FIRST: [u64; 21] = {
    let mut first = [0_u64; 21];
    let (mut n, mut strings) = (2, 10_u64);
    while n <= 20 {
        first[n] = first[n - 1].wrapping_add(strings);
        strings = strings.wrapping_mul(10);
        n += 1;
    }
    first
};

/// The number of digits of the smallest number with each bit length up to 32.
const LEAST_DIGITS: [u8; 33] = {
    let mut digits = [1; 33];
    let mut bits = 1;
    while bits <= 32 {
        let smallest = if bits == 1 { 0 } else { 1_u64 << (bits - 1) };
        while smallest >= FIRST[digits[bits] as usize + 1] {
            digits[bits] += 1;
        }
        bits += 1;
    }
    digits
};

/// Length of the longest string of digits that maps to a number.
pub(super) const MAX_DIGITS: usize = 19;

/// Strings of at most [`MAX_DIGITS`] digits have numbers below this.
pub(super) const NUMBER_LIMIT: u64 = FIRST[20];

/// Returns the number of the string of 1 to 19 digits at `at`.
#[inline(always)]
pub(super) fn number_of_digits(bytes: &[u8], at: usize, len: usize) -> u64 {
    decimal(bytes, at, len) + FIRST[len]
}

/// Writes the string of a number below [`NUMBER_LIMIT`] to the front of `out` and returns its length.
/// Bytes of `out` after the string are undefined.
#[inline(always)]
pub(super) fn write_number(number: u64, out: &mut [u8; 24]) -> usize {
    if number < FIRST[9] {
        let least = LEAST_DIGITS[32 - (number as u32 | 1).leading_zeros() as usize] as usize;
        let len = least + usize::from(number >= FIRST[least + 1]);
        let text = eight_digits((number - FIRST[len]) as u32) >> (64 - 8 * len);
        out[..8].copy_from_slice(&text.to_le_bytes());
        return len;
    }
    write_long_number(number, out)
}

fn write_long_number(number: u64, out: &mut [u8; 24]) -> usize {
    let len = (9..MAX_DIGITS).find(|&n| number < FIRST[n + 1]).unwrap_or(MAX_DIGITS);
    let mut value = number - FIRST[len];
    let mut end = len;
    while end > 8 {
        out[end - 8..end].copy_from_slice(&eight_digits((value % 100_000_000) as u32).to_le_bytes());
        value /= 100_000_000;
        end -= 8;
    }
    let head = eight_digits(value as u32).to_le_bytes();
    out[..end].copy_from_slice(&head[8 - end..]);
    len
}

/// Returns the class of a number: the number itself below 16, else its bit length and the two bits after
/// the first.
#[inline(always)]
pub(super) fn class_of(value: u64) -> u8 {
    if value < 16 {
        return value as u8;
    }
    let length = 64 - value.leading_zeros();
    (16 + (length - 5) * 4 + ((value >> (length - 3)) & 3) as u32) as u8
}

/// Returns the number of low bits that complete a number of this class.
#[inline(always)]
pub(super) fn extra_bits(class: u8) -> u32 {
    if class < 16 { 0 } else { (u32::from(class) - 16) / 4 + 2 }
}

/// Returns the number with a class and low bits.
#[inline(always)]
pub(super) fn number_of_class(class: u8, low: u64) -> u64 {
    if class < 16 { u64::from(class) } else { (4 | u64::from(class & 3)) << extra_bits(class) | low }
}

/// log2 in units of 1/65536, accurate to about 0.01. Integers only, so that every machine decides the
/// same.
fn log2(value: u32) -> u64 {
    if value == 0 {
        return 0;
    }
    let whole = 31 - value.leading_zeros();
    let fraction = ((u64::from(value) << (31 - whole)) & 0x7fff_ffff) >> 15;
    let bend = (fraction * (65_536 - fraction)) >> 16;
    (u64::from(whole) << 16) + fraction + ((bend * 22_500) >> 16)
}

/// Returns the bits that an ideal coder needs for symbols with these counts.
pub(super) fn entropy_bits(counts: &[u32]) -> u64 {
    let (mut total, mut parts) = (0, 0);
    for &count in counts.iter().filter(|&&count| count > 0) {
        total += count;
        parts += u64::from(count) * log2(count);
    }
    (u64::from(total) * log2(total)).saturating_sub(parts) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(number: u64) -> String {
        let mut out = [0; 24];
        let len = write_number(number, &mut out);
        String::from_utf8(out[..len].to_vec()).unwrap()
    }

    #[test]
    fn digit_strings_map_one_to_one_to_numbers() {
        let longest = "9999999999999999999";
        let texts =
            ["12345678", "00000000", "99999999", "123456789", "007123456789", "1234567890123456", longest];
        for text in texts {
            let number = number_of_digits(text.as_bytes(), 0, text.len());
            assert!(number < NUMBER_LIMIT);
            assert_eq!(written(number), text);
        }
        let mut expected = 0;
        for len in 1..=3_usize {
            for value in 0..10_usize.pow(len as u32) {
                let text = format!("x{value:0len$}y");
                assert_eq!(number_of_digits(text.as_bytes(), 1, len), expected);
                assert_eq!(written(expected), text[1..text.len() - 1]);
                expected += 1;
            }
        }
        assert_eq!(number_of_digits(longest.as_bytes(), 0, 19), NUMBER_LIMIT - 1);
    }

    #[test]
    fn classes_cover_all_numbers() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1 << shift) + 1, u64::MAX >> shift] {
                let class = class_of(value);
                let low = value & ((1 << extra_bits(class)) - 1);
                assert_eq!(number_of_class(class, low), value);
            }
        }
        assert_eq!(class_of(u64::MAX), 255);
        assert!((0..1000_u64).all(|v| class_of(v) <= class_of(v + 1)));
    }

    #[test]
    fn entropy_is_accurate() {
        assert_eq!(entropy_bits(&[1000, 0, 0]), 0);
        let even = entropy_bits(&[256; 256]);
        assert!(even.abs_diff(8 * 65_536) < 3_000, "{even}");
    }
}
