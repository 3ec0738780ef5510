//! The format of `--time-format`: that of `strptime`.

use std::sync::Arc;

use jiff::fmt::strtime::{BrokenDownTime, format};

use super::calendar::Calendar;

/// A format of times at the start of lines.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: Arc<str>,
}

impl Pattern {
    /// Checks a format; the error says what is wrong.
    pub fn new(text: &str) -> Result<Self, String> {
        let pattern = Self { text: text.into() };
        let written = format(text, &jiff::Timestamp::UNIX_EPOCH.to_zoned(jiff::tz::TimeZone::UTC));
        let written = written.map_err(|why| format!("'{text}' is no format: {why}"))?;
        let is_complete = pattern.find(&Calendar::local(sandur_model::DAY_NS), written.as_bytes()).is_some();
        let needs = "a date, at least day and month, and a time with hours, minutes and seconds are required";
        is_complete.then_some(pattern).ok_or_else(|| format!("'{text}': {needs}"))
    }

    /// The time at the start of a line.
    pub(super) fn find(&self, calendar: &Calendar, line: &[u8]) -> Option<i64> {
        let (time, _) = BrokenDownTime::parse_prefix(self.text.as_bytes(), line).ok()?;
        let clock = time.hour().is_some() && time.minute().is_some() && time.second().is_some();
        if !clock && time.timestamp().is_none() {
            return None;
        }
        if let Ok(instant) = time.to_timestamp() {
            return i64::try_from(instant.as_nanosecond()).ok();
        }
        if time.year().is_some() {
            return calendar.with_zone(time.to_datetime().ok()?, b"");
        }
        calendar.latest(|year| {
            let (mut dated, _) = BrokenDownTime::parse_prefix(self.text.as_bytes(), line).ok()?;
            dated.set_year(Some(year)).ok()?;
            dated.to_datetime().ok()
        })
    }
}
