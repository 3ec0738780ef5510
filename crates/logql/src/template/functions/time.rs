//! Functions of time, with Go's layouts (`2006-01-02T15:04:05Z07:00`) for formatting and parsing.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use sandur_model::go_text::excerpt;

use super::arguments::text_argument;
use super::function::{Function, Site, function};
use crate::template::results::TextSink;
use crate::template::value::Instant;
use crate::template::value::Value;

/// The function that returns the current time.
pub const NOW: &str = "now";

pub const TABLE: &[Function] = &[
    function("__timestamp__", (0, 0), "The timestamp of the row.", |site, _| {
        Ok(Value::Time(Instant::utc(site.timestamp)))
    }),
    Function {
        name: NOW,
        arguments: (0, 0),
        doc: "The time at which the query started.",
        call: |site, _| Ok(Value::Time(Instant::utc(site.now_ns))),
    },
    function("date", (2, 2), "`date layout time`: formats the time in Go's layout.", |site, a| {
        let (instant, layout) = (instant_argument(&a[1])?, text_argument(&a[0])?);
        site.results.text(|out| write(instant, layout, out))
    }),
    function("toDate", (2, 2), "`toDate layout text`: parses the text in Go's layout.", |_, a| {
        Ok(Value::Time(read(text_argument(&a[0])?, text_argument(&a[1])?, None)))
    }),
    function(
        "toDateInZone",
        (3, 3),
        "`toDateInZone layout zone text`: parses the text in Go's layout, in a time zone.",
        |_, a| in_zone(&a),
    ),
    function(
        "unixToTime",
        (1, 1),
        "Converts a number of units since the epoch to a time. The number of digits \
              determines the unit: 5 for days, 10 for seconds, 13 for milliseconds, 16 for microseconds, \
              19 for nanoseconds.",
        |_, a| unix_to_time(text_argument(&a[0])?),
    ),
    function("unixEpoch", (1, 1), "The seconds from the epoch to the time.", |site, a| {
        epoch(site, &a[0], 1_000_000_000)
    }),
    function("unixEpochMillis", (1, 1), "The milliseconds from the epoch to the time.", |site, a| {
        epoch(site, &a[0], 1_000_000)
    }),
    function("unixEpochNanos", (1, 1), "The nanoseconds from the epoch to the time.", |site, a| {
        epoch(site, &a[0], 1)
    }),
];

pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The seconds of Go's zero time, relative to the epoch.
pub const ZERO_SECONDS: i64 = -62_135_596_800;

/// Formats a time as Go's `time.Time.String` in UTC.
pub fn write_time(instant: Instant, out: &mut TextSink<'_>) -> Result<(), String> {
    write(instant, "2006-01-02 15:04:05.999999999 -0700 MST", out)
}

fn instant_argument(value: &Value) -> Result<Instant, String> {
    match value {
        Value::Time(instant) => Ok(*instant),
        Value::Int(seconds) => Ok(Instant::utc(seconds.saturating_mul(1_000_000_000))),
        other => Err(format!("wrong type for value; expected time.Time; got {}", other.type_name())),
    }
}

fn epoch(site: &Site<'_>, value: &Value, unit: i64) -> Result<Value, String> {
    let instant = instant_argument(value)?;
    let count = if instant.zero { ZERO_SECONDS } else { instant.ns.div_euclid(unit) };
    site.results.text(|out| out.print(format_args!("{count}")))
}

fn unix_to_time(text: &str) -> Result<Value, String> {
    let shown = excerpt(text);
    let failed = |why: &str| format!("unable to parse time '{shown}': {why}");
    let number: i64 = text.parse().map_err(|_| {
        failed(&format!("strconv.ParseInt: parsing {}: invalid syntax", sandur_model::go_text::quote(shown)))
    })?;
    let unit = match text.len() {
        5 => 86_400_000_000_000,
        10 => 1_000_000_000,
        13 => 1_000_000,
        16 => 1_000,
        19 => 1,
        _ => return Err(failed("%!w(<nil>)")),
    };
    Ok(Value::Time(Instant::utc(number.saturating_mul(unit))))
}

