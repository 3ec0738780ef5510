//! What a time in a line does not say: its zone, and the year that syslog omits.

use std::ops::Range;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;

use super::parts;

/// The zone of times without one, and the current time, which gives the year of dates without one.
#[derive(Clone)]
pub struct Calendar {
    zone: TimeZone,
    /// The current time in nanoseconds since the epoch.
    now_ns: i64,
    /// The current year in the zone, and the instants at which it begins and ends: found once, because it is
    /// needed for every line of syslog.
    year: Option<(i16, Range<i64>)>,
}

impl Calendar {
    /// Times without a zone are local.
    pub fn local(now_ns: i64) -> Self {
        Self::of(TimeZone::system(), now_ns)
    }

    /// For tests: times without a zone are UTC.
    #[cfg(test)]
    pub fn utc(now_ns: i64) -> Self {
        Self::of(TimeZone::UTC, now_ns)
    }

    fn of(zone: TimeZone, now_ns: i64) -> Self {
        let mut calendar = Self { zone, now_ns, year: None };
        calendar.set_now(now_ns);
        calendar
    }

    /// The current time in nanoseconds since the epoch.
    pub fn now_ns(&self) -> i64 {
        self.now_ns
    }

    /// Sets the current time.
    pub fn set_now(&mut self, now_ns: i64) {
        self.now_ns = now_ns;
        if !self.year.as_ref().is_some_and(|(_, range)| range.contains(&now_ns)) {
            self.year = self.find_year();
        }
    }

    fn find_year(&self) -> Option<(i16, Range<i64>)> {
        let now = jiff::Timestamp::from_nanosecond(i128::from(self.now_ns)).ok()?;
        let year = now.to_zoned(self.zone.clone()).year();
        let begin =
            |year: i16| self.with_zone(Date::new(year, 1, 1).ok()?.to_datetime(Time::midnight()), b"");
        Some((year, begin(year).unwrap_or(i64::MIN)..begin(year + 1).unwrap_or(i64::MAX)))
    }

    /// The instant of a civil time that is followed by `zone`: `Z`, an offset, or other text.
    pub fn with_zone(&self, civil: DateTime, zone: &[u8]) -> Option<i64> {
        let zone = zone.trim_ascii_start();
        let instant = match parts::offset(zone) {
            Some(offset) => offset.to_timestamp(civil).ok()?,
            None => self.zone.to_ambiguous_timestamp(civil).compatible().ok()?,
        };
        i64::try_from(instant.as_nanosecond()).ok()
    }

    /// Whether the time is at most a day in the future.
    pub fn is_past(&self, ns: i64) -> bool {
        ns <= self.now_ns.saturating_add(sandur_model::DAY_NS)
    }

    /// The time in the latest year in which it is not in the future: a line of December may be read in
    /// January.
    pub fn latest(&self, of_year: impl Fn(i16) -> Option<DateTime>) -> Option<i64> {
        let this_year = self.year.as_ref()?.0;
        let of = |year| self.with_zone(of_year(year)?, b"");
        of(this_year).filter(|ns| self.is_past(*ns)).or_else(|| of(this_year - 1))
    }
}
