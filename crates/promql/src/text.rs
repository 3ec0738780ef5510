//! Go's text forms of numbers, durations and strings.

use std::fmt::Write;

pub use sandur_model::histogram::GoNumber;

pub use sandur_model::MILLISECOND_NS as MS_NS;

/// Units of durations with their lengths in milliseconds, the largest first.
const UNITS: [(&str, i64); 7] = [
    ("y", 365 * 24 * 3_600_000),
    ("w", 7 * 24 * 3_600_000),
    ("d", 24 * 3_600_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Parses a duration to nanoseconds, such as `1h30m`: each unit at most once, the largest first.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    if text == "0" {
        return Ok(0);
    }
    if text.is_empty() {
        return Err("empty duration string".to_owned());
    }
    let invalid = || format!("not a valid duration string: {}", quote(text));
    let (mut rest, mut total, mut last) = (text, 0i64, None);
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        if unit == 0 {
            return Err(invalid());
        }
        let unknown = || format!("unknown unit {} in duration {}", quote(&rest[..unit]), quote(text));
        let place = UNITS.iter().position(|(name, _)| *name == &rest[..unit]).ok_or_else(unknown)?;
        if last.is_some_and(|last| place <= last) {
            return Err(invalid());
        }
        (last, rest) = (Some(place), &rest[unit..]);
        let number = i64::try_from(number).ok();
        let part = number.and_then(|n| n.checked_mul(UNITS[place].1)?.checked_mul(MS_NS));
        total = part.and_then(|ns| total.checked_add(ns)).ok_or("duration out of range")?;
    }
    Ok(total)
}

/// Formats nanoseconds as a duration in milliseconds. Years and weeks appear only if they divide it without
/// a rest.
pub fn format_duration(ns: i64) -> String {
    let mut ms = (ns / MS_NS).unsigned_abs();
    if ms == 0 {
        return "0s".to_owned();
    }
    let mut text = if ns < 0 { "-".to_owned() } else { String::new() };
    for (n, (unit, length)) in UNITS.iter().enumerate() {
        let length = length.unsigned_abs();
        // Years and weeks are used only if nothing remains.
        if n < 2 && !ms.is_multiple_of(length) {
            continue;
        }
        let count = ms / length;
        if count > 0 {
            let _ = write!(text, "{count}{unit}");
            ms -= count * length;
        }
    }
    text
}

/// Formats a number without an exponent.
pub fn plain_number(number: f64) -> String {
    match number {
        n if n.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        n => n.to_string(),
    }
}

/// Writes a text in double quotes, with Go's escapes.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            // The parser accepts U+FFFD only as an escape.
            char::REPLACEMENT_CHARACTER => out.push_str("\\ufffd"),
            c => escape_char(&mut out, c),
        }
    }
    out.push('"');
    out
}

fn escape_char(out: &mut String, c: char) {
    let _ = match c {
        '\\' => out.write_str("\\\\"),
        '\u{7}' => out.write_str("\\a"),
        '\u{8}' => out.write_str("\\b"),
        '\u{c}' => out.write_str("\\f"),
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        '\u{b}' => out.write_str("\\v"),
        c if (c as u32) < 0x20 || c as u32 == 0x7f => write!(out, "\\x{:02x}", c as u32),
        c if is_printable(c) => out.write_char(c),
        c if (c as u32) < 0x1_0000 => write!(out, "\\u{:04x}", c as u32),
        c => write!(out, "\\U{:08x}", c as u32),
    };
}

/// Whether Go prints the character unescaped: it is not a control or format character, not a space other
/// than U+0020, and not unassigned.
fn is_printable(c: char) -> bool {
    if c.is_ascii() || c.is_alphanumeric() {
        return c == ' ' || c.is_ascii_graphic() || !c.is_ascii();
    }
    // After another character, `escape_debug` escapes exactly the characters that are not printable.
    let pair: String = ['a', c].into_iter().collect();
    pair.escape_debug().nth(1) == Some(c)
}

