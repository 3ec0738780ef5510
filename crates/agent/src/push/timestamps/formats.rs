//! The formats of timestamps, in one table, in the order in which they are tried.

use jiff::civil::Date;

use super::calendar::Calendar;
use super::fields;
use super::iso::date_time;
use super::parts::{clock, clock_of_half_days, date, epoch, month, number, short_number};

/// A format of timestamps.
pub struct TimeFormat {
    /// Its name in the reference.
    pub name: &'static str,
    /// Starts of lines in it.
    pub examples: &'static [&'static str],
    /// What else is to be known about it.
    pub note: &'static str,
    /// Which bytes begin a line in it: others are not read.
    pub(super) first: First,
    /// Reads the time of a line that does not begin with a brace.
    pub(super) read: fn(&Calendar, &[u8]) -> Option<i64>,
}

/// Kinds of first bytes, as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First(u8);

impl First {
    const BRACKET: Self = Self(1);
    /// Digits, also in brackets.
    const DIGITS: Self = Self(2 | Self::BRACKET.0);
    const LETTERS: Self = Self(4);
    /// `<` before the priority of syslog.
    const PRIORITY: Self = Self(8);
    const ANY: Self = Self(u8::MAX);

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The kind of a byte.
    pub fn of(byte: u8) -> Self {
        match byte {
            b'[' => Self::BRACKET,
            b'0'..=b'9' => Self(2),
            b'a'..=b'z' | b'A'..=b'Z' => Self::LETTERS,
            b'<' => Self::PRIORITY,
            _ => Self(16),
        }
    }

    /// Whether a byte of this kind is in the set.
    pub fn has(self, kind: Self) -> bool {
        self.0 & kind.0 != 0
    }
}

