//! What a request with samples held: the batch, what was left out, and how much was accepted.

use std::sync::Arc;

use sandur_model::{SampleBatch, TenantId};

use crate::refused::{Cause, Reason, Refused};

/// How much of a request was accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Float samples.
    pub samples: u64,
    /// Native histograms.
    pub histograms: u64,
    /// Exemplars.
    pub exemplars: u64,
    /// Descriptions of metrics.
    pub metadata: u64,
}

impl Written {
    /// Adds what was accepted of another part of the request.
    pub fn add(&mut self, more: Self) {
        self.samples += more.samples;
        self.histograms += more.histograms;
        self.exemplars += more.exemplars;
        self.metadata += more.metadata;
    }

    /// Everything that rates count.
    pub fn items(&self) -> u64 {
        self.samples + self.histograms + self.exemplars + self.metadata
    }
}

/// What a request held.
#[derive(Clone, Debug)]
pub struct DecodedSamples {
    /// The accepted samples.
    pub batch: SampleBatch,
    /// What was left out.
    pub refused: Refused,
    /// What was accepted.
    pub written: Written,
    /// Which series of the batch are differences that have to be added up before the batch is stored.
    pub(crate) deltas: Vec<DeltaSeries>,
    /// The line of each series as it was decoded, where it was asked which lines are refused.
    pub(crate) lines: Vec<u32>,
}

/// A series of a batch that is of delta temporality, with one point at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeltaSeries {
    /// Position in the batch; positions rise.
    pub(crate) series: u32,
    /// Differs for points that cannot be added: a hash of the bounds of a histogram.
    pub(crate) shape: u32,
}

impl DecodedSamples {
    /// Leaves out the series at these positions of the batch, which rise: the tenant has as many as allowed.
    pub fn refuse_series(&mut self, positions: &[u32], limit: u64) {
        let Some(series) = positions.first().and_then(|first| self.batch.series.get(*first as usize)) else {
            return;
        };
        let (id, labels) = (series.id, Arc::clone(series.labels.shared()));
        let left_out = self.leave_out(positions);
        self.refused.count(Reason::TooManySeries, left_out, 0);
        for line in positions.iter().filter_map(|position| self.lines.get(*position as usize)) {
            self.refused.note(Reason::TooManySeries, *line, 1);
        }
        let cause = |stream| Cause { reason: Reason::TooManySeries, stream, number: 0 };
        let text = || {
            format!(
                "per-user series limit of {limit} exceeded (err-mimir-max-series-per-user). To adjust the \
                 related per-tenant limit, configure limits.metrics.max_global_series_per_user, series: \
                 '{labels}'"
            )
        };
        positions.iter().for_each(|_| self.refused.tell(cause(id), text));
    }

    /// Memory that adding up its points of delta temporality takes.
    pub fn adding_bytes(&self) -> u64 {
        self.deltas.len() as u64 * crate::delta::WORK_BYTES
    }

    /// Takes the series at these positions, which rise, out of the batch; how many samples they had.
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
        before.saturating_sub(self.batch.rows() as u64)
    }
}
