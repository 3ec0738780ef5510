//! Time zones, and instants as Graphite carries them: with the offset that was theirs when they were read.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

/// Days that the calendar of Python has, in seconds: the years 1 to 9999.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// A zone of the tz database.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

impl Zone {
    /// The world's time.
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// The zone of a name such as `Europe/Berlin`.
    pub fn named(name: &str) -> Option<Self> {
        jiff::tz::db().get(name).ok().map(Self)
    }

    /// How far local clocks are ahead at an instant, in seconds.
    pub fn offset_at(&self, epoch: i64) -> i64 {
        Timestamp::from_second(epoch).map_or(0, |instant| self.0.to_offset(instant).seconds().into())
    }

    /// The instant with this zone's offset.
    pub fn moment(&self, epoch: i64) -> Moment {
        let is_summer =
            Timestamp::from_second(epoch).is_ok_and(|instant| self.0.to_offset_info(instant).dst().is_dst());
        Moment { epoch, offset: self.offset_at(epoch), is_summer }
    }

    /// The instant at which local clocks show this time. Of two the later; a time that clocks leap over
    /// counts from before the leap.
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

/// An instant that the calendar has.
pub(crate) fn is_in_calendar(epoch: i64) -> bool {
    SECONDS.contains(&epoch)
}

/// An instant, and the offset of local clocks that it is shown with: arithmetic keeps the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Seconds since 1970.
    pub epoch: i64,
    /// Seconds that its clock is ahead.
    pub offset: i64,
    /// Whether that is summer time.
    pub is_summer: bool,
}

impl Moment {
    /// In the world's time.
    pub fn utc(epoch: i64) -> Self {
        Self { epoch, offset: 0, is_summer: false }
    }

    /// So many seconds later, on the same clock.
    pub(crate) fn later(self, seconds: i64) -> Self {
        Self { epoch: self.epoch.saturating_add(seconds), ..self }
    }

    /// What the clock shows, read as if it were the world's time, without the hour of summer time: what
    /// `mktime` makes of it on a server without one.
    pub(crate) fn wall(self) -> i64 {
        self.epoch.saturating_add(self.offset) - if self.is_summer { 3600 } else { 0 }
    }

    /// What the clock shows; `None` outside of the calendar.
    pub(crate) fn civil(self) -> Option<DateTime> {
        let wall = self.epoch.saturating_add(self.offset);
        if !SECONDS.contains(&wall) {
            return None;
        }
        let begin = jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0);
        begin.checked_add(SignedDuration::from_secs(wall)).ok()
    }

    /// The same clock when it shows another time.
    pub(crate) fn at_civil(self, local: DateTime) -> Self {
        Self { epoch: local_seconds(local) - self.offset, ..self }
    }
}