/// All formats.
pub static FORMATS: &[TimeFormat] = &[
    TimeFormat {
        name: "RFC 3339, ISO 8601",
        examples: &["2026-01-14T06:01:43.123+01:00", "2026-01-14 06:01:43,123", "[2026/01/14 06:01:43]"],
        note: "with or without brackets, fraction and zone",
        first: First::DIGITS,
        read: |calendar, text| date_time(calendar, text.strip_prefix(b"[").unwrap_or(text)),
    },
    TimeFormat {
        name: "common and combined log format",
        examples: &["192.0.2.1 - - [14/Jan/2026:06:01:43 +0000] \"GET / HTTP/1.1\" 200 5"],
        note: "anywhere in the first 512 bytes",
        first: First::ANY,
        read: common_log,
    },
    TimeFormat {
        name: "ISO 8601, basic",
        examples: &["20260114T060143Z", "20260114 06:01:43.123"],
        note: "",
        first: First::DIGITS,
        read: basic,
    },
    TimeFormat {
        name: "seconds since 1970",
        examples: &["1768370503 ", "[1768370503.250]", "1768370503250\t", "1768370503250000,"],
        note: "10 digits are seconds, 13 milliseconds, 16 microseconds, 19 nanoseconds; a space, a comma, a \
               tab, a bar, a colon or a bracket must follow, and the time must be within ten years before \
               now and a day after now",
        first: First::DIGITS,
        read: leading_epoch,
    },
    TimeFormat {
        name: "day, month, year",
        examples: &[
            "14/01/2026 06:01:43",
            "14.01.2026 06:01:43",
            "14-01-2026, 06:01:43",
            "1/14/2026 6:01:43 PM",
        ],
        note: "the day is first; the month is first if the second number is above 12, or if the date would \
               otherwise be in the future",
        first: First::DIGITS,
        read: day_first,
    },
    TimeFormat {
        name: "day, name of the month, year",
        examples: &["14-Jan-2026 06:01:43.123", "14 Jan 2026 06:01:43", "Wed, 14 Jan 2026 06:01:43 +0000"],
        note: "Tomcat, Oracle, RFC 2822",
        first: First::DIGITS.or(First::LETTERS),
        read: named_month,
    },
    TimeFormat {
        name: "RFC 5424",
        examples: &["<165>1 2026-01-14T06:01:43.003Z host app 12 - - text"],
        note: "",
        first: First::PRIORITY,
        read: rfc5424,
    },
    TimeFormat {
        name: "syslog, RFC 3164",
        examples: &["Jan 14 06:01:43 host app[12]: text", "<13>Jan 14 06:01:43 host"],
        note: "the year is the latest that is not in the future",
        first: First::LETTERS.or(First::PRIORITY),
        read: syslog,
    },
    TimeFormat {
        name: "java.util.logging",
        examples: &["Jan 14, 2026 6:01:43 AM com.example.Main run"],
        note: "",
        first: First::LETTERS,
        read: java_logging,
    },
    TimeFormat {
        name: "C library, Apache's errors",
        examples: &["Wed Jan 14 06:01:43 2026", "[Wed Jan 14 06:01:43.123 2026] [error]"],
        note: "",
        first: First::ANY,
        read: c_library,
    },
    TimeFormat {
        name: "klog, glog",
        examples: &["I0114 06:01:43.123456   12 main.go:7] text", "W20260114 06:01:43.123456"],
        note: "the year is the latest that is not in the future",
        first: First::LETTERS,
        read: klog,
    },
    TimeFormat {
        name: "level, then a time",
        examples: &[
            "INFO 2026-01-14 06:01:43,123",
            "[WARN] [2026-01-14 06:01:43]",
            "I, [2026-01-14T06:01:43.1 #9]",
        ],
        note: "Python, Log4j, Ruby",
        first: First::LETTERS.or(First::BRACKET),
        read: after_level,
    },
    TimeFormat {
        name: "Redis",
        examples: &["1:M 14 Jan 2026 06:01:43.123 * text"],
        note: "",
        first: First::DIGITS,
        read: redis,
    },
    TimeFormat {
        name: "audit of Linux",
        examples: &["type=SYSCALL msg=audit(1768370503.250:12): text"],
        note: "",
        first: First::LETTERS,
        read: audit,
    },
    TimeFormat {
        name: "logfmt",
        examples: &["level=info ts=2026-01-14T06:01:43.5Z msg=text"],
        note: "fields with the names below, in ISO 8601 or as seconds since 1970",
        first: First::ANY,
        read: fields::in_logfmt,
    },
];

/// `20260114T060143Z`, `20260114 06:01:43`.
fn basic(calendar: &Calendar, text: &[u8]) -> Option<i64> {
    let text = text.strip_prefix(b"[").unwrap_or(text);
    let date = date(number(text, 0, 4)?, number(text, 4, 2)?, number(text, 6, 2)?)?;
    let rest = text.get(9..)?;
    match text[8] {
        b'T' if number(rest, 0, 6).is_some() => {
            let colons = [&rest[..2], b":", &rest[2..4], b":", &rest[4..]].concat();
            let (time, length) = clock(&colons)?;
            calendar.with_zone(date.to_datetime(time), colons.get(length..).unwrap_or_default())
        }
        b'T' | b' ' | b'-' => {
            let (time, length) = clock(rest)?;
            calendar.with_zone(date.to_datetime(time), rest.get(length..).unwrap_or_default())
        }
        _ => None,
    }
}

/// A number of seconds at the start of a line. Other numbers of as many digits exist, so the time must be
/// plausible.
fn leading_epoch(calendar: &Calendar, text: &[u8]) -> Option<i64> {
    const AGE_MAX_NS: i64 = 3_653 * sandur_model::DAY_NS;
    let text = text.strip_prefix(b"[").unwrap_or(text);
    if !text.first()?.is_ascii_digit() {
        return None;
    }
    let (ns, length) = epoch(text)?;
    let is_end = matches!(text.get(length), Some(b' ' | b',' | b'\t' | b'|' | b':' | b']'));
    let is_plausible = calendar.is_past(ns) && ns >= calendar.now_ns().saturating_sub(AGE_MAX_NS);
    (is_end && is_plausible).then_some(ns)
}

