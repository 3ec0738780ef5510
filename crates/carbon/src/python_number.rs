//! Parses numbers as Python's `float` does.

use std::borrow::Cow;

/// Returns the number, or `None` if Python rejects the text.
///
/// In addition to what Rust accepts: Unicode spaces around the number, single underscores between
/// digits, and the decimal digits of all scripts.
pub(crate) fn float(text: &str) -> Option<f64> {
    let text = text.trim_matches(is_space);
    let plain = match text.is_ascii() {
        true => Cow::Borrowed(text),
        false => Cow::Owned(text.chars().map(ascii_digit).collect::<String>()),
    };
    if !plain.contains('_') {
        return plain.parse().ok();
    }
    let bytes = plain.as_bytes();
    let digit_at = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let mut underscores = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'_');
    if underscores.any(|(at, _)| !digit_at(at.checked_sub(1)) || !digit_at(at.checked_add(1))) {
        return None;
    }
    plain.replace('_', "").parse().ok()
}

/// Returns whether Python's `split` and `strip` treat a character as space.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The zeros of the scripts whose digits have consecutive codes (general category Nd).
const ZEROS: [u32; 37] = [
    0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66, 0x0DE6,
    0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50, 0x1BB0,
    0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10, 0x104A0,
];

fn ascii_digit(c: char) -> char {
    let code = u32::from(c);
    let zero = ZEROS.iter().rev().find(|zero| **zero <= code);
    match zero.map(|zero| code - zero) {
        Some(digit @ 0..10) => char::from(b'0' + digit as u8),
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed_as_by_python() {
        for (text, value) in [
            ("1.5", Some(1.5)),
            ("+1e3", Some(1000.0)),
            (" 2\u{a0}", Some(2.0)),
            ("1_000", Some(1000.0)),
            ("1_0.0_1e1_0", Some(10.01e10)),
            ("٣", Some(3.0)),
            ("１２", Some(12.0)),
            ("-inf", Some(f64::NEG_INFINITY)),
            ("1e400", Some(f64::INFINITY)),
            ("_1", None),
            ("1__0", None),
            ("1_", None),
            ("1_.0", None),
            ("0x10", None),
            ("1,5", None),
            ("", None),
            ("²", None),
        ] {
            assert_eq!(float(text), value, "{text}");
        }
        assert!(float("NaN").is_some_and(f64::is_nan));
    }
}
