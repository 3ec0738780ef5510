//! Instants and ranges on the command line.

use clap::{Arg, ArgMatches, Command};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use sandur_base::units::parse_duration;

use super::failed::Failed;
use crate::http::timestamp;

/// Adds `--since`, `--from` and `--to`.
pub fn arguments(command: Command) -> Command {
    let since = Arg::new("since").long("since").value_name("DURATION");
    let since = since.help("How far to look back, like 15m or 7d [default: 1h]").conflicts_with("from");
    let from = Arg::new("from").long("from").value_name("TIME");
    let from = from.help("First instant: 2026-11-21T06:00:00Z, '2026-11-21 06:00' (local), or epoch seconds");
    let to = Arg::new("to").long("to").value_name("TIME").help("Last instant [default: now]");
    command.arg(since).arg(from).arg(to)
}

/// First and last instant in nanoseconds since the epoch.
pub fn range(matches: &ArgMatches, now_ns: i64) -> Result<(i64, i64), Failed> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let end = text("to").map_or(Ok(now_ns), instant)?;
    let start = match (text("from"), text("since")) {
        (Some(from), _) => instant(from)?,
        (None, since) => end - duration_ns(since.unwrap_or("1h"))?,
    };
    if start > end {
        return Err(Failed::new("--from is later than --to"));
    }
    Ok((start, end))
}

/// A duration in nanoseconds.
pub fn duration_ns(text: &str) -> Result<i64, Failed> {
    let duration = parse_duration(text).map_err(|e| Failed::new(e.to_string()))?;
    Ok(duration.as_nanos() as i64)
}

/// An instant: what the API takes, or a local date with or without time.
pub fn instant(text: &str) -> Result<i64, Failed> {
    if let Ok(ns) = timestamp(text) {
        return Ok(ns);
    }
    let local = text.parse::<DateTime>().ok().and_then(|civil| civil.to_zoned(TimeZone::system()).ok());
    match local {
        Some(zoned) => Ok(zoned.timestamp().as_nanosecond() as i64),
        None => {
            let forms = "2026-11-21T06:00:00Z, '2026-11-21 06:00' (local time) or epoch seconds";
            Err(Failed::new(format!("'{text}' is no instant: write it like {forms}")))
        }
    }
}

/// RFC 3339 with milliseconds, in UTC.
pub fn show(ns: i64) -> String {
    match jiff::Timestamp::from_nanosecond(i128::from(ns)) {
        Ok(instant) => format!("{instant:.3}"),
        Err(_) => ns.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_and_ranges_are_read() {
        assert_eq!(instant("1795240000").unwrap(), 1_795_240_000_000_000_000);
        assert_eq!(show(instant("2026-11-21T06:01:43.5Z").unwrap()), "2026-11-21T06:01:43.500Z");
        assert!(instant("2026-11-21 06:00").is_ok());
        assert!(instant("yesterday").unwrap_err().message().contains("write it like"));
        let matches = |arguments: &[&str]| arguments_of(arguments);
        let hour = 3_600_000_000_000;
        assert_eq!(range(&matches(&["x"]), 2 * hour).unwrap(), (hour, 2 * hour));
        assert_eq!(range(&matches(&["x", "--since", "2h"]), 2 * hour).unwrap(), (0, 2 * hour));
        assert!(range(&matches(&["x", "--from", "9", "--to", "8"]), 0).is_err());
    }

    fn arguments_of(list: &[&str]) -> ArgMatches {
        arguments(Command::new("x")).try_get_matches_from(list).unwrap()
    }
}
