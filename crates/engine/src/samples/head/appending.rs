//! Appends the samples of a batch, series by series, and records the outcome of each sample.
//!
//! **Invariant.** Of an instant the first sample stays, in the order of frames. If this head or an
//! earlier head of the same writer has a sample of the instant, a new one is left out: as a copy if it
//! is equal, otherwise as a conflict. In series whose last sample stays every sample is appended.

use std::sync::Arc;

use sandur_model::{SampleBatch, SampleConflict, SampleConflicts, SeriesSamples};

use super::rows::{Appended, FloatRow, NewValue, SeriesRows};
use super::tenant::TenantSamples;
use super::versions::Counting;

/// The result of appending.
#[derive(Clone, Default)]
pub(super) struct Taken {
    /// Number of appended samples.
    pub(super) appended: u64,
    /// Number of samples of which the series already had an equal one.
    pub(super) copies: u64,
    /// Samples that were left out because the series has another value.
    pub(super) conflicts: SampleConflicts,
    /// Bytes by which memory grew.
    pub(super) grown: u64,
}

/// Appends samples of one frame.
pub(super) struct Appender<'a> {
    frame: u32,
    batch: &'a SampleBatch,
    /// The tenant's samples in earlier heads that overlap the batch in time.
    earlier: &'a [Arc<TenantSamples>],
    pub(super) taken: Taken,
    pub(super) counting: Counting,
}

impl<'a> Appender<'a> {
    /// An appender without results. `earlier` are the tenant's samples in earlier heads.
    pub(super) fn new(frame: u32, batch: &'a SampleBatch, earlier: &'a [Arc<TenantSamples>]) -> Self {
        Self { frame, batch, earlier, taken: Taken::default(), counting: Counting::default() }
    }

    /// Appends the samples of the series at a position of the batch.
    #[inline]
    pub(super) fn series(&mut self, position: u32, series: &SeriesSamples, rows: &mut SeriesRows) {
        let (frame, batch) = (self.frame, self.batch);
        let earlier = self.in_earlier(series, rows);
        let first = series.samples.start as usize;
        for (n, (time_ms, value)) in batch.samples_of(series).enumerate() {
            let start_ms = batch.start_of(first + n);
            let repeated = repeats(&earlier, (time_ms, NewValue::Float(value)));
            match repeated.unwrap_or_else(|| rows.append(FloatRow { frame, time_ms, value, start_ms })) {
                Appended::New { grown } => self.note_new(time_ms, grown),
                Appended::Copy => self.taken.copies += 1,
                Appended::Conflict { known } => {
                    self.note_conflict((position, series), time_ms, (known, Some(value)));
                }
            }
        }
        for sample in batch.histograms_of(series) {
            let time_ms = sample.timestamp;
            let repeated = repeats(&earlier, (time_ms, NewValue::Histogram(sample)));
            match repeated.unwrap_or_else(|| rows.append_histogram(frame, sample)) {
                Appended::New { grown } => self.note_new(time_ms, grown),
                Appended::Copy => self.taken.copies += 1,
                Appended::Conflict { known } => {
                    self.note_conflict((position, series), time_ms, (known, None));
                }
            }
        }
    }

    /// The earlier heads that have the series, with its number there.
    #[inline]
    fn in_earlier(&self, series: &SeriesSamples, rows: &SeriesRows) -> Vec<(&'a TenantSamples, u32)> {
        if self.earlier.is_empty() || rows.last_wins() {
            return Vec::new();
        }
        let found = self.earlier.iter().map(|of| Some((&**of, of.number_of_series(series.id)?)));
        found.flatten().collect()
    }

    #[inline]
    fn note_new(&mut self, time_ms: i64, grown: u64) {
        self.taken.appended += 1;
        self.taken.grown += grown;
        self.counting.add(time_ms);
    }

    #[cold]
    fn note_conflict(
        &mut self,
        (position, series): (u32, &SeriesSamples),
        timestamp: i64,
        (stored, refused): (Option<f64>, Option<f64>),
    ) {
        let conflict = || SampleConflict { labels: series.labels.clone(), timestamp, stored, refused };
        self.taken.conflicts.add(position, conflict, refused.is_none());
    }
}

/// Compares a new sample with that of an earlier head at the same instant.
#[inline]
fn repeats(earlier: &[(&TenantSamples, u32)], sample: (i64, NewValue<'_>)) -> Option<Appended> {
    earlier.iter().find_map(|(tenant, number)| tenant.repeats(*number, sample))
}