/// Formats a character in single quotes.
pub fn debug_char(c: char) -> String {
    let mut out = "'".to_owned();
    if c == '\'' {
        out.push_str("\\'")
    } else {
        escape_char(&mut out, c)
    }
    out.push('\'');
    out
}

/// Formats a character as its code point, followed by itself if it is printable.
pub fn numbered_char(c: char) -> String {
    let number = format!("U+{:04X}", u32::from(c));
    if is_printable(c) { format!("{number} '{c}'") } else { number }
}

/// Formats bytes in double quotes; bytes that are not UTF-8 are escaped by their values.
pub fn quote_bytes(bytes: &[u8]) -> String {
    let mut out = "\"".to_owned();
    for chunk in bytes.utf8_chunks() {
        let quoted = quote(chunk.valid());
        out.push_str(&quoted[1..quoted.len() - 1]);
        chunk.invalid().iter().for_each(|byte| _ = write!(out, "\\x{byte:02x}"));
    }
    out.push('"');
    out
}

/// The content of a quoted string, in any of the three kinds of quotes. Bytes that are not UTF-8 are
/// replaced.
pub fn unquote(quoted: &str) -> Option<String> {
    let text = String::from_utf8(unquote_bytes(quoted)?);
    Some(text.unwrap_or_else(|error| {
        let mut text = String::new();
        for chunk in error.as_bytes().utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
        }
        text
    }))
}

