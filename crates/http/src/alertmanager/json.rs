//! Times, matchers and silences as Alertmanager's JSON.

use sandur_rules::data::Instant;
use sandur_rules::silence::{Silence, SilenceMatcher};
use serde_json::{Value, json};

/// A time with milliseconds.
pub fn time(at: Instant) -> String {
    let shown = jiff::Timestamp::from_nanosecond(i128::from(at.ns())).ok();
    shown.map(|at| at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()).unwrap_or_default()
}

/// A time that a client wrote as RFC 3339.
pub fn instant(text: &str) -> Option<Instant> {
    let at = text.parse::<jiff::Timestamp>().ok()?;
    i64::try_from(at.as_nanosecond()).ok().map(Instant::of_ns)
}

/// A silence.
pub fn silence(silence: &Silence, now: Instant) -> Value {
    json!({
        "id": silence.id,
        "status": { "state": silence.state(now).name() },
        "updatedAt": time(silence.updated_at),
        "comment": silence.comment,
        "createdBy": silence.created_by,
        "endsAt": time(silence.ends_at),
        "matchers": silence.matchers.iter().map(matcher).collect::<Vec<_>>(),
        "startsAt": time(silence.starts_at),
    })
}

fn matcher(matcher: &SilenceMatcher) -> Value {
    let SilenceMatcher { name, value, is_regex, is_equal } = matcher;
    json!({ "isEqual": is_equal, "isRegex": is_regex, "name": name, "value": value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_milliseconds_and_are_read_again() {
        let at = Instant::of_ns(1_700_000_000_123_456_789);
        assert_eq!(time(at), "2023-11-14T22:13:20.123Z");
        assert_eq!(instant("2023-11-14T23:13:20.123456789+01:00"), Some(at));
        assert_eq!((instant("0001-01-01T00:00:00Z"), instant("tomorrow")), (None, None));
    }
}
