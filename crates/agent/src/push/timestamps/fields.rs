//! Timestamps in fields of JSON objects and of logfmt lines.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::calendar::Calendar;
use super::iso::date_time;
use super::parts::epoch;

/// Names of fields with the time, in order of preference: quoted for JSON, with `=` for logfmt. The names
/// with underscores are journald's, those with `@` Logstash's and Serilog's, `timeMillis` and
/// `epochSecond` Log4j's, `asctime` Python's, `Timestamp` Serilog's and .NET's.
const FIELDS: [(&str, &str); 14] = [
    ("\"timestamp\"", "timestamp="),
    ("\"@timestamp\"", "@timestamp="),
    ("\"time\"", "time="),
    ("\"ts\"", "ts="),
    ("\"t\"", "t="),
    ("\"datetime\"", "datetime="),
    ("\"__REALTIME_TIMESTAMP\"", "__REALTIME_TIMESTAMP="),
    ("\"@t\"", "@t="),
    ("\"timeMillis\"", "timeMillis="),
    ("\"epochSecond\"", "epochSecond="),
    ("\"asctime\"", "asctime="),
    ("\"eventTime\"", "eventTime="),
    ("\"date\"", "date="),
    ("\"Timestamp\"", "Timestamp="),
];

/// Searchers of the names: to make one takes longer than to search a line.
static FINDERS: LazyLock<Vec<(Finder<'static>, Finder<'static>)>> = LazyLock::new(|| {
    FIELDS.iter().map(|(quoted, plain)| (Finder::new(quoted), Finder::new(plain))).collect()
});

/// The names of the fields, for the reference.
pub fn names() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().map(|(quoted, _)| quoted.trim_matches('"'))
}

/// The time in a field of a JSON object.
pub fn in_object(calendar: &Calendar, text: &[u8]) -> Option<i64> {
    FINDERS.iter().find_map(|(key, _)| {
        let rest = text[key.find(text)? + key.needle().len()..].trim_ascii_start();
        value(calendar, rest.strip_prefix(b":")?.trim_ascii_start())
    })
}

/// The time in a field of a logfmt line.
pub fn in_logfmt(calendar: &Calendar, text: &[u8]) -> Option<i64> {
    memchr::memchr(b'=', text)?;
    FINDERS.iter().find_map(|(_, key)| {
        let at = key.find(text)?;
        let is_name = at == 0 || text[at - 1] == b' ';
        is_name.then(|| value(calendar, text[at + key.needle().len()..].trim_ascii_start()))?
    })
}

fn value(calendar: &Calendar, text: &[u8]) -> Option<i64> {
    let text = text.strip_prefix(b"\"").unwrap_or(text);
    date_time(calendar, text).or_else(|| epoch(text).map(|(ns, _)| ns))
}
