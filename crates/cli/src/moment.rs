//! Parses and prints instants, ranges and time zones of the command line.
//!
//! Parsing and printing use the same zone: a time without an offset is in the zone in which times are
//! shown.

use clap::{Arg, ArgMatches, Command};
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan, Zoned};
use sandur_base::spelling::nearest;
use sandur_base::units::parse_duration;
use sandur_model::Rfc3339;
use sandur_terminal::Failed;

/// Formats of instants, for messages.
const FORMS: &str = "now-1h, yesterday, 'today 06:00', '10m ago', 2026-11-21, '2026-11-21 06:00', \
                     2026-11-21T06:00:00Z, or unix time in s, ms, us or ns";
/// Unix times from this value on are milliseconds; as seconds they would be after the year 5000.
const MILLISECONDS_FROM: i64 = 100_000_000_000;
/// Numbers below this value are refused as unix times: they are years, days or typing errors; as seconds
/// they are before 1973.
const SECONDS_FROM: i64 = 100_000_000;

/// The time zone for parsing and printing.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

impl Zone {
    /// Coordinated universal time.
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// The zone with this name in the time zone database, `Local` or `UTC`.
    pub fn named(name: &str) -> Result<Self, String> {
        if name.eq_ignore_ascii_case("local") {
            return Ok(Self(TimeZone::system()));
        }
        if name.eq_ignore_ascii_case("utc") || name == "Z" {
            return Ok(Self::utc());
        }
        TimeZone::get(name).map(Self).map_err(|_| {
            let names: Vec<String> = jiff::tz::db().available().map(|known| known.to_string()).collect();
            match nearest(name, names.iter().map(String::as_str)) {
                Some(known) => format!("there is no such time zone; did you mean {known}?"),
                None => {
                    "there is no such time zone: write Local, UTC, or a name like Europe/Berlin".to_owned()
                }
            }
        })
    }

    /// Formats an instant as RFC 3339 with milliseconds.
    pub fn show(&self, ns: i64) -> String {
        self.write(ns, "%Y-%m-%dT%H:%M:%S%.3f%:z")
    }

    /// Formats an instant as RFC 3339 with as many decimals as needed.
    pub fn show_exactly(&self, ns: i64) -> String {
        self.write(ns, "%Y-%m-%dT%H:%M:%S%.f%:z")
    }

    fn write(&self, ns: i64, format: &str) -> String {
        let Ok(instant) = Timestamp::from_nanosecond(i128::from(ns)) else { return ns.to_string() };
        let zoned = instant.to_zoned(self.0.clone());
        let format = if zoned.offset().is_zero() { format.replace("%:z", "Z") } else { format.to_owned() };
        zoned.strftime(&format).to_string()
    }

    fn now(&self, now_ns: i64) -> Zoned {
        Timestamp::from_nanosecond(i128::from(now_ns)).unwrap_or_default().to_zoned(self.0.clone())
    }
}

/// A range of time and the zone of its instants.
#[derive(Clone, Debug)]
pub struct Window {
    /// Start, inclusive, nanoseconds since the epoch.
    pub start: i64,
    /// End, exclusive, nanoseconds since the epoch.
    pub end: i64,
    /// The zone in which its times are shown.
    pub zone: Zone,
}

/// Adds `--since`, `--from`, `--to` and `--timezone`.
pub fn arguments(command: Command) -> Command {
    let since = Arg::new("since").long("since").value_name("TIME").conflicts_with("from");
    let since = since.help("Length of the range, like 15m or 7d, or its start [default: 1h]");
    let from = Arg::new("from").long("from").value_name("TIME");
    let from = from.help(format!("Start of the range: {FORMS}"));
    let to = Arg::new("to").long("to").value_name("TIME").help("End of the range, exclusive [default: now]");
    zone_argument(command.arg(since).arg(from).arg(to))
}

/// Adds `--timezone`.
pub fn zone_argument(command: Command) -> Command {
    let zone = Arg::new("timezone").long("timezone").value_name("ZONE").default_value("Local");
    let zone = zone.value_parser(Zone::named);
    command.arg(zone.help(
        "Time zone of times without an offset, and of printed times: Local, UTC, \
            Europe/Berlin, ..",
    ))
}

/// The zone that the arguments name.
pub fn zone(matches: &ArgMatches) -> Zone {
    matches.get_one::<Zone>("timezone").cloned().unwrap_or_else(Zone::utc)
}

