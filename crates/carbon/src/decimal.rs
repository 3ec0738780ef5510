//! Parses numbers in the form that most senders use, on a fast path.

/// Powers of ten that a double represents exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];
/// Number of digits up to which a double represents every mantissa exactly.
const DIGITS_MAX: usize = 15;

/// Parses the decimal number at the start of the bytes, of the form `-12.34`. Returns its value and its
/// length in bytes, or `None` for any other form, which may be a number too. The result is the nearest
/// double: the digits and the power of ten are exact, so one division rounds once.
#[inline]
pub(crate) fn leading(bytes: &[u8]) -> Option<(f64, usize)> {
    let is_negative = bytes.first() == Some(&b'-');
    let mut at = usize::from(is_negative);
    let (mut mantissa, mut digits, mut decimals) = (0u64, 0usize, 0usize);
    let mut has_point = false;
    while let Some(byte) = bytes.get(at) {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            mantissa = mantissa.wrapping_mul(10).wrapping_add(digit.into());
            digits += 1;
            decimals += usize::from(has_point);
        } else if *byte == b'.' && !has_point {
            has_point = true;
        } else {
            break;
        }
        at += 1;
    }
    if digits == 0 || digits > DIGITS_MAX {
        return None;
    }
    let value = mantissa as f64 / POWERS[decimals];
    Some((if is_negative { -value } else { value }, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_decimals_are_parsed_as_by_the_standard_library() {
        for text in
            ["0", "-0", "1", "12.5", "-3.", ".25", "0.1", "123456789012345", "0.00000000000001", "9.95"]
        {
            let (value, length) = leading(text.as_bytes()).unwrap();
            assert_eq!(
                (value.to_bits(), length),
                (text.parse::<f64>().unwrap().to_bits(), text.len()),
                "{text}"
            );
        }
        for text in ["", "-", ".", "x", "1234567890123456", "+1", "inf"] {
            assert_eq!(leading(text.as_bytes()), None, "{text}");
        }
        assert_eq!(leading(b"1e5"), Some((1.0, 1)), "the caller checks what follows");
    }
}
