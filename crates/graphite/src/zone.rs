//! Time zones, and instants with the offset of local time at which they were parsed.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

/// The range of Python's calendar, in seconds: the years 1 to 9999.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// A time zone of the tz database.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

impl Zone {
    /// The zone UTC.
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// The zone with a name such as `Europe/Berlin`.
    pub fn named(name: &str) -> Option<Self> {
        jiff::tz::db().get(name).ok().map(Self)
    }

    /// The offset of local time from UTC at an instant, in seconds.
    pub fn offset_at(&self, epoch: i64) -> i64 {
        Timestamp::from_second(epoch).map_or(0, |instant| self.0.to_offset(instant).seconds().into())
    }

    /// The instant with the offset of this zone.
    pub fn moment(&self, epoch: i64) -> Moment {
        let is_summer =
            Timestamp::from_second(epoch).is_ok_and(|instant| self.0.to_offset_info(instant).dst().is_dst());
        Moment { epoch, offset: self.offset_at(epoch), is_summer }
    }

    /// The instant of a local time. If there are two, the later one; a local time that is skipped has the
    /// offset before the change.
    pub(crate) fn instant(&self, local: DateTime) -> Option<i64> {
        let offset = match self.0.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            AmbiguousOffset::Gap { before, .. } => before,
            AmbiguousOffset::Fold { after, .. } => after,
        };
        let epoch = local_seconds(local) - i64::from(offset.seconds());
        SECONDS.contains(&epoch).then_some(epoch)
    }
}

fn local_seconds(local: DateTime) -> i64 {
    let since = local.duration_since(jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0));
    since.as_secs()
}

/// Whether the calendar includes the instant.
pub(crate) fn is_in_calendar(epoch: i64) -> bool {
    SECONDS.contains(&epoch)
}

/// An instant with the offset of local time for display; arithmetic keeps the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Seconds since 1970.
    pub epoch: i64,
    /// The offset from UTC, in seconds.
    pub offset: i64,
    /// Whether the offset is that of summer time.
    pub is_summer: bool,
}

impl Moment {
    /// An instant in UTC.
    pub fn utc(epoch: i64) -> Self {
        Self { epoch, offset: 0, is_summer: false }
    }

    /// The instant a number of seconds later, with the same offset.
    pub(crate) fn later(self, seconds: i64) -> Self {
        Self { epoch: self.epoch.saturating_add(seconds), ..self }
    }

    /// The local time interpreted as UTC, without the hour of summer time: the result of `mktime` on a
    /// server in a zone without one.
    pub(crate) fn wall(self) -> i64 {
        self.epoch.saturating_add(self.offset) - if self.is_summer { 3600 } else { 0 }
    }

    /// The local time; `None` if it is outside of the calendar.
    pub(crate) fn civil(self) -> Option<DateTime> {
        let wall = self.epoch.saturating_add(self.offset);
        if !SECONDS.contains(&wall) {
            return None;
        }
        let begin = jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0);
        begin.checked_add(SignedDuration::from_secs(wall)).ok()
    }

    /// The instant of another local time, with the same offset.
    pub(crate) fn at_civil(self, local: DateTime) -> Self {
        Self { epoch: local_seconds(local) - self.offset, ..self }
    }
}
