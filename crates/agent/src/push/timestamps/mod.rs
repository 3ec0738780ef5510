//! Recognises the timestamp of a log line, in the formats of [`FORMATS`].
//!
//! The table makes the reference page too. A time without a zone is local; a date without a year is the
//! latest one that is not in the future.

mod calendar;
mod fields;
mod formats;
mod iso;
mod parts;
mod pattern;

use calendar::Calendar;
pub use fields::names as field_names;
pub use formats::FORMATS;
use formats::First;
#[cfg(test)]
use formats::TimeFormat;
pub use pattern::Pattern;

/// Number of bytes of a line in which a timestamp is searched.
const PREFIX_MAX: usize = 512;
/// The same for lines in JSON, in which the time is rarely the first field.
const OBJECT_PREFIX_MAX: usize = 4 << 10;

/// Finds timestamps.
#[derive(Clone)]
pub struct Recogniser {
    calendar: Calendar,
    pattern: Option<Pattern>,
}

impl Recogniser {
    /// For lines of this machine.
    pub fn local(now_ns: i64) -> Self {
        Self { calendar: Calendar::local(now_ns), pattern: None }
    }

    /// For tests: times without a zone are UTC.
    #[cfg(test)]
    pub fn utc(now_ns: i64) -> Self {
        Self { calendar: Calendar::utc(now_ns), pattern: None }
    }

    /// Also reads times in this format.
    pub fn with(self, pattern: Option<Pattern>) -> Self {
        Self { pattern, ..self }
    }

    /// Updates the current time.
    pub fn at(&mut self, now_ns: i64) -> &Self {
        self.calendar.set_now(now_ns);
        self
    }