/// The range that the arguments name.
pub fn window(matches: &ArgMatches, now_ns: i64) -> Result<Window, Failed> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let zone = zone(matches);
    let end = text("to").map_or(Ok(now_ns), |to| instant(to, now_ns, &zone))?;
    let start = match (text("from"), text("since")) {
        (Some(from), _) => instant(from, now_ns, &zone)?,
        (None, given) => since(given.unwrap_or("1h"), (now_ns, end), &zone)?,
    };
    if start > end {
        let (start, end) = (zone.show(start), zone.show(end));
        return Err(Failed::usage(format!("the range ends before it begins: from {start} to {end}")));
    }
    Ok(Window { start, end, zone })
}

/// The start for `--since`: a duration before `end`, or an instant.
pub fn since(text: &str, (now_ns, end): (i64, i64), zone: &Zone) -> Result<i64, Failed> {
    if let Ok(duration) = parse_duration(text) {
        let back = i64::try_from(duration.as_nanos()).ok();
        let start = back.and_then(|back| end.checked_sub(back));
        return start
            .ok_or_else(|| Failed::usage(format!("'{text}' is too long; use --from 0 for everything")));
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Failed::usage(format!(
            "'{text}' has no unit: write {text}m for minutes, {text}h for hours"
        )));
    }
    if let Some(duration) = with_known_unit(text) {
        return Err(Failed::usage(format!("'{text}' has no known unit: write {duration}")));
    }
    instant(text, now_ns, zone)
}

/// The duration that a number with another name of a unit means: `1h` for `1hour`.
fn with_known_unit(text: &str) -> Option<String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).filter(|digits| *digits > 0)?;
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim().to_ascii_lowercase().trim_end_matches('s') {
        "" | "sec" | "second" => "s",
        "m" | "min" | "minute" => "m",
        "h" | "hr" | "hour" => "h",
        "d" | "day" => "d",
        "w" | "wk" | "week" => "w",
        "y" | "yr" | "year" => "y",
        _ => return None,
    };
    Some(format!("{number}{unit}"))
}

/// Parses an instant into nanoseconds since the epoch.
pub fn instant(text: &str, now_ns: i64, zone: &Zone) -> Result<i64, Failed> {
    let text = text.trim();
    if let Some(number) = unix(text) {
        return number.map_err(Failed::usage);
    }
    let found = relative(text, &zone.now(now_ns)).or_else(|| absolute(text, &zone.now(now_ns)));
    let ns = found.map(|instant| saturating_ns(instant.as_nanosecond()));
    // The end of the year 9999, often written for "forever", is out of range in a time zone.
    let ns = ns.or_else(|| Some(Rfc3339::parse(text)?.saturating_ns()));
    ns.ok_or_else(|| Failed::usage(format!("'{text}' is not an instant: write it like {FORMS}")))
}

/// Clamps to 64 bits.
fn saturating_ns(ns: i128) -> i64 {
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}

/// Parses a unix time, whose unit follows from its size; with a decimal point it is seconds.
fn unix(text: &str) -> Option<Result<i64, String>> {
    let (whole, decimals) = text.split_once('.').map_or((text, None), |(whole, rest)| (whole, Some(rest)));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || decimals.is_some_and(|part| !digits(part)) {
        return None;
    }
    let too_large = || format!("'{text}' is too late for 64 bits of nanoseconds");
    let Ok(number) = whole.parse::<i64>() else { return Some(Err(too_large())) };
    if (1..SECONDS_FROM).contains(&number) {
        return Some(Err(format!("'{text}' is too small for a unix time: write a date like 2026-11-21")));
    }
    if let Some(decimals) = decimals {
        let nine: String = decimals.chars().chain("000000000".chars()).take(9).collect();
        let ns = number.checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(nine.parse().ok()?));
        return Some(ns.ok_or_else(too_large));
    }
    let unit = match number {
        n if n < MILLISECONDS_FROM => 1_000_000_000,
        n if n < MILLISECONDS_FROM * 1_000 => 1_000_000,
        n if n < MILLISECONDS_FROM * 1_000_000 => 1_000,
        _ => 1,
    };
    Some(number.checked_mul(unit).ok_or_else(too_large))
}

