//! Durations, byte sizes and numbers in the forms of Go, Prometheus and the `humanize` library, with their
//! error texts, which LogQL shows to users.

use std::borrow::Cow;
use std::fmt::Write;

const MICROSECOND: i64 = 1_000;
const MILLISECOND: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Units of Prometheus durations, largest first, in nanoseconds.
const PROMETHEUS_UNITS: [(&str, i64); 7] = [
    ("y", 365 * DAY),
    ("w", 7 * DAY),
    ("d", DAY),
    ("h", HOUR),
    ("m", MINUTE),
    ("s", SECOND),
    ("ms", MILLISECOND),
];

/// Parses `1d12h` to nanoseconds: whole numbers, units from large to small, each at most once.
pub fn parse_prometheus_duration(text: &str) -> Result<i64, String> {
    match text {
        "" => return Err("empty duration string".to_owned()),
        "0" => return Ok(0),
        _ => {}
    }
    let invalid = || format!("not a valid duration string: {}", quote(excerpt(text)));
    let mut rest = text;
    let mut last_unit = None;
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits == 0 {
            return Err(invalid());
        }
        let number: i64 = rest[..digits].parse().map_err(|_| "duration out of range".to_owned())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = &rest[..letters];
        rest = &rest[letters..];
        if unit.is_empty() {
            return Err(invalid());
        }
        let place = PROMETHEUS_UNITS.iter().position(|(name, _)| *name == unit);
        let Some(place) = place else {
            return Err(format!("unknown unit {} in duration {}", quote(unit), quote(excerpt(text))));
        };
        if last_unit.is_some_and(|last| place <= last) {
            return Err(invalid());
        }
        last_unit = Some(place);
        let nanoseconds = number.checked_mul(PROMETHEUS_UNITS[place].1);
        let sum = nanoseconds.and_then(|n| total.checked_add(n));
        total = sum.ok_or_else(|| "duration out of range".to_owned())?;
    }
    Ok(total)
}

/// Parses `-1h15m30.5s` as Go's `time.ParseDuration`: fractions, any order, units up to hours.
pub fn parse_go_duration(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quote(excerpt(text)));
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let (digits, after) = rest.split_at(number);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(invalid());
        }
        let letters = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        rest = after;
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quote(excerpt(text))));
        }
        let Some(scale) = go_unit(unit) else {
            return Err(format!("time: unknown unit {} in duration {}", quote(unit), quote(excerpt(text))));
        };
        let part = scaled(whole, fraction, scale).ok_or_else(invalid)?;
        total = total.checked_add(part).filter(|&t| t <= 1 << 63).ok_or_else(invalid)?;
    }
    match (negative, total) {
        (true, t) => Ok((t as i64).wrapping_neg()),
        (false, t) => i64::try_from(t).map_err(|_| invalid()),
    }
}

fn go_unit(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => MICROSECOND as u64,
        "ms" => MILLISECOND as u64,
        "s" => SECOND as u64,
        "m" => MINUTE as u64,
        "h" => HOUR as u64,
        _ => return None,
    })
}

fn scaled(whole: &str, fraction: &str, scale: u64) -> Option<u64> {
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut total = whole.checked_mul(scale)?;
    if !fraction.is_empty() {
        // More digits than the unit has nanoseconds do not change the result.
        let digits = &fraction[..fraction.len().min(17)];
        let value: u64 = digits.parse().ok()?;
        total =
            total.checked_add((value as f64 * (scale as f64 / 10f64.powi(digits.len() as i32))) as u64)?;
    }
    Some(total)
}

/// Parses a duration of a query: Prometheus's form, else Go's.
pub fn parse_query_duration(text: &str) -> Result<i64, String> {
    parse_prometheus_duration(text).or_else(|_| parse_go_duration(text))
}

