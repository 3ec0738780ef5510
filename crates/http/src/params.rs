//! Parameters of requests, read exactly as Loki reads them: times, ranges, steps, limits.
//!
//! Query string and form body are one list in which the body comes first. An empty value counts as
//! absent. Error texts are Loki's, because users search for them.

use std::num::IntErrorKind;

use sandur_base::units::parse_duration;
use sandur_model::{Rfc3339, SECOND_NS};
use sandur_query::Direction;

use crate::failed_request::Failure;

/// Memory of a name and a value as strings, and of their place in a list. The allocator rounds sizes up
/// by at most 16 bytes or a quarter.
pub fn pair_bytes(name: &str, value: &str) -> u64 {
    let text = |text: &str| text.len() + text.len() / 4 + 16;
    (size_of::<(String, String)>() + text(name) + text(value)) as u64
}

/// Names and values of the parameters of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params(Vec<(String, String)>);

/// Parameters of `query_range`.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeQuery {
    /// The text of the query.
    pub query: String,
    /// First instant, nanoseconds since the epoch.
    pub start_ns: i64,
    /// Last instant of a metric query, first instant after a log query.
    pub end_ns: i64,
    /// Distance between points of a metric query, in nanoseconds.
    pub step_ns: i64,
    /// Minimum distance between entries of a log query, in nanoseconds; 0: all entries.
    pub interval_ns: i64,
    /// Maximum number of entries of a log query.
    pub limit: u32,
    /// Which entries are returned first.
    pub direction: Direction,
}

/// Maximum number of entries when the client gives no limit.
pub const LIMIT_DEFAULT: u32 = 100;
/// Length of the range when the client gives no start.
const SINCE_DEFAULT_NS: i64 = 3_600 * SECOND_NS;
/// Maximum number of points per series.
const POINTS_MAX: i64 = 11_000;

impl Params {
    /// Parses the body of a form and the query string of a URL.
    pub fn read(form: &[u8], query: &[u8]) -> Self {
        let pairs = || url::form_urlencoded::parse(form).chain(url::form_urlencoded::parse(query));
        // Counted first, so that the list allocates what `weight` counts.
        let mut all = Vec::with_capacity(pairs().count());
        all.extend(pairs().map(|(n, v)| (n.into_owned(), v.into_owned())));
        Self(all)
    }

    /// Bytes that the result of [`Params::read`] takes.
    pub fn weight(form: &[u8], query: &[u8]) -> u64 {
        let pairs = url::form_urlencoded::parse(form).chain(url::form_urlencoded::parse(query));
        pairs.map(|(name, value)| pair_bytes(&name, &value)).sum()
    }

