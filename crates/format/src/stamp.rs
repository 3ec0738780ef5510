//! Stamps: when a sample was written, by a clock that the processes of a bucket share, and by whom.
//!
//! A frame of the WAL has the stamp of its writer, and all of its samples have that stamp for good: in
//! memory, in blocks of a flush, and in merged blocks until nothing can be written before them any more. Of
//! several values of a series at one time, the one with the earliest or the latest stamp counts, so the
//! answer does not depend on where the values are stored.
//!
//! **Invariants.** The times of the frames of one writer strictly ascend, so two frames never have the same
//! stamp. A sample without a stamp precedes all samples that have one.

use sandur_base::Id;

/// Bits of a stamp's time below the millisecond: a counter for frames of one millisecond.
pub const COUNTER_BITS: u32 = 10;

/// When a sample was written, and by whom. The default is that of a sample without a stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Milliseconds since the epoch, then [`COUNTER_BITS`] bits of a counter; 0 without a stamp.
    pub time: u64,
    /// The process start that wrote the sample.
    pub incarnation: Id,
}

impl Stamp {
    /// Whether there is a stamp.
    pub fn is_some(self) -> bool {
        self.time > 0
    }
}

/// The times of the stamps of samples: the earliest and the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampSpan {
    /// The earliest time; 0 if a sample has no stamp.
    pub first: u64,
    /// The latest time.
    pub last: u64,
}

impl StampSpan {
    /// The span of both.
    pub fn joined(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }

    /// Adds samples with these stamps to a span; `count` samples without a stamp if there are none.
    pub(crate) fn widen(span: &mut Option<Self>, stamps: &[Stamp]) {
        let first = stamps.iter().map(|stamp| stamp.time).min().unwrap_or(0);
        let last = stamps.iter().map(|stamp| stamp.time).max().unwrap_or(0);
        let own = Self { first, last };
        *span = Some(span.map_or(own, |span| span.joined(own)));
    }
}

/// The stamps of some samples, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    times: Vec<u64>,
    /// The different writers.
    writers: Vec<Id>,
    /// The position of each sample's writer; empty if all have the first one.
    of_rows: Vec<u16>,
}

impl Stamps {
    /// Bytes of a sample's stamp in memory.
    pub(crate) const ROW_BYTES: u64 = 10;

    pub(crate) fn new(times: Vec<u64>, writers: Vec<Id>, of_rows: Vec<u16>) -> Self {
        Self { times, writers, of_rows }
    }

    /// Returns the stamp of a sample; the default for one that is not there.
    pub fn at(&self, row: usize) -> Stamp {
        let writer = self.of_rows.get(row).map_or(0, |writer| usize::from(*writer));
        match (self.times.get(row), self.writers.get(writer)) {
            (Some(time), Some(incarnation)) if *time > 0 => Stamp { time: *time, incarnation: *incarnation },
            _ => Stamp::default(),
        }
    }

    /// Appends the stamps of these samples to `out`.
    pub fn extend(&self, rows: std::ops::Range<usize>, out: &mut Vec<Stamp>) {
        out.extend(rows.map(|row| self.at(row)));
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_without_a_stamp_precedes_all_others() {
        let stamp = |time, id| Stamp { time, incarnation: Id(id) };
        let mut all = [stamp(2, 1), stamp(1, 9), Stamp::default(), stamp(1, 3)];
        all.sort();
        assert_eq!(all, [Stamp::default(), stamp(1, 3), stamp(1, 9), stamp(2, 1)]);
    }
}