/// Formats nanoseconds as Go's `Duration.String`: `1h15m0s`, `1.5s`, `250ms`, `0s`.
pub fn format_go_duration(nanoseconds: i64) -> String {
    let mut out = String::new();
    if nanoseconds < 0 {
        out.push('-');
    }
    let total = nanoseconds.unsigned_abs();
    let fraction = |value: u64, unit: u64| {
        let (whole, rest) = (value / unit, value % unit);
        if rest == 0 {
            return format!("{whole}");
        }
        let width = unit.ilog10() as usize;
        let digits = format!("{rest:0width$}");
        format!("{whole}.{}", digits.trim_end_matches('0'))
    };
    let second = SECOND as u64;
    match total {
        0 => return "0s".to_owned(),
        t if t < MICROSECOND as u64 => _ = write!(out, "{t}ns"),
        t if t < MILLISECOND as u64 => _ = write!(out, "{}µs", fraction(t, MICROSECOND as u64)),
        t if t < second => _ = write!(out, "{}ms", fraction(t, MILLISECOND as u64)),
        t => {
            let (hours, minutes) = (t / HOUR as u64, t / MINUTE as u64 % 60);
            if hours > 0 {
                _ = write!(out, "{hours}h");
            }
            if hours > 0 || minutes > 0 {
                _ = write!(out, "{minutes}m");
            }
            _ = write!(out, "{}s", fraction(t % MINUTE as u64, second));
        }
    }
    out
}

/// Formats nanoseconds as Prometheus does: `1h30m`, `5m`, `500ms`, `0s`.
pub fn format_prometheus_duration(nanoseconds: i64) -> String {
    let mut milliseconds = nanoseconds / MILLISECOND;
    if milliseconds == 0 {
        return "0s".to_owned();
    }
    let mut out = String::new();
    if milliseconds < 0 {
        out.push('-');
        milliseconds = -milliseconds;
    }
    for (unit, nanoseconds) in PROMETHEUS_UNITS {
        let size = nanoseconds / MILLISECOND;
        // Years and weeks are used only if nothing remains: 90d is easier to read than 12w6d.
        let exact = matches!(unit, "y" | "w");
        if exact && milliseconds % size != 0 {
            continue;
        }
        if milliseconds >= size {
            _ = write!(out, "{}{unit}", milliseconds / size);
            milliseconds %= size;
        }
    }
    out
}

/// Parses `1.5 MiB` as `humanize` does: case does not matter, `KB` is 1000 and `KiB` is 1024.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let number_end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ',')).unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let number = number.replace(',', "");
    let value = parse_float(&number)?;
    let unit = unit.trim().to_lowercase();
    let scale: u64 = match &*unit {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "p" | "pb" => 1_000_000_000_000_000,
        "e" | "eb" => 1_000_000_000_000_000_000,
        "ki" | "kib" => 1 << 10,
        "mi" | "mib" => 1 << 20,
        "gi" | "gib" => 1 << 30,
        "ti" | "tib" => 1 << 40,
        "pi" | "pib" => 1 << 50,
        "ei" | "eib" => 1 << 60,
        _ => return Err(format!("unhandled size name: {unit}")),
    };
    let scaled = value * scale as f64;
    if scaled >= u64::MAX as f64 {
        return Err(format!("too large: {text}"));
    }
    Ok(scaled as u64)
}

/// Formats bytes in powers of 1024 as `humanize` does: `1.5 MiB`, `82 KiB`, `5 B`.
pub fn format_binary_bytes(bytes: u64) -> String {
    if bytes < 10 {
        return format!("{bytes} B");
    }
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let exponent = (bytes.ilog2() / 10) as usize;
    let value = (bytes as f64 / 1024f64.powi(exponent as i32) * 10.0 + 0.5).floor() / 10.0;
    let decimals = usize::from(value < 10.0);
    format!("{value:.decimals$} {}", units[exponent])
}

/// Formats bytes as `humanize` does, without the space: `82MB`, `1.5kB`, `5B`.
pub fn format_bytes(bytes: u64) -> String {
    if bytes < 10 {
        return format!("{bytes}B");
    }
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let exponent = ((bytes as f64).ln() / 1000f64.ln()).floor() as usize;
    let exponent = exponent.min(units.len() - 1);
    let value = (bytes as f64 / 1000f64.powi(exponent as i32) * 10.0 + 0.5).floor() / 10.0;
    if value < 10.0 {
        format!("{value:.1}{}", units[exponent])
    } else {
        format!("{value:.0}{}", units[exponent])
    }
}

/// Parses a number as Go's `strconv.ParseFloat`.
pub fn parse_float(text: &str) -> Result<f64, String> {
    let invalid = || format!("strconv.ParseFloat: parsing {}: invalid syntax", quote(excerpt(text)));
    let joined = without_underscores(text).ok_or_else(invalid)?;
    let value: f64 = match joined.parse() {
        Ok(value) => value,
        Err(_) => hexadecimal_float(&joined).ok_or_else(invalid)?,
    };
    let named = text.trim_start_matches(['+', '-']).starts_with(['i', 'I']);
    if value.is_infinite() && !named {
        return Err(format!("strconv.ParseFloat: parsing {}: value out of range", quote(excerpt(text))));
    }
    Ok(value)
}

