//! Splits the samples of one scrape into batches small enough for one push each, however many series the
//! target has.
//!
//! **Invariants.** The bytes are known before a sample is added ([`Batches::bytes_with_one_more`]). The
//! last batch has the descriptions of metrics, and what is added last: the report about the target.

use std::sync::Arc;

use sandur_model::{Exemplar, Labels, MetricMetadata, SampleBatch, Span, StreamId, TenantId};

/// The largest number of series of a batch: a push of this many new series uses some megabytes.
const SERIES_MAX: usize = 2_000;
/// The largest number of bytes of labels of a batch.
const LABEL_BYTES_MAX: usize = 1 << 20;
/// Bytes of a sample in a batch.
const SAMPLE_BYTES: u64 = 128;
/// Bytes of an exemplar, and of each of its labels, without texts.
const EXEMPLAR_BYTES: u64 = 128;
const EXEMPLAR_LABEL_BYTES: u64 = 64;

/// The batches of one scrape.
pub(crate) struct Batches {
    full: Vec<SampleBatch>,
    open: SampleBatch,
    /// Bytes of the labels of the open batch.
    label_bytes: usize,
    samples: u64,
    /// Bytes of everything other than samples.
    other_bytes: u64,
}

impl Batches {
    pub(crate) fn of(tenant: &TenantId) -> Self {
        let open = SampleBatch::new(tenant.clone());
        Self { full: Vec::new(), open, label_bytes: 0, samples: 0, other_bytes: 0 }
    }

    /// Adds a sample.
    pub(crate) fn push(&mut self, id: StreamId, labels: Arc<Labels>, (time_ms, value): (i64, f64)) {
        self.label_bytes += labels.text_bytes();
        let is_full = self.open.series.len() >= SERIES_MAX || self.label_bytes > LABEL_BYTES_MAX;
        if is_full && !self.open.series.is_empty() {
            let next = SampleBatch::new(self.open.tenant.clone());
            self.full.push(std::mem::replace(&mut self.open, next));
            self.label_bytes = labels.text_bytes();
        }
        self.open.begin_series(id, labels, Span::default());
        self.open.push_sample(time_ms, value);
        self.samples += 1;
    }

    /// Adds an exemplar for the sample that was added last.
    pub(crate) fn push_exemplar(&mut self, exemplar: Exemplar) {
        let Exemplar { labels, .. } = &exemplar;
        self.other_bytes += EXEMPLAR_BYTES + labels.text_bytes() as u64;
        self.other_bytes += labels.len() as u64 * EXEMPLAR_LABEL_BYTES;
        self.open.push_exemplar(exemplar);
    }

    /// Adds descriptions of metrics, whose bytes were counted with [`Batches::add_bytes`].
    pub(crate) fn describe(&mut self, metadata: Vec<MetricMetadata>) {
        self.open.metadata = metadata;
    }

    /// Counts bytes of something other than samples.
    pub(crate) fn add_bytes(&mut self, bytes: u64) {
        self.other_bytes += bytes;
    }

    /// Returns the bytes of all batches with one more sample.
    pub(crate) fn bytes_with_one_more(&self) -> u64 {
        (self.samples + 1) * SAMPLE_BYTES + self.other_bytes
    }

    /// Returns the batches in order.
    pub(crate) fn into_vec(mut self) -> Vec<SampleBatch> {
        self.full.push(self.open);
        self.full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_no_larger_than_one_push_may_be() {
        let mut batches = Batches::of(&TenantId::default_tenant());
        let mut add = |name: &str| {
            let labels = Arc::new(Labels::from_pairs([("__name__", name)]));
            batches.push(labels.stream_id(), labels, (1, 1.0));
        };
        (0..SERIES_MAX + 1).for_each(|n| add(&format!("a{n}")));
        let long = "x".repeat(LABEL_BYTES_MAX);
        add(&long);
        add(&long);
        let pieces = batches.into_vec();
        let series: Vec<usize> = pieces.iter().map(|piece| piece.series.len()).collect();
        assert_eq!(series, [SERIES_MAX, 1, 1, 1]);
        assert!(pieces.iter().all(|piece| piece.rows() == piece.series.len()));
    }
}
