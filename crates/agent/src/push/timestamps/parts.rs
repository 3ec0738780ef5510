//! Parts of timestamps: dates, clocks, offsets, numbers of seconds.

use jiff::civil::{Date, Time};
use jiff::tz::Offset;

const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// The earliest number of seconds that a line may begin with: 2001-09-09, the first of ten digits.
const EPOCH_S_MIN: i64 = 1_000_000_000;

/// The month whose English abbreviation is at the start.
pub fn month(text: &[u8]) -> Option<i8> {
    let name = text.get(..3)?;
    MONTHS.iter().position(|month| *month == name).map(|n| n as i8 + 1)
}

/// `Z`, `UTC`, `+01:00`, `+0100`.
pub fn offset(text: &[u8]) -> Option<Offset> {
    if text.starts_with(b"Z") || text.starts_with(b"UTC") {
        return Some(Offset::UTC);
    }
    let sign: i32 = match text.first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let hours = number(text, 1, 2)? as i32;
    let minutes = number(text, if text.get(3) == Some(&b':') { 4 } else { 3 }, 2)? as i32;
    Offset::from_seconds(sign * (hours * 3_600 + minutes * 60)).ok()
}

/// Parses `06:01:43.123`. Also returns its length in bytes.
pub fn clock(text: &[u8]) -> Option<(Time, usize)> {
    if text.get(2) != Some(&b':') || text.get(5) != Some(&b':') {
        return None;
    }
    let (hour, minute, second) = (number(text, 0, 2)?, number(text, 3, 2)?, number(text, 6, 2)?);
    let (nanos, length) = fraction(text, 8);
    Some((time(hour, minute, second, nanos)?, length))
}

/// Parses `6:01:43 PM` and `18:01:43`. Also returns its length in bytes.
pub fn clock_of_half_days(text: &[u8]) -> Option<(Time, usize)> {
    if text.get(2) == Some(&b':') {
        let (time, length) = clock(text)?;
        return Some(half_day(text, time, length));
    }
    if text.get(1) != Some(&b':') || text.get(4) != Some(&b':') {
        return None;
    }
    let (hour, minute, second) = (number(text, 0, 1)?, number(text, 2, 2)?, number(text, 5, 2)?);
    let (nanos, length) = fraction(text, 7);
    Some(half_day(text, time(hour, minute, second, nanos)?, length))
}

/// Applies `AM` or `PM` behind the clock.
fn half_day(text: &[u8], time: Time, length: usize) -> (Time, usize) {
    let rest = text.get(length..).unwrap_or_default();
    let half = rest.strip_prefix(b" ").unwrap_or(rest).get(..2).unwrap_or_default();
    let hour = match (time.hour(), half) {
        (12, b"AM" | b"am") => 0,
        (hour @ 1..=11, b"PM" | b"pm") => hour + 12,
        (hour, b"AM" | b"am" | b"PM" | b"pm") => hour,
        _ => return (time, length),
    };
    let time = Time::new(hour, time.minute(), time.second(), time.subsec_nanosecond()).unwrap_or(time);
    (time, length + rest.len() - rest.strip_prefix(b" ").unwrap_or(rest).len() + 2)
}

/// The nanoseconds of `.123` or `,123` at this place, and the place after them.
fn fraction(text: &[u8], at: usize) -> (i32, usize) {
    if !matches!(text.get(at), Some(b'.' | b',')) {
        return (0, at);
    }
    const UNITS: [i32; 10] =
        [1_000_000_000, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];
    let (mut number, mut digits) = (0, 0);
    while let Some(digit) = text.get(at + 1 + digits).filter(|b| b.is_ascii_digit()) {
        // Digits beyond nanoseconds are left out.
        if digits < 9 {
            number = number * 10 + i32::from(digit - b'0');
        }
        digits += 1;
    }
    (number * UNITS[digits.min(9)], at + if digits > 0 { 1 + digits } else { 0 })
}

/// A leap second is mapped to the second before it.
fn time(hour: u32, minute: u32, second: u32, nanos: i32) -> Option<Time> {
    Time::new(hour as i8, minute as i8, second.min(59) as i8, nanos).ok()
}

/// The date with these numbers.
pub fn date(year: u32, month: u32, day: u32) -> Option<Date> {
    Date::new(year as i16, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

/// The number of exactly this many digits at `start`.
pub fn number(text: &[u8], start: usize, digits: usize) -> Option<u32> {
    let part = text.get(start..start + digits)?;
    part.iter().try_fold(0u32, |n, b| b.is_ascii_digit().then(|| n * 10 + u32::from(b - b'0')))
}

/// A number of one or two digits at `start`, and its length.
pub fn short_number(text: &[u8], start: usize) -> Option<(u32, usize)> {
    match number(text, start, 2) {
        Some(number) => Some((number, 2)),
        None => number(text, start, 1).map(|number| (number, 1)),
    }
}

/// Parses seconds, milliseconds, microseconds or nanoseconds since the epoch; the number of digits gives
/// the unit. Also returns the length in bytes.
pub fn epoch(text: &[u8]) -> Option<(i64, usize)> {
    let end = text.iter().position(|b| !b.is_ascii_digit() && *b != b'.').unwrap_or(text.len());
    let digits = std::str::from_utf8(&text[..end]).ok()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let unit: i64 = match whole.len() {
        10 => 1_000_000_000,
        13 => 1_000_000,
        16 => 1_000,
        19 => 1,
        _ => return None,
    };
    let fraction: f64 = if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse().ok()? };
    let whole = whole.parse::<i64>().ok()?;
    if whole / (1_000_000_000 / unit) < EPOCH_S_MIN {
        return None;
    }
    let ns = whole.checked_mul(unit)?.checked_add((fraction * unit as f64) as i64)?;
    Some((ns, end))
}
