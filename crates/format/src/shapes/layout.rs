//! Layouts of timestamps: a layout is a text of fixed length in which some letters represent parts of the
//! instant.
//!
//! `YYYY` `YY` year, `MM` month, `BBB` month name, `DD` day, `EE` day padded with a space, `WWW` weekday,
//! `hh` `mm` `ss` time (UTC), `f` to `fffffffff` the first digits of the fraction, `eeeeeeeeee` seconds
//! since the epoch. Every other byte, except other letters of this list, is a literal.

use super::words::eight_digits;

/// Most bytes of a layout.
pub(super) const MAX_LAYOUT: usize = 40;

const SECOND: i64 = 1_000_000_000;
const DAY_SECONDS: i64 = 86_400;
const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
const WEEKDAYS: &[u8; 21] = b"ThuFriSatSunMonTueWed";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Year,
    ShortYear,
    Month,
    MonthName,
    Day,
    PaddedDay,
    Weekday,
    Hour,
    Minute,
    Second,
    Fraction,
    Epoch,
}

/// Position after the text, to which absent parts are written.
const NOWHERE: usize = MAX_LAYOUT;

/// A written instant, followed by undefined bytes.
pub(super) type Text = [u8; MAX_LAYOUT + 8];

/// A compiled layout.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pattern: Vec<u8>,
    /// The parts that change at most once a day, and their positions.
    date_parts: Vec<(Part, usize)>,
    /// Positions of hour, minute and second; [`NOWHERE`] if absent.
    time_at: [usize; 3],
    /// Position of the seconds since the epoch.
    epoch_at: Option<usize>,
    fraction_at: usize,
    fraction_digits: usize,
    /// Nanoseconds between two instants with different texts.
    pub(super) unit: i64,
    has_year: bool,
    has_date: bool,
    leading_digits: usize,
}

/// A day of the calendar.
#[derive(Clone, Copy)]
struct Date {
    year: i64,
    month: i64,
    day: i64,
}

/// Returns the date of a number of days since 1970-01-01. Years are counted from March, so that the leap
/// day is the last day of its year, in cycles of 400 years (146,097 days).
fn date_of(days: i64) -> Date {
    let shifted = days + 719_468;
    let cycle = shifted.div_euclid(146_097);
    let in_cycle = shifted.rem_euclid(146_097);
    let year = (in_cycle - in_cycle / 1_460 + in_cycle / 36_524 - in_cycle / 146_096) / 365;
    let in_year = in_cycle - (365 * year + year / 4 - year / 100);
    let march_month = (5 * in_year + 2) / 153;
    let day = in_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    Date { year: year + cycle * 400 + i64::from(month <= 2), month, day }
}

fn days_of(date: Date) -> i64 {
    let year = date.year - i64::from(date.month <= 2);
    let cycle = year.div_euclid(400);
    let in_cycle = year.rem_euclid(400);
    let march_month = if date.month > 2 { date.month - 3 } else { date.month + 9 };
    let in_year = (153 * march_month + 2) / 5 + date.day - 1;
    cycle * 146_097 + in_cycle * 365 + in_cycle / 4 - in_cycle / 100 + in_year - 719_468
}

fn part_of(letter: u8, count: usize) -> Option<Part> {
    Some(match (letter, count) {
        (b'Y', 4) => Part::Year,
        (b'Y', 2) => Part::ShortYear,
        (b'M', 2) => Part::Month,
        (b'B', 3) => Part::MonthName,
        (b'D', 2) => Part::Day,
        (b'E', 2) => Part::PaddedDay,
        (b'W', 3) => Part::Weekday,
        (b'h', 2) => Part::Hour,
        (b'm', 2) => Part::Minute,
        (b's', 2) => Part::Second,
        (b'f', 1..=9) => Part::Fraction,
        (b'e', 10) => Part::Epoch,
        _ => return None,
    })
}

fn stands_for_itself(byte: u8) -> bool {
    !b"YMBDEWhmsef".contains(&byte)
}

fn is_digit(letter: u8) -> bool {
    b"YMDhmsef".contains(&letter)
}

