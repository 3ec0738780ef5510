//! go-carbon's compressed form: blocks of encoded points, and a buffer of points that are not encoded
//! yet.
//!
//! A block has points in order of time and is filled before the next one is begun. When all are full,
//! the oldest is overwritten. The index in the header has the first and last time of each block. The
//! latest points stay in plain form in the archive's buffer until all points of a coarser interval have
//! arrived.

mod bits;
mod block;
mod header;

use crate::archive::Archive;
use crate::error::Error;
use crate::point::{Point, in_order};
use crate::reading::{Checks, Damage, Reading};
use crate::source::ReadAt;
use block::Coded;
pub(crate) use header::{HEADER_BYTES_MAX, header, is_so};

/// The part of the header that only compressed files have.
#[derive(Clone, Debug)]
pub(crate) struct Compressed {
    /// The blocks of each archive.
    archives: Vec<Blocks>,
}

/// The blocks of an archive.
#[derive(Clone, Debug)]
struct Blocks {
    /// The step in seconds.
    step: u32,
    /// The size of a block in bytes.
    size: u32,
    /// The index of the block that is being written.
    current: u32,
    index: Vec<Range>,
    /// Points that are not in a block yet.
    buffered: Vec<Point>,
}

/// The index entry of a block.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u32,
    end: u32,
    checksum: u32,
}

impl Range {
    fn is_empty(&self) -> bool {
        self.start == 0
    }

    /// Returns an upper bound of the number of points of a block.
    fn points_max(&self, step: u32, size: u32) -> u64 {
        let between = u64::from(self.end.saturating_sub(self.start)) / u64::from(step.max(1)) + 1;
        // The first point is in plain form; each of the others has at least two bits.
        let coded = u64::from(size).saturating_sub(Point::BYTES as u64) * 4 + 1;
        between.min(coded)
    }
}

impl Compressed {
    /// Returns an upper bound of the number of points that can be read.
    pub(crate) fn points_max(&self) -> u64 {
        self.archives.iter().map(Blocks::points_max).sum()
    }

    /// Returns the points of an archive up to a time, in order.
    pub(crate) fn points(
        &self,
        source: &impl ReadAt,
        (number, archive): (usize, &Archive),
        reading: &mut Reading,
    ) -> Result<Vec<Point>, Error> {
        let Some(blocks) = self.archives.get(number) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        let mut bytes = vec![0; blocks.size as usize];
        let mut order: Vec<usize> = (0..blocks.index.len()).collect();
        order.retain(|block| !blocks.index[*block].is_empty());
        order.sort_by_key(|block| blocks.index[*block].start);
        for block in order {
            let (range, before) = (blocks.index[block], found.len());
            let place = archive.offset.saturating_add(block as u64 * u64::from(blocks.size));
            let read = source.read_at(&mut bytes, place).map_err(|error| match reading.damage {
                Damage::Refused => Error::from(error),
                Damage::LeftOut => Error::Block { archive: number, block, what: error.to_string() },
            });
            let read = read.and_then(|()| {
                let damaged = |what: String| Error::Block { archive: number, block, what };
                blocks.decode(block, &bytes, reading.checks, &mut found).map_err(damaged)
            });
            if let Err(error) = read {
                found.truncate(before);
                reading.leave_out(range.start, range.end, error)?;
            }
        }
        found.extend(blocks.buffered.iter().filter(|point| point.time % archive.step == 0));
        found.retain(|point| point.time <= reading.until);
        in_order(&mut found);
        if let Some(newest) = found.last().map(|point| point.time) {
            found.retain(|point| archive.holds(point.time, newest));
        }
        Ok(found)
    }
}

impl Blocks {
    /// Decodes the points of a block and appends them.
    fn decode(
        &self,
        block: usize,
        bytes: &[u8],
        checks: Checks,
        found: &mut Vec<Point>,
    ) -> Result<(), String> {
        let range = self.index[block];
        // The end of the block that is being written is only known once it is decoded.
        let is_whole = block as u64 != u64::from(self.current);
        let checksum = if is_whole { checksum_of(bytes) } else { range.checksum };
        if checks == Checks::All && checksum != range.checksum {
            return Err(format!("its checksum is {checksum:08x} instead of {:08x}", range.checksum));
        }
        let coded = Coded { bytes, step: self.step, start: range.start, end: range.end };
        coded.read(found).map_err(str::to_owned)
    }

    /// Returns an upper bound of the number of points that can be read from the blocks.
    fn points_max(&self) -> u64 {
        let blocks: u64 = self.index.iter().map(|range| range.points_max(self.step, self.size)).sum();
        blocks + self.buffered.len() as u64
    }
}

fn checksum_of(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}
