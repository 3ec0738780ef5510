//! Writes JSON tokens as Go's encoder does: `<`, `>`, `&` and the line separators U+2028 and U+2029 are
//! escaped, invalid UTF-8 is replaced byte by byte, numbers have the shortest decimal form without
//! exponent.

use std::io::Write;

use sandur_model::decimal::{push_fraction, push_whole_float};

/// Appends a string. Each byte that is not valid UTF-8 becomes U+FFFD.
pub fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    match std::str::from_utf8(bytes) {
        Ok(_) => valid(out, bytes),
        Err(_) => {
            for chunk in bytes.utf8_chunks() {
                valid(out, chunk.valid().as_bytes());
                chunk.invalid().iter().for_each(|_| out.extend_from_slice(b"\\ufffd"));
            }
        }
    }
    out.push(b'"');
}

/// Appends a string that is valid UTF-8.
pub fn utf8(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    valid(out, text.as_bytes());
    out.push(b'"');
}

/// Whether a byte may need an escape. 0xE2 is the first byte of U+2028 and U+2029.
const fn is_special(byte: u8) -> bool {
    // `|` instead of `||`, so that the compiler vectorizes it.
    (byte < 0x20)
        | (byte == b'"')
        | (byte == b'\\')
        | (byte == b'<')
        | (byte == b'>')
        | (byte == b'&')
        | (byte == 0xE2)
}

/// How each byte is written: 0 unchanged, a character to put after a backslash, or [`RARE`].
static ESCAPES: [u8; 256] = {
    let mut escapes = [0; 256];
    let mut byte = 0;
    while byte < escapes.len() {
        escapes[byte] = match byte as u8 {
            b'"' => b'"',
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            byte if is_special(byte) => RARE,
            _ => 0,
        };
        byte += 1;
    }
    escapes
};
/// The byte has another escape, or may need none.
const RARE: u8 = 1;
/// Number of bytes that are checked together.
const LANES: usize = 32;

/// Whether no byte needs an escape.
fn are_plain(bytes: &[u8]) -> bool {
    !bytes.iter().fold(false, |any, &byte| any | is_special(byte))
}

/// Appends valid UTF-8.
///
/// Runs of [`LANES`] bytes without an escape are copied. Others are written byte by byte without a
/// branch: lines of JSON have a quote every few bytes, and copying the parts between escapes would be
/// slower.
fn valid(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + text.len() / 8);
    // Fast path: most names and values are short.
    if text.len() < LANES && are_plain(text) {
        return out.extend_from_slice(text);
    }
    let mut at = 0;
    let mut written = [0; 2 * LANES + 1];
    while at < text.len() {
        let plain = text[at..].as_chunks::<LANES>().0.iter().take_while(|lanes| are_plain(*lanes)).count();
        let (plain, rest) = text[at..].split_at(plain * LANES);
        out.extend_from_slice(plain);
        at += plain.len();
        let lanes = &rest[..LANES.min(rest.len())];
        let (mut len, mut rare) = (0, false);
        for &byte in lanes {
            let escape = ESCAPES[usize::from(byte)];
            rare |= escape == RARE;
            written[len] = if escape == 0 { byte } else { b'\\' };
            written[len + 1] = escape;
            len += 1 + usize::from(escape != 0);
        }
        if rare {
            at += with_rare(out, &text[at..], lanes.len());
        } else {
            out.extend_from_slice(&written[..len]);
            at += lanes.len();
        }
    }
}

/// Appends the first bytes of a text, at least `least`. Returns their number.
fn with_rare(out: &mut Vec<u8>, text: &[u8], least: usize) -> usize {
    let mut at = 0;
    while at < least {
        let (escape, len) = escape_of(&text[at..]);
        match escape {
            Some(Escape::Text(text)) => out.extend_from_slice(text),
            Some(Escape::Control(byte)) => push(out, format_args!("\\u{byte:04x}")),
            None => out.push(text[at]),
        }
        at += len;
    }
    at
}

enum Escape {
    Text(&'static [u8]),
    Control(u8),
}

/// The escape for the first character and its length in bytes; `None` if it is written unchanged.
fn escape_of(text: &[u8]) -> (Option<Escape>, usize) {
    let escape: &[u8] = match *text {
        [b'"', ..] => b"\\\"",
        [b'\\', ..] => b"\\\\",
        [b'\n', ..] => b"\\n",
        [b'\r', ..] => b"\\r",
        [b'\t', ..] => b"\\t",
        [0xE2, 0x80, 0xA8, ..] => return (Some(Escape::Text(b"\\u2028")), 3),
        [0xE2, 0x80, 0xA9, ..] => return (Some(Escape::Text(b"\\u2029")), 3),
        [byte, ..] if ESCAPES[usize::from(byte)] == RARE && byte != 0xE2 => {
            return (Some(Escape::Control(byte)), 1);
        }
        _ => return (None, 1),
    };
    (Some(Escape::Text(escape)), 1)
}

/// Appends formatted text.
pub fn push(out: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    out.write_fmt(arguments).expect("writing to a Vec does not fail");
}

/// Appends labels as an object.
pub fn labels<'a>(out: &mut Vec<u8>, labels: impl Iterator<Item = (&'a str, &'a str)>) {
    out.push(b'{');
    for (n, (name, value)) in labels.enumerate() {
        if n > 0 {
            out.push(b',');
        }
        utf8(out, name);
        out.push(b':');
        utf8(out, value);
    }
    out.push(b'}');
}