/// The content of a quoted string as bytes.
pub fn unquote_bytes(quoted: &str) -> Option<Vec<u8>> {
    let mut chars = quoted.chars();
    let open = chars.next()?;
    let inner = chars.as_str().strip_suffix(open)?;
    if open == '`' {
        return Some(inner.as_bytes().to_vec());
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(c) = rest.next() {
        let c = match c {
            '\\' => match escaped(&mut rest)? {
                Escaped::Byte(byte) => {
                    bytes.push(byte);
                    continue;
                }
                Escaped::Char(c) => c,
            },
            '\n' => return None,
            c if c == open => return None,
            c => c,
        };
        bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Some(bytes)
}

enum Escaped {
    Byte(u8),
    Char(char),
}

fn escaped(rest: &mut std::str::Chars<'_>) -> Option<Escaped> {
    let c = rest.next()?;
    let mut number = |digits: usize, base: u32, first: u32| {
        (0..digits)
            .try_fold(first, |value, _| value.checked_mul(base)?.checked_add(rest.next()?.to_digit(base)?))
    };
    Some(match c {
        'a' => Escaped::Char('\u{7}'),
        'b' => Escaped::Char('\u{8}'),
        'f' => Escaped::Char('\u{c}'),
        'n' => Escaped::Char('\n'),
        'r' => Escaped::Char('\r'),
        't' => Escaped::Char('\t'),
        'v' => Escaped::Char('\u{b}'),
        '\\' | '\'' | '"' => Escaped::Char(c),
        'x' => Escaped::Byte(number(2, 16, 0)? as u8),
        'u' => Escaped::Char(char::from_u32(number(4, 16, 0)?)?),
        'U' => Escaped::Char(char::from_u32(number(8, 16, 0)?)?),
        '0'..='7' => Escaped::Byte(u8::try_from(number(2, 8, c.to_digit(8)?)?).ok()?),
        _ => return None,
    })
}

/// Parses a number as Go does: an integer with a base prefix, or a float, both with underscores.
pub fn parse_number(text: &str) -> Result<f64, String> {
    let failed = |why: &str| format!("strconv.ParseFloat: parsing {}: {why}", quote(text));
    if !underscores_part_digits(text) {
        return Err(failed("invalid syntax"));
    }
    let plain = text.to_ascii_lowercase().replace('_', "");
    if let Some(number) = parse_integer(&plain) {
        return Ok(number as f64);
    }
    let number: f64 = plain.parse().map_err(|_| failed("invalid syntax"))?;
    if number.is_infinite() && plain.bytes().any(|b| b.is_ascii_digit()) {
        return Err(failed("value out of range"));
    }
    Ok(number)
}

/// Parses an integer in lower case. Without a base prefix, a leading zero makes it octal.
fn parse_integer(plain: &str) -> Option<i64> {
    let (digits, base) = match plain.as_bytes() {
        [b'0', b'x', ..] => (&plain[2..], 16),
        [b'0', b'o', ..] => (&plain[2..], 8),
        [b'0', b'b', ..] => (&plain[2..], 2),
        [b'0', _, ..] => (&plain[1..], 8),
        _ => (plain, 10),
    };
    let is_number = digits.bytes().all(|digit| digit.is_ascii_alphanumeric());
    if is_number { i64::from_str_radix(digits, base).ok() } else { None }
}

/// Whether each underscore has digits on both sides; a base prefix counts as a digit.
fn underscores_part_digits(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (start, hex) = match bytes {
        [b'0', b'x' | b'X', ..] => (2, true),
        [b'0', b'o' | b'O' | b'b' | b'B', ..] => (2, false),
        _ => (0, false),
    };
    let is_digit = |byte: &u8| if hex { byte.is_ascii_hexdigit() } else { byte.is_ascii_digit() };
    let parts = |at: usize| {
        let before = if at == start { start > 0 } else { is_digit(&bytes[at - 1]) };
        before && bytes.get(at + 1).is_some_and(is_digit)
    };
    (start..bytes.len()).filter(|at| bytes[*at] == b'_').all(parts)
}

/// Whether a label name needs no quotes.
pub fn is_plain_label(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c == '_' || c.is_ascii_alphabetic())
        && chars.all(|c| c == '_' || c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_and_formatted() {
        for (text, ns, written) in [
            ("1h30m", 5_400_000 * MS_NS, "1h30m"),
            ("90m", 5_400_000 * MS_NS, "1h30m"),
            ("7d", 604_800_000 * MS_NS, "1w"),
            ("8d", 691_200_000 * MS_NS, "8d"),
            ("366d", 366 * 86_400_000 * MS_NS, "366d"),
            ("1y", 365 * 86_400_000 * MS_NS, "1y"),
            ("1500ms", 1_500 * MS_NS, "1s500ms"),
            ("0", 0, "0s"),
        ] {
            assert_eq!(parse_duration(text), Ok(ns), "{text}");
            assert_eq!(format_duration(ns), written, "{text}");
        }
        for bad in ["", "5", "5x", "5m1h", "1m1m", "99999999999y"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn quotes_and_numbers_follow_go() {
        assert_eq!(quote("a\"\n\u{1}é"), r#""a\"\n\x01é""#);
        assert_eq!(unquote(r#""a\"\n\x01\u00e9""#).as_deref(), Some("a\"\n\u{1}é"));
        assert_eq!(unquote("`a\\n`").as_deref(), Some("a\\n"));
        assert_eq!(unquote(r"'it\'s'").as_deref(), Some("it's"));
        for (text, number) in [
            ("0x1F", 31.0),
            ("010", 8.0),
            ("1_000", 1000.0),
            ("1e3", 1000.0),
            ("08", 8.0),
            ("Inf", f64::INFINITY),
            ("1_0.5_0", 10.5),
            ("1e1_0", 1e10),
            ("0x_f_f", 255.0),
            ("0_7", 7.0),
            ("9223372036854775808", 9_223_372_036_854_775_808.0),
        ] {
            assert_eq!(parse_number(text), Ok(number), "{text}");
        }
        for text in ["1__0", "_1", "1_", "1_.5", "1._5", "1_e5", "0x", "0x_", "0b2", "0x1_"] {
            assert!(parse_number(text).is_err(), "{text}");
        }
        assert!(parse_number("NaN").is_ok_and(f64::is_nan) && parse_number("0b2").is_err());
        assert_eq!(quote("\u{ad}\u{378}\u{2028}\u{301}é😀"), "\"\\u00ad\\u0378\\u2028\u{301}é😀\"");
        assert_eq!(numbered_char('\r') + &numbered_char('q'), "U+000DU+0071 'q'");
        assert_eq!(plain_number(1e21), "1000000000000000000000");
    }
}
