//! The format of RFC 3339, at the start of a line or in a field.

use super::calendar::Calendar;
use super::parts::{clock, date, number};

/// `2026-11-21T06:01:43.123+01:00` and similar formats.
pub fn date_time(calendar: &Calendar, text: &[u8]) -> Option<i64> {
    let separator = |at: usize, any: &[u8]| text.get(at).is_some_and(|b| any.contains(b));
    if !(separator(4, b"-/") && separator(7, b"-/") && separator(10, b"T t_") && separator(13, b":")) {
        return None;
    }
    let date = date(number(text, 0, 4)?, number(text, 5, 2)?, number(text, 8, 2)?)?;
    let (time, length) = clock(&text[11..])?;
    calendar.with_zone(date.to_datetime(time), text.get(11 + length..).unwrap_or_default())
}
