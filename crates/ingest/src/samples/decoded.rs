//! A decoded request with samples: the batch, the refusals, and the accepted counts.

use std::sync::Arc;

use sandur_model::{SampleBatch, SampleConflicts, TenantId};

use crate::refused::{Cause, Reason, Refused};

/// The accepted parts of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Float samples.
    pub samples: u64,
    /// Native histograms.
    pub histograms: u64,
    /// Exemplars.
    pub exemplars: u64,
    /// Descriptions of metric families.
    pub metadata: u64,
}

impl Written {
    /// Adds the counts of another part of the request.
    pub fn add(&mut self, more: Self) {
        self.samples += more.samples;
        self.histograms += more.histograms;
        self.exemplars += more.exemplars;
        self.metadata += more.metadata;
    }

    /// Returns the number of items that the ingestion rate counts.
    pub fn items(&self) -> u64 {
        self.samples + self.histograms + self.exemplars + self.metadata
    }
}

/// A decoded request.
#[derive(Clone, Debug)]
pub struct DecodedSamples {
    /// The accepted samples.
    pub batch: SampleBatch,
    /// The refused parts.
    pub refused: Refused,
    /// The counts of the accepted parts.
    pub written: Written,
    /// The series of the batch that are differences, to be added up before the batch is stored.
    pub(crate) deltas: Vec<DeltaSeries>,
    /// The line of each decoded series, if the caller requested the refused lines.
    pub(crate) lines: Vec<u32>,
}

/// What remains of a request after its batch is stored: refusals and counts.
#[derive(Clone, Debug, Default)]
pub struct Accepted {
    /// The refused parts.
    pub refused: Refused,
    /// The counts of the accepted parts.
    pub written: Written,
    lines: Vec<u32>,
}

/// A series of a batch that is of delta temporality and has at most one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeltaSeries {
    /// Index in the batch; the indexes ascend.
    pub(crate) series: u32,
    /// A hash of the bounds of a histogram: points with different values cannot be added.
    pub(crate) shape: u32,
}

impl Accepted {
    /// Counts samples as refused that were not stored because their series has another value for the same
    /// timestamp.
    pub fn refuse_conflicts(&mut self, conflicts: &SampleConflicts) {
        if conflicts.is_empty() {
            return;
        }
        let SampleConflicts { floats, histograms, examples, .. } = conflicts;
        self.written.samples = self.written.samples.saturating_sub(*floats);
        self.written.histograms = self.written.histograms.saturating_sub(*histograms);
        let (reason, refused) = (Reason::DuplicateSample, &mut self.refused);
        refused.count(reason, floats + histograms, 0);
        match conflicts.series() {
            Some(series) => {
                let lines = series.iter().filter_map(|position| self.lines.get(*position as usize));
                refused.note_later(reason, lines.copied());
            }
            None => refused.note_unnamed(),
        }
        for conflict in examples {
            let cause = Cause { reason, stream: conflict.labels.stream_id(), number: conflict.timestamp };
            refused.report(cause, || conflict.to_string());
        }
        refused.count_others((floats + histograms).saturating_sub(examples.len() as u64));
    }
}

impl DecodedSamples {
    /// Returns the batch to store, and what the client's response needs.
    pub fn into_batch(self) -> (SampleBatch, Accepted) {
        let Self { batch, refused, written, lines, .. } = self;
        (batch, Accepted { refused, written, lines })
    }

    /// Refuses the series at these ascending indexes of the batch, because the tenant has reached its
    /// limit of series.
    pub fn refuse_series(&mut self, positions: &[u32], limit: u64) {
        let Some(series) = positions.first().and_then(|first| self.batch.series.get(*first as usize)) else {
            return;
        };
        let (id, labels) = (series.id, Arc::clone(series.labels.shared()));
        for line in positions.iter().filter_map(|position| self.lines.get(*position as usize)) {
            self.refused.note(Reason::TooManySeries, *line, 1);
        }
        let left_out = self.leave_out(positions);
        self.refused.count(Reason::TooManySeries, left_out, 0);
        let cause = |stream| Cause { reason: Reason::TooManySeries, stream, number: 0 };
        let text = || {
            format!(
                "per-user series limit of {limit} exceeded (err-mimir-max-series-per-user). To adjust the \
                 related per-tenant limit, configure limits.metrics.max_global_series_per_user, series: \
                 '{labels}'"
            )
        };
        positions.iter().for_each(|_| self.refused.report(cause(id), text));
    }