fn unit_of(parts: &[(Part, usize)], fraction_digits: usize) -> i64 {
    let has = |part| parts.iter().any(|(p, _)| *p == part);
    match fraction_digits {
        1.. => 10_i64.pow(9 - fraction_digits as u32),
        _ if has(Part::Second) || has(Part::Epoch) => SECOND,
        _ if has(Part::Minute) => 60 * SECOND,
        _ if has(Part::Hour) => 3_600 * SECOND,
        _ => DAY_SECONDS * SECOND,
    }
}

impl Layout {
    /// Compiles a layout; `None` when it is malformed.
    pub(super) fn compile(pattern: &[u8]) -> Option<Self> {
        if pattern.is_empty() || pattern.len() > MAX_LAYOUT {
            return None;
        }
        let (mut parts, mut next) = (Vec::new(), 0);
        for run in pattern.chunk_by(|a, b| a == b) {
            let at = next;
            next += run.len();
            if !stands_for_itself(run[0]) {
                parts.push((part_of(run[0], run.len())?, at));
            }
        }
        let at = |part| parts.iter().find(|(p, _)| *p == part).map(|&(_, at)| at);
        let once = |part| parts.iter().filter(|(p, _)| *p == part).count() <= 1;
        let has = |part| at(part).is_some();
        let has_year = has(Part::Epoch) || has(Part::Year) || has(Part::ShortYear);
        let has_date = has(Part::Epoch) || has(Part::Day) || has(Part::PaddedDay);
        let unique = [Part::Hour, Part::Minute, Part::Second, Part::Fraction, Part::Epoch];
        if parts.is_empty() || !unique.into_iter().all(once) || (has_year && !has_date) {
            return None;
        }
        let fraction_at = at(Part::Fraction).unwrap_or(0);
        let fraction_digits = pattern[fraction_at..].iter().take_while(|&&b| b == b'f').count();
        let time_at = [Part::Hour, Part::Minute, Part::Second].map(|part| at(part).unwrap_or(NOWHERE));
        Some(Self {
            pattern: pattern.to_vec(),
            time_at,
            epoch_at: at(Part::Epoch),
            fraction_at,
            fraction_digits,
            unit: unit_of(&parts, fraction_digits),
            has_year,
            has_date,
            leading_digits: pattern.iter().take_while(|&&b| is_digit(b)).count(),
            date_parts: parts.into_iter().filter(|(part, _)| !unique.contains(part)).collect(),
        })
    }

    /// Returns the text of the layout.
    pub(super) fn pattern(&self) -> &[u8] {
        &self.pattern
    }

    /// Returns the number of digits that the layout begins with.
    pub(super) fn leading_digits(&self) -> usize {
        self.leading_digits
    }

    /// Whether the layout contains the date.
    pub(super) fn has_date(&self) -> bool {
        self.has_date
    }

    /// Whether the byte at `index` is a literal.
    pub(super) fn is_literal(&self, index: usize) -> bool {
        stands_for_itself(self.pattern[index])
    }

    /// Whether the byte at `index` is always a digit.
    pub(super) fn is_digit(&self, index: usize) -> bool {
        is_digit(self.pattern[index])
    }

    fn write_date(&self, days: i64, out: &mut Text) {
        let date = date_of(days);
        for &(part, at) in &self.date_parts {
            let out = &mut out[at..];
            match part {
                Part::Year => {
                    let year = date.year.rem_euclid(10_000) as u32;
                    out[..4].copy_from_slice(&eight_digits(year).to_le_bytes()[4..]);
                }
                Part::ShortYear => out[..2].copy_from_slice(&two(date.year.rem_euclid(100))),
                Part::Month => out[..2].copy_from_slice(&two(date.month)),
                Part::Day => out[..2].copy_from_slice(&two(date.day)),
                Part::PaddedDay if date.day < 10 => out[..2].copy_from_slice(&[b' ', b'0' + date.day as u8]),
                Part::PaddedDay => out[..2].copy_from_slice(&two(date.day)),
                Part::MonthName => {
                    let name = (date.month as usize - 1) * 3;
                    out[..3].copy_from_slice(&MONTHS[name..name + 3]);
                }
                Part::Weekday => {
                    let name = days.rem_euclid(7) as usize * 3;
                    out[..3].copy_from_slice(&WEEKDAYS[name..name + 3]);
                }
                _ => {}
            }
        }
    }

