//! The series of all holders in the order in which blocks hold them.

use std::cmp::Ordering;
use std::sync::Arc;

use sandur_format::block::{BlockIndex, compare_series};
use sandur_model::Labels;
use sandur_query::TEXT_BYTES;

use super::{Holder, SERIES_BYTES};
use crate::samples::SAMPLE_BYTES;

/// Bytes that a label takes beside its texts: as ids and texts of the batch.
const LABEL_BYTES: u64 = 2 * TEXT_BYTES + 8;

/// A series, and where it is.
pub(super) struct Found {
    /// Holders in the order in which they had their rows, and the series' place in each.
    pub(super) members: Vec<(usize, u32)>,
    /// Bytes of its labels in a batch.
    label_bytes: u64,
    rows: u64,
    /// Those of the rows that heads hold.
    head_rows: u64,
}

impl Found {
    /// Its place in a holder.
    pub(super) fn ordinal_in(&self, holder: usize) -> Option<u32> {
        self.members.iter().find(|(number, _)| *number == holder).map(|(_, ordinal)| *ordinal)
    }

    /// Bytes that it takes before it has samples, and those of samples that are in heads.
    pub(super) fn bytes(&self) -> u64 {
        let members = self.members.len() as u64 * 16;
        SERIES_BYTES + self.label_bytes + members + self.head_rows * 2 * SAMPLE_BYTES
    }
}

impl Holder {
    /// Series that match.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Block { series, .. } => series.len(),
            Self::Head { series } => series.len(),
        }
    }

    /// The series' place in the holder: its ordinal in the block, its position in the head's selection.
    fn ordinal(&self, at: usize) -> u32 {
        match self {
            Self::Block { series, .. } => series[at],
            Self::Head { .. } => at as u32,
        }
    }

    fn rows(&self, at: usize) -> u64 {
        match self {
            Self::Block { block, series, .. } => block.footer.series().stats(series[at]).rows,
            Self::Head { series } => series.rows(at) as u64,
        }
    }

    /// Calls `each` with the labels of a series, which is named by its place as [`Found`] has it.
    pub(super) fn each_label<'a>(&'a self, ordinal: u32, mut each: impl FnMut(&'a str, &'a str)) {
        match self {
            Self::Block { block, .. } => block.footer.series().pairs(ordinal).for_each(|(n, v)| each(n, v)),
            Self::Head { series } => series.pairs(ordinal as usize).for_each(|(n, v)| each(n, v)),
        }
    }

    /// The labels of a series, which is named by its place as [`Found`] has it.
    pub(super) fn labels(&self, ordinal: u32) -> Labels {
        match self {
            Self::Block { block, .. } => Labels::from_pairs(block.footer.series().pairs(ordinal)),
            Self::Head { series } => series.labels(ordinal as usize),
        }
    }

    fn compare(&self, at: usize, other: &Self, other_at: usize) -> Ordering {
        match (self, other) {
            (Self::Block { block, series, .. }, Self::Block { block: block_b, series: series_b, .. }) => {
                let (a, b) = (block.footer.series(), block_b.footer.series());
                compare_series(a.pairs(series[at]), b.pairs(series_b[other_at]))
            }
            (Self::Block { block, series, .. }, Self::Head { series: head }) => {
                compare_series(block.footer.series().pairs(series[at]), head.pairs(other_at))
            }
            (Self::Head { series: head }, Self::Block { block, series, .. }) => {
                compare_series(head.pairs(at), block.footer.series().pairs(series[other_at]))
            }
            (Self::Head { series: a }, Self::Head { series: b }) => {
                compare_series(a.pairs(at), b.pairs(other_at))
            }
        }
    }
}

/// How far a scan has come in each of its holders.
pub(super) struct Walk {
    holders: Arc<Vec<Holder>>,
    next: Vec<usize>,
}

impl Walk {
    pub(super) fn new(holders: Vec<Holder>) -> Self {
        Self { next: vec![0; holders.len()], holders: Arc::new(holders) }
    }

    pub(super) fn holders(&self) -> Arc<Vec<Holder>> {
        Arc::clone(&self.holders)
    }

    /// The next series: at most so many, and no further one when they have so many samples.
    pub(super) fn take(&mut self, series_max: usize, rows_max: u64) -> Vec<Found> {
        let (mut all, mut rows) = (Vec::new(), 0);
        while all.len() < series_max && rows < rows_max {
            let Some(found) = self.next_series() else { break };
            rows += found.rows;
            all.push(found);
        }
        all
    }

    fn next_series(&mut self) -> Option<Found> {
        let mut members: Vec<usize> = Vec::new();
        for (number, holder) in self.holders.iter().enumerate() {
            let at = self.next[number];
            if at >= holder.len() {
                continue;
            }
            let with_first = |first: &usize| holder.compare(at, &self.holders[*first], self.next[*first]);
            match members.first().map_or(Ordering::Less, with_first) {
                Ordering::Less => members = vec![number],
                Ordering::Equal => members.push(number),
                Ordering::Greater => {}
            }
        }
        let first = *members.first()?;
        let mut found = Found { members: Vec::new(), label_bytes: 0, rows: 0, head_rows: 0 };
        let ordinal = self.holders[first].ordinal(self.next[first]);
        self.holders[first].each_label(ordinal, |name, value| {
            found.label_bytes += (name.len() + value.len()) as u64 + LABEL_BYTES;
        });
        for number in members {
            let (holder, at) = (&self.holders[number], self.next[number]);
            found.members.push((number, holder.ordinal(at)));
            let rows = holder.rows(at);
            found.rows += rows;
            found.head_rows += if matches!(holder, Holder::Head { .. }) { rows } else { 0 };
            self.next[number] += 1;
        }
        Some(found)
    }
}