/// `14/01/2026 06:01:43`, and with the month first.
fn day_first(calendar: &Calendar, text: &[u8]) -> Option<i64> {
    let text = text.strip_prefix(b"[").unwrap_or(text);
    let (first, length) = short_number(text, 0)?;
    let separator = *text.get(length)?;
    if !b"/.-".contains(&separator) {
        return None;
    }
    let (second, more) = short_number(text, length + 1)?;
    let at = length + 1 + more;
    let year = number(text, at + 1, 4).filter(|_| text[at] == separator)?;
    let rest = text.get(at + 5..)?;
    let rest = rest.strip_prefix(b",").unwrap_or(rest);
    let (time, length) = clock_of_half_days(rest.strip_prefix(b" ")?)?;
    let zone = rest.get(1 + length..).unwrap_or_default();
    let of = |day: u32, month: u32| {
        let date = date(year, month, day)?;
        calendar.with_zone(date.to_datetime(time), zone).filter(|ns| calendar.is_past(*ns))
    };
    of(first, second).or_else(|| of(second, first))
}

/// `14-Jan-2026 06:01:43`, with other separators, and after the day of the week.
fn named_month(calendar: &Calendar, text: &[u8]) -> Option<i64> {
    let text = text.strip_prefix(b"[").unwrap_or(text);
    let text = if text.get(3..5) == Some(b", ") { &text[5..] } else { text };
    let (day, length) = short_number(text, 0)?;
    if !b"/- ".contains(text.get(length)?) || text.get(length + 4) != text.get(length) {
        return None;
    }
    let month = month(&text[length + 1..])?;
    let date = Date::new(number(text, length + 5, 4)? as i16, month, day as i8).ok()?;
    if !b" :,T".contains(text.get(length + 9)?) {
        return None;
    }
    let rest = text.get(length + 10..)?;
    let (time, length) = clock(rest.strip_prefix(b" ").unwrap_or(rest))?;
    calendar.with_zone(date.to_datetime(time), rest.get(length..).unwrap_or_default())
}

/// `<165>1 2026-01-14T06:01:43.003Z ...`.
fn rfc5424(calendar: &Calendar, text: &[u8]) -> Option<i64> {
    let rest = without_priority(text)?.strip_prefix(b"1 ")?;
    date_time(calendar, rest)
}

/// The text after `<13>`.
fn without_priority(text: &[u8]) -> Option<&[u8]> {
    let text = text.strip_prefix(b"<")?;
    let end = text.iter().take(4).position(|&b| b == b'>')?;
    Some(&text[end + 1..])
}

/// `<13>Nov 21 06:01:43 ...`.
fn syslog(calendar: &Calendar, text: &[u8]) -> Option<i64> {
    let text = without_priority(text).unwrap_or(text);
    let month = month(text)?;
    let day: u32 = std::str::from_utf8(text.get(4..6)?).ok()?.trim().parse().ok()?;
    let (time, _) = clock(text.get(7..)?)?;
    calendar.latest(|year| Some(Date::new(year, month, i8::try_from(day).ok()?).ok()?.to_datetime(time)))
}

/// `Jan 14, 2026 6:01:43 AM`.
fn java_logging(calendar: &Calendar, text: &[u8]) -> Option<i64> {
    let month = month(text)?;
    let (day, length) = short_number(text, 4)?;
    let rest = text.get(4 + length..)?.strip_prefix(b", ")?;
    let date = Date::new(number(rest, 0, 4)? as i16, month, day as i8).ok()?;
    let (time, length) = clock_of_half_days(rest.get(5..)?)?;
    calendar.with_zone(date.to_datetime(time), rest.get(5 + length..).unwrap_or_default())
}