/// Appends an array of strings.
pub fn strings<'a>(out: &mut Vec<u8>, items: impl Iterator<Item = &'a str>) {
    out.push(b'[');
    for (n, item) in items.enumerate() {
        if n > 0 {
            out.push(b',');
        }
        utf8(out, item);
    }
    out.push(b']');
}

/// Appends the member `warnings` to an object that has other members, if there are any.
pub fn warnings(out: &mut Vec<u8>, warnings: &[String]) {
    if !warnings.is_empty() {
        out.extend_from_slice(b",\"warnings\":");
        strings(out, warnings.iter().map(String::as_str));
    }
}

/// Appends a sample's value as Prometheus prints it, without quotes.
pub fn value(out: &mut Vec<u8>, value: f64) {
    if push_whole_float(out, value) || push_fraction(out, value) {
        return;
    }
    // Rust prints the shortest decimal that parses to the same number, without exponent, like Go's format
    // `'f', -1`.
    match value {
        f64::INFINITY => out.extend_from_slice(b"+Inf"),
        f64::NEG_INFINITY => out.extend_from_slice(b"-Inf"),
        _ => push(out, format_args!("{value}")),
    }
}

/// Appends milliseconds as seconds with as few decimals as possible.
pub fn seconds(out: &mut Vec<u8>, ms: i64) {
    let (sign, ms) = (if ms < 0 { "-" } else { "" }, ms.unsigned_abs());
    push(out, format_args!("{sign}{}", ms / 1_000));
    let decimals = ms % 1_000;
    if decimals != 0 {
        let digits = format!(".{decimals:03}");
        out.extend_from_slice(digits.trim_end_matches('0').as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn strings_are_escaped_as_go_escapes_them() {
        for (given, expected) in [
            (&b"plain"[..], r#""plain""#),
            (b"<b>&\"q\"\\", r#""\u003cb\u003e\u0026\"q\"\\""#),
            (b"\n\r\t\x00\x1f\x7f", "\"\\n\\r\\t\\u0000\\u001f\u{7f}\""),
            ("\u{2028}\u{2029}\u{2027}€é".as_bytes(), "\"\\u2028\\u2029\u{2027}€é\""),
            (b"a\xffb", r#""a\ufffdb""#),
            (b"\xe2\x80", r#""\ufffd\ufffd""#),
            (b"", r#""""#),
        ] {
            assert_eq!(text(|out| string(out, given)), expected);
        }
    }

    #[test]
    fn every_string_is_decoded_unchanged() {
        let given: String = (0..0x3000u32).filter_map(char::from_u32).collect();
        let written = text(|out| string(out, given.as_bytes()));
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), given);
    }

    #[test]
    fn escapes_are_written_at_every_position() {
        for special in ["\u{2028}", "€", "\"", "\u{1}", "<", "é"] {
            for at in 0..3 * LANES {
                let given = format!("{}{special}{}", "a".repeat(at), "b\"".repeat(2 * LANES));
                let written = text(|out| string(out, given.as_bytes()));
                assert_eq!(serde_json::from_str::<String>(&written).unwrap(), given, "{special} at {at}");
            }
        }
    }

    #[test]
    fn numbers_have_no_exponent() {
        for (number, expected) in [
            (2.0, "2"),
            (0.016666666666666666, "0.016666666666666666"),
            (1e21, "1000000000000000000000"),
            (1e-7, "0.0000001"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(text(|out| value(out, number)), expected);
        }
        for (ms, expected) in [
            (1_795_240_903_572, "1795240903.572"),
            (1_795_240_903_500, "1795240903.5"),
            (1_795_240_903_020, "1795240903.02"),
            (0, "0"),
            (-1, "-0.001"),
            (-61_000, "-61"),
            (i64::MIN, "-9223372036854775.808"),
        ] {
            assert_eq!(text(|out| seconds(out, ms)), expected);
        }
        assert_eq!(text(|out| seconds(out, 1_795_240_903_000)), "1795240903");
    }
    #[test]
    fn the_fast_paths_are_exact_and_as_short_as_the_general_one() {
        // Of two equally near shortest decimals, Go and the fast path choose the even one.
        let check = |number: f64| {
            let (quick, general) = (text(|out| value(out, number)), number.to_string());
            assert_eq!((quick.len(), quick.parse()), (general.len(), Ok(number)), "{quick} {general}");
        };
        let mut bits = 0x9e37_79b9_7f4a_7c15u64;
        for n in 0..200_000u64 {
            bits = bits.wrapping_mul(0xd129_0d3d_1d8f_5e75).wrapping_add(n | 1);
            let scaled = (bits >> 40) as f64 / [1.0, 3.0, 10.0, 60.0, 1e6][(n % 5) as usize];
            for number in [f64::from_bits(bits), scaled, -scaled, 1.0 / scaled] {
                if number.is_finite() {
                    check(number);
                }
            }
        }
        for number in [0.0, -0.0, 1e15, 1e15 - 0.5, 1e-3, 9.99e-4, 1e16, -1e15, f64::MAX, 5e-324] {
            check(number);
        }
        assert_eq!(text(|out| value(out, 0.500_007_629_394_531_2)), "0.5000076293945312");
        assert_eq!(text(|out| value(out, -0.0)), "-0");
    }
}