fn in_zone(arguments: &[Value]) -> Result<Value, String> {
    let [layout, zone, text] = [0, 1, 2].map(|n| text_argument(&arguments[n]));
    let zone = TimeZone::get(zone?).unwrap_or(TimeZone::UTC);
    Ok(Value::Time(read(layout?, text?, Some(zone))))
}

/// An element of a layout.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part<'a> {
    Text(&'a str),
    LongMonth,
    ShortMonth,
    Month,
    ZeroMonth,
    LongDay,
    ShortDay,
    Day,
    SpaceDay,
    ZeroDay,
    DayOfYear,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    Year,
    ShortYear,
    Half(bool),
    ZoneName,
    /// A zone: whether UTC is `Z`, whether it has a colon, and its number of parts.
    Zone {
        z: bool,
        colon: bool,
        parts: u8,
    },
    /// A fraction of the second: its digits, whether trailing zeros stay, and the character before it.
    Fraction {
        digits: usize,
        zeros: bool,
        sign: char,
    },
}

/// Elements in the order in which they are matched.
const PARTS: &[(&str, Part<'static>)] = &[
    ("January", Part::LongMonth),
    ("Jan", Part::ShortMonth),
    ("Monday", Part::LongDay),
    ("Mon", Part::ShortDay),
    ("MST", Part::ZoneName),
    ("2006", Part::Year),
    ("002", Part::DayOfYear),
    ("01", Part::ZeroMonth),
    ("02", Part::ZeroDay),
    ("03", Part::ZeroHour12),
    ("04", Part::ZeroMinute),
    ("05", Part::ZeroSecond),
    ("06", Part::ShortYear),
    ("15", Part::Hour),
    ("_2", Part::SpaceDay),
    ("PM", Part::Half(true)),
    ("pm", Part::Half(false)),
    ("Z070000", Part::Zone { z: true, colon: false, parts: 3 }),
    ("Z07:00:00", Part::Zone { z: true, colon: true, parts: 3 }),
    ("Z0700", Part::Zone { z: true, colon: false, parts: 2 }),
    ("Z07:00", Part::Zone { z: true, colon: true, parts: 2 }),
    ("Z07", Part::Zone { z: true, colon: false, parts: 1 }),
    ("-070000", Part::Zone { z: false, colon: false, parts: 3 }),
    ("-07:00:00", Part::Zone { z: false, colon: true, parts: 3 }),
    ("-0700", Part::Zone { z: false, colon: false, parts: 2 }),
    ("-07:00", Part::Zone { z: false, colon: true, parts: 2 }),
    ("-07", Part::Zone { z: false, colon: false, parts: 1 }),
    ("1", Part::Month),
    ("2", Part::Day),
    ("3", Part::Hour12),
    ("4", Part::Minute),
    ("5", Part::Second),
];

fn fraction(layout: &str) -> Option<(Part<'static>, usize)> {
    let sign = layout.chars().next().filter(|c| matches!(c, '.' | ','))?;
    let digit = layout[1..].chars().next().filter(|c| matches!(c, '0' | '9'))?;
    let digits = layout[1..].len() - layout[1..].trim_start_matches(digit).len();
    let ends = !layout[1 + digits..].starts_with(|c: char| c.is_ascii_digit());
    ends.then_some((Part::Fraction { digits, zeros: digit == '0', sign }, digits + 1))
}

/// Splits a layout into its elements.
fn parts(layout: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = layout;
    let mut next = None;
    std::iter::from_fn(move || {
        if let Some(part) = next.take() {
            return Some(part);
        }
        let mut at = 0;
        while at < rest.len() {
            let here = &rest[at..];
            let fixed = PARTS.iter().find(|(text, part)| {
                // `Jan` and `Mon` do not match inside longer words.
                let word = matches!(part, Part::ShortMonth | Part::ShortDay);
                here.starts_with(text) && !(word && here[3..].starts_with(|c: char| c.is_ascii_lowercase()))
            });
            let found = fixed.map(|(text, part)| (*part, text.len())).or_else(|| fraction(here));
            let Some((part, length)) = found else {
                at += here.chars().next().map_or(1, char::len_utf8);
                continue;
            };
            let text = &rest[..at];
            rest = &here[length..];
            if text.is_empty() {
                return Some(part);
            }
            next = Some(part);
            return Some(Part::Text(text));
        }
        let text = std::mem::take(&mut rest);
        (!text.is_empty()).then_some(Part::Text(text))
    })
}

pub fn civil(instant: Instant) -> DateTime {
    if instant.zero {
        return DateTime::constant(1, 1, 1, 0, 0, 0, 0);
    }
    let timestamp = Timestamp::from_nanosecond(i128::from(instant.ns)).unwrap_or_default();
    Offset::from_seconds(instant.offset).unwrap_or(Offset::UTC).to_datetime(timestamp)
}

/// Formats the time in Go's layout.
pub fn write(instant: Instant, layout: &str, out: &mut TextSink<'_>) -> Result<(), String> {
    let t = civil(instant);
    let hour12 = if t.hour() % 12 == 0 { 12 } else { t.hour() % 12 };
    let weekday = DAYS[t.weekday().to_sunday_zero_offset() as usize];
    let month = MONTHS[t.month() as usize - 1];
    for part in parts(layout) {
        match part {
            Part::Text(text) => out.print(format_args!("{text}")),
            Part::LongMonth => out.print(format_args!("{month}")),
            Part::ShortMonth => out.print(format_args!("{}", &month[..3])),
            Part::Month => out.print(format_args!("{}", t.month())),
            Part::ZeroMonth => out.print(format_args!("{:02}", t.month())),
            Part::LongDay => out.print(format_args!("{weekday}")),
            Part::ShortDay => out.print(format_args!("{}", &weekday[..3])),
            Part::Day => out.print(format_args!("{}", t.day())),
            Part::SpaceDay => out.print(format_args!("{:2}", t.day())),
            Part::ZeroDay => out.print(format_args!("{:02}", t.day())),
            Part::DayOfYear => out.print(format_args!("{:03}", t.day_of_year())),
            Part::Hour => out.print(format_args!("{:02}", t.hour())),
            Part::Hour12 => out.print(format_args!("{hour12}")),
            Part::ZeroHour12 => out.print(format_args!("{hour12:02}")),
            Part::Minute => out.print(format_args!("{}", t.minute())),
            Part::ZeroMinute => out.print(format_args!("{:02}", t.minute())),
            Part::Second => out.print(format_args!("{}", t.second())),
            Part::ZeroSecond => out.print(format_args!("{:02}", t.second())),
            Part::Year => out.print(format_args!("{:04}", t.year())),
            Part::ShortYear => out.print(format_args!("{:02}", t.year().rem_euclid(100))),
            Part::Half(upper) => {
                let half = if t.hour() >= 12 { "PM" } else { "AM" };
                out.print(format_args!("{}", if upper { half.to_owned() } else { half.to_lowercase() }))
            }
            Part::ZoneName if instant.offset == 0 => out.print(format_args!("UTC")),
            Part::ZoneName => out.print(format_args!("{}", offset_text(instant.offset, false, 2))),
            Part::Zone { z: true, .. } if instant.offset == 0 => out.print(format_args!("Z")),
            Part::Zone { colon, parts, .. } => {
                out.print(format_args!("{}", offset_text(instant.offset, colon, parts)))
            }
            Part::Fraction { digits, zeros, sign } => {
                let all = format!("{:09}", t.subsec_nanosecond());
                let cut = &all[..digits.min(9)];
                let cut = if zeros { cut } else { cut.trim_end_matches('0') };
                if cut.is_empty() { Ok(()) } else { out.print(format_args!("{sign}{cut}")) }
            }
        }?;
    }
    Ok(())
}

fn offset_text(offset: i32, colon: bool, parts: u8) -> String {
    let sign = if offset < 0 { '-' } else { '+' };
    let total = offset.unsigned_abs();
    let numbers = [total / 3600, total / 60 % 60, total % 60];
    let texts: Vec<String> = numbers[..usize::from(parts)].iter().map(|n| format!("{n:02}")).collect();
    format!("{sign}{}", texts.join(if colon { ":" } else { "" }))
}

/// Parses a text in Go's layout; Go's zero time if it does not match.
fn read(layout: &str, text: &str, zone: Option<TimeZone>) -> Instant {
    try_read(layout, text, zone).unwrap_or_else(Instant::zero)
}

#[derive(Default)]
struct Fields {
    year: Option<i16>,
    month: Option<i8>,
    day: Option<i8>,
    day_of_year: Option<i16>,
    hour: i8,
    minute: i8,
    second: i8,
    nanosecond: i32,
    afternoon: Option<bool>,
    offset: Option<i32>,
}

fn try_read(layout: &str, text: &str, zone: Option<TimeZone>) -> Option<Instant> {
    let mut fields = Fields::default();
    let mut rest = text;
    let mut list = parts(layout).peekable();
    while let Some(part) = list.next() {
        rest = read_part(&mut fields, part, rest)?;
        // A fraction may follow the seconds even if the layout has none.
        let fraction_next = matches!(list.peek(), Some(Part::Fraction { .. }));
        if matches!(part, Part::Second | Part::ZeroSecond) && !fraction_next && rest.starts_with(['.', ',']) {
            rest = read_fraction(&mut fields, rest)?;
        }
    }
    if !rest.is_empty() {
        return None;
    }
    instant_of(&fields, zone)
}

fn instant_of(fields: &Fields, zone: Option<TimeZone>) -> Option<Instant> {
    let year = fields.year.unwrap_or(0);
    let date = match fields.day_of_year {
        Some(day) => Date::new(year, 1, 1)
            .ok()?
            .checked_add(SignedDuration::from_hours(24 * i64::from(day - 1)))
            .ok()?,
        None => Date::new(year, fields.month.unwrap_or(1), fields.day.unwrap_or(1)).ok()?,
    };
    let hour = match fields.afternoon {
        Some(true) if fields.hour < 12 => fields.hour + 12,
        Some(false) if fields.hour == 12 => 0,
        _ => fields.hour,
    };
    let time = Time::new(hour, fields.minute, fields.second, fields.nanosecond).ok()?;
    let datetime = date.to_datetime(time);
    let (timestamp, offset) = match (fields.offset, zone) {
        (Some(seconds), _) => {
            let offset = Offset::from_seconds(seconds).ok()?;
            (offset.to_timestamp(datetime).ok()?, seconds)
        }
        (None, Some(zone)) => {
            let zoned = datetime.to_zoned(zone).ok()?;
            (zoned.timestamp(), zoned.offset().seconds())
        }
        (None, None) => (Offset::UTC.to_timestamp(datetime).ok()?, 0),
    };
    let ns = i64::try_from(timestamp.as_nanosecond()).ok()?;
    Some(Instant { ns, offset, zero: false })
}

/// Parses `least` to `most` digits at the start of the text.
fn digits(rest: &str, least: usize, most: usize) -> Option<(i64, &str)> {
    let count = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if count < least {
        return None;
    }
    Some((rest[..count].parse().ok()?, &rest[count..]))
}

fn name<'a>(rest: &'a str, names: &[&str], length: Option<usize>) -> Option<(usize, &'a str)> {
    names.iter().enumerate().find_map(|(n, name)| {
        let name = &name[..length.unwrap_or(name.len())];
        let head = rest.get(..name.len())?;
        head.eq_ignore_ascii_case(name).then(|| (n, &rest[name.len()..]))
    })
}

