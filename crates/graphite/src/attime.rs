//! Parses times and durations of `from`, `until` and function arguments.
//!
//! A time is a reference (`now`, `midnight`, `saturday`, `20210314`, `02:30_20210314`) and an offset
//! (`-1d3h`); underscores, commas and spaces are ignored. A number is seconds since 1970, unless it has
//! eight digits that form a date.

use jiff::SignedDuration;
use jiff::civil::{self, DateTime};

use crate::error::{Error, Result};
use crate::zone::{Moment, Zone, is_in_calendar};

/// The longest text that is parsed, in bytes.
const TEXT_BYTES_MAX: usize = 256;
/// The most days of a duration, as in Python.
const DAYS_MAX: i64 = 999_999_999;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// 1 s.
    Seconds,
    /// 60 s.
    Minutes,
    /// 3600 s.
    Hours,
    /// 86400 s.
    Days,
    /// 7 days.
    Weeks,
    /// 30 days.
    Months,
    /// 365 days.
    Years,
}

impl Unit {
    /// The unit whose name or abbreviation starts the word.
    pub fn parse(word: &str) -> Option<Self> {
        let units = [
            ("s", Self::Seconds),
            ("min", Self::Minutes),
            ("h", Self::Hours),
            ("d", Self::Days),
            ("w", Self::Weeks),
            ("mon", Self::Months),
            ("y", Self::Years),
        ];
        units.into_iter().find(|(prefix, _)| word.starts_with(prefix)).map(|(_, unit)| unit)
    }

    /// The full name of the unit.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Minutes => "minutes",
            Self::Hours => "hours",
            Self::Days => "days",
            Self::Weeks => "weeks",
            Self::Months => "months",
            Self::Years => "years",
        }
    }

    fn seconds(self) -> i64 {
        match self {
            Self::Seconds => 1,
            Self::Minutes => 60,
            Self::Hours => 3600,
            Self::Days => 86_400,
            Self::Weeks => 604_800,
            Self::Months => 30 * 86_400,
            Self::Years => 365 * 86_400,
        }
    }
}

fn wrong(text: &str, why: &str) -> Error {
    let shown: String = text.chars().take(40).collect();
    Error::invalid(format!("'{shown}' is not a time: {why}"))
}

/// The code points of the digit zero in other scripts, whose digits Python accepts too.
const ZEROS: [u32; 24] = [
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0,
    0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0xff10,
];

/// Replaces digits of any script with ASCII digits.
fn with_ascii_digits(text: &str) -> String {
    let digit = |sign: char| {
        let zero = ZEROS.iter().find(|zero| (**zero..**zero + 10).contains(&u32::from(sign)))?;
        char::from_digit(u32::from(sign) - zero, 10)
    };
    text.chars().map(|sign| digit(sign).unwrap_or(sign)).collect()
}

fn digits_at_start(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses a duration such as `-1d3h` to seconds: numbers with units, and one sign for all of them.
pub fn parse_offset(text: &str) -> Result<i64> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(wrong(text, "it is too long"));
    }
    let plain = with_ascii_digits(text);
    let text = plain.as_str();
    let (sign, mut rest) = match text.as_bytes().first() {
        None => return Ok(0),
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        Some(byte) if byte.is_ascii_digit() => (1, text),
        Some(_) => return Err(wrong(text, "a length of time begins with a sign or a digit")),
    };
    let mut seconds: i64 = 0;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(digits_at_start(rest));
        let number: i64 = number.parse().map_err(|_| wrong(text, "a number is missing or too large"))?;
        let letters = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (word, after) = after.split_at(letters);
        let unit = Unit::parse(word).ok_or_else(|| wrong(text, "unknown unit"))?;
        let part = number.checked_mul(unit.seconds() * sign);
        let sum = part.and_then(|part| seconds.checked_add(part));
        let fits = sum.filter(|sum| sum.div_euclid(86_400).abs() <= DAYS_MAX);
        seconds = fits.ok_or_else(|| wrong(text, "it is too far away"))?;
        rest = after;
    }
    Ok(seconds)
}

/// Parses a time in a time zone.
pub fn parse_time(text: &str, zone: &Zone, now: i64) -> Result<Moment> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(wrong(text, "it is too long"));
    }
    let plain: String = with_ascii_digits(text.trim())
        .to_lowercase()
        .chars()
        .filter(|c| !matches!(c, '_' | ',' | ' '))
        .collect();
    if is_digits(&plain) && !is_date(&plain) {
        let epoch: i64 = plain.parse().map_err(|_| wrong(text, "it is too far away"))?;
        return in_calendar(text, zone, Some(epoch));
    }
    let cut = plain.find('+').or_else(|| plain.find('-')).unwrap_or(plain.len());
    let (reference, offset) = plain.split_at(cut);
    let reference =
        parse_reference(reference, zone, now).ok_or_else(|| wrong(text, "unknown date or hour"))?;
    in_calendar(text, zone, reference.checked_add(parse_offset(offset)?))
}

fn in_calendar(text: &str, zone: &Zone, epoch: Option<i64>) -> Result<Moment> {
    let epoch = epoch.filter(|epoch| is_in_calendar(*epoch));
    epoch.map(|epoch| zone.moment(epoch)).ok_or_else(|| wrong(text, "it is too far away"))
}