/// Removes underscores, which may be between digits and after `0x`, as in Go's literals.
fn without_underscores(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('_') {
        return Some(Cow::Borrowed(text));
    }
    let bytes = text.as_bytes();
    let unsigned = text.trim_start_matches(['+', '-']);
    let prefix = if unsigned.starts_with("0x") || unsigned.starts_with("0X") { 2 } else { 0 };
    let start = text.len() - unsigned.len() + prefix;
    let is_digit = |byte: u8| byte.is_ascii_digit() || (prefix > 0 && byte.is_ascii_hexdigit());
    let separates = |at: usize| {
        let after_prefix = prefix > 0 && at == start;
        let after_digit = at > start && is_digit(bytes[at - 1]);
        (after_prefix || after_digit) && bytes.get(at + 1).is_some_and(|next| is_digit(*next))
    };
    let all = text.match_indices('_').all(|(at, _)| separates(at));
    all.then(|| Cow::Owned(text.replace('_', "")))
}

/// Parses `0x1.8p3`: hexadecimal digits and a power of two, which is required.
fn hexadecimal_float(text: &str) -> Option<f64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"))?;
    let (mantissa, exponent) = digits.split_once(['p', 'P'])?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0.0;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let exponent: i32 = exponent.parse().ok()?;
    let scaled = value * 2f64.powi(exponent.checked_sub(4 * i32::try_from(fraction.len()).ok()?)?);
    Some(if negative { -scaled } else { scaled })
}

/// Formats a number as Go's `strconv.FormatFloat(value, 'f', -1, 64)`.
pub fn format_float(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        format!("{value}")
    }
}

/// Quotes a string as Go's `strconv.Quote`.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    let written = write_quoted(text, |piece| {
        out.push_str(piece);
        Ok::<_, std::convert::Infallible>(())
    });
    match written {
        Ok(()) => out,
    }
}

/// The longest part of a value in a message.
const EXCERPT_BYTES_MAX: usize = 4 << 10;

/// The prefix of a text that a message shows.
pub fn excerpt(text: &str) -> &str {
    &text[..text.floor_char_boundary(EXCERPT_BYTES_MAX)]
}

/// Writes the output of [`quote`] piece by piece.
pub fn write_quoted<E>(text: &str, mut write: impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
    let mut escape = String::new();
    write("\"")?;
    // The start of the text that is not yet written.
    let mut start = 0;
    for (at, c) in text.char_indices() {
        let known = match c {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{7}' => "\\a",
            '\u{8}' => "\\b",
            '\u{b}' => "\\v",
            '\u{c}' => "\\f",
            ' '..='~' => continue,
            c if (c as u32) >= 0x20 && c != '\u{7f}' && is_printable(c) => continue,
            c => {
                escape.clear();
                // Writing to a string cannot fail.
                _ = match c as u32 {
                    code @ (0..0x20 | 0x7f) => write!(escape, "\\x{code:02x}"),
                    code @ 0..0x10000 => write!(escape, "\\u{code:04x}"),
                    code => write!(escape, "\\U{code:08x}"),
                };
                &escape
            }
        };
        write(&text[start..at])?;
        write(known)?;
        start = at + c.len_utf8();
    }
    write(&text[start..])?;
    write("\"")
}

/// Replaces each sequence that is not UTF-8, and each replacement character, with a space. The text does
/// not grow.
pub fn put_spaces(text: &mut Vec<u8>, start: usize) {
    let dirty = text.split_off(start);
    for chunk in dirty.utf8_chunks() {
        for (n, piece) in chunk.valid().split('\u{fffd}').enumerate() {
            if n > 0 {
                text.push(b' ');
            }
            text.extend_from_slice(piece.as_bytes());
        }
        if !chunk.invalid().is_empty() {
            text.push(b' ');
        }
    }
}

/// Formats labels as Loki does, `{a="b", c="d"}`. Loki sorts joined series by this text, and its errors use
/// it.
pub fn labels_text<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let pairs: Vec<String> = labels.map(|(name, value)| format!("{name}={}", quote(value))).collect();
    format!("{{{}}}", pairs.join(", "))
}

