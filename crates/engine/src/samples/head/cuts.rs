//! Cuts a batch of samples into parts with bounded memory.
//!
//! [`push_bytes`](super::push_bytes) reads no texts and counts every label as new, which is about twelve
//! times the memory of a usual batch of new series. Here each label of a part counts once, as in the
//! head. That requires reading all labels, so it is done only for batches that seem too large.

use std::collections::HashSet;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use sandur_model::{HistogramSample, LabelText, SampleBatch, SamplePlace, SeriesExemplar, SeriesSamples};

use super::annotations::{exemplar_bytes, metadata_bytes};
use super::memory::{FLOAT_BYTES, HISTOGRAM_BYTES, NAME_GROWTH, NEW_LABEL_BYTES, SHAPE_BYTES};
use super::paths::{END_BYTES, NODE_BYTES};
use super::postings::{ENTRY_BYTES, NAME_BYTES};
use super::symbols::SYMBOL_BYTES;
use super::table::{LABEL_BYTES, SERIES_BYTES};
use crate::path_labels::level_of;

/// Bytes of a label that other series have as well: its entries in the series, in the part and in the
/// WAL, and in a list of series with its spare capacity.
const KNOWN_LABEL_BYTES: u64 = LABEL_BYTES + 24;
/// Bytes of a label set that is made from a name, in addition to its text.
const MADE_LABELS_BYTES: u64 = 128;
/// Bytes of a sample's columns: in the part, and in its encoded form for the WAL.
const COLUMNS_BYTES: u64 = 24 + 24;
/// Bytes of a series in the part, and in its encoded form for the WAL.
const PART_SERIES_BYTES: u64 = size_of::<SeriesSamples>() as u64 + 32;
/// Bytes of a hash in a hash table with its spare capacity.
const HASH_BYTES: u64 = 20;

/// A part of a batch.
#[derive(Clone, Copy, Debug)]
pub struct SampleCut {
    /// Where it begins.
    pub from: SamplePlace,
    /// Where the next one begins.
    pub to: SamplePlace,
    /// Upper bound of its memory in bytes until it is in a head: the part, its encoded form for the WAL,
    /// and what the head keeps of it.
    pub bytes: u64,
}

/// Bytes of memory that [`cuts`] takes.
pub fn cutting_bytes(batch: &SampleBatch, most: u64) -> u64 {
    let labels: u64 = batch.series.iter().map(|series| series.labels.count() as u64 + 1).sum();
    (labels * 2 * HASH_BYTES).min(most / 8)
}

/// Cuts a batch into parts of at most `most` bytes. Only a part with a single sample takes more.
pub fn cuts(batch: &SampleBatch, most: u64) -> Vec<SampleCut> {
    let mut cutter = Cutter {
        batch,
        most,
        seen: HashSet::default(),
        seen_max: (most / 8 / HASH_BYTES) as usize,
        hasher: RandomState::default(),
        from: SamplePlace::default(),
        at: SamplePlace::default(),
        bytes: 0,
        has_items: false,
        cuts: Vec::new(),
    };
    for metadata in &batch.metadata {
        cutter.take(2 * metadata_bytes(metadata) + metadata.memory_bytes(), None);
        cutter.at.metadata += 1;
    }
    for series in &batch.series {
        cutter.series(series);
        cutter.at.series += 1;
    }
    cutter.cut();
    cutter.cuts
}

struct Cutter<'a> {
    batch: &'a SampleBatch,
    most: u64,
    /// Hashes of labels and label names that the part already has.
    seen: HashSet<u64, RandomState>,
    seen_max: usize,
    hasher: RandomState,
    from: SamplePlace,
    at: SamplePlace,
    bytes: u64,
    has_items: bool,
    cuts: Vec<SampleCut>,
}

