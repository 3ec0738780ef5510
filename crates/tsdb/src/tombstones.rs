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

/// The deleted times, by series.
#[derive(Debug, Default)]
pub struct Tombstones(BTreeMap<u64, Vec<RangeInclusive<i64>>>);

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
        Ok(Self(of))
    }

    /// The deleted times of a series, in milliseconds.
    pub fn of(&self, series: u64) -> &[RangeInclusive<i64>] {
        self.0.get(&series).map_or(&[], Vec::as_slice)
    }
}
