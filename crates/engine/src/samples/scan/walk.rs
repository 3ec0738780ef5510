//! The series of all holders in the order of their labels.

use std::cmp::Ordering;
use std::sync::Arc;

use sandur_format::block::BlockIndex;
use sandur_model::Labels;
use sandur_query::TEXT_BYTES;

use super::{Holder, SERIES_BYTES};
use crate::samples::SAMPLE_BYTES;

/// Bytes that a label takes beside its texts: in the set of labels, and as ids and texts of the batch.
const LABEL_BYTES: u64 = 64 + 2 * TEXT_BYTES + 8;

/// A series, and where it is.
pub(super) struct Found {
    pub(super) labels: Arc<Labels>,
    /// Holders in the order in which they had their rows, and the series' place in each.
    pub(super) members: Vec<(usize, u32)>,
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
        let labels = self.labels.text_bytes() as u64 * 2 + self.labels.len() as u64 * LABEL_BYTES;
        SERIES_BYTES + labels + self.members.len() as u64 * 16 + self.head_rows * 2 * SAMPLE_BYTES
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

    fn labels(&self, at: usize) -> Arc<Labels> {
        match self {
            Self::Block { block, series, .. } => {
                Arc::new(Labels::from_pairs(block.footer.series().pairs(series[at])))
            }
            Self::Head { series } => Arc::new(series.labels(at)),
        }
    }

    fn compare(&self, at: usize, labels: &Labels) -> Ordering {
        match self {
            Self::Block { block, series, .. } => compare(block.footer.series().pairs(series[at]), labels),
            Self::Head { series } => compare(series.pairs(at), labels),
        }
    }
}

fn compare<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>, labels: &'a Labels) -> Ordering {
    pairs.cmp(labels.iter())
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
        let mut first: Option<Arc<Labels>> = None;
        let mut members: Vec<usize> = Vec::new();
        for (number, holder) in self.holders.iter().enumerate() {
            let at = self.next[number];
            if at >= holder.len() {
                continue;
            }
            match first.as_ref().map_or(Ordering::Less, |first| holder.compare(at, first)) {
                Ordering::Less => {
                    first = Some(holder.labels(at));
                    members = vec![number];
                }
                Ordering::Equal => members.push(number),
                Ordering::Greater => {}
            }
        }
        let labels = first?;
        let mut found = Found { labels, members: Vec::new(), rows: 0, head_rows: 0 };
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