/// Whether eight digits look like a year, a month and a day.
fn is_date(digits: &str) -> bool {
    let part = |range: std::ops::Range<usize>| digits.get(range).and_then(|part| part.parse::<u32>().ok());
    digits.len() == 8
        && part(0..4).is_some_and(|year| year > 1900)
        && part(4..6).is_some_and(|month| month < 13)
        && part(6..8).is_some_and(|day| day < 32)
}

/// Parses the time of day at the start of a reference; also returns the rest.
fn time_of_day(mut rest: &str) -> Option<(i8, i8, &str)> {
    let (mut hour, mut minute) = (0i8, 0i8);
    let half = |hour: i8| (hour + 12) % 24;
    if let Some(at) = rest.find(':').filter(|at| (1..3).contains(at)) {
        hour = number(&rest[..at])?;
        let end = rest.len().min(at + 3);
        minute = number(rest.get(at + 1..end)?)?;
        rest = &rest[end..];
        if let Some(after) = rest.strip_prefix("am") {
            rest = after;
        } else if let Some(after) = rest.strip_prefix("pm") {
            (hour, rest) = (half(hour), after);
        }
    }
    if let Some(at) = rest.find("am").filter(|at| (1..3).contains(at)) {
        (hour, rest) = (number(&rest[..at])?, &rest[at + 2..]);
    }
    if let Some(at) = rest.find("pm").filter(|at| (1..3).contains(at)) {
        (hour, rest) = (half(number(&rest[..at])?), &rest[at + 2..]);
    }
    for (word, named) in [("noon", 12), ("midnight", 0), ("teatime", 16)] {
        if let Some(after) = rest.strip_prefix(word) {
            return Some((named, 0, after));
        }
    }
    Some((hour, minute, rest))
}

fn number(text: &str) -> Option<i8> {
    is_digits(text).then(|| text.parse().ok()).flatten()
}

fn parse_reference(text: &str, zone: &Zone, now: i64) -> Option<i64> {
    if text.is_empty() || text == "now" {
        return Some(now);
    }
    let (hour, minute, rest) = time_of_day(text)?;
    let time = civil::Time::new(hour, minute, 0, 0).ok()?;
    let today = zone.moment(now).civil()?.date().to_datetime(time);
    zone.instant(date_of(rest, today)?)
}

/// The day that a word names, at the time of day of `today`.
fn date_of(word: &str, today: DateTime) -> Option<DateTime> {
    let days = |count: i64| today.checked_add(SignedDuration::from_hours(24 * count)).ok();
    let on = |year: i16, month: i8, day: i8| {
        let date = civil::Date::new(year, month, day).ok().filter(|_| year >= 1)?;
        Some(date.to_datetime(today.time()))
    };
    match word {
        "" | "today" => return Some(today),
        "yesterday" => return days(-1),
        "tomorrow" => return days(1),
        _ => {}
    }
    if word.matches('/').count() == 2 {
        let mut parts = word.split('/').map(|part| part.parse::<i16>().ok().filter(|_| is_digits(part)));
        let (month, day, year) = (parts.next()??, parts.next()??, parts.next()??);
        let year = if year < 1900 { year + 1900 } else { year };
        let year = if year < 1970 { year + 100 } else { year };
        return on(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?);
    }
    if word.len() == 8 && is_digits(word) {
        return on(word[..4].parse().ok()?, word[4..6].parse().ok()?, word[6..].parse().ok()?);
    }
    let head = word.get(..3)?;
    if let Some(month) = MONTHS.iter().position(|name| *name == head) {
        let digits = word.bytes().rev().take(2).take_while(u8::is_ascii_digit).count();
        let day = word[word.len() - digits..].parse().ok()?;
        return on(today.year(), month as i8 + 1, day);
    }
    let weekday = WEEKDAYS.iter().position(|name| *name == head)? as i64;
    let current = i64::from(today.weekday().to_sunday_zero_offset());
    days(-(current - weekday).rem_euclid(7))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2021-03-15 12:00:37 UTC, a Monday.
    const NOW: i64 = 1_615_809_637;

    fn time(text: &str) -> Option<i64> {
        parse_time(text, &Zone::utc(), NOW).ok().map(|moment| moment.epoch)
    }

    #[test]
    fn references_and_offsets_add_up() {
        assert_eq!(time("now-1h"), Some(NOW - 3600));
        assert_eq!(time("-1d3h"), Some(NOW - 27 * 3600));
        assert_eq!(time("midnight"), Some(1_615_766_400));
        assert_eq!(time("02:30_20210314"), Some(1_615_689_000));
        assert_eq!(time("sunday"), Some(1_615_680_000));
        assert_eq!(time("mar 14"), Some(1_615_680_000));
        for wrong in ["20210314 02:30", "1d", "-1m", "99:00", "march", "é-1", "99999999999999999999"] {
            assert_eq!(time(wrong), None, "{wrong}");
        }
        assert_eq!(parse_offset("1mon").unwrap(), 30 * 86_400);
        assert!(parse_offset("9999999999y").is_err() && parse_offset("-").is_ok());
    }

    #[test]
    fn a_skipped_local_time_has_the_offset_before_the_change() {
        let zone = Zone::named("America/New_York").unwrap();
        let moment = parse_time("02:30_20210314", &zone, NOW).unwrap();
        assert_eq!((moment.epoch, moment.offset), (1_615_707_000, -4 * 3600));
    }
}
