//! Selected series of a head.

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::RandomState;
use roaring::RoaringBitmap;
use sandur_model::{Labels, StreamId};
use sandur_query::JoinedLabels;

use super::columns::{SampleColumns, Wanted};
use super::rows::{SeriesParts, SeriesRows};
use super::stamps::FrameStamps;
use super::table::Snapshot;
use super::tenant::TenantSamples;

/// Series of a head, in the order of blocks.
#[derive(Default)]
pub struct SelectedSeries {
    pub(super) series: Vec<u32>,
    pub(super) snapshot: Snapshot,
    pub(super) stamps: FrameStamps,
}

/// Series of a head in no order, for queries of labels alone.
#[derive(Default)]
pub struct MatchingSeries {
    pub(super) series: RoaringBitmap,
    pub(super) snapshot: Snapshot,
    pub(super) tenant: Option<Arc<TenantSamples>>,
}

impl SelectedSeries {
    /// The number of series.
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Whether there are no series.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// The identity of a series.
    pub fn id(&self, at: usize) -> StreamId {
        self.snapshot.id(self.series[at])
    }

    /// The labels of a series, by name, without building a label set.
    pub fn pairs(&self, at: usize) -> impl Iterator<Item = (&str, &str)> + Clone {
        self.snapshot.texts_of(self.series[at])
    }

    /// The labels of a series, by name, as numbers of their texts ([`SelectedSeries::text`]).
    pub fn numbers(&self, at: usize) -> impl ExactSizeIterator<Item = (u32, u32)> + Clone + '_ {
        self.snapshot.pairs(self.series[at])
    }

    /// The text with this number. Equal texts of the same head have the same number.
    pub fn text(&self, number: u32) -> &str {
        self.snapshot.texts.get(number)
    }

    /// The labels of a series.
    pub fn labels(&self, at: usize) -> Labels {
        self.snapshot.labels(self.series[at])
    }

    fn look<T>(&self, at: usize, look: impl FnOnce(&SeriesRows) -> T) -> T {
        let (segment, place) = self.snapshot.place(self.series[at]);
        look(&segment.rows()[place])
    }

    /// Number of samples of a series. In series with a path, counts all samples of an instant.
    pub fn rows(&self, at: usize) -> usize {
        self.look(at, SeriesRows::len)
    }

    /// Earliest and latest time of a series, in milliseconds.
    pub fn bounds_ms(&self, at: usize) -> Option<(i64, i64)> {
        self.look(at, SeriesRows::bounds_ms)
    }

    /// The samples of a series between these milliseconds, both inclusive, by time, one of each instant.
    /// Also returns the number of samples that were left out. The samples have their stamps only if that is
    /// requested.
    pub fn samples(&self, at: usize, times_ms: (i64, i64), stamps: Wanted) -> (SampleColumns, u64) {
        let wanted = self.wanted(stamps);
        let (columns, left_out) = self.look(at, SeriesRows::copy).columns(times_ms, wanted);
        (self.stamped(columns, wanted), left_out)
    }

    /// Whether its samples have stamps.
    pub fn have_stamps(&self) -> bool {
        !self.stamps.is_empty()
    }

    /// Stamps are looked for only if the reader needs them and there are some.
    fn wanted(&self, stamps: Wanted) -> Wanted {
        match stamps {
            Wanted::Yes if self.have_stamps() => Wanted::Yes,
            _ => Wanted::No,
        }
    }

    fn stamped(&self, mut columns: SampleColumns, wanted: Wanted) -> SampleColumns {
        if wanted == Wanted::No {
            return columns;
        }
        columns.stamps = self.stamps.of(columns.frames.drain(..));
        columns.histogram_stamps = self.stamps.of(columns.histogram_frames.drain(..));
        columns
    }

    /// The parts of a series of a sealed head, by which some of its samples are read without the others;
    /// `None` if they are not worth it.
    pub fn parts(&self, at: usize) -> Option<SeriesParts> {
        self.look(at, SeriesRows::parts)
    }

    /// Does the same as [`SelectedSeries::samples`], and reads only the necessary parts.
    pub fn samples_of(
        &self,
        at: usize,
        parts: &SeriesParts,
        times_ms: (i64, i64),
        stamps: Wanted,
    ) -> (SampleColumns, u64) {
        let wanted = self.wanted(stamps);
        let (columns, left_out) = self.look(at, |rows| rows.columns_of(parts, times_ms, wanted));
        (self.stamped(columns, wanted), left_out)
    }
}

impl MatchingSeries {
    /// The number of series.
    pub fn len(&self) -> usize {
        self.series.len() as usize
    }

