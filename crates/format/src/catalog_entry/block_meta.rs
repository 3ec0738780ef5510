//! The metadata of a block in the catalog, and the block's name in the store.

use std::cmp::Reverse;

use sandur_base::Id;
use sandur_model::{DAY_NS, Dataset, Signal, TimeRange};

use super::wire::Sink;
use crate::block::{BlockIndex, BlockOrigin};
use crate::codec::Reader;
use crate::error::Error;

/// Bytes of the smallest encoded block: two ids, a one-letter tenant, the level, four times and
/// seven one-byte varints.
pub(super) const BLOCK_BYTES_MIN: usize = 32 + 2 + 1 + 32 + 7;

/// An existing block: all that a query needs to decide whether and how to open it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockMeta {
    /// The block's id, never reused.
    pub id: Id,
    /// The incarnation that made it.
    pub writer: Id,
    /// The tenant and the kind of its data.
    pub dataset: Dataset,
    /// Number of compactions: 0 from a flush, 1 for an hour, 2 for a day.
    pub level: u8,
    /// The hour or day of the block, in nanoseconds since the epoch.
    pub window: TimeRange,
    /// Timestamp of the earliest entry, nanoseconds since the epoch.
    pub min_ts: i64,
    /// Timestamp of the latest entry, nanoseconds since the epoch, inclusive.
    pub max_ts: i64,
    /// Number of log entries or samples.
    pub rows: u64,
    /// Bytes of lines and structured metadata before compression.
    pub raw_bytes: u64,
    /// Bytes of the object.
    pub size: u64,
    /// Number of streams or series.
    pub streams: u32,
    /// Number of pages.
    pub pages: u32,
    /// Offset of the footer, in bytes from the object's start.
    pub footer_offset: u64,
    /// Bytes of the footer.
    pub footer_len: u32,
    /// The block holds no line of a delete request that was started by an entry up to this number. Stored
    /// outside of the encoded block: see the edits and checkpoint rows that hold it.
    pub deletes_through: u64,
    /// The block's place in the order of writing; 0 when it is not known, and for blocks of logs. Stored
    /// outside of the encoded block: see [`WritePlace`](super::WritePlace).
    pub place: u64,
}

impl BlockMeta {
    /// Returns the object's name: `blocks/<tenant>/<YYYY-MM-DD of the window's start>/<id>-<writer>`.
    pub fn path(&self) -> String {
        let day = day_text(self.day());
        format!("blocks/{}/{day}/{}-{}", self.dataset.tenant.path_segment(), self.id, self.writer)
    }

    /// Returns the UTC day of the window's start, in days since the epoch.
    pub fn day(&self) -> i64 {
        day_of(self.window.start)
    }

    /// Returns the metadata of a block, from its footer.
    pub fn of(name: BlockName, index: &dyn BlockIndex) -> Self {
        let info = index.info();
        Self {
            id: name.id,
            writer: name.writer,
            dataset: Dataset { tenant: info.tenant.clone(), signal: index.signal() },
            level: info.level,
            window: info.window,
            min_ts: info.min_ts,
            max_ts: info.max_ts,
            rows: info.rows,
            raw_bytes: info.raw_bytes,
            size: index.object_bytes(),
            streams: index.series_count() as u32,
            pages: index.page_count() as u32,
            footer_offset: index.offset(),
            footer_len: index.object_bytes().saturating_sub(index.offset()) as u32,
            deletes_through: index.origin().map_or(0, |origin| origin.deletes_through),
            place: match index.signal() {
                Signal::Metrics => index.origin().map_or(0, BlockOrigin::assumed_place),
                Signal::Logs => 0,
            },
        }
    }

    /// Returns a key that orders blocks of one dataset by when their rows were written, earliest first.
    /// Blocks from before places were recorded come first, those with the most merges before others.
    pub fn order_of_writing(&self) -> (u64, Reverse<u8>, Id) {
        let level = if self.place == 0 { self.level } else { 0 };
        (self.place, Reverse(level), self.id)
    }