    /// Returns the bytes of memory for adding up the points of delta temporality.
    pub fn adding_bytes(&self) -> u64 {
        self.deltas.len() as u64 * crate::delta::WORK_BYTES
    }

    /// Removes the series at these ascending indexes from the batch, and returns how many samples they
    /// had.
    pub(crate) fn leave_out(&mut self, positions: &[u32]) -> u64 {
        let batch = std::mem::replace(&mut self.batch, SampleBatch::new(TenantId::default_tenant()));
        let before = batch.rows() as u64;
        self.batch = batch.without_series(positions);
        self.written.samples = self.batch.timestamps.len() as u64;
        self.written.histograms = self.batch.histograms.len() as u64;
        self.written.exemplars = self.batch.exemplars.len() as u64;
        let gone_before = |series: u32| positions.partition_point(|position| *position < series);
        self.deltas.retain(|delta| positions.binary_search(&delta.series).is_err());
        self.deltas.iter_mut().for_each(|delta| delta.series -= gone_before(delta.series) as u32);
        let mut numbers = 0u32..;
        self.lines.retain(|_| numbers.next().is_none_or(|number| positions.binary_search(&number).is_err()));
        before.saturating_sub(self.batch.rows() as u64)
    }
}

#[cfg(test)]
mod tests {
    use sandur_model::{Labels, SampleConflict, SeriesLabels};

    use super::*;

    #[test]
    fn lines_stay_with_their_series_when_others_are_removed() {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        for name in ["a", "b", "c", "d"] {
            batch.push(Arc::new(Labels::from_pairs([("__name__", name)])), [(1, 1.0)]);
        }
        let (refused, written) = (Refused::default(), Written { samples: 4, ..Written::default() });
        let mut decoded =
            DecodedSamples { batch, refused, written, deltas: Vec::new(), lines: vec![1, 3, 5, 7] };
        decoded.refuse_series(&[0, 2], 2);
        let runs: Vec<u32> = decoded.refused.runs().unwrap().iter().map(|run| run.first).collect();
        assert_eq!((decoded.lines, runs), (vec![3, 7], vec![1, 5]));
    }

    #[test]
    fn conflicts_are_counted_as_refused_with_their_lines() {
        let mut accepted = Accepted {
            written: Written { samples: 20, histograms: 1, exemplars: 3, metadata: 0 },
            lines: (0..25).map(|line| line * 2).collect(),
            ..Accepted::default()
        };
        accepted.refuse_conflicts(&SampleConflicts::default());
        assert!(accepted.refused.is_empty() && accepted.written.samples == 20);
        let mut conflicts = SampleConflicts::default();
        for position in 3..18u32 {
            let labels = SeriesLabels::from(Arc::new(Labels::from_pairs([("__name__", "up")])));
            let timestamp = position.into();
            let conflict = || SampleConflict { labels, timestamp, stored: Some(1.0), refused: Some(2.0) };
            conflicts.add(position, conflict, false);
        }
        accepted.refuse_conflicts(&conflicts);
        assert_eq!(accepted.written, Written { samples: 5, histograms: 1, exemplars: 3, metadata: 0 });
        let lines: Vec<u32> = accepted.refused.runs().unwrap().iter().map(|run| run.first).collect();
        assert_eq!(lines, (3..18).map(|position| position * 2).collect::<Vec<_>>());
        let text = accepted.refused.text().unwrap();
        let first = "1 errors like: duplicate sample for timestamp 3; overrides not allowed: existing 1, new \
                     value 2 for series {__name__=\"up\"}";
        assert!(text.starts_with(first) && text.ends_with("; and 5 other errors"), "{text}");
        let reasons: Vec<_> = accepted.refused.by_reason().map(|(reason, n, _)| (reason.name(), n)).collect();
        assert_eq!(reasons, [("new_value_for_timestamp", 15)]);
    }
}