    /// The timestamp of a line, nanoseconds since the epoch.
    pub fn find(&self, line: &[u8]) -> Option<i64> {
        let text = line.trim_ascii_start();
        let by_pattern = self.pattern.as_ref().and_then(|pattern| pattern.find(&self.calendar, text));
        if by_pattern.is_some() {
            return by_pattern;
        }
        if text.first()? == &b'{' {
            return fields::in_object(&self.calendar, &text[..text.len().min(OBJECT_PREFIX_MAX)]);
        }
        let text = &text[..text.len().min(PREFIX_MAX)];
        // The most frequent format first, without the table.
        if let Some(ns) = iso::date_time(&self.calendar, text.strip_prefix(b"[").unwrap_or(text)) {
            return Some(ns);
        }
        let kind = First::of(*text.first()?);
        let formats = FORMATS[1..].iter().filter(|format| format.first.has(kind));
        formats.into_iter().find_map(|format| (format.read)(&self.calendar, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(line: &str) -> Option<String> {
        let now = "2026-01-15T12:00:00Z".parse::<jiff::Timestamp>().unwrap();
        let ns = Recogniser::utc(now.as_nanosecond() as i64).find(line.as_bytes())?;
        Some(jiff::Timestamp::from_nanosecond(i128::from(ns)).unwrap().to_string())
    }

    #[test]
    fn usual_formats_are_recognised() {
        for (line, expected) in [
            ("2026-01-14T06:01:43Z x", "2026-01-14T06:01:43Z"),
            ("2026-01-14T06:01:43.123456789+01:00 x", "2026-01-14T05:01:43.123456789Z"),
            ("[2026-01-14 06:01:43,123] x", "2026-01-14T06:01:43.123Z"),
            ("2026/01/14 06:01:43 [error] x", "2026-01-14T06:01:43Z"),
            ("20260114T060143Z x", "2026-01-14T06:01:43Z"),
            ("20260114 06:01:43.5 x", "2026-01-14T06:01:43.5Z"),
            ("[Wed Jan 14 06:01:43.5 2026] [error] x", "2026-01-14T06:01:43.5Z"),
            ("Wed Jan 14 06:01:43 2026 x", "2026-01-14T06:01:43Z"),
            ("Wed, 14 Jan 2026 06:01:43 +0100 x", "2026-01-14T05:01:43Z"),
            ("Jan 14 06:01:43 host sshd[1]: x", "2026-01-14T06:01:43Z"),
            ("Jan  4 06:01:43 host x", "2026-01-04T06:01:43Z"),
            ("<13>Dec 31 23:59:60 host x", "2025-12-31T23:59:59Z"),
            ("<165>1 2026-01-14T06:01:43.003Z host app 1 - - x", "2026-01-14T06:01:43.003Z"),
            ("I0114 06:01:43.123456   12 main.go:7] x", "2026-01-14T06:01:43.123456Z"),
            ("E1231 23:00:00.000000   12 main.go:7] x", "2025-12-31T23:00:00Z"),
            ("W20260114 06:01:43.123456   12 main.cc:7] x", "2026-01-14T06:01:43.123456Z"),
            ("14/01/2026 06:01:43 x", "2026-01-14T06:01:43Z"),
            ("14/01/2026, 06:01:43 x", "2026-01-14T06:01:43Z"),
            ("[14.01.2026 06:01:43.250] x", "2026-01-14T06:01:43.25Z"),
            ("14-01-2026 06:01:43 x", "2026-01-14T06:01:43Z"),
            ("01/14/2026 06:01:43 x", "2026-01-14T06:01:43Z"),
            ("1/14/2026 6:01:43 PM x", "2026-01-14T18:01:43Z"),
            ("01/10/2026 06:01:43 x", "2026-01-10T06:01:43Z"), // as 1 October it would be in the future
            ("14-Jan-2026 06:01:43.123 INFO [main] x", "2026-01-14T06:01:43.123Z"),
            ("14 Jan 2026 06:01:43 x", "2026-01-14T06:01:43Z"),
            ("14/Jan/2026:06:01:43 +0200 x", "2026-01-14T04:01:43Z"),
            ("1:M 14 Jan 2026 06:01:43.123 * x", "2026-01-14T06:01:43.123Z"),
            ("Jan 14, 2026 6:01:43 AM com.example.A run", "2026-01-14T06:01:43Z"),
            ("Jan 14, 2026 12:01:43 AM com.example.A run", "2026-01-14T00:01:43Z"),
            ("INFO  2026-01-14 06:01:43,123 x", "2026-01-14T06:01:43.123Z"),
            ("[WARN] [2026-01-14 06:01:43,123] x", "2026-01-14T06:01:43.123Z"),
            ("I, [2026-01-14T06:01:43.123456 #9]  INFO -- : x", "2026-01-14T06:01:43.123456Z"),
            (r#"1.2.3.4 - - [14/Jan/2026:06:01:43 +0200] "GET /""#, "2026-01-14T04:01:43Z"),
            ("1768370503 x", "2026-01-14T06:01:43Z"),
            ("1768370503.250    12 1.2.3.4 TCP_MISS/200", "2026-01-14T06:01:43.25Z"),
            ("[1768370503250] x", "2026-01-14T06:01:43.25Z"),
            ("1768370503250000,x", "2026-01-14T06:01:43.25Z"),
            ("1768370503250000001\tx", "2026-01-14T06:01:43.250000001Z"),
            ("type=SYSCALL msg=audit(1768370503.250:12): x", "2026-01-14T06:01:43.25Z"),
            (r#"{"level":"info","ts":1768370503.25}"#, "2026-01-14T06:01:43.25Z"),
            (r#"{"time" : "2026-01-14T06:01:43Z"}"#, "2026-01-14T06:01:43Z"),
            (r#"{"t":"x","@timestamp":1768370503250}"#, "2026-01-14T06:01:43.25Z"),
            (r#"{"@t":"2026-01-14T06:01:43Z","@m":"x"}"#, "2026-01-14T06:01:43Z"),
            (r#"{"instant":{"epochSecond":1768370503,"nanoOfSecond":5},"m":1}"#, "2026-01-14T06:01:43Z"),
            (
                concat!(
                    r#"{"_HOSTNAME":"a","_SOURCE_REALTIME_TIMESTAMP":"1","#,
                    r#""__REALTIME_TIMESTAMP":"1768370503250000"}"#
                ),
                "2026-01-14T06:01:43.25Z",
            ),
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
            "1234567890 items",         // 2009 as a time
            "9999999999 items",         // in the future
            "17683705031 x",            // not a number of digits of any unit
            "14/13/2026 06:01:43 x",    // neither day nor month
            "I0114 is a form",          //
            "Jan 14, 2026 is the day",  //
            "msg=audit(1768370503.250", // without its type
            "\u{e9}\u{e9}\u{e9}\u{e9}:\u{e9}\u{e9}:\u{e9}\u{e9}",
        ] {
            assert_eq!(find(line), None, "{line}");
        }
    }

    #[test]
    fn every_format_reads_its_own_example() {
        for TimeFormat { name, examples, .. } in FORMATS {
            for example in *examples {
                assert!(
                    find(example).is_some_and(|time| time.starts_with("2026-01-14T")),
                    "{name}: {example}"
                );
            }
        }
    }

    #[test]
    fn a_format_of_the_user_is_read_before_the_known_ones() {
        let now = "2026-01-15T12:00:00Z".parse::<jiff::Timestamp>().unwrap().as_nanosecond() as i64;
        let find = |format: &str, line: &str| {
            let recogniser = Recogniser::utc(now).with(Some(Pattern::new(format).unwrap()));
            let ns = recogniser.find(line.as_bytes())?;
            Some(jiff::Timestamp::from_nanosecond(i128::from(ns)).unwrap().to_string())
        };
        for (format, line, expected) in [
            ("%H:%M:%S %d %b %Y", "06:01:43 14 Jan 2026 x", Some("2026-01-14T06:01:43Z")),
            ("%H:%M:%S %d %b %Y", "2026-01-14 06:01:43 x", Some("2026-01-14T06:01:43Z")),
            ("[%m/%d/%Y %H:%M:%S%.f]", "[01/02/2026 06:01:43.5] x", Some("2026-01-02T06:01:43.5Z")),
            ("%Y-%m-%d %H:%M:%S %z", "2026-01-14 06:01:43 +0100 x", Some("2026-01-14T05:01:43Z")),
            ("%d %b %H:%M:%S", "31 Dec 06:01:43 x", Some("2025-12-31T06:01:43Z")),
            ("%H:%M:%S %d %b %Y", "\u{e9}6:01:43 no time", None),
        ] {
            assert_eq!(find(format, line).as_deref(), expected, "{format}: {line}");
        }
        for wrong in ["%H:%M", "%Q %d", "text", "%Y-%m-%d"] {
            assert!(Pattern::new(wrong).is_err(), "{wrong}");
        }
    }

    /// Any prefix of any example must be read or left alone, never panic.
    #[test]
    fn truncated_and_damaged_lines_are_read_safely() {
        for example in FORMATS.iter().flat_map(|format| format.examples) {
            for end in 0..=example.len() {
                let mut bytes = example.as_bytes()[..end].to_vec();
                let recogniser = Recogniser::utc(1_768_500_000_000_000_000);
                let check = |bytes: &[u8]| {
                    let text = bytes.trim_ascii_start();
                    let any = FORMATS.iter().find_map(|format| (format.read)(&recogniser.calendar, text));
                    let is_odd =
                        text.first().is_none_or(|b| b"{".contains(b)) || text.get(3..5) == Some(b", ");
                    assert!(is_odd || recogniser.find(bytes) == any, "{:?}", String::from_utf8_lossy(bytes));
                    recogniser.find(bytes);
                };
                check(&bytes);
                for at in 0..bytes.len() {
                    let before = bytes[at];
                    for byte in [b'9', b'[', b'<', b'a', 0xff] {
                        bytes[at] = byte;
                        check(&bytes);
                    }
                    bytes[at] = before;
                }
            }
        }
    }
}
