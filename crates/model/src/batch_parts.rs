//! Splits a batch: makes a new batch of the data between two places.
//!
//! A batch that is too large for one step is stored in parts.
//!
//! **Invariants.** Parts between consecutive places contain every entry, sample, exemplar and metadata
//! of the batch once and in order. A part shares no text with its batch, so that either can be dropped
//! alone.

use std::collections::HashMap;
use std::ops::Range;

use crate::arena::{Arena, Span};
use crate::batch::{LogBatch, StreamEntries};
use crate::samples::{SampleBatch, SeriesSamples};

/// A place in a batch of samples: how much of each column precedes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SamplePlace {
    /// Position of the series that the place is in or before.
    pub series: usize,
    /// Float samples before the place.
    pub floats: usize,
    /// Histograms before the place.
    pub histograms: usize,
    /// Exemplars before the place.
    pub exemplars: usize,
    /// Metadata before the place.
    pub metadata: usize,
}

/// A place in a batch of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryPlace {
    /// Position of the stream that the place is in or before.
    pub stream: usize,
    /// Entries of that stream before the place.
    pub entry: usize,
}

/// The part of `range` that is within `from..to`.
fn between(range: &Range<u32>, from: usize, to: usize) -> Range<usize> {
    let start = (range.start as usize).max(from);
    start..(range.end as usize).min(to).max(start)
}

impl SampleBatch {
    /// Positions of the series that have data between two places.
    pub fn series_between<'a>(
        &'a self,
        from: &'a SamplePlace,
        to: &'a SamplePlace,
    ) -> impl Iterator<Item = usize> + 'a {
        let exemplars = &self.exemplars[from.exemplars..to.exemplars];
        (from.series..self.series.len().min(to.series + 1)).filter(move |at| {
            let series = &self.series[*at];
            !between(&series.samples, from.floats, to.floats).is_empty()
                || !between(&series.histograms, from.histograms, to.histograms).is_empty()
                || exemplars.binary_search_by_key(at, |of| of.series as usize).is_ok()
        })
    }

    /// The data between two places, without arena: the columns contain everything.
    pub fn part(&self, from: &SamplePlace, to: &SamplePlace) -> Self {
        let mut part = Self::new(self.tenant.clone());
        part.metadata.extend_from_slice(&self.metadata[from.metadata..to.metadata]);
        part.timestamps.reserve_exact(to.floats - from.floats);
        part.values.reserve_exact(to.floats - from.floats);
        let mut exemplars = self.exemplars[from.exemplars..to.exemplars].iter().peekable();
        for at in self.series_between(from, to) {
            let series = &self.series[at];
            let rows = between(&series.samples, from.floats, to.floats);
            let histograms = between(&series.histograms, from.histograms, to.histograms);
            let SeriesSamples { id, labels, .. } = series;
            part.begin_series(*id, labels.clone(), Span::default());
            for row in rows {
                part.push_sample(self.timestamps[row], self.values[row]);
                part.set_start(self.start_of(row));
            }
            self.histograms[histograms].iter().for_each(|sample| part.push_histogram(sample.clone()));
            while let Some(of) = exemplars.next_if(|of| of.series as usize == at) {
                part.push_exemplar(of.exemplar.clone());
            }
        }
        part
    }
}

impl LogBatch {
    /// The entries between two places. Copies their text; text that entries share is copied once.
    pub fn part(&self, from: EntryPlace, to: EntryPlace) -> Self {
        let mut copy = CopiedText { of: &self.arena.bytes, text: Vec::new(), places: HashMap::new() };
        let mut part = Self {
            tenant: self.tenant.clone(),
            arena: Arena::default(),
            metadata: Vec::new(),
            streams: Vec::new(),
        };
        let last = self.streams.len().min(to.stream + 1);
        for (at, stream) in self.streams.iter().enumerate().take(last).skip(from.stream) {
            let start = if at == from.stream { from.entry } else { 0 };
            let end = if at == to.stream { to.entry } else { stream.entries.len() };
            if start >= end {
                continue;
            }
            let mut entries = stream.entries[start..end].to_vec();
            for entry in &mut entries {
                let first = entry.metadata_start as usize;
                let pairs = &self.metadata[first..first + usize::from(entry.metadata_len)];
                entry.metadata_start = part.metadata.len() as u32;
                entry.line = copy.own(entry.line);
                part.metadata
                    .extend(pairs.iter().map(|(name, value)| (copy.shared(*name), copy.shared(*value))));
            }
            part.streams.push(StreamEntries { id: stream.id, labels: stream.labels.clone(), entries });
        }
        part.arena.bytes = copy.text.into();
        part
    }
}

/// Copies text from one arena to another.
struct CopiedText<'a> {
    of: &'a [u8],
    text: Vec<u8>,
    /// The new offset of each shared span (start and length) that was copied.
    places: HashMap<(u32, u32), u32>,
}

