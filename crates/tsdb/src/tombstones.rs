//! The deleted times of the series of a block.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::bytes::Bytes;
use crate::checksum::verified;
use crate::error::Error;
use crate::source::{ReadAt, read_range};

const MAGIC: u32 = 0x0130_BA30;
/// Bytes of magic and version.
const HEAD_BYTES: usize = 5;
/// Largest file: some ten million tombstones.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Most tombstones. The file alone does not bound them well: one takes at least 3 bytes in it, and up to some
/// 150 in memory if each is of another series, so these take at most about 1.5 GB.
const TOMBSTONES_MAX: u64 = 10_000_000;

/// The deleted times, by series. The ranges of a series are in order and do not overlap.
#[derive(Debug, Default)]
pub struct Tombstones(BTreeMap<u64, Vec<RangeInclusive<i64>>>);

/// The deleted times of a series.
#[derive(Clone, Copy, Debug)]
pub struct Deleted<'a>(&'a [RangeInclusive<i64>]);

impl Deleted<'_> {
    /// Whether samples of this time, in milliseconds, are deleted. Searches by halves, because this is asked
    /// for each sample and a series may have millions of ranges.
    pub fn has(&self, time_ms: i64) -> bool {
        let begun = self.0.partition_point(|range| *range.start() <= time_ms);
        begun > 0 && self.0[begun - 1].contains(&time_ms)
    }
}

impl Tombstones {
    /// Reads a file of tombstones.
    pub fn read(source: &impl ReadAt) -> Result<Self, Error> {
        let what = "the file of tombstones";
        let bytes = read_range(source, (what, FILE_BYTES_MAX), 0, source.size()?)?;
        let mut head = Bytes::new(what, &bytes);
        if head.u32()? != MAGIC || head.u8()? != 1 {
            return Err(Error::Kind { what: "a file of tombstones of version 1" });
        }
        let part = verified(what, HEAD_BYTES as u64, &bytes[HEAD_BYTES..])?;
        let (mut from, mut of) = (Bytes::new(what, part), BTreeMap::<u64, Vec<_>>::new());
        let mut found = 0;
        while from.remaining() > 0 {
            found += 1;
            if found > TOMBSTONES_MAX {
                return Err(Error::TooLarge {
                    what: "the number of tombstones",
                    found,
                    limit: TOMBSTONES_MAX,
                });
            }
            let (series, min, max) = (from.uvarint()?, from.varint()?, from.varint()?);
            of.entry(series).or_default().push(min..=max);
        }
        of.values_mut().for_each(join);
        Ok(Self(of))
    }

    /// The deleted times of a series.
    pub fn of(&self, series: u64) -> Deleted<'_> {
        Deleted(self.0.get(&series).map_or(&[], Vec::as_slice))
    }
}

/// Sorts ranges, and joins those that overlap.
fn join(ranges: &mut Vec<RangeInclusive<i64>>) {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| *range.start());
    ranges.dedup_by(|next, last| {
        let overlaps = next.start() <= last.end();
        if overlaps {
            *last = *last.start()..=*last.end().max(next.end());
        }
        overlaps
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn file(ranges: &[(u64, i64, i64)]) -> Vec<u8> {
        let varint = |mut value: u64, out: &mut Vec<u8>| {
            while value >= 0x80 {
                out.push(value as u8 | 0x80);
                value >>= 7;
            }
            out.push(value as u8);
        };
        let mut body = Vec::new();
        for (series, min, max) in ranges {
            varint(*series, &mut body);
            for time in [min, max] {
                varint(((time << 1) ^ (time >> 63)) as u64, &mut body);
            }
        }
        let mut file = [MAGIC.to_be_bytes().as_slice(), &[1], &body].concat();
        file.extend(crc32c::crc32c(&body).to_be_bytes());
        file
    }

    #[test]
    fn ranges_in_any_order_have_the_times_of_each() {
        let extremes = [(2, i64::MIN, i64::MIN), (2, i64::MAX, i64::MAX)];
        let mut ranges = vec![(1, 50, 60), (1, 10, 20), (1, 15, 17), (1, 18, 30), (1, 60, 61), (1, 45, 40)];
        ranges.extend(extremes);
        ranges.push((1, -5, -3));
        let tombstones = Tombstones::read(&file(&ranges).as_slice()).unwrap();
        for time in (-10..100).chain([i64::MIN, i64::MAX]) {
            for series in 1..=3 {
                let is_in = |(of, min, max): &(u64, i64, i64)| *of == series && (*min..=*max).contains(&time);
                assert_eq!(tombstones.of(series).has(time), ranges.iter().any(is_in), "{series} {time}");
            }
        }
    }
}
