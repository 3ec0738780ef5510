//! Appends decimal numbers to byte buffers: the number format of large responses.
//!
//! **Invariant.** A fraction has the shortest digits that parse to the same number. Of two candidates
//! that are equally near, the even one is written, as in Go and Python.

/// Below it every integer is exact, and all of our formats write it without an exponent.
const WHOLE_MAX: f64 = 1e15;
/// Smallest magnitude for which the fast path writes fractions without an exponent.
const FRACTION_MIN: f64 = 1e-3;

/// Numbers below it have at most eight digits.
const EIGHT: u64 = 100_000_000;
/// A one in each of two, or four, numbers that are computed in parallel within a `u64`.
const TWO: u64 = (1 << 32) | 1;
const FOUR: u64 = (TWO << 16) | TWO;

/// The eight digits of a number below 100,000,000, one per byte, the first digit in the lowest byte.
#[inline]
fn eight_digits(number: u64) -> u64 {
    // Splits into two numbers of four digits, then four of two, then eight of one. Quotients by 100 and
    // by 10 are a product and a shift, which is exact for numbers this small.
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & (0x7f * TWO);
    let twos = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((twos * 103) >> 10) & (0xf * FOUR);
    tens | ((twos - tens * 10) << 8)
}

/// Added to digits to make ASCII characters.
const ASCII_ZEROS: u64 = 0x3030_3030_3030_3030;

/// The text of an integer below 10^16, its first character in the lowest byte, and its length.
#[inline]
fn sixteen_digits(number: u64) -> (u128, usize) {
    const ALL: u128 = (ASCII_ZEROS as u128) << 64 | ASCII_ZEROS as u128;
    let digits = u128::from(eight_digits(number / EIGHT)) | u128::from(eight_digits(number % EIGHT)) << 64;
    let zeros = (digits.trailing_zeros() / 8).min(15);
    ((digits | ALL) >> (zeros * 8), 16 - zeros as usize)
}

/// The most bytes that [`put_whole_float`] writes.
pub const WHOLE_BYTES: usize = 17;

/// Writes a float that is an integer to the beginning of `out`, in the form of [`push_whole_float`];
/// returns the number of bytes, or `None` for other numbers. The remaining bytes may change too.
#[inline]
pub fn put_whole_float(out: &mut [u8; WHOLE_BYTES], value: f64) -> Option<usize> {
    let whole = whole_of(value)?;
    let (digits, count) = sixteen_digits(whole.unsigned_abs());
    let at = usize::from(whole < 0);
    out[0] = b'-';
    out[at..at + 16].copy_from_slice(&digits.to_le_bytes());
    Some(at + count)
}

/// The integer that a float equals; `None` when it is not an integer, too large to be exact, or negative
/// zero.
#[inline]
fn whole_of(value: f64) -> Option<i64> {
    let whole = value as i64;
    let is_whole = whole as f64 == value && value.abs() < WHOLE_MAX;
    (is_whole && !(whole == 0 && value.is_sign_negative())).then_some(whole)
}

/// Appends an integer.
#[inline]
pub fn push_whole(out: &mut Vec<u8>, number: u64) {
    if number >= EIGHT {
        push_whole(out, number / EIGHT);
        out.extend_from_slice(&(eight_digits(number % EIGHT) | ASCII_ZEROS).to_le_bytes());
        return;
    }
    let digits = eight_digits(number);
    let zeros = (digits.trailing_zeros() / 8).min(7);
    // Copies all eight bytes, which is faster than copying only the digits.
    let length = out.len() + 8 - zeros as usize;
    out.extend_from_slice(&((digits | ASCII_ZEROS) >> (zeros * 8)).to_le_bytes());
    out.truncate(length);
}

/// Appends a signed integer.
pub fn push_signed(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    push_whole(out, number.unsigned_abs());
}

/// Appends a float that is an integer, without a decimal point. Appends nothing and returns `false` when
/// it is not an integer, too large to be exact, or negative zero.
#[inline]
pub fn push_whole_float(out: &mut Vec<u8>, value: f64) -> bool {
    let whole = whole_of(value);
    whole.into_iter().for_each(|whole| push_signed(out, whole));
    whole.is_some()
}

/// Appends a float that is not an integer, without an exponent. Appends nothing and returns `false` when
/// it is an integer, not finite, or outside of the range of this fast path (1e-3 to 1e15).
#[inline]
pub fn push_fraction(out: &mut Vec<u8>, value: f64) -> bool {
    if !(FRACTION_MIN..WHOLE_MAX).contains(&value.abs()) || value as i64 as f64 == value {
        return false;
    }
    out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>) -> bool) -> Option<String> {
        let mut out = Vec::new();
        write(&mut out).then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn integers_are_written_as_by_the_standard_library() {
        let mut bits = 0x9e37_79b9_7f4a_7c15u64;
        let near_powers = (0..20u32).map(|power| 10u64.pow(power)).flat_map(|n| [n - 1, n, n + 1]);
        let mixed: Vec<u64> = (0..10_000u64)
            .map(|n| {
                bits = bits.wrapping_mul(0xd129_0d3d_1d8f_5e75).wrapping_add(n | 1);
                bits >> (n % 64)
            })
            .collect();
        for number in near_powers.chain([0, u64::MAX]).chain(mixed) {
            let mut out = b"x".to_vec();
            push_whole(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), format!("x{number}"));
            let signed = number as i64;
            let written = text(|out| {
                push_signed(out, signed);
                true
            });
            assert_eq!(written, Some(signed.to_string()));
        }
        let put = |value: f64| {
            let mut bytes = [b'?'; WHOLE_BYTES];
            put_whole_float(&mut bytes, value)
                .map(|count| String::from_utf8(bytes[..count].to_vec()).unwrap())
        };
        let small = (0..15u32).map(|power| 10f64.powi(power as i32)).flat_map(|n| [n - 1.0, n, -n, 1.0 - n]);
        for value in [0.0, -1.0, 7.0, 1e15 - 1.0, 1.0 - 1e15].into_iter().chain(small.map(|n| n + 0.0)) {
            assert_eq!(text(|out| push_whole_float(out, value)), Some(format!("{value:.0}")));
            assert_eq!(put(value), Some(format!("{value:.0}")));
        }
        for value in [-0.0, 0.5, 1e15, -1e300, f64::NAN, f64::INFINITY] {
            assert_eq!(text(|out| push_whole_float(out, value)), None, "{value}");
            assert_eq!(put(value), None, "{value}");
        }
    }

    #[test]
    fn fractions_are_as_short_as_those_of_the_standard_library_and_round_trip() {
        let mut bits = 0x9e37_79b9_7f4a_7c15u64;
        for n in 0..200_000u64 {
            bits = bits.wrapping_mul(0xd129_0d3d_1d8f_5e75).wrapping_add(n | 1);
            let scaled = (bits >> 40) as f64 / [1.0, 3.0, 10.0, 60.0, 1e6][(n % 5) as usize];
            for number in [f64::from_bits(bits), scaled, -scaled, 1.0 / scaled] {
                let Some(quick) = text(|out| push_fraction(out, number)) else { continue };
                let general = number.to_string();
                assert_eq!((quick.len(), quick.parse()), (general.len(), Ok(number)), "{quick} {general}");
            }
        }
        for number in [0.0, 3.0, 9.99e-4, 1e15 + 0.5, f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(text(|out| push_fraction(out, number)), None, "{number}");
        }
        let tie = text(|out| push_fraction(out, 0.500_007_629_394_531_2));
        assert_eq!(tie.as_deref(), Some("0.5000076293945312"));
    }
}
