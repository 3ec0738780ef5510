//! Parses instants in the format of RFC 3339, for all years of the format: 0000 to 9999.
//!
//! **Invariant.** Accepts the texts that Go's `time.Parse` accepts with the layout `RFC3339Nano`, except
//! hours with one digit.

use crate::time::{MILLISECOND_NS, SECOND_NS};

/// A parsed instant. It may be outside of the years 1677 to 2262, which 64-bit nanoseconds can express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rfc3339 {
    /// Seconds since the epoch, rounded down.
    pub seconds: i64,
    /// Nanoseconds after these seconds.
    pub nanoseconds: u32,
}

impl Rfc3339 {
    /// Parses an instant; `None` when the text has another format, or the day or time does not exist.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let (date, rest) = bytes.split_at_checked(10)?;
        let (time, rest) = rest.split_at_checked(9)?;
        let ([_, _, _, _, b'-', _, _, b'-', _, _], [b'T', _, _, b':', _, _, b':', _, _]) = (date, time)
        else {
            return None;
        };
        let [year, month, day] = [&date[..4], &date[5..7], &date[8..]].map(number);
        let [hour, minute, second] = [&time[1..3], &time[4..6], &time[7..]].map(number);
        let days = days_of(year?, month?, day?)?;
        let (nanoseconds, zone) = fraction(rest)?;
        let of_day = seconds_of(hour?, minute?)? + second.filter(|second| *second < 60)?;
        Some(Self { seconds: days * 86_400 + of_day - offset(zone)?, nanoseconds })
    }

    /// Nanoseconds since the epoch, clamped to the range of `i64`.
    pub fn saturating_ns(self) -> i64 {
        let ns = i128::from(self.seconds) * i128::from(SECOND_NS) + i128::from(self.nanoseconds);
        i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
    }

    /// Milliseconds since the epoch, rounded down.
    pub fn milliseconds(self) -> i64 {
        self.seconds * 1_000 + i64::from(self.nanoseconds) / MILLISECOND_NS
    }
}

/// Decimal digits as a number.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |number, byte| match byte {
        b'0'..=b'9' => Some(number * 10 + i64::from(byte - b'0')),
        _ => None,
    })
}

/// Days since the epoch.
fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    // Counts years from March, so that a leap day is the last day of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_years = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(of_years + (153 * month + 2) / 5 + day - 1 - 719_468)
}

fn seconds_of(hour: i64, minute: i64) -> Option<i64> {
    (hour < 24 && minute < 60).then_some(hour * 3_600 + minute * 60)
}

/// Nanoseconds of a fraction (digits after the ninth are dropped), and the rest of the text.
fn fraction(rest: &[u8]) -> Option<(u32, &[u8])> {
    let [b'.' | b',', rest @ ..] = rest else { return Some((0, rest)) };
    let (digits, zone) = rest.split_at(rest.iter().take_while(|byte| byte.is_ascii_digit()).count());
    let kept = number(digits.get(..9).unwrap_or(digits)).filter(|_| !digits.is_empty())?;
    Some((kept as u32 * 10u32.pow(9 - digits.len().min(9) as u32), zone))
}

/// Seconds by which the local time of a zone is ahead of UTC.
fn offset(zone: &[u8]) -> Option<i64> {
    match zone {
        b"Z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let seconds = seconds_of(number(&[*h1, *h2])?, number(&[*m1, *m2])?)?;
            Some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Option<i64> {
        Rfc3339::parse(text).map(|at| at.seconds)
    }

    #[test]
    fn instants_of_all_years_are_parsed() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1969-12-31T23:59:59Z", -1),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2019-10-17T19:08:50+02:00", 1_571_332_130),
            ("2019-10-17T11:38:50-05:30", 1_571_332_130),
            ("0000-01-01T00:00:00Z", -62_167_219_200),
            ("0001-01-01T00:00:00Z", -62_135_596_800),
            ("1677-01-01T00:00:00Z", -9_246_096_000),
            ("9999-12-31T23:59:59Z", 253_402_300_799),
            ("9999-12-31T23:59:59-23:59", 253_402_387_139),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn fractions_have_any_number_of_digits() {
        for (fraction, expected) in [
            ("", 0),
            (".5", 500_000_000),
            (",25", 250_000_000),
            (".123456789", 123_456_789),
            (".9999999999", 999_999_999),
        ] {
            let at = Rfc3339::parse(&format!("1970-01-01T00:00:07{fraction}Z")).unwrap();
            assert_eq!((at.seconds, at.nanoseconds), (7, expected), "{fraction}");
            assert_eq!(at.milliseconds(), 7_000 + i64::from(expected / 1_000_000));
        }
    }

    #[test]
    fn instants_beyond_nanoseconds_are_clamped() {
        let ns = |text: &str| Rfc3339::parse(text).unwrap().saturating_ns();
        assert_eq!(ns("9999-12-31T23:59:59Z"), i64::MAX);
        assert_eq!(ns("0001-01-01T00:00:00Z"), i64::MIN);
        assert_eq!(ns("2262-04-11T23:47:16.854775807Z"), i64::MAX);
        assert_eq!(ns("2262-04-11T23:47:16.854775806Z"), i64::MAX - 1);
        assert_eq!(ns("1969-12-31T23:59:59.999999999Z"), -1);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "2015-06-03",
            "2015-06-03T14:21:58",
            "2015-06-03 14:21:58Z",
            "2015-06-03t14:21:58z",
            "2015-06-03T14:21:58.Z",
            "2015-06-03T14:21:58Zx",
            "2015-06-03T14:21:60Z",
            "2015-06-03T24:00:00Z",
            "2015-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2015-00-01T00:00:00Z",
            "2015-13-01T00:00:00Z",
            "2015-04-31T00:00:00Z",
            "2015-06-00T00:00:00Z",
            "10000-01-01T00:00:00Z",
            "-001-01-01T00:00:00Z",
            "+015-06-03T14:21:58Z",
            "2015-06-03T14:21:58+24:00",
            "2015-06-03T14:21:58+0100",
            "2015-06-03T14:21:58é",
            "é015-06-03T14:21:58Z",
        ] {
            assert_eq!(Rfc3339::parse(text), None, "{text}");
        }
    }
}
