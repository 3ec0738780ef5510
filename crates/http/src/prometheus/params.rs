//! Parses parameters as Prometheus does: timestamps in milliseconds, durations, limits.
//!
//! A timestamp is a number of seconds, rounded to a millisecond, or RFC 3339. Timestamps beyond the range
//! of 64 bits of milliseconds are clamped.

use std::time::Duration;

use sandur_model::go_text::format_go_duration;
use sandur_model::{MILLISECOND_NS, Rfc3339, TimeRange};
use sandur_promql::parse_duration;

use super::refused::{Kind, Refused};
use crate::params::Params;

/// What clients send for the minimum and maximum time.
const FIRST: (&str, i64) = ("-292273086-05-16T16:47:06Z", i64::MIN);
const LAST: (&str, i64) = ("292277025-08-18T07:12:54.999999999Z", i64::MAX);

/// Parses a timestamp into milliseconds.
pub fn instant(text: &str) -> Result<i64, String> {
    let refused = || format!("cannot parse {text:?} to a valid timestamp");
    if let Ok(seconds) = text.parse::<f64>() {
        if seconds.is_nan() {
            return Err(refused());
        }
        let whole = seconds.trunc();
        let ms = ((seconds - whole) * 1_000.0).round();
        let ms = if ms.is_finite() { ms as i64 } else { 0 };
        return Ok((whole as i64).saturating_mul(1_000).saturating_add(ms));
    }
    if let Some(at) = Rfc3339::parse(text) {
        return Ok(at.milliseconds());
    }
    [FIRST, LAST].iter().find(|(known, _)| *known == text).map(|(_, ms)| *ms).ok_or_else(refused)
}

/// Parses a number of seconds or a duration like `1h30m` into nanoseconds.
pub fn length(text: &str) -> Result<i64, String> {
    if let Ok(seconds) = text.parse::<f64>() {
        let ns = seconds * 1e9;
        // As a float, `i64::MAX` is rounded up by one.
        if ns.is_nan() || ns >= i64::MAX as f64 || ns < i64::MIN as f64 {
            return Err(format!("cannot parse {text:?} to a valid duration. It overflows int64"));
        }
        return Ok(ns as i64);
    }
    parse_duration(text).map_err(|_| format!("cannot parse {text:?} to a valid duration"))
}

/// A timestamp in milliseconds, or the default if the parameter is absent.
pub fn instant_or(params: &Params, name: &str, default: i64) -> Result<i64, Refused> {
    let Some(text) = params.get(name) else { return Ok(default) };
    let said = |reason| Refused::parameter(name, format!("invalid time value for '{name}': {reason}"));
    instant(text).map_err(said)
}

/// The parameter `limit`; `None` (absent or 0): no limit.
pub fn limit(params: &Params) -> Result<Option<usize>, Refused> {
    let Some(text) = params.get("limit") else { return Ok(None) };
    let number: i64 = text.parse().map_err(|_| {
        Refused::parameter("limit", format!("strconv.Atoi: parsing {text:?}: invalid syntax"))
    })?;
    match usize::try_from(number) {
        Ok(0) => Ok(None),
        Ok(limit) => Ok(Some(limit)),
        Err(_) if number < 0 => Err(Refused::parameter("limit", "limit must be non-negative")),
        Err(_) => Ok(None),
    }
}

/// The parameter `timeout`, if present.
pub fn timeout(params: &Params) -> Result<Option<Duration>, Refused> {
    let Some(text) = params.get("timeout") else { return Ok(None) };
    let ns = length(text).map_err(|reason| Refused::parameter("timeout", reason))?;
    match u64::try_from(ns) {
        Ok(ns) if ns > 0 => Ok(Some(Duration::from_nanos(ns))),
        _ => {
            let got = format_go_duration(ns);
            Err(Refused::parameter("timeout", format!("timeout must be positive, got {got}")))
        }
    }
}

/// The parameter `lookback_delta` in milliseconds, if present.
pub fn lookback_ms(params: &Params) -> Result<Option<i64>, Refused> {
    let Some(text) = params.get("lookback_delta") else { return Ok(None) };
    let said =
        |reason| Refused::new(Kind::BadData, format!("error parsing lookback delta duration: {reason}"));
    let ms = length(text).map_err(said)? / MILLISECOND_NS;
    Ok((ms > 0).then_some(ms))
}

/// `start` and `end` in milliseconds, with defaults if they are absent.
pub fn bounds(params: &Params, defaults: (i64, i64)) -> Result<(i64, i64), Refused> {
    Ok((instant_or(params, "start", defaults.0)?, instant_or(params, "end", defaults.1)?))
}

/// The range of nanoseconds of a range of milliseconds (inclusive).
pub fn range((first_ms, last_ms): (i64, i64)) -> TimeRange {
    TimeRange::of_milliseconds(first_ms, last_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_as_prometheus_reads_them() {
        for (text, ms) in [
            ("1435781451.781", 1_435_781_451_781),
            ("123", 123_000),
            ("-0.5", -500),
            ("1e3", 1_000_000),
            ("2015-06-03T13:21:58.555Z", 1_433_337_718_555),
            ("2015-06-03T14:21:58.555+01:00", 1_433_337_718_555),
            ("9999-12-31T23:59:59Z", 253_402_300_799_000),
            ("0001-01-01T00:00:00Z", -62_135_596_800_000),
            ("-292273086-05-16T16:47:06Z", i64::MIN),
            ("292277025-08-18T07:12:54.999999999Z", i64::MAX),
            ("1e300", i64::MAX),
            ("-inf", i64::MIN),
            ("148966367200.372", 148_966_367_200_372),
        ] {
            assert_eq!(instant(text), Ok(ms), "{text}");
        }
        for text in ["", "foo", "30s", "nan", "2015-06-03", "2015-06-03T14:21:58"] {
            assert_eq!(instant(text), Err(format!("cannot parse {text:?} to a valid timestamp")));
        }
    }

    #[test]
    fn lengths_are_seconds_or_durations() {
        for (text, ns) in [
            ("123", 123_000_000_000),
            ("0.25", 250_000_000),
            ("1h5m", 3_900_000_000_000),
            ("-5", -5_000_000_000),
        ] {
            assert_eq!(length(text), Ok(ns), "{text}");
        }
        assert_eq!(
            length("1e300").unwrap_err(),
            "cannot parse \"1e300\" to a valid duration. It overflows int64"
        );
        for text in ["", "a", "5mm", "nan", "300000y", "9223372036.854775807"] {
            assert!(length(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_timeout_is_positive() {
        let read = |text: &str| timeout(&Params::read(b"", format!("timeout={text}").as_bytes()));
        assert_eq!(read("1.5"), Ok(Some(Duration::from_millis(1_500))));
        assert_eq!(read(""), Ok(None));
        for (text, got) in [("0", "0s"), ("-90", "-1m30s"), ("0s", "0s")] {
            let refused = read(text).unwrap_err();
            let message = format!("invalid parameter \"timeout\": timeout must be positive, got {got}");
            assert_eq!((refused.kind, refused.message), (Kind::BadData, message), "{text}");
        }
        let refused = read("9223372036.854775807").unwrap_err();
        assert!(refused.message.ends_with("It overflows int64"), "{}", refused.message);
    }
}