    /// The first value of `name`, if it is not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        let first = self.0.iter().find(|(n, _)| n == name)?;
        Some(first.1.as_str()).filter(|v| !v.is_empty())
    }

    /// Every value of `name`.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Start and end from `start`, `end` and `since`; by default the last hour.
    pub fn bounds(&self, now_ns: i64) -> Result<(i64, i64), Failure> {
        let bad = |name, reason| Failure::invalid(format!("could not parse '{name}' parameter: {reason}"));
        let end = match self.get("end") {
            Some(text) => timestamp(text).map_err(|e| bad("end", e))?,
            None => now_ns,
        };
        let since = match self.get("since") {
            Some(text) => {
                let refused = || bad("since", format!("not a valid duration string: {text:?}"));
                duration_ns(text).ok_or_else(refused)?
            }
            None => SINCE_DEFAULT_NS,
        };
        // With an end in the future, the default start is still relative to now.
        let start = match self.get("start") {
            Some(text) => timestamp(text).map_err(|e| bad("start", e))?,
            None => end.min(now_ns).saturating_sub(since),
        };
        Ok((start, end))
    }

    /// `limit`, at least 1.
    pub fn limit(&self, default: u32) -> Result<u32, Failure> {
        self.positive("limit", default)
    }

    /// A positive count. A number above the range of `u32` is clamped to its maximum.
    pub fn positive(&self, name: &str, default: u32) -> Result<u32, Failure> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let number: i64 = text.parse().map_err(|_| Failure::invalid(atoi(text)))?;
        match u32::try_from(number) {
            Ok(count) if count > 0 => Ok(count),
            _ if number > 0 => Ok(u32::MAX),
            _ => Err(Failure::invalid("limit must be a positive value")),
        }
    }

    /// `direction`, by default backward.
    pub fn direction(&self) -> Result<Direction, Failure> {
        match self.get("direction") {
            None => Ok(Direction::Backward),
            Some(text) if text.eq_ignore_ascii_case("backward") => Ok(Direction::Backward),
            Some(text) if text.eq_ignore_ascii_case("forward") => Ok(Direction::Forward),
            Some(text) => Err(Failure::invalid(format!("invalid direction '{text}'"))),
        }
    }

    /// `time`; by default now.
    pub fn time(&self, now_ns: i64) -> Result<i64, Failure> {
        self.get("time").map_or(Ok(now_ns), |text| timestamp(text).map_err(Failure::invalid))
    }

    /// `step` in nanoseconds; by default a 250th of the range in whole seconds, at least 1 s.
    pub fn step(&self, start_ns: i64, end_ns: i64) -> Result<i64, Failure> {
        let step_ns = match self.get("step") {
            Some(text) => seconds_or_duration(text)?,
            None => {
                let seconds = end_ns.saturating_sub(start_ns) / SECOND_NS;
                (seconds / 250).max(1) * SECOND_NS
            }
        };
        if step_ns <= 0 {
            let text =
                "zero or negative query resolution step widths are not accepted. Try a positive integer";
            return Err(Failure::invalid(text));
        }
        if end_ns.saturating_sub(start_ns) / step_ns > POINTS_MAX {
            let text = "exceeded maximum resolution of 11,000 points per time series. \
                        Try increasing the value of the step parameter";
            return Err(Failure::invalid(text));
        }
        Ok(step_ns)
    }

    /// The text of the query; empty when absent, which the parser refuses.
    pub fn query(&self) -> &str {
        self.get("query").unwrap_or("")
    }

    /// All parameters of `query_range`.
    pub fn range_query(&self, now_ns: i64) -> Result<RangeQuery, Failure> {
        let (start_ns, end_ns) = self.ordered_bounds(now_ns)?;
        let (limit, direction) = (self.limit(LIMIT_DEFAULT)?, self.direction()?);
        let step_ns = self.step(start_ns, end_ns)?;
        let interval_ns = self.get("interval").map_or(Ok(0), seconds_or_duration)?;
        if interval_ns < 0 {
            return Err(Failure::invalid("interval must be >= 0"));
        }
        let query = self.query().to_owned();
        Ok(RangeQuery { query, start_ns, end_ns, step_ns, interval_ns, limit, direction })
    }

    /// Like [`Params::bounds`]; fails when the end is before the start.
    pub fn ordered_bounds(&self, now_ns: i64) -> Result<(i64, i64), Failure> {
        let (start_ns, end_ns) = self.bounds(now_ns)?;
        if end_ns < start_ns {
            return Err(Failure::invalid("end timestamp must not be before or equal to start time"));
        }
        Ok((start_ns, end_ns))
    }
}

/// Go's error for a text that is not a number.
fn atoi(text: &str) -> String {
    not_a_number("Atoi", text)
}

fn not_a_number(function: &str, text: &str) -> String {
    let too_far = [IntErrorKind::PosOverflow, IntErrorKind::NegOverflow];
    let out_of_range = text.parse::<i64>().is_err_and(|error| too_far.contains(error.kind()));
    let reason = if out_of_range { "value out of range" } else { "invalid syntax" };
    format!("strconv.{function}: parsing {text:?}: {reason}")
}

/// An instant: up to ten digits are seconds, more are nanoseconds, a decimal point makes it
/// seconds with three decimals, everything else is RFC 3339.
pub fn timestamp(text: &str) -> Result<i64, String> {
    if text.contains('.')
        && let Ok(seconds) = text.parse::<f64>()
    {
        let whole = seconds.trunc();
        let fraction = ((seconds - whole) * 1_000.0).round() / 1_000.0;
        return Ok((whole as i64).saturating_mul(SECOND_NS).saturating_add((fraction * 1e9) as i64));
    }
    match text.parse::<i64>() {
        Ok(number) if text.len() <= 10 => Ok(number.saturating_mul(SECOND_NS)),
        Ok(number) => Ok(number),
        Err(_) => match Rfc3339::parse(text) {
            Some(at) => Ok(at.saturating_ns()),
            None => Err(not_a_number("ParseInt", text)),
        },
    }
}

/// Parses a number of seconds or a Prometheus duration into nanoseconds.
pub fn seconds_or_duration(text: &str) -> Result<i64, Failure> {
    if let Ok(seconds) = text.parse::<f64>() {
        let ns = seconds * 1e9;
        if !ns.is_finite() || ns.abs() >= i64::MAX as f64 {
            let overflow = format!("cannot parse {text:?} to a valid duration. It overflows int64");
            return Err(Failure::invalid(overflow));
        }
        return Ok(ns as i64);
    }
    let refused = || Failure::invalid(format!("cannot parse {text:?} to a valid duration"));
    duration_ns(text).ok_or_else(refused)
}