impl Cutter<'_> {
    fn series(&mut self, series: &SeriesSamples) {
        let batch = self.batch;
        let at = self.at.series;
        let exemplars = batch.exemplars[self.at.exemplars..].iter();
        let exemplars: Vec<&SeriesExemplar> = exemplars.take_while(|of| of.series as usize == at).collect();
        if series.samples.is_empty() && series.histograms.is_empty() && exemplars.is_empty() {
            return;
        }
        let naming = self.naming_bytes(series);
        if self.has_items && self.bytes + naming + FLOAT_BYTES + COLUMNS_BYTES > self.most {
            self.cut();
            self.bytes = self.naming_bytes(series);
        } else {
            self.bytes += naming;
        }
        for _ in series.samples.clone() {
            self.take(FLOAT_BYTES + COLUMNS_BYTES, Some(series));
            self.at.floats += 1;
        }
        for sample in batch.histograms_of(series) {
            let fixed = HISTOGRAM_BYTES + COLUMNS_BYTES + size_of::<HistogramSample>() as u64;
            self.take(fixed + 4 * sample.histogram.memory_bytes(), Some(series));
            self.at.histograms += 1;
        }
        for of in exemplars {
            self.take(3 * exemplar_bytes(&of.exemplar), Some(series));
            self.at.exemplars += 1;
        }
    }

    /// Adds an item of an open series to the part, or begins the next part with it.
    fn take(&mut self, bytes: u64, series: Option<&SeriesSamples>) {
        if self.has_items && self.bytes + bytes > self.most {
            self.cut();
            self.bytes = series.map_or(0, |series| self.naming_bytes(series));
        }
        self.bytes += bytes;
        self.has_items = true;
    }

    fn cut(&mut self) {
        if self.has_items {
            let Self { from, at, bytes, .. } = *self;
            self.cuts.push(SampleCut { from, to: at, bytes });
        }
        (self.from, self.bytes, self.has_items) = (self.at, 0, false);
        self.seen.clear();
    }

    /// Bytes of a series in addition to its samples, with the labels that are new in the part.
    fn naming_bytes(&mut self, series: &SeriesSamples) -> u64 {
        let fixed = SERIES_BYTES + END_BYTES + PART_SERIES_BYTES;
        if self.batch.label_text == LabelText::Names {
            // Making the labels of all names at once would take more memory than the batch.
            let labels = series.labels.count() as u64 * NEW_LABEL_BYTES + MADE_LABELS_BYTES;
            return fixed + SHAPE_BYTES + labels + u64::from(series.text.len) * 3 * NAME_GROWTH;
        }
        let (mut bytes, mut names) = (fixed, 0u64);
        for (name, value) in series.labels.iter() {
            bytes += KNOWN_LABEL_BYTES;
            let (of_name, of_label) = (self.hasher.hash_one(name), self.hasher.hash_one((name, value)));
            names = self.hasher.hash_one((names, of_name));
            if self.is_new(of_name) {
                bytes += SYMBOL_BYTES + NAME_BYTES + 2 * name.len() as u64;
            }
            if self.is_new(of_label) {
                bytes += SYMBOL_BYTES + ENTRY_BYTES + 2 * value.len() as u64;
            }
            if level_of(name).is_some() {
                bytes += NODE_BYTES;
            }
        }
        if self.is_new(names) {
            bytes += SHAPE_BYTES + series.labels.len() as u64 * 2 * LABEL_BYTES;
        }
        bytes
    }

    /// Whether the part does not have this hash yet. Hashes beyond the memory for them count as new.
    fn is_new(&mut self, hash: u64) -> bool {
        match self.seen.len() < self.seen_max {
            true => self.seen.insert(hash),
            false => !self.seen.contains(&hash),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use sandur_base::Id;
    use sandur_format::wal_segment::Record;
    use sandur_memory::MemoryBudget;
    use sandur_model::{Exemplar, FloatHistogram, Labels, MetricMetadata, TenantId};

    use super::super::{SampleHead, push_bytes};
    use super::*;

    /// Series with ten labels, `own` of which have values of their own.
    fn batch(series: usize, own: usize, samples: i64) -> SampleBatch {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        for n in 0..series {
            let labels = (0..10).map(|label| {
                let value =
                    if label < own { format!("value-{n:08}-{label}") } else { format!("value-{label}") };
                (format!("label{label}"), value)
            });
            batch.push(Arc::new(Labels::from_pairs(labels)), (0..samples).map(|at| (at * 1_000, n as f64)));
        }
        batch
    }

    /// Bytes that a part and a new head actually take.
    fn taken(part: &SampleBatch) -> u64 {
        let record = Record::of_samples(part).unwrap();
        let memory = MemoryBudget::root("test", u64::MAX).reserve(1 << 40).unwrap();
        let head = SampleHead::new(Id(1), 0);
        head.insert(0, part, memory);
        part.memory_bytes() + record.frame_bytes() as u64 + head.totals().memory_bytes
    }

    #[test]
    fn labels_that_series_share_count_once() {
        let (usual, most) = (batch(10_000, 2, 1), 1 << 40);
        let cut = cuts(&usual, most);
        assert_eq!(cut.len(), 1);
        assert!(cut[0].bytes < push_bytes(&usual) / 3, "{} of {}", cut[0].bytes, push_bytes(&usual));
        assert!(cut[0].bytes >= taken(&usual), "{} of {}", cut[0].bytes, taken(&usual));
    }

    #[test]
    fn a_series_with_more_samples_than_a_part_is_cut_too() {
        let one = batch(1, 10, 10_000);
        let cut = cuts(&one, 64 << 10);
        assert!(cut.len() > 4);
        let parts: Vec<SampleBatch> = cut.iter().map(|cut| one.part(&cut.from, &cut.to)).collect();
        let times: Vec<i64> = parts.iter().flat_map(|part| part.timestamps.clone()).collect();
        assert_eq!(times, one.timestamps);
    }

    #[test]
    fn a_sample_that_exceeds_the_bound_is_a_part_alone() {
        let one = batch(2, 10, 1);
        let cut = cuts(&one, 100);
        assert_eq!(cut.len(), 2);
        assert!(cut.iter().all(|cut| cut.bytes > 100));
    }

    proptest! {
        #[test]
        fn parts_take_at_most_their_bound_and_make_up_the_batch(
            (series, own, samples) in (1..60usize, 0..=10usize, 0..20i64),
            (exemplars, histograms) in (0..3usize, 0..3i64),
            most in 1_000..200_000u64,
        ) {
            let mut batch = batch(series, own, samples);
            for n in 0..exemplars {
                let labels = Labels::from_pairs([("trace", format!("{n}"))]);
                batch.push_exemplar(Exemplar { labels, value: 1.0, timestamp: 5 });
            }
            for timestamp in 0..histograms {
                let histogram = Arc::new(FloatHistogram::default());
                let timestamp = 1_000_000 + timestamp;
                batch.push_histogram(HistogramSample { timestamp, start: 0, integer: false, histogram });
            }
            batch.metadata.push(MetricMetadata { family: "up".into(), ..MetricMetadata::default() });
            let cuts = cuts(&batch, most);
            let (mut rows, mut annotations, mut from) = (0, 0, SamplePlace::default());
            for cut in &cuts {
                let part = batch.part(&cut.from, &cut.to);
                prop_assert_eq!(cut.from, from);
                prop_assert!(taken(&part) <= cut.bytes, "{} of {}", taken(&part), cut.bytes);
                rows += part.rows();
                annotations += part.exemplars.len() + part.metadata.len();
                from = cut.to;
            }
            let expected = batch.exemplars.len() + batch.metadata.len();
            prop_assert_eq!((rows, annotations), (batch.rows(), expected));
        }
    }
}