/// `Sat Nov 21 06:01:43.123 2026`, possibly in brackets, as `ctime` and Apache write it.
fn c_library(calendar: &Calendar, text: &[u8]) -> Option<i64> {
    let text = text.strip_prefix(b"[").unwrap_or(text);
    let month = month(text.get(4..)?)?;
    let day: i8 = std::str::from_utf8(text.get(8..10)?).ok()?.trim().parse().ok()?;
    let (time, length) = clock(text.get(11..)?)?;
    let year = number(text, 11 + length + 1, 4)?;
    calendar.with_zone(Date::new(year as i16, month, day).ok()?.to_datetime(time), b"")
}

/// `I0114 06:01:43.123456`, `I20260114 06:01:43.123456`.
fn klog(calendar: &Calendar, text: &[u8]) -> Option<i64> {
    if !b"DIWEF".contains(text.first()?) {
        return None;
    }
    if text.get(5) == Some(&b' ') {
        let (month, day) = (number(text, 1, 2)?, number(text, 3, 2)?);
        let (time, _) = clock(text.get(6..)?)?;
        return calendar.latest(|year| Some(date(year as u32, month, day)?.to_datetime(time)));
    }
    let date = date(number(text, 1, 4)?, number(text, 5, 2)?, number(text, 7, 2)?)?;
    let (time, _) = clock(text.get(10..).filter(|_| text[9] == b' ')?)?;
    calendar.with_zone(date.to_datetime(time), b"")
}

/// `INFO 2026-01-14 06:01:43,123`, `[WARN] [2026-01-14 06:01:43]`, `I, [2026-01-14T06:01:43.1 #9]`.
fn after_level(calendar: &Calendar, text: &[u8]) -> Option<i64> {
    /// The longest is `INFORMATION`.
    const LETTERS_MAX: usize = 11;
    let text = text.strip_prefix(b"[").unwrap_or(text);
    let letters = text.iter().take(LETTERS_MAX + 1).take_while(|b| b.is_ascii_alphabetic()).count();
    if !(1..=LETTERS_MAX).contains(&letters) {
        return None;
    }
    let rest = &text[letters..];
    let between = rest.iter().take(8).take_while(|b| b" ]:,|-".contains(b)).count();
    let rest = rest.get(between..).filter(|_| between > 0)?;
    date_time(calendar, rest.strip_prefix(b"[").unwrap_or(rest))
}

/// `1:M 14 Jan 2026 06:01:43.123 * text`.
fn redis(calendar: &Calendar, text: &[u8]) -> Option<i64> {
    if !text.first()?.is_ascii_digit() {
        return None;
    }
    let colon = text.iter().take(8).position(|&b| b == b':')?;
    let is_role = |role: &u8| b"MSCX".contains(role);
    let rest = text.get(colon + 3..).filter(|_| is_role(&text[colon + 1]) && text[colon + 2] == b' ')?;
    named_month(calendar, rest)
}

/// `... [21/Nov/2026:06:01:43 +0000] ...`.
fn common_log(calendar: &Calendar, text: &[u8]) -> Option<i64> {
    let text = &text[memchr::memchr(b'[', text)? + 1..];
    let month = month(text.get(3..)?)?;
    if text.get(2) != Some(&b'/') || text.get(6) != Some(&b'/') {
        return None;
    }
    let date = Date::new(number(text, 7, 4)? as i16, month, number(text, 0, 2)? as i8).ok()?;
    let (time, length) = clock(text.get(12..)?)?;
    calendar.with_zone(date.to_datetime(time), text.get(12 + length..).unwrap_or_default())
}

/// `type=SYSCALL msg=audit(1768370503.250:12)`.
fn audit(_: &Calendar, text: &[u8]) -> Option<i64> {
    const MARK: &[u8] = b" msg=audit(";
    if !text.starts_with(b"type=") && !text.starts_with(b"node=") {
        return None;
    }
    let at = memchr::memmem::find(text, MARK)?;
    epoch(&text[at + MARK.len()..]).map(|(ns, _)| ns)
}
