//! Recognises the timestamp of a log line, in the formats that most programs write.
//!
//! RFC 3339 and similar (`2026-11-21 06:01:43,123`), syslog (`Nov 21 06:01:43`), the common log format
//! (`[21/Nov/2026:06:01:43 +0000]`), that of C (`Sat Nov 21 06:01:43 2026`), and the usual fields of JSON
//! and logfmt lines. A time without a zone is local.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset, TimeZone};

/// Number of bytes of a line in which a timestamp is searched.
const PREFIX_MAX: usize = 512;
/// Names of fields with the time, in order of preference.
const FIELDS: [&str; 6] = ["timestamp", "@timestamp", "time", "ts", "t", "datetime"];
const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Finds timestamps. It has the local zone, and the current time, which gives the year that syslog omits.
pub struct Recogniser {
    zone: TimeZone,
    now_ns: i64,
}

impl Recogniser {
    /// For lines of this machine.
    pub fn local(now_ns: i64) -> Self {
        Self { zone: TimeZone::system(), now_ns }
    }

    /// Updates the current time.
    pub fn at(&mut self, now_ns: i64) -> &Self {
        self.now_ns = now_ns;
        self
    }

    /// The timestamp of a line, nanoseconds since the epoch.
    pub fn find(&self, line: &[u8]) -> Option<i64> {
        let line = &line[..line.len().min(PREFIX_MAX)];
        let text = line.trim_ascii_start();
        match text.first()? {
            b'{' => self.field(text, true),
            _ => self
                .leading(text)
                .or_else(|| self.c_library(text))
                .or_else(|| self.syslog(text))
                .or_else(|| self.common_log(text))
                .or_else(|| self.field(text, false)),
        }
    }

    /// A date and time at the start, possibly in brackets.
    fn leading(&self, text: &[u8]) -> Option<i64> {
        self.date_time(text.strip_prefix(b"[").unwrap_or(text))
    }

    /// `2026-11-21T06:01:43.123+01:00` and similar formats.
    fn date_time(&self, text: &[u8]) -> Option<i64> {
        let separator = |at: usize, any: &[u8]| text.get(at).is_some_and(|b| any.contains(b));
        if !(separator(4, b"-/") && separator(7, b"-/") && separator(10, b"T t_") && separator(13, b":")) {
            return None;
        }
        let date =
            Date::new(number(text, 0, 4)? as i16, number(text, 5, 2)? as i8, number(text, 8, 2)? as i8);
        let (time, length) = clock(&text[11..])?;
        let civil = date.ok()?.to_datetime(time);
        self.with_zone(civil, text.get(11 + length..).unwrap_or_default())
    }

    /// `Sat Nov 21 06:01:43.123 2026`, possibly in brackets, as `ctime` and Apache write it.
    fn c_library(&self, text: &[u8]) -> Option<i64> {
        let text = text.strip_prefix(b"[").unwrap_or(text);
        let month = MONTHS.iter().position(|m| text.get(4..7) == Some(m))? as i8 + 1;
        let day: i8 = std::str::from_utf8(text.get(8..10)?).ok()?.trim().parse().ok()?;
        let (time, length) = clock(text.get(11..)?)?;
        let year = number(text, 11 + length + 1, 4)?;
        self.with_zone(Date::new(year as i16, month, day).ok()?.to_datetime(time), b"")
    }

    /// `<13>Nov 21 06:01:43 ...`.
    fn syslog(&self, text: &[u8]) -> Option<i64> {
        let text = match (text.first(), text.iter().take(6).position(|&b| b == b'>')) {
            (Some(b'<'), Some(end)) => &text[end + 1..],
            _ => text,
        };
        let month = MONTHS.iter().position(|m| text.starts_with(m))? as i8 + 1;
        let padded = text.get(4..6)?;
        let day: i8 = std::str::from_utf8(padded).ok()?.trim().parse().ok()?;
        let (time, _) = clock(text.get(7..)?)?;
        let now = jiff::Timestamp::from_nanosecond(i128::from(self.now_ns)).ok()?;
        let this_year = now.to_zoned(self.zone.clone()).year();
        // A date in the future is from last year: a line of December that is read in January.
        let of_year = |year| self.with_zone(Date::new(year, month, day).ok()?.to_datetime(time), b"");
        of_year(this_year)
            .filter(|ns| *ns <= self.now_ns + sandur_model::DAY_NS)
            .or_else(|| of_year(this_year - 1))
    }

    /// `... [21/Nov/2026:06:01:43 +0000] ...`.
    fn common_log(&self, text: &[u8]) -> Option<i64> {
        let start = text.iter().position(|&b| b == b'[')? + 1;
        let text = &text[start..];
        let month = MONTHS.iter().position(|m| text.get(3..6) == Some(m))? as i8 + 1;
        if text.get(2) != Some(&b'/') || text.get(6) != Some(&b'/') {
            return None;
        }
        let date = Date::new(number(text, 7, 4)? as i16, month, number(text, 0, 2)? as i8).ok()?;
        let (time, length) = clock(text.get(12..)?)?;
        self.with_zone(date.to_datetime(time), text.get(12 + length..).unwrap_or_default())
    }