impl CopiedText<'_> {
    /// Copies a span.
    fn own(&mut self, piece: Span) -> Span {
        let start = self.text.len() as u32;
        self.text.extend_from_slice(piece.of(self.of));
        Span { start, len: piece.len }
    }

    /// Copies a span, or returns the copy that exists.
    fn shared(&mut self, piece: Span) -> Span {
        match self.places.get(&(piece.start, piece.len)) {
            Some(start) => Span { start: *start, len: piece.len },
            None => {
                let own = self.own(piece);
                self.places.insert((piece.start, piece.len), own.start);
                own
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        Exemplar, FloatHistogram, HistogramSample, Labels, Level, LogBatchBuilder, MetricMetadata, TenantId,
    };

    fn samples() -> SampleBatch {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        for n in 0..4i64 {
            let labels = Arc::new(Labels::from_pairs([("__name__", format!("m{n}"))]));
            batch.push(labels, (0..n).map(|at| (at, (n * 10 + at) as f64)));
            batch.set_start(n);
            let histogram = Arc::new(FloatHistogram::default());
            batch.push_histogram(HistogramSample { timestamp: n, start: 0, integer: false, histogram });
            batch.push_exemplar(Exemplar { labels: Labels::default(), value: 1.0, timestamp: n });
            batch
                .metadata
                .push(MetricMetadata { family: format!("m{n}").into(), ..MetricMetadata::default() });
        }
        batch
    }

    /// The contents of a batch of samples, one string per item, sorted.
    fn said(batch: &SampleBatch) -> Vec<String> {
        let mut all: Vec<String> = batch.metadata.iter().map(|of| format!("{of:?}")).collect();
        for (at, series) in batch.series.iter().enumerate() {
            for row in series.samples.clone() {
                let row = row as usize;
                let (time, value) = (batch.timestamps[row], batch.values[row]);
                all.push(format!("{} {time} {value} {}", series.labels, batch.start_of(row)));
            }
            let histograms = batch.histograms_of(series).iter();
            all.extend(histograms.map(|sample| format!("{} {}", series.labels, sample.timestamp)));
            let own = batch.exemplars.iter().filter(|of| of.series as usize == at);
            all.extend(own.map(|of| format!("{} # {}", series.labels, of.exemplar.timestamp)));
        }
        all.sort();
        all
    }

    #[test]
    fn two_parts_of_samples_equal_the_batch_at_every_cut() {
        let batch = samples();
        let end = SamplePlace { series: 4, floats: 6, histograms: 4, exemplars: 4, metadata: 4 };
        let mut places = vec![SamplePlace { metadata: 3, ..SamplePlace::default() }];
        for (series, of) in batch.series.iter().enumerate() {
            let place = |floats: u32, histograms, exemplars| SamplePlace {
                series,
                floats: floats as usize,
                histograms,
                exemplars,
                metadata: 4,
            };
            places.extend(of.samples.clone().map(|floats| place(floats, series, series)));
            places.push(place(of.samples.end, series + 1, series));
            places.push(place(of.samples.end, series + 1, series + 1));
        }
        for cut in places {
            let parts = [batch.part(&SamplePlace::default(), &cut), batch.part(&cut, &end)];
            let mut both = [said(&parts[0]), said(&parts[1])].concat();
            both.sort();
            assert_eq!(both, said(&batch), "{cut:?}");
        }
    }

    #[test]
    fn two_parts_of_entries_equal_the_batch_and_copy_shared_text_once() {
        let mut builder = LogBatchBuilder::new(TenantId::default_tenant());
        for app in ["a", "b"] {
            let labels = Arc::new(Labels::from_pairs([("app", app)]));
            for n in 0..3 {
                builder.row_with(&labels, n, format!("{app}{n}"), [("k", "v")], Level::Info);
            }
        }
        let mut batch = builder.build();
        // All entries share the same metadata text.
        let shared = batch.metadata[0];
        batch.metadata.fill(shared);
        let said = |batch: &LogBatch| -> Vec<String> {
            let rows =
                batch.streams.iter().flat_map(|stream| stream.entries.iter().map(move |e| (stream, e)));
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap_or_default();
            rows.map(|(stream, entry)| {
                let line = text(entry.line.of(&batch.arena.bytes));
                let pairs: Vec<_> =
                    batch.metadata_of(entry).map(|(name, value)| text(name) + &text(value)).collect();
                format!("{} {} {line} {pairs:?} {:?}", stream.labels, entry.timestamp, entry.level)
            })
            .collect()
        };
        let end = EntryPlace { stream: 2, entry: 0 };
        for (stream, entry) in (0..2).flat_map(|stream| (0..=3).map(move |entry| (stream, entry))) {
            let cut = EntryPlace { stream, entry };
            let parts = [batch.part(EntryPlace::default(), cut), batch.part(cut, end)];
            assert_eq!([said(&parts[0]), said(&parts[1])].concat(), said(&batch), "{cut:?}");
            assert!(parts.iter().all(|part| part.arena.bytes.len() <= 2 * part.rows() + 2));
        }
    }
}