/// Parses a Prometheus duration into nanoseconds; `None` when it is invalid or overflows 64 bits.
fn duration_ns(text: &str) -> Option<i64> {
    i64::try_from(parse_duration(text).ok()?.as_nanos()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_795_240_000 * SECOND_NS;

    fn params(text: &str) -> Params {
        Params::read(b"", text.as_bytes())
    }

    #[test]
    fn instants_are_read_as_loki_reads_them() {
        for (text, ns) in [
            ("1571332130", 1_571_332_130_000_000_000),
            ("1571332130934000000", 1_571_332_130_934_000_000),
            ("1571332130.934", 1_571_332_130_934_000_000),
            ("1571332130.9341", 1_571_332_130_934_000_000),
            ("2019-10-17T17:08:50.934Z", 1_571_332_130_934_000_000),
            ("2019-10-17T19:08:50+02:00", 1_571_332_130_000_000_000),
            ("0", 0),
            ("-5", -5_000_000_000),
        ] {
            let found = timestamp(text).unwrap();
            assert!((found - ns).abs() < 1_000, "{text}: {found}");
        }
        let ends = ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"].map(|text| timestamp(text).unwrap());
        assert_eq!(ends, [i64::MIN, i64::MAX], "years outside of the range of nanoseconds are clamped");
        assert_eq!(timestamp("zzz").unwrap_err(), "strconv.ParseInt: parsing \"zzz\": invalid syntax");
    }

    #[test]
    fn bounds_follow_start_end_and_since() {
        let hour = 3_600 * SECOND_NS;
        for (text, start, end) in [
            ("", NOW - hour, NOW),
            ("since=2h", NOW - 2 * hour, NOW),
            ("end=1795230000", 1_795_230_000 * SECOND_NS - hour, 1_795_230_000 * SECOND_NS),
            ("end=1795250000", NOW - hour, 1_795_250_000 * SECOND_NS),
            ("start=1&end=2&since=9h", SECOND_NS, 2 * SECOND_NS),
            ("start=&end=", NOW - hour, NOW),
        ] {
            assert_eq!(params(text).bounds(NOW).unwrap(), (start, end), "{text}");
        }
    }

    #[test]
    fn the_default_step_is_a_250th_of_the_range() {
        for (text, step_s) in [("start=0&end=100", 1), ("start=0&end=1000", 4), ("start=0&end=86400", 345)] {
            let query = params(text).range_query(NOW).unwrap();
            assert_eq!(query.step_ns, step_s * SECOND_NS, "{text}");
        }
        for (text, step_ms) in
            [("step=14", 14_000), ("step=0.5", 500), ("step=1m", 60_000), ("step=2000ms", 2_000)]
        {
            assert_eq!(params(text).range_query(NOW).unwrap().step_ns, step_ms * 1_000_000, "{text}");
        }
    }

    #[test]
    fn errors_have_lokis_texts() {
        for (text, message) in [
            ("limit=x", "strconv.Atoi: parsing \"x\": invalid syntax"),
            (
                "limit=99999999999999999999",
                "strconv.Atoi: parsing \"99999999999999999999\": value out of range",
            ),
            ("limit=0", "limit must be a positive value"),
            ("limit=-1", "limit must be a positive value"),
            ("direction=x", "invalid direction 'x'"),
            ("start=5&end=2", "end timestamp must not be before or equal to start time"),
            (
                "start=zzz",
                "could not parse 'start' parameter: strconv.ParseInt: parsing \"zzz\": invalid syntax",
            ),
            ("since=abc", "could not parse 'since' parameter: not a valid duration string: \"abc\""),
            ("since=300y", "could not parse 'since' parameter: not a valid duration string: \"300y\""),
            ("step=abc", "cannot parse \"abc\" to a valid duration"),
            ("interval=-1", "interval must be >= 0"),
            (
                "step=0",
                "zero or negative query resolution step widths are not accepted. Try a positive integer",
            ),
            (
                "start=1&end=20000&step=1",
                "exceeded maximum resolution of 11,000 points per time series. \
                 Try increasing the value of the step parameter",
            ),
        ] {
            let failure = params(text).range_query(NOW).unwrap_err();
            assert_eq!((failure.status.as_u16(), failure.message.as_str()), (400, message));
        }
        assert_eq!(
            params("time=abc").time(NOW).unwrap_err().message,
            "strconv.ParseInt: parsing \"abc\": invalid syntax"
        );
    }

    #[test]
    fn form_values_come_before_the_query_string_and_are_decoded() {
        let params = Params::read(b"query=%7Ba%3D%22b%22%7D&match%5B%5D=x+y", b"query=other&match[]=z");
        assert_eq!(params.query(), "{a=\"b\"}");
        assert_eq!(params.all("match[]").collect::<Vec<_>>(), ["x y", "z"]);
    }
}
