//! Formats, parses and rounds numbers as Python does. Names and tags of series contain numbers, and clients
//! match names.

use std::fmt;

use sandur_model::decimal::{push_fraction, push_whole_float};

/// A number in a target: an integer or a float, which print differently.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Without a decimal point.
    Int(i64),
    /// With a decimal point.
    Float(f64),
}

impl Number {
    /// The number as a float.
    pub fn value(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => f.write_str(&repr(*value)),
        }
    }
}

/// The sign, digits and decimal exponent of a finite number formatted with `{:e}`.
fn parts(text: &str) -> (bool, String, i32) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let negative = mantissa.starts_with('-');
    let digits = mantissa.chars().filter(char::is_ascii_digit).collect();
    (negative, digits, exponent.parse().unwrap_or(0))
}

fn not_finite(value: f64) -> Option<&'static str> {
    match value {
        v if v.is_nan() => Some("nan"),
        f64::INFINITY => Some("inf"),
        f64::NEG_INFINITY => Some("-inf"),
        _ => None,
    }
}

/// Digits with a point after the first one, and an exponent of at least two digits.
fn scientific(digits: &str, exponent: i32) -> String {
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{first}{point}{rest}e{sign}{:02}", exponent.abs())
}

/// Digits with the point at the place that the exponent defines.
fn positional(digits: &str, exponent: i32) -> String {
    if exponent < 0 {
        return format!("0.{}{digits}", "0".repeat((-exponent - 1) as usize));
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        return format!("{digits}{}", "0".repeat(whole - digits.len()));
    }
    format!("{}.{}", &digits[..whole], &digits[whole..])
}

/// Python's `repr(value)`: the shortest digits that parse to the same value.
pub fn repr(value: f64) -> String {
    let mut out = Vec::new();
    push_repr(&mut out, value);
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends `repr(value)`.
pub fn push_repr(out: &mut Vec<u8>, value: f64) {
    if push_whole_float(out, value) {
        out.extend_from_slice(b".0");
    } else if !push_fraction(out, value) {
        out.extend_from_slice(general_repr(value).as_bytes());
    }
}

/// Python's `repr(value)`, for any float.
fn general_repr(value: f64) -> String {
    if let Some(name) = not_finite(value) {
        return name.to_owned();
    }
    let (negative, digits, exponent) = parts(&format!("{value:e}"));
    let text = match exponent {
        -4..16 => {
            let text = positional(&digits, exponent);
            if text.contains('.') { text } else { text + ".0" }
        }
        _ => scientific(&digits, exponent),
    };
    if negative { format!("-{text}") } else { text }
}

/// Python's `'%g' % value`: at most six digits.
pub fn general(value: f64) -> String {
    if let Some(name) = not_finite(value) {
        return name.to_owned();
    }
    let (negative, digits, exponent) = parts(&format!("{value:.5e}"));
    let digits = digits.trim_end_matches('0');
    let digits = if digits.is_empty() { "0" } else { digits };
    let text = match exponent {
        -4..6 => positional(digits, exponent),
        _ => scientific(digits, exponent),
    };
    if negative { format!("-{text}") } else { text }
}

/// Python's `'%d' % value`, truncated towards zero; `None` if not finite.
pub fn whole(value: f64) -> Option<String> {
    value.is_finite().then(|| match value.trunc() {
        0.0 => "0".to_owned(),
        whole => format!("{whole:.0}"),
    })
}

/// Python's `'%.Nf' % value`.
pub fn fixed(value: f64, digits: usize) -> String {
    match not_finite(value) {
        Some(name) => name.to_owned(),
        None => format!("{value:.digits$}"),
    }
}

/// Python's `round(value, digits)`: to the nearest decimal of the exact value, ties to even.
pub fn round(value: f64, digits: i64) -> f64 {
    if !value.is_finite() || digits > 330 {
        return value;
    }
    if digits < -330 {
        return 0.0 * value;
    }
    if digits <= 0 {
        let scale = 10f64.powi(-digits as i32);
        return if digits == 0 { value.round_ties_even() } else { (value / scale).round_ties_even() * scale };
    }
    if let Some(rounded) = round_quickly(value, digits) {
        return rounded;
    }
    let digits = digits as usize;
    format!("{value:.digits$}").parse().unwrap_or(value)
}

/// Rounds without text, in the common case. The product has an error of up to half a unit in the last
/// place. If it is farther than a few units from a tie, it rounds as the exact value does, and the quotient
/// of two exact numbers is the nearest float.
fn round_quickly(value: f64, digits: i64) -> Option<f64> {
    let scale = 10f64.powi(i32::try_from(digits).ok().filter(|digits| *digits <= 15)?);
    let product = value * scale;
    if product.abs() >= (1u64 << 50) as f64 {
        return None;
    }
    let rounded = product.round_ties_even();
    let from_half = ((product - rounded).abs() - 0.5).abs();
    (from_half > product.abs() * 4.0 * f64::EPSILON).then_some(rounded / scale)
}

/// Python's `float(text)`.
pub fn parse_float(text: &str) -> Option<f64> {
    let text = text.trim();
    let bare = text.trim_start_matches(['+', '-']).to_ascii_lowercase();
    if text.len() - bare.len() > 1 {
        return None;
    }
    let negative = text.starts_with('-');
    let value = match bare.as_str() {
        "inf" | "infinity" => f64::INFINITY,
        "nan" => f64::NAN,
        _ => {
            let lead = bare.chars().next()?;
            let fits = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | '+' | '-' | '_');
            if !(lead.is_ascii_digit() || lead == '.') || !bare.chars().all(fits) {
                return None;
            }
            without_underscores(&bare)?.parse().ok()?
        }
    };
    Some(if negative { -value } else { value })
}

