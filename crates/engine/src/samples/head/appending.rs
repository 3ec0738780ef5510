//! Appends the samples of a batch, series by series, and records the outcome of each sample.
//!
//! **Invariant.** Of an instant the first sample stays, in the order of frames. If this head or an
//! earlier head of the same writer has a sample of the instant, a new one is left out: as a copy if it
//! is equal, otherwise as a conflict. In series whose last sample stays every sample is appended.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use sandur_model::{Labels, SampleBatch, SampleConflict, SampleConflicts, SeriesSamples, StreamId};

use crate::arrivals::Counting;
use crate::samples::SAMPLE_BYTES;

use super::rows::{Appended, FloatRow, NewValue, SeriesRows};
use super::table::SEGMENT;
use super::tenant::{TenantSamples, has_samples};

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
        self.counting.add_ms(time_ms, SAMPLE_BYTES);
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

impl TenantSamples {
    /// Appends the samples of a batch, except those that the same tenant has in earlier heads.
    pub(super) fn append(&self, frame: u32, batch: &SampleBatch, earlier: &[Arc<TenantSamples>]) -> Taken {
        let (first_ms, last_ms) = self.widen(batch);
        let touches = |of: &&Arc<TenantSamples>| {
            of.bounds_ms().is_some_and(|(first, last)| first <= last_ms && first_ms <= last)
        };
        let earlier: Vec<Arc<TenantSamples>> = earlier.iter().filter(touches).cloned().collect();
        let (numbers, grown) = self.numbers(batch);
        let mut appender = Appender::new(frame, batch, &earlier);
        let table = self.table();
        let mut locked: Option<(usize, MutexGuard<'_, Vec<SeriesRows>>)> = None;
        for ((position, series), number) in (0u32..).zip(&batch.series).zip(numbers) {
            if !has_samples(series) {
                continue;
            }
            let (segment, at) = (number as usize / SEGMENT, number as usize % SEGMENT);
            let mut rows = match locked.take() {
                Some((same, rows)) if same == segment => rows,
                other => {
                    // Releases the previous lock first: readers also take one lock at a time.
                    drop(other);
                    table.rows(segment)
                }
            };
            appender.series(position, series, &mut rows[at]);
            if !earlier.is_empty() && rows[at].len() == 0 {
                // All of its samples are in earlier heads.
                self.has_bare.store(true, Ordering::Release);
            }
            locked = Some((segment, rows));
        }
        drop(locked);
        drop(table);
        self.is_naming.store(false, Ordering::Release);
        let Appender { mut taken, counting, .. } = appender;
        taken.grown += grown;
        self.count(counting);
        taken
    }

    /// Appends floats and histograms of one series from another head.
    pub(super) fn append_rows(
        &self,
        (id, labels): (StreamId, &Labels),
        append: impl FnOnce(&mut SeriesRows, &mut dyn FnMut(i64, Appended)),
    ) -> Taken {
        let (number, grown) = self.intern(id, labels);
        let (mut taken, mut counting) = (Taken { grown, ..Taken::default() }, Counting::default());
        let (mut first_ms, mut last_ms) = (i64::MAX, i64::MIN);
        {
            let table = self.table();
            let mut rows = table.rows(number as usize / SEGMENT);
            append(&mut rows[number as usize % SEGMENT], &mut |time_ms, appended| {
                if let Appended::New { grown } = appended {
                    (taken.appended, taken.grown) = (taken.appended + 1, taken.grown + grown);
                    counting.add_ms(time_ms, SAMPLE_BYTES);
                    (first_ms, last_ms) = (first_ms.min(time_ms), last_ms.max(time_ms));
                }
            });
        }
        self.widen_to(first_ms, last_ms);
        self.count(counting);
        taken
    }
}