fn read_part<'a>(fields: &mut Fields, part: Part<'_>, rest: &'a str) -> Option<&'a str> {
    match part {
        Part::Text(text) => rest.strip_prefix(text),
        Part::LongDay => Some(name(rest, &DAYS, None)?.1),
        Part::ShortDay => Some(name(rest, &DAYS, Some(3))?.1),
        Part::LongMonth | Part::ShortMonth => {
            let (n, after) = name(rest, &MONTHS, (part == Part::ShortMonth).then_some(3))?;
            fields.month = Some(n as i8 + 1);
            Some(after)
        }
        Part::Half(_) => {
            let (n, after) = name(rest, &["AM", "PM"], None)?;
            fields.afternoon = Some(n == 1);
            Some(after)
        }
        Part::ZoneName => {
            let letters = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_uppercase()).len();
            // As in Go, an unknown abbreviation is a zone without an offset from UTC.
            fields.offset = Some(fields.offset.unwrap_or(0));
            (3..=5).contains(&letters).then(|| &rest[letters..])
        }
        Part::Zone { z: true, .. } if rest.starts_with('Z') => {
            fields.offset = Some(0);
            Some(&rest[1..])
        }
        Part::Zone { colon, parts, .. } => read_zone(fields, rest, colon, parts),
        Part::Fraction { zeros, .. } if !zeros && !rest.starts_with(['.', ',']) => Some(rest),
        Part::Fraction { .. } => read_fraction(fields, rest),
        _ => read_number(fields, part, rest),
    }
}