    #[inline(always)]
    fn write_time(&self, second: i64, out: &mut Text) {
        let of_day = second.rem_euclid(DAY_SECONDS) as u32;
        let parts = [of_day / 3_600, of_day / 60 % 60, of_day % 60];
        for (at, part) in self.time_at.into_iter().zip(parts) {
            out[at..at + 2].copy_from_slice(&two(i64::from(part)));
        }
        if let Some(at) = self.epoch_at {
            let second = second.unsigned_abs() % 10_000_000_000;
            out[at..at + 2].copy_from_slice(&two((second / 100_000_000) as i64));
            let low = eight_digits((second % 100_000_000) as u32);
            out[at + 2..at + 10].copy_from_slice(&low.to_le_bytes());
        }
    }

    /// Parses `text` to an instant in nanoseconds. Parts that the layout lacks are taken from the instant
    /// `near`. The caller must check that writing the instant gives `text`.
    pub(super) fn parse(&self, text: &[u8], near: i64) -> Option<i64> {
        let near_days = near.div_euclid(DAY_SECONDS * SECOND);
        let mut date = date_of(near_days);
        let near_year = date.year;
        for &(part, at) in &self.date_parts {
            let rest = text.get(at..)?;
            match part {
                Part::Year => date.year = digits(&rest[..4])?,
                Part::ShortYear => date.year = near_year - near_year.rem_euclid(100) + digits(&rest[..2])?,
                Part::Month => date.month = digits(&rest[..2]).filter(|m| (1..=12).contains(m))?,
                Part::PaddedDay if rest[0] == b' ' => date.day = digits(&rest[1..2])?,
                Part::Day | Part::PaddedDay => date.day = digits(&rest[..2])?,
                Part::MonthName => {
                    date.month = MONTHS.chunks(3).position(|name| name == &rest[..3])? as i64 + 1;
                }
                _ => {}
            }
        }
        let mut seconds = 0;
        for (at, unit) in self.time_at.into_iter().zip([3_600, 60, 1]).filter(|(at, _)| *at != NOWHERE) {
            seconds += digits(text.get(at..at + 2)?)? * unit;
        }
        let epoch = match self.epoch_at {
            Some(at) => Some(digits(text.get(at..at + 10)?)?),
            None => None,
        };
        let fraction = match self.fraction_digits {
            0 => 0,
            len => digits(text.get(self.fraction_at..self.fraction_at + len)?)? * self.unit,
        };
        let at = |date: Date| {
            let second = epoch.unwrap_or_else(|| days_of(date) * DAY_SECONDS + seconds);
            second.checked_mul(SECOND)?.checked_add(fraction)
        };
        let instant = at(date)?;
        if self.has_year {
            return Some(instant);
        }
        let other = |by: i64| match self.has_date {
            true => at(Date { year: date.year + by, ..date }),
            false => instant.checked_add(by * DAY_SECONDS * SECOND),
        };
        [Some(instant), other(-1), other(1)].into_iter().flatten().min_by_key(|i| i.abs_diff(near))
    }
}

fn two(value: i64) -> [u8; 2] {
    [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8]
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |value, &b| b.is_ascii_digit().then(|| value * 10 + i64::from(b - b'0')))
}

/// Whether a text starts with the name of a month or a weekday.
pub(super) fn starts_with_name(text: &[u8]) -> bool {
    let name = text.first_chunk::<3>();
    name.is_some_and(|name| MONTHS.as_chunks().0.contains(name) || WEEKDAYS.as_chunks().0.contains(name))
}

/// Writes instants in one layout; fast when consecutive instants are close.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    layout: Layout,
    text: Text,
    day: i64,
    second: i64,
}