    /// A field of a JSON object or of a logfmt line.
    fn field(&self, text: &[u8], json: bool) -> Option<i64> {
        for name in FIELDS {
            let key = if json { format!("\"{name}\"") } else { format!("{name}=") };
            let at = text.windows(key.len()).position(|w| w == key.as_bytes());
            let Some(at) = at else { continue };
            if !json && at > 0 && text[at - 1] != b' ' {
                continue;
            }
            let rest = text[at + key.len()..].trim_ascii_start();
            let rest = if json { rest.strip_prefix(b":")?.trim_ascii_start() } else { rest };
            let value = rest.strip_prefix(b"\"").unwrap_or(rest);
            if let Some(ns) = self.date_time(value).or_else(|| epoch(value)) {
                return Some(ns);
            }
        }
        None
    }

    /// The instant of a civil time that is followed by `zone`: `Z`, an offset, or other text.
    fn with_zone(&self, civil: DateTime, zone: &[u8]) -> Option<i64> {
        let zone = zone.trim_ascii_start();
        let instant = match offset(zone) {
            Some(offset) => offset.to_timestamp(civil).ok()?,
            None => self.zone.to_zoned(civil).ok()?.timestamp(),
        };
        i64::try_from(instant.as_nanosecond()).ok()
    }
}

/// `Z`, `UTC`, `+01:00`, `+0100`.
fn offset(text: &[u8]) -> Option<Offset> {
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
fn clock(text: &[u8]) -> Option<(Time, usize)> {
    if text.get(2) != Some(&b':') || text.get(5) != Some(&b':') {
        return None;
    }
    let (hour, minute, second) = (number(text, 0, 2)?, number(text, 3, 2)?, number(text, 6, 2)?);
    let (mut nanos, mut length) = (0i32, 8);
    if matches!(text.get(8), Some(b'.' | b',')) {
        let digits = text[9..].iter().take_while(|b| b.is_ascii_digit()).count();
        for n in 0..9 {
            let digit = if n < digits { i32::from(text[9 + n] - b'0') } else { 0 };
            nanos = nanos * 10 + digit;
        }
        length += if digits > 0 { 1 + digits } else { 0 };
    }
    // A leap second is mapped to the second before it.
    let time = Time::new(hour as i8, minute as i8, second.min(59) as i8, nanos).ok()?;
    Some((time, length))
}

fn number(text: &[u8], start: usize, digits: usize) -> Option<u32> {
    let part = text.get(start..start + digits)?;
    part.iter().try_fold(0u32, |n, b| b.is_ascii_digit().then(|| n * 10 + u32::from(b - b'0')))
}

/// Parses seconds, milliseconds, microseconds or nanoseconds since the epoch; the number of digits gives
/// the unit.
fn epoch(text: &[u8]) -> Option<i64> {
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
    whole.parse::<i64>().ok()?.checked_mul(unit)?.checked_add((fraction * unit as f64) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(line: &str) -> Option<String> {
        let now = "2026-01-15T12:00:00Z".parse::<jiff::Timestamp>().unwrap();
        let recogniser = Recogniser { zone: TimeZone::UTC, now_ns: now.as_nanosecond() as i64 };
        let ns = recogniser.find(line.as_bytes())?;
        Some(jiff::Timestamp::from_nanosecond(i128::from(ns)).unwrap().to_string())
    }

    #[test]
    fn usual_formats_are_recognised() {
        for (line, expected) in [
            ("2026-01-14T06:01:43Z x", "2026-01-14T06:01:43Z"),
            ("2026-01-14T06:01:43.123456789+01:00 x", "2026-01-14T05:01:43.123456789Z"),
            ("[2026-01-14 06:01:43,123] x", "2026-01-14T06:01:43.123Z"),
            ("2026/01/14 06:01:43 [error] x", "2026-01-14T06:01:43Z"),
            ("[Wed Jan 14 06:01:43.5 2026] [error] x", "2026-01-14T06:01:43.5Z"),
            ("Wed Jan 14 06:01:43 2026 x", "2026-01-14T06:01:43Z"),
            ("Jan 14 06:01:43 host sshd[1]: x", "2026-01-14T06:01:43Z"),
            ("Jan  4 06:01:43 host x", "2026-01-04T06:01:43Z"),
            ("<13>Dec 31 23:59:60 host x", "2025-12-31T23:59:59Z"),
            (r#"1.2.3.4 - - [14/Jan/2026:06:01:43 +0200] "GET /""#, "2026-01-14T04:01:43Z"),
            (r#"{"level":"info","ts":1768370503.25}"#, "2026-01-14T06:01:43.25Z"),
            (r#"{"time" : "2026-01-14T06:01:43Z"}"#, "2026-01-14T06:01:43Z"),
            (r#"{"t":"x","@timestamp":1768370503250}"#, "2026-01-14T06:01:43.25Z"),
            (r#"level=info ts=2026-01-14T06:01:43.5Z msg=x"#, "2026-01-14T06:01:43.5Z"),
            (r#"ts="2026-01-14 06:01:43" msg=x"#, "2026-01-14T06:01:43Z"),
        ] {
            assert_eq!(find(line).as_deref(), Some(expected), "{line}");
        }
    }

    #[test]
    fn other_lines_have_no_time() {
        for line in [
            "",
            "    at java.lang.Thread.run",
            "2026-13-01T00:00:00Z",
            "MarxBrothers 1 1",
            "starts=5",
            "{}",
            "99999",
        ] {
            assert_eq!(find(line), None, "{line}");
        }
    }
}