fn read_number<'a>(fields: &mut Fields, part: Part<'_>, rest: &'a str) -> Option<&'a str> {
    let (least, most) = match part {
        Part::Month | Part::Day | Part::SpaceDay | Part::Hour12 | Part::Minute | Part::Second => (1, 2),
        Part::DayOfYear => (3, 3),
        Part::Year => (4, 4),
        _ => (2, 2),
    };
    let padded = part == Part::SpaceDay && rest.starts_with(' ');
    let (n, after) = digits(&rest[usize::from(padded)..], least, most)?;
    let short = n as i8;
    match part {
        Part::Month | Part::ZeroMonth => fields.month = Some(short),
        Part::Day | Part::ZeroDay | Part::SpaceDay => fields.day = Some(short),
        Part::DayOfYear => fields.day_of_year = Some(n as i16),
        Part::Hour | Part::ZeroHour12 | Part::Hour12 => fields.hour = short,
        Part::Minute | Part::ZeroMinute => fields.minute = short,
        Part::Second | Part::ZeroSecond => fields.second = short,
        Part::Year => fields.year = Some(n as i16),
        _ => fields.year = Some(if n >= 69 { 1900 + n as i16 } else { 2000 + n as i16 }),
    }
    Some(after)
}

fn read_zone<'a>(fields: &mut Fields, rest: &'a str, colon: bool, parts: u8) -> Option<&'a str> {
    let sign = match rest.chars().next()? {
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let mut after = &rest[1..];
    let mut seconds = 0;
    for n in 0..parts {
        if n > 0 && colon {
            after = after.strip_prefix(':')?;
        }
        let (value, next) = digits(after, 2, 2)?;
        seconds += value as i32 * [3600, 60, 1][usize::from(n)];
        after = next;
    }
    fields.offset = Some(sign * seconds);
    Some(after)
}