    /// Returns how a footer differs from this metadata; `None` when it belongs to this block. Valid bytes
    /// of another block count as damage too.
    pub fn difference(&self, index: &dyn BlockIndex) -> Option<String> {
        let name = BlockName { id: self.id, writer: self.writer };
        let found = Self::of(name, index);
        if found.dataset != self.dataset {
            let Dataset { tenant, signal } = &found.dataset;
            return Some(format!("it holds another block, {signal} of tenant '{tenant}'"));
        }
        let own = index.origin().map(|origin| origin.block).filter(|own| *own != Id::default());
        if let Some(own) = own.filter(|own| *own != self.id) {
            return Some(format!("it holds another block, {own}"));
        }
        let pairs: [(&str, i128, i128); 11] = [
            ("a window that begins at", found.window.start.into(), self.window.start.into()),
            ("a window that ends at", found.window.end.into(), self.window.end.into()),
            ("a level of", found.level.into(), self.level.into()),
            ("a first time of", found.min_ts.into(), self.min_ts.into()),
            ("a last time of", found.max_ts.into(), self.max_ts.into()),
            ("a number of rows of", found.rows.into(), self.rows.into()),
            ("raw bytes of", found.raw_bytes.into(), self.raw_bytes.into()),
            ("a number of series of", found.streams.into(), self.streams.into()),
            ("a number of pages of", found.pages.into(), self.pages.into()),
            ("a size in bytes of", found.size.into(), self.size.into()),
            ("a footer that begins at", found.footer_offset.into(), self.footer_offset.into()),
        ];
        let (what, found, expected) = pairs.into_iter().find(|(_, found, expected)| found != expected)?;
        Some(format!("it holds another block, with {what} {found} instead of {expected}"))
    }

    pub(super) fn encode(&self, out: &mut Sink) {
        out.id(self.id);
        out.id(self.writer);
        out.dataset(&self.dataset);
        out.u8(self.level);
        for time in [self.window.start, self.window.end, self.min_ts, self.max_ts] {
            out.i64(time);
        }
        for number in [self.rows, self.raw_bytes, self.size] {
            out.varint(number);
        }
        out.varint(u64::from(self.streams));
        out.varint(u64::from(self.pages));
        out.varint(self.footer_offset);
        out.varint(u64::from(self.footer_len));
    }

    pub(super) fn decode(from: &mut Reader<'_>) -> Result<Self, Error> {
        let (id, writer) = (from.id()?, from.id()?);
        let dataset = from.dataset()?;
        let level = from.u8()?;
        let window = TimeRange::new(from.i64()?, from.i64()?);
        Ok(Self {
            id,
            writer,
            dataset,
            level,
            window,
            min_ts: from.i64()?,
            max_ts: from.i64()?,
            rows: from.varint()?,
            raw_bytes: from.varint()?,
            size: from.varint()?,
            streams: from.varint32()?,
            pages: from.varint32()?,
            footer_offset: from.varint()?,
            footer_len: from.varint32()?,
            deletes_through: 0,
            place: 0,
        })
    }
}

/// The two ids in a block's object name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockName {
    /// The block.
    pub id: Id,
    /// The incarnation that made it.
    pub writer: Id,
}

impl BlockName {
    /// Parses `blocks/<tenant>/<day>/<id>-<writer>`; `None` when the path does not have this form.
    pub fn parse(path: &str) -> Option<Self> {
        let mut parts = path.strip_prefix("blocks/")?.split('/');
        let (_tenant, _day, name) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let (id, writer) = name.split_once('-')?;
        Some(Self { id: id.parse().ok()?, writer: writer.parse().ok()? })
    }
}

/// Returns the UTC day of a timestamp, in days since the epoch.
pub fn day_of(timestamp_ns: i64) -> i64 {
    timestamp_ns.div_euclid(DAY_NS)
}

/// Formats a day since the epoch as `YYYY-MM-DD` in the proleptic Gregorian calendar.
pub fn day_text(day: i64) -> String {
    // Years begin on 1 March, so that the leap day is the last day of a year; an era is the 400 years
    // (146,097 days) after which the calendar repeats.
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day_of_month:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_gregorian() {
        let second = 1_000_000_000;
        for (seconds, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (951_782_400, "2000-02-29"),
            (4_107_542_399, "2100-02-28"),
            (4_107_542_400, "2100-03-01"),
            (1_795_219_200, "2026-11-21"),
        ] {
            assert_eq!(day_text(day_of(seconds * second)), text, "{seconds}");
        }
        assert_eq!(day_text(day_of(i64::MIN)), "1677-09-21");
        assert_eq!(day_text(day_of(i64::MAX)), "2262-04-11");
    }

    #[test]
    fn names_hold_the_ids() {
        let (id, writer) = (Id::from_parts(5, 7), Id::from_parts(3, 9));
        let path = format!("blocks/fake/2026-11-21/{id}-{writer}");
        assert_eq!(BlockName::parse(&path), Some(BlockName { id, writer }));
        for bad in ["blocks/fake/2026-11-21/x-y", "blocks/fake/x", "wal/a/b/c", "blocks/a/b/c/d"] {
            assert_eq!(BlockName::parse(bad), None, "{bad}");
        }
    }
}
