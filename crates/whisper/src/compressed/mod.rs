//! go-carbon's compressed form: blocks of coded points, and a buffer of those that are not coded yet.
//!
//! A block holds points in order of time and is written to its end before the next one is begun; the oldest
//! is written over when all are full. The index in the header tells where each begins and ends in time. The
//! last points wait in the archive's buffer, plain, until all of a coarser interval are there.

mod bits;
mod block;
mod header;

use crate::archive::Archive;
use crate::error::Error;
use crate::file::{Checks, Damage, Reading};
use crate::point::{Point, in_order};
use crate::source::ReadAt;
use block::Coded;
pub(crate) use header::{HEADER_BYTES_MAX, header, is_so};

/// What the header of a compressed file says beyond that of any other.
#[derive(Clone, Debug)]
pub(crate) struct Compressed {
    /// For each archive.
    archives: Vec<Blocks>,
}

/// The blocks of an archive.
#[derive(Clone, Debug)]
struct Blocks {
    /// Seconds of a point.
    step: u32,
    /// Bytes of a block.
    size: u32,
    /// The block that is being written.
    current: u32,
    index: Vec<Range>,
    /// Points that are not in blocks yet.
    buffered: Vec<Point>,
}

/// What the index says of a block.
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

    /// The most points that a block can have between its first and its last one.
    fn points_max(&self, step: u32, size: u32) -> u64 {
        let between = u64::from(self.end.saturating_sub(self.start)) / u64::from(step.max(1)) + 1;
        // The first is plain; each of the others has two bits or more.
        let coded = u64::from(size).saturating_sub(Point::BYTES as u64) * 4 + 1;
        between.min(coded)
    }
}

impl Compressed {
    /// The most points that are read.
    pub(crate) fn points_max(&self) -> u64 {
        self.archives.iter().map(Blocks::points_max).sum()
    }

    /// The points of an archive up to a time, in order.
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
    /// Appends the points of a block.
    fn decode(
        &self,
        block: usize,
        bytes: &[u8],
        checks: Checks,
        found: &mut Vec<Point>,
    ) -> Result<(), String> {
        let range = self.index[block];
        // Where the block ends that is being written is not known until it is read.
        let is_whole = block as u64 != u64::from(self.current);
        let checksum = if is_whole { checksum_of(bytes) } else { range.checksum };
        if checks == Checks::All && checksum != range.checksum {
            return Err(format!("its checksum is {checksum:08x} and not {:08x}", range.checksum));
        }
        let coded = Coded { bytes, step: self.step, start: range.start, end: range.end };
        coded.read(found).map_err(str::to_owned)
    }

    /// The most points that are read of them.
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