fn read_fraction<'a>(fields: &mut Fields, rest: &'a str) -> Option<&'a str> {
    let inside = rest.strip_prefix(['.', ','])?;
    let count = inside.bytes().take_while(u8::is_ascii_digit).count();
    if count == 0 {
        return None;
    }
    let kept = &inside[..count.min(9)];
    fields.nanosecond = kept.parse::<i32>().ok()? * 10i32.pow(9 - kept.len() as u32);
    Some(&inside[count..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(instant: Instant, layout: &str) -> String {
        let results = crate::template::results::Results::default();
        results.make(|out| write(instant, layout, out)).unwrap().to_string()
    }

    #[test]
    fn formatted_times_parse_to_the_same_time() {
        let instant = Instant { ns: 1_700_000_000_123_456_789, offset: 0, zero: false };
        for (layout, text) in [
            ("2006-01-02T15:04:05Z07:00", "2023-11-14T22:13:20Z"),
            ("2006-01-02T15:04:05.999999999Z07:00", "2023-11-14T22:13:20.123456789Z"),
            ("02 Jan 06 15:04 -0700", "14 Nov 23 22:13 +0000"),
            ("Monday, January 2, 2006 at 3:04:05PM", "Tuesday, November 14, 2023 at 10:13:20PM"),
            ("1/2/06 03:04:05.000", "11/14/23 10:13:20.123"),
            ("2006-002", "2023-318"),
        ] {
            assert_eq!(written(instant, layout), text);
        }
        let east = read("2006-01-02T15:04:05Z07:00", "2023-11-14T22:13:20+02:00", None);
        assert_eq!((east.ns / 1_000_000_000, east.offset), (1_699_992_800, 7200));
        assert_eq!(written(east, "15:04 -07:00"), "22:13 +02:00");
        assert!(read("2006-01-02", "nonsense", None).zero);
        assert_eq!(read("2006-01-02 15:04:05", "2023-11-14 22:13:20.5", None).ns, 1_700_000_000_500_000_000);
    }
}