impl Writer {
    pub(super) fn new(layout: Layout) -> Self {
        let mut text = [0; MAX_LAYOUT + 8];
        text[..layout.pattern.len()].copy_from_slice(&layout.pattern);
        Self { layout, text, day: i64::MIN, second: i64::MIN }
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(super) fn len(&self) -> usize {
        self.layout.pattern.len()
    }

    /// Returns the text of an instant, followed by undefined bytes.
    #[inline(always)]
    pub(super) fn write(&mut self, instant: i64) -> &Text {
        let second = instant.div_euclid(SECOND);
        if second != self.second {
            self.second = second;
            self.write_second();
        }
        if self.layout.fraction_digits > 0 {
            self.write_fraction(instant.rem_euclid(SECOND) as u32);
        }
        &self.text
    }

    fn write_second(&mut self) {
        let day = self.second.div_euclid(DAY_SECONDS);
        if day != self.day {
            self.day = day;
            self.layout.write_date(day, &mut self.text);
        }
        self.layout.write_time(self.second, &mut self.text);
    }

    #[inline(always)]
    fn write_fraction(&mut self, nanoseconds: u32) {
        let text = &mut self.text[self.layout.fraction_at..];
        let digits = eight_digits(nanoseconds / 10).to_le_bytes();
        match self.layout.fraction_digits {
            3 => text[..3].copy_from_slice(&digits[..3]),
            6 => text[..6].copy_from_slice(&digits[..6]),
            9 => {
                text[..8].copy_from_slice(&digits);
                text[8] = b'0' + (nanoseconds % 10) as u8;
            }
            n => text[..n].copy_from_slice(&digits[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(pattern: &str, instant: i64) -> String {
        let mut writer = Writer::new(Layout::compile(pattern.as_bytes()).unwrap());
        writer.write(instant - 86_400 * SECOND);
        writer.write(instant - 7 * SECOND);
        let text = writer.write(instant)[..pattern.len()].to_vec();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn instants_are_written_and_read_in_every_part() {
        let instant = 1_795_176_003_004_050_607; // 2026-11-20T12:00:03.004050607Z
        let cases = [
            ("YYYY-MM-DDThh:mm:ss.fffffffff", "2026-11-20T12:00:03.004050607"),
            ("YYYY-MM-DDThh:mm:ss.ff", "2026-11-20T12:00:03.00"),
            ("DD/BBB/YYYY:hh:mm:ss", "20/Nov/2026:12:00:03"),
            ("WWW BBB EE hh:mm:ss YYYY", "Fri Nov 20 12:00:03 2026"),
            ("YYMMDD hhmmss", "261120 120003"),
            ("eeeeeeeeeefff", "1795176003004"),
            ("hh:mm", "12:00"),
            ("YYYY.MM.DD", "2026.11.20"),
        ];
        for (pattern, expected) in cases {
            assert_eq!(written(pattern, instant), expected);
            let layout = Layout::compile(pattern.as_bytes()).unwrap();
            let parsed = layout.parse(expected.as_bytes(), instant + 3).unwrap();
            assert_eq!(written(pattern, parsed), expected);
            assert!(parsed <= instant && instant - parsed < layout.unit, "{pattern}");
        }
        assert_eq!(written("BBB EE", 1_791_158_400 * SECOND), "Oct  5");
        assert_eq!(written("YYYY-MM-DD hh:mm:ss", -1), "1969-12-31 23:59:59");
    }

    #[test]
    fn every_day_of_four_centuries_is_read_back() {
        for days in (-100_000..100_000).step_by(13) {
            let date = date_of(days);
            assert_eq!(days_of(date), days);
        }
        let leap = date_of(days_of(Date { year: 2024, month: 2, day: 28 }) + 1);
        assert_eq!((leap.year, leap.month, leap.day), (2024, 2, 29));
    }

    #[test]
    fn a_missing_year_or_day_is_taken_from_the_nearest_time() {
        let new_year = 1_798_761_600 * SECOND; // 2027-01-01
        let layout = Layout::compile(b"BBB EE hh:mm:ss").unwrap();
        assert_eq!(layout.parse(b"Dec 31 23:59:58", new_year + 5), Some(new_year - 2 * SECOND));
        let layout = Layout::compile(b"hh:mm:ss").unwrap();
        assert_eq!(layout.parse(b"23:59:58", new_year + 5), Some(new_year - 2 * SECOND));
        assert_eq!(layout.parse(b"2x:59:58", new_year), None);
    }

    #[test]
    fn malformed_layouts_are_refused() {
        for pattern in
            ["", "abc", "YYY-MM", "hhh", "f.f", "YYYY", "ssssssssssssssssssssssssssssssssssssssssss", "hh:hh"]
        {
            assert!(Layout::compile(pattern.as_bytes()).is_none(), "{pattern}");
        }
    }
}