/// Whether Go prints the character unescaped: a letter, mark, number, punctuation, symbol, or the plain
/// space.
fn is_printable(c: char) -> bool {
    // Marks are printed after another character; otherwise the escaped characters are those of Go.
    c.is_ascii() || !format!("x{c}").escape_debug().any(|escaped| escaped == '\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of Go's `strconv.ParseFloat`.
    #[test]
    fn underscores_separate_digits() {
        for (text, value) in [
            ("1_000", 1000.0),
            ("1_0.5", 10.5),
            ("1e1_0", 1e10),
            ("-1_0", -10.0),
            ("0x1_0p0", 16.0),
            ("0x_1p0", 1.0),
        ] {
            assert_eq!(parse_float(text), Ok(value), "{text}");
        }
        for bad in ["_1", "1_", "1__0", "1._5", "1_.5", "_", "0x1_p0"] {
            assert!(parse_float(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn prometheus_durations() {
        for (text, ns) in
            [("0", 0), ("5m", 5 * MINUTE), ("1d12h", 36 * HOUR), ("1h500ms", HOUR + 500 * MILLISECOND)]
        {
            assert_eq!(parse_prometheus_duration(text), Ok(ns), "{text}");
        }
        for bad in ["", "5", "m", "5m1h", "1.5h", "-5m", "5m5m"] {
            assert!(parse_prometheus_duration(bad).is_err(), "{bad}");
        }
        let error = parse_prometheus_duration("5minutes").unwrap_err();
        assert_eq!(error, r#"unknown unit "minutes" in duration "5minutes""#);
        assert_eq!(parse_prometheus_duration("999999999y").unwrap_err(), "duration out of range");
    }

    #[test]
    fn go_durations() {
        for (text, ns) in [
            ("1.5h", 90 * MINUTE),
            ("-5m", -5 * MINUTE),
            ("1m30s", 90 * SECOND),
            (".5s", SECOND / 2),
            ("10µs", 10_000),
        ] {
            assert_eq!(parse_go_duration(text), Ok(ns), "{text}");
        }
        assert_eq!(parse_go_duration("5").unwrap_err(), r#"time: missing unit in duration "5""#);
        assert_eq!(parse_go_duration("1d").unwrap_err(), r#"time: unknown unit "d" in duration "1d""#);
        assert_eq!(parse_go_duration("x").unwrap_err(), r#"time: invalid duration "x""#);
        for ns in [0, 1, 1_500, 250 * MILLISECOND, 90 * SECOND, HOUR, -HOUR - 1, 1_234_567_890_123] {
            assert_eq!(parse_go_duration(&format_go_duration(ns)), Ok(ns), "{ns}");
        }
        assert_eq!(format_go_duration(HOUR + 15 * MINUTE), "1h15m0s");
        assert_eq!(format_go_duration(SECOND + SECOND / 2), "1.5s");
        assert_eq!(format_prometheus_duration(90 * MINUTE), "1h30m");
        assert_eq!(format_prometheus_duration(DAY), "1d");
        assert_eq!(format_prometheus_duration(25 * HOUR), "1d1h");
    }

    #[test]
    fn sizes() {
        for (text, bytes) in
            [("1KB", 1000), ("1KiB", 1024), ("2.5 MB", 2_500_000), ("1,000b", 1000), ("7", 7)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        assert_eq!(parse_bytes("5 parsecs").unwrap_err(), "unhandled size name: parsecs");
        assert!(parse_bytes("abc").is_err());
        assert!(parse_bytes("100000EB").unwrap_err().starts_with("too large"));
        assert_eq!([format_bytes(5), format_bytes(1500), format_bytes(82_854_982)], ["5B", "1.5kB", "83MB"]);
    }

    #[test]
    fn floats_are_parsed_as_in_go() {
        for (text, value) in
            [("1", 1.0), (".5", 0.5), ("1e3", 1000.0), ("+2", 2.0), ("inf", f64::INFINITY), ("0x1.8p3", 12.0)]
        {
            assert_eq!(parse_float(text), Ok(value), "{text}");
        }
        assert_eq!(parse_float("0x10").unwrap_err(), r#"strconv.ParseFloat: parsing "0x10": invalid syntax"#);
        assert!(parse_float("1e999").unwrap_err().ends_with("value out of range"));
        assert_eq!(format_float(1e21), "1000000000000000000000");
    }
}
