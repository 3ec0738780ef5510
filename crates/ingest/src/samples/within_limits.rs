//! Applies the tenant's limits to samples that no push sent, such as those of a scrape.

use sandur_model::{Labels, MetricLimits, SampleBatch};

use super::decoded::{DecodedSamples, Written};
use super::labels_check::{check_limits, is_within};
use super::name_cache::KnownName;
use super::series_cache::KnownSeries;
use crate::refused::{Cause, Refused};

impl DecodedSamples {
    /// Returns the series of a batch whose labels are within the tenant's limits; the others are refused.
    pub fn within(batch: SampleBatch, limits: &MetricLimits) -> Self {
        let written = Written {
            samples: batch.timestamps.len() as u64,
            histograms: batch.histograms.len() as u64,
            exemplars: batch.exemplars.len() as u64,
            metadata: batch.metadata.len() as u64,
        };
        let mut beyond = Vec::new();
        let mut refused = Refused::default();
        for (position, series) in (0u32..).zip(&batch.series) {
            let labels = series.labels.shared();
            // Reading the counts is cheap, and nearly all series pass.
            if is_within(&KnownName::of(series.id, labels), limits) {
                continue;
            }
            let Err((reason, text)) = check_limits(&KnownSeries::new(Labels::clone(labels)), limits) else {
                continue;
            };
            beyond.push(position);
            let rows = series.samples.len() + series.histograms.len();
            refused.count(reason, rows as u64, 0);
            refused.report(Cause { reason, stream: series.id, number: 0 }, || text);
        }
        let mut decoded = Self { batch, refused, written, deltas: Vec::new(), lines: Vec::new() };
        if !beyond.is_empty() {
            decoded.leave_out(&beyond);
        }
        decoded
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sandur_model::TenantId;

    use super::*;

    #[test]
    fn series_beyond_the_limits_are_refused_and_reported() {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        let many: Vec<(String, String)> = (0..9).map(|n| (format!("l{n}"), "v".to_owned())).collect();
        let name = ("__name__".to_owned(), "a".to_owned());
        let long = [name.clone(), ("b".to_owned(), "x".repeat(50))];
        batch.push(Arc::new(Labels::from_pairs([name.clone()])), [(1, 1.0)]);
        batch.push(Arc::new(Labels::from_pairs(many.into_iter().chain([name]))), [(1, 2.0)]);
        batch.push(Arc::new(Labels::from_pairs(long)), [(1, 3.0)]);
        let limits = MetricLimits {
            max_label_names_per_series: 5,
            max_label_value_length: 10,
            ..MetricLimits::default()
        };
        let decoded = DecodedSamples::within(batch, &limits);
        assert_eq!(decoded.batch.values, [1.0]);
        assert_eq!(decoded.written.samples, 1);
        let reasons: Vec<_> = decoded.refused.by_reason().map(|(reason, n, _)| (reason.name(), n)).collect();
        assert_eq!(reasons, [("max_label_names_per_series", 1), ("label_value_too_long", 1)]);
        let text = decoded.refused.text().unwrap();
        assert!(text.contains("limits.metrics.max_label_names_per_series"), "{text}");
    }
}