/// Parses `now`, `now-1h`, `10m ago`, `yesterday`, `today 06:00`.
fn relative(text: &str, now: &Zoned) -> Option<Timestamp> {
    let text = text.to_ascii_lowercase();
    if let Some(rest) = text.strip_prefix("now") {
        let rest = rest.trim();
        let shifted = match rest.split_at_checked(1) {
            None => now.clone(),
            Some(("-", span)) => now.checked_sub(span.trim().parse::<Span>().ok()?).ok()?,
            Some(("+", span)) => now.checked_add(span.trim().parse::<Span>().ok()?).ok()?,
            Some(_) => return None,
        };
        return Some(shifted.timestamp());
    }
    if let Some(span) = text.strip_suffix("ago") {
        let span = span.trim().parse::<Span>().ok()?;
        return Some(now.checked_sub(span).ok()?.timestamp());
    }
    let (day, time) = text.split_once(' ').unwrap_or((&text, "00:00"));
    let days = match day {
        "yesterday" => -1,
        "today" => 0,
        "tomorrow" => 1,
        _ => return None,
    };
    at(now.date().checked_add(days.days()).ok()?, time.trim().parse().ok()?, now)
}

/// Parses a date, a date with a time, or a time of today, with or without an offset.
fn absolute(text: &str, now: &Zoned) -> Option<Timestamp> {
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Some(instant);
    }
    if let Ok(time) = text.parse::<Time>()
        && text.contains(':')
        && !text.contains('-')
    {
        return at(now.date(), time, now);
    }
    let civil = text.parse::<DateTime>().ok()?;
    at(civil.date(), civil.time(), now)
}

fn at(date: Date, time: Time, now: &Zoned) -> Option<Timestamp> {
    Some(date.to_datetime(time).to_zoned(now.time_zone().clone()).ok()?.timestamp())
}

