//! What a time in a line does not say: its zone, and the year that syslog omits.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::parts;

/// The zone of times without one, and the current time, which gives the year of dates without one.
#[derive(Clone)]
pub struct Calendar {
    zone: TimeZone,
    /// The current time in nanoseconds since the epoch.
    pub now_ns: i64,
}

impl Calendar {
    /// Times without a zone are local.
    pub fn local(now_ns: i64) -> Self {
        Self { zone: TimeZone::system(), now_ns }
    }

    /// For tests: times without a zone are UTC.
    #[cfg(test)]
    pub fn utc(now_ns: i64) -> Self {
        Self { zone: TimeZone::UTC, now_ns }
    }

    /// The instant of a civil time that is followed by `zone`: `Z`, an offset, or other text.
    pub fn with_zone(&self, civil: DateTime, zone: &[u8]) -> Option<i64> {
        let zone = zone.trim_ascii_start();
        let instant = match parts::offset(zone) {
            Some(offset) => offset.to_timestamp(civil).ok()?,
            None => self.zone.to_zoned(civil).ok()?.timestamp(),
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
        let this_year = self.year()?;
        let of = |year| self.with_zone(of_year(year)?, b"");
        of(this_year).filter(|ns| self.is_past(*ns)).or_else(|| of(this_year - 1))
    }

    /// The year now, in the local zone.
    pub fn year(&self) -> Option<i16> {
        let now = jiff::Timestamp::from_nanosecond(i128::from(self.now_ns)).ok()?;
        Some(now.to_zoned(self.zone.clone()).year())
    }
}