    /// Whether there are no series.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// The number of a series in the head.
    fn number(&self, at: usize) -> u32 {
        self.series.select(at as u32).unwrap_or_default()
    }

    /// The identity of a series.
    pub fn id(&self, at: usize) -> StreamId {
        self.snapshot.id(self.number(at))
    }

    /// The labels of a series.
    pub fn labels(&self, at: usize) -> Labels {
        self.snapshot.labels(self.number(at))
    }

    /// The label names of the series, each once, in any order.
    pub fn label_names(&self) -> impl Iterator<Item = &str> {
        let names = self.tenant.as_ref().map(|tenant| tenant.names_of(&self.series));
        names.into_iter().flatten().map(|name| self.snapshot.texts.get(name))
    }

    /// The values of a label of the series, each once, in any order.
    pub fn label_values(&self, name: &str) -> impl Iterator<Item = &str> + use<'_> {
        let values = self.tenant.as_ref().map(|tenant| tenant.values_of(&self.snapshot, name, &self.series));
        values.into_iter().flatten().map(|value| self.snapshot.texts.get(value))
    }
}

/// Combinations of the values of several labels in series of a head.
#[derive(Default)]
pub struct JoinedValues {
    snapshot: Snapshot,
    /// Number of values in a combination.
    width: usize,
    /// Numbers of the texts, one combination after the other.
    numbers: Vec<u32>,
}

impl JoinedValues {
    pub(super) fn new(snapshot: Snapshot, width: usize, numbers: Vec<u32>) -> Self {
        Self { snapshot, width, numbers }
    }

    /// The values of each combination.
    pub fn iter(&self) -> impl Iterator<Item = impl Iterator<Item = &str> + Clone> {
        let text = |number: &u32| self.snapshot.texts.get(*number);
        self.numbers.chunks_exact(self.width.max(1)).map(move |of| of.iter().map(text))
    }

    /// Bytes that it takes.
    pub fn memory_bytes(&self) -> u64 {
        (self.numbers.capacity() * 4 + size_of::<Self>()) as u64
    }
}

impl MatchingSeries {
    /// Distinct combinations of the values of several labels, at most one more than the limit.
    pub fn joined_values(self, wanted: &JoinedLabels) -> JoinedValues {
        let number = |label: &String| self.tenant.as_ref()?.number_of(label);
        let Some(names) = wanted.labels.iter().map(number).collect::<Option<Vec<u32>>>() else {
            return JoinedValues::default();
        };
        let mut found: HashSet<Box<[u32]>, RandomState> = HashSet::default();
        let (mut numbers, mut values) = (Vec::new(), Vec::with_capacity(names.len()));
        for series in &self.series {
            // The result of a stopped job is not used.
            if found.len() > wanted.limit || sandur_memory::job::spend(names.len()).is_err() {
                break;
            }
            values.clear();
            values.extend(names.iter().map_while(|name| self.snapshot.value(series, *name)));
            let is_new = values.len() == names.len() && !numbers.ends_with(&values);
            if is_new && !found.contains(values.as_slice()) {
                found.insert(values.clone().into_boxed_slice());
                numbers.extend_from_slice(&values);
            }
        }
        JoinedValues::new(self.snapshot, names.len(), numbers)
    }
}

/// The sorted values of a label in series of a head.
pub struct SortedValues {
    snapshot: Snapshot,
    /// The numbers of the texts.
    values: Vec<u32>,
}

impl MatchingSeries {
    /// The sorted values of a label of the series.
    pub fn sorted_values(self, name: &str) -> SortedValues {
        let of = self.tenant.as_ref().map(|tenant| tenant.values_of(&self.snapshot, name, &self.series));
        SortedValues::new(self.snapshot, of.unwrap_or_default())
    }
}

impl SortedValues {
    /// Sorts values and drops duplicates.
    pub(super) fn new(snapshot: Snapshot, mut values: Vec<u32>) -> Self {
        values.sort_unstable();
        values.dedup();
        values.sort_unstable_by(|a, b| snapshot.texts.get(*a).cmp(snapshot.texts.get(*b)));
        Self { snapshot, values }
    }

    /// The values from this position on.
    pub fn iter(&self, from: usize) -> impl Iterator<Item = &str> {
        self.values[from..].iter().map(|value| self.snapshot.texts.get(*value))
    }

    /// Bytes that it takes.
    pub fn memory_bytes(&self) -> u64 {
        (self.values.capacity() * 4 + size_of::<Self>()) as u64
    }
}