/// Formats an instant as RFC 3339 with milliseconds, in UTC.
pub fn show(ns: i64) -> String {
    Zone::utc().show(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21 10:20:30.5 UTC, a Saturday.
    const NOW: i64 = 1_795_256_430_500_000_000;

    fn read(text: &str, zone: &str) -> String {
        let zone = Zone::named(zone).unwrap();
        instant(text, NOW, &zone).map_or_else(|e| e.message().to_owned(), |ns| zone.show(ns))
    }

    #[test]
    fn instants_are_read_in_common_formats() {
        for (text, utc, berlin) in [
            ("now", "2026-11-21T10:20:30.500Z", "2026-11-21T11:20:30.500+01:00"),
            ("now-1h", "2026-11-21T09:20:30.500Z", "2026-11-21T10:20:30.500+01:00"),
            ("now - 1d 30m", "2026-11-20T09:50:30.500Z", "2026-11-20T10:50:30.500+01:00"),
            ("NOW+5m", "2026-11-21T10:25:30.500Z", "2026-11-21T11:25:30.500+01:00"),
            ("10m ago", "2026-11-21T10:10:30.500Z", "2026-11-21T11:10:30.500+01:00"),
            ("2 hours ago", "2026-11-21T08:20:30.500Z", "2026-11-21T09:20:30.500+01:00"),
            ("1w ago", "2026-11-14T10:20:30.500Z", "2026-11-14T11:20:30.500+01:00"),
            ("today", "2026-11-21T00:00:00.000Z", "2026-11-21T00:00:00.000+01:00"),
            ("Yesterday", "2026-11-20T00:00:00.000Z", "2026-11-20T00:00:00.000+01:00"),
            ("yesterday 18:30", "2026-11-20T18:30:00.000Z", "2026-11-20T18:30:00.000+01:00"),
            ("06:15", "2026-11-21T06:15:00.000Z", "2026-11-21T06:15:00.000+01:00"),
            ("2024-05-01", "2024-05-01T00:00:00.000Z", "2024-05-01T00:00:00.000+02:00"),
            ("2024-05-01 10:00", "2024-05-01T10:00:00.000Z", "2024-05-01T10:00:00.000+02:00"),
            ("2024-05-01T10:00:05", "2024-05-01T10:00:05.000Z", "2024-05-01T10:00:05.000+02:00"),
            ("2024-05-01T10:00:00Z", "2024-05-01T10:00:00.000Z", "2024-05-01T12:00:00.000+02:00"),
            ("2024-05-01T10:00:00.25-04:00", "2024-05-01T14:00:00.250Z", "2024-05-01T16:00:00.250+02:00"),
            ("1571332130", "2019-10-17T17:08:50.000Z", "2019-10-17T19:08:50.000+02:00"),
            ("1571332130.934", "2019-10-17T17:08:50.934Z", "2019-10-17T19:08:50.934+02:00"),
            ("1571332130934", "2019-10-17T17:08:50.934Z", "2019-10-17T19:08:50.934+02:00"),
            ("1571332130934000", "2019-10-17T17:08:50.934Z", "2019-10-17T19:08:50.934+02:00"),
            ("1571332130934000000", "2019-10-17T17:08:50.934Z", "2019-10-17T19:08:50.934+02:00"),
            ("0", "1970-01-01T00:00:00.000Z", "1970-01-01T01:00:00.000+01:00"),
        ] {
            assert_eq!(
                (read(text, "UTC").as_str(), read(text, "Europe/Berlin").as_str()),
                (utc, berlin),
                "{text}"
            );
        }
        for bad in
            ["", "soon", "now1h", "now-", "now-1x", "ago", "yesterday noon", "2024-13-01", "-5", "1.2.3"]
        {
            assert!(
                read(bad, "UTC").contains("write it like now-1h, yesterday"),
                "{bad}: {}",
                read(bad, "UTC")
            );
        }
        for (bad, message) in [
            ("20240501", "too small for a unix time"),
            ("2024", "too small for a unix time"),
            ("99999999999999999999", "too late for 64 bits of nanoseconds"),
            ("99999999999.5", "too late for 64 bits of nanoseconds"),
        ] {
            assert!(read(bad, "UTC").contains(message), "{bad}: {}", read(bad, "UTC"));
        }
    }

    #[test]
    fn instants_beyond_64_bits_are_clamped() {
        for (text, expected) in
            [("9999-12-31T23:59:59Z", i64::MAX), ("3000-01-01", i64::MAX), ("0001-01-01T00:00:00Z", i64::MIN)]
        {
            assert_eq!(instant(text, NOW, &Zone::utc()).ok(), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_day_ago_is_the_same_hour_across_a_change_of_clocks() {
        let zone = Zone::named("Europe/Berlin").unwrap();
        let monday = instant("2026-10-26 09:00", NOW, &zone).unwrap();
        for text in ["now-2d", "2 days ago"] {
            assert_eq!(zone.show(instant(text, monday, &zone).unwrap()), "2026-10-24T09:00:00.000+02:00");
        }
    }

    #[test]
    fn ranges_are_read() {
        let read = |arguments: &[&str]| {
            let all = [&["x", "--timezone", "UTC"], arguments].concat();
            let matches = super::arguments(Command::new("x")).try_get_matches_from(all).unwrap();
            window(&matches, NOW).map(|w| (NOW - w.start, NOW - w.end)).map_err(|e| e.message().to_owned())
        };
        let hour = 3_600_000_000_000;
        assert_eq!(read(&[]), Ok((hour, 0)));
        assert_eq!(read(&["--since", "2h"]), Ok((2 * hour, 0)));
        assert_eq!(read(&["--since", "2h", "--to", "now-1h"]), Ok((3 * hour, hour)));
        assert_eq!(read(&["--since", "10:00"]), Ok((1_230_500_000_000, 0)));
        assert_eq!(read(&["--since", "1h ago", "--to", "30m ago"]), Ok((hour, hour / 2)));
        assert_eq!(read(&["--from", "0"]), Ok((NOW, 0)));
        assert!(read(&["--from", "now", "--to", "now-1h"]).unwrap_err().contains("ends before it begins"));
        assert!(read(&["--since", "5"]).unwrap_err().contains("write 5m for minutes"));
        for (text, written) in [("1hour", "write 1h"), ("30 minutes", "write 30m"), ("2D", "write 2d")] {
            assert!(read(&["--since", text]).unwrap_err().ends_with(written), "{text}");
        }
        assert!(read(&["--since", "1000y"]).unwrap_err().contains("is too long; use --from 0"));
    }

    #[test]
    fn zones_have_names() {
        assert!(Zone::named("local").is_ok());
        assert_eq!(Zone::named("Europe/London").unwrap().show(NOW), "2026-11-21T10:20:30.500Z");
        assert!(Zone::named("Europe/Berln").unwrap_err().contains("did you mean Europe/Berlin?"));
        assert!(Zone::named("nowhere at all").unwrap_err().contains("Europe/Berlin"));
        let zone = Zone::named("America/New_York").unwrap();
        assert_eq!(zone.show_exactly(NOW), "2026-11-21T05:20:30.5-05:00");
        assert_eq!(Zone::utc().show_exactly(NOW + 1), "2026-11-21T10:20:30.500000001Z");
        assert_eq!(Zone::utc().show_exactly(1_000_000_000), "1970-01-01T00:00:01Z");
    }
}