/// Python's `int(text)`.
pub fn parse_int(text: &str) -> Option<i64> {
    without_underscores(text.trim())?.parse().ok()
}

/// Python allows one underscore between two digits.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let is_digit = |n: Option<usize>| n.and_then(|n| bytes.get(n)).is_some_and(u8::is_ascii_digit);
    let between = |n: usize| is_digit(n.checked_sub(1)) && is_digit(n.checked_add(1));
    let allowed = bytes.iter().enumerate().all(|(n, byte)| *byte != b'_' || between(n));
    allowed.then(|| text.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_formatted_as_in_python() {
        let cases = [(5.0, "5.0"), (1e16, "1e+16"), (1e15, "1000000000000000.0"), (0.0001, "0.0001")];
        for (value, text) in cases.into_iter().chain([
            (0.00001, "1e-05"),
            (-0.5, "-0.5"),
            (1.5e300, "1.5e+300"),
            (f64::NEG_INFINITY, "-inf"),
            (-0.0, "-0.0"),
        ]) {
            assert_eq!(repr(value), text);
        }
        let general_cases = [(1e20, "1e+20"), (0.01, "0.01"), (1234567.0, "1.23457e+06"), (100.0, "100")];
        for (value, text) in general_cases {
            assert_eq!(general(value), text);
        }
        assert_eq!(general(0.0), "0");
        assert_eq!(whole(-1.9).as_deref(), Some("-1"));
        assert_eq!(whole(f64::NAN), None);
    }

    #[test]
    fn the_fast_path_of_repr_equals_the_general_one() {
        let mut bits = 0x9e37_79b9_7f4a_7c15u64;
        for n in 0..50_000u64 {
            bits = bits.wrapping_mul(0xd129_0d3d_1d8f_5e75).wrapping_add(n | 1);
            let scaled = (bits >> 40) as f64 / [1.0, 3.0, 10.0, 60.0, 1e6][(n % 5) as usize];
            for number in [f64::from_bits(bits), scaled, -scaled, 1.0 / scaled, scaled.trunc()] {
                let (quick, general) = (repr(number), general_repr(number));
                assert_eq!(quick.len(), general.len(), "{quick} {general}");
                assert!(number.is_nan() || quick.parse() == Ok(number), "{quick} {general}");
                assert!(number.fract() != 0.0 || quick == general, "{quick} {general}");
            }
        }
        // Of two equally near decimals, Python prints the even one.
        assert_eq!(repr(0.500_007_629_394_531_2), "0.5000076293945312");
    }

    #[test]
    fn ties_of_the_exact_value_round_to_even() {
        for (value, digits, rounded) in
            [(0.5, 0, 0.0), (2.5, 0, 2.0), (2.675, 2, 2.67), (0.125, 2, 0.12), (1250.0, -2, 1200.0)]
        {
            assert_eq!(round(value, digits), rounded, "{value}");
        }
        assert_eq!(round(1.0000015, 6), 1.000001);
        assert_eq!(round(1e300, 6), 1e300);
        assert_eq!(round(1e300, i64::MAX), 1e300);
    }

    #[test]
    fn floats_are_parsed_as_in_python() {
        assert_eq!(parse_float(" 1_000.5 "), Some(1000.5));
        assert_eq!(parse_float("-inf"), Some(f64::NEG_INFINITY));
        for wrong in ["", "x", "1__0", "_1", "--1", "0x10", "1e"] {
            assert_eq!(parse_float(wrong), None, "{wrong}");
        }
        assert_eq!(parse_int("+7"), Some(7));
    }
}
