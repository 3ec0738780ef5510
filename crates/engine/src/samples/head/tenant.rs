//! The samples of one tenant in a head.
//!
//! There is one inserter at a time. It looks up series by their ids, in the order of the request, and
//! appends to one segment after the other. Only a new series takes the table's write lock, which blocks
//! readers.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use roaring::RoaringBitmap;
use sandur_model::{Labels, MatchOp, Matcher, SampleBatch, SeriesSamples, StreamId};

use crate::arrivals::{Arrivals, Counting};

use super::annotations::Annotations;
use super::matching::matching;
use super::order::KeptOrder;
use super::postings::Postings;
use super::rows::{Appended, NewValue, SeriesRows};
use super::table::{SEGMENT, SeriesTable, Snapshot};
use super::walk::Walk;

/// If at most this fraction of all series match, examining them is faster than walking the tree of paths.
const FEW_SHARE: usize = 4_096;

/// The samples of one tenant.
pub(super) struct TenantSamples {
    first_ms: AtomicI64,
    last_ms: AtomicI64,
    /// Bytes that the tenant takes.
    bytes: AtomicU64,
    /// Whether a series may have no sample here: only exemplars, or samples that earlier heads have as well.
    pub(super) has_bare: AtomicBool,
    /// Whether series were added whose first samples are still being appended.
    pub(super) is_naming: AtomicBool,
    table: RwLock<SeriesTable>,
    order: KeptOrder,
    arrivals: Mutex<Arrivals>,
    annotations: Mutex<Annotations>,
}

impl Default for TenantSamples {
    fn default() -> Self {
        Self {
            first_ms: AtomicI64::new(i64::MAX),
            last_ms: AtomicI64::new(i64::MIN),
            bytes: AtomicU64::new(0),
            has_bare: AtomicBool::new(false),
            is_naming: AtomicBool::new(false),
            table: RwLock::default(),
            order: KeptOrder::default(),
            arrivals: Mutex::default(),
            annotations: Mutex::default(),
        }
    }
}

impl TenantSamples {
    pub(super) fn table(&self) -> RwLockReadGuard<'_, SeriesTable> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The exemplars and metadata.
    pub(super) fn annotations(&self) -> MutexGuard<'_, Annotations> {
        self.annotations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of a series, and adds the series if it is new. Also returns the bytes that a
    /// new series takes.
    pub(super) fn intern(&self, id: StreamId, labels: &Labels) -> (u32, u64) {
        if let Some(number) = self.table().find(id, 0) {
            return (number, 0);
        }
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let before = table.bytes();
        let number = table.add(id, labels);
        (number, table.bytes() - before)
    }

    /// The same for a series that may have only exemplars.
    pub(super) fn intern_bare(&self, id: StreamId, labels: &Labels) -> (u32, u64) {
        let (number, grown) = self.intern(id, labels);
        if grown > 0 {
            self.has_bare.store(true, Ordering::Release);
        }
        (number, grown)
    }

    /// The numbers of the batch's series, in order; series without samples are not added. Also returns
    /// the bytes of new series.
    pub(super) fn numbers(&self, batch: &SampleBatch) -> (Vec<u32>, u64) {
        let (mut numbers, mut guess) = (Vec::with_capacity(batch.series.len()), 0);
        let (mut unknown, mut grown) = (Vec::new(), 0);
        {
            let table = self.table();
            for (at, series) in batch.series.iter().enumerate() {
                let found = table.find(series.id, guess).unwrap_or_else(|| {
                    unknown.push(at);
                    u32::MAX
                });
                guess = found.wrapping_add(1);
                numbers.push(found);
            }
        }
        for at in unknown.into_iter().filter(|at| has_samples(&batch.series[*at])) {
            self.is_naming.store(true, Ordering::Release);
            let SeriesSamples { id, labels, .. } = &batch.series[at];
            let (number, bytes) = self.intern(*id, labels);
            numbers[at] = number;
            grown += bytes;
        }
        (numbers, grown)
    }

    /// Marks the series of a batch that this tenant has.
    pub(super) fn mark_known(&self, batch: &SampleBatch, known: &mut [bool]) {
        let (table, mut guess) = (self.table(), 0);
        for (series, known) in batch.series.iter().zip(known) {
            if let Some(number) = table.find(series.id, guess) {
                *known = true;
                guess = number.wrapping_add(1);
            }
        }
    }

    /// The number of a series, if the tenant has it.
    pub(super) fn number_of_series(&self, id: StreamId) -> Option<u32> {
        self.table().find(id, 0)
    }

    /// Compares a new sample with the series' sample of the same instant; `None` if there is none.
    pub(super) fn repeats(&self, number: u32, (time_ms, new): (i64, NewValue<'_>)) -> Option<Appended> {
        let table = self.table();
        let rows = table.rows(number as usize / SEGMENT);
        rows[number as usize % SEGMENT].repeats(time_ms, new)
    }

    /// Widens the bounds to all samples of a batch, and returns the batch's first and last time. Called
    /// before the samples are appended: a reader that sees a sample also sees bounds that contain it.
    pub(super) fn widen(&self, batch: &SampleBatch) -> (i64, i64) {
        let histograms = batch.histograms.iter().map(|sample| sample.timestamp);
        let times = batch.timestamps.iter().copied().chain(histograms);
        let (first, last) =
            times.fold((i64::MAX, i64::MIN), |(first, last), time| (first.min(time), last.max(time)));
        self.widen_to(first, last);
        (first, last)
    }

    /// Widens the bounds to these times.
    pub(super) fn widen_to(&self, first_ms: i64, last_ms: i64) {
        self.first_ms.fetch_min(first_ms, Ordering::AcqRel);
        self.last_ms.fetch_max(last_ms, Ordering::AcqRel);
    }

    /// Counts appended samples. A reader that sees the count also sees the samples.
    pub(super) fn count(&self, counting: Counting) {
        self.arrivals().count(counting);
    }

    /// Adds to the bytes that the tenant takes.
    pub(super) fn note_grown(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The bytes that the tenant takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The number of series.
    pub(super) fn series(&self) -> usize {
        self.table().len()
    }

    /// First and last time of samples and exemplars, in milliseconds; `None` without any.
    pub(super) fn bounds_ms(&self) -> Option<(i64, i64)> {
        let (first, last) = (self.first_ms.load(Ordering::Acquire), self.last_ms.load(Ordering::Acquire));
        (first <= last).then_some((first, last))
    }

    /// The counts of samples by time slot.
    pub(super) fn arrivals(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A snapshot of all series.
    pub(super) fn snapshot(&self) -> Snapshot {
        self.table().snapshot()
    }

    /// The series that match all matchers and have samples between these milliseconds, both inclusive.
    pub(super) fn matching(&self, matchers: &[Matcher], times_ms: (i64, i64)) -> (Snapshot, RoaringBitmap) {
        let (snapshot, mut found) = matching(&self.table, matchers);
        // Read after the series were found: an inserter that is not adding series by now has appended
        // their samples.
        let may_be_empty = self.has_bare.load(Ordering::Acquire) || self.is_naming.load(Ordering::Acquire);
        if may_be_empty || !self.is_within(times_ms) {
            found = touching(&snapshot, &found, times_ms);
        }
        (snapshot, found)
    }

    /// The values of labels, as numbers in the order of `labels`, of series that match all matchers and
    /// have samples between these milliseconds. May stop soon after the limit. `None` if the tree of
    /// paths cannot answer this.
    pub(super) fn in_paths(
        &self,
        labels: &[String],
        matchers: &[Matcher],
        times_ms: (i64, i64),
        limit: usize,
    ) -> Option<(Snapshot, Vec<u32>)> {
        let walk = Walk::of(matchers, labels)?;
        // Some series may have no samples.
        if self.has_bare.load(Ordering::Acquire) || self.few_series(matchers).is_some() {
            return None;
        }
        let is_covered = || self.is_within(times_ms);
        let snapshot = self.snapshot();
        let tree = (&self.table, &snapshot);
        // Bounds are widened before a series is added, whose samples are then already durable.
        let covered = is_covered().then(|| walk.names(tree, None, limit)).filter(|_| is_covered());
        let names = covered.unwrap_or_else(|| walk.names(tree, Some(times_ms), limit));
        Some((snapshot, names))
    }

    /// An upper bound of the series, or nodes of the tree of paths, that are examined to find values of
    /// labels, unless it is larger than the number of series.
    pub(super) fn examined(&self, matchers: &[Matcher], times_ms: (i64, i64)) -> usize {
        let walk = Walk::of(matchers, &[]).filter(|_| !self.has_bare.load(Ordering::Acquire));
        match (self.few_series(matchers), walk) {
            (Some(few), _) => few,
            // Otherwise series below the nodes are examined, too.
            (None, Some(walk)) if self.is_within(times_ms) => walk.visits(&self.table()),
            (None, _) => self.series(),
        }
    }

    /// Whether all samples are between these milliseconds.
    fn is_within(&self, (first_ms, last_ms): (i64, i64)) -> bool {
        self.bounds_ms().is_some_and(|(first, last)| first_ms <= first && last <= last_ms)
    }

    /// The number of series with a value that a matcher is for, if examining them is faster than walking the
    /// tree, since they are few.
    fn few_series(&self, matchers: &[Matcher]) -> Option<usize> {
        let table = self.table();
        let number = |text: &str| table.symbols().find(text);
        let series = |matcher: &Matcher| match (number(matcher.name()), number(matcher.value())) {
            (Some(name), Some(value)) => table.index().postings(name, value).map_or(0, Postings::len),
            _ => 0,
        };
        let is_exact = |matcher: &&Matcher| matcher.op() == MatchOp::Equal && !matcher.value().is_empty();
        let fewest = matchers.iter().filter(is_exact).map(series).min()?;
        (fewest <= (table.len() / FEW_SHARE) as u64).then_some(fewest as usize)
    }

    /// Sorts series by their labels.
    pub(super) fn sorted(&self, snapshot: &Snapshot, series: &RoaringBitmap) -> Vec<u32> {
        self.order.sort(snapshot, series)
    }

    /// The numbers of the label names that some of the series have.
    pub(super) fn names_of(&self, series: &RoaringBitmap) -> Vec<u32> {
        let table = self.table();
        let index = table.index();
        let has_one = |name: &u32| index.values(*name).any(|(_, postings)| postings.touches(series));
        index.names().filter(has_one).collect()
    }

    /// The number of a label name, if some series has it.
    pub(super) fn number_of(&self, name: &str) -> Option<u32> {
        self.table().symbols().find(name)
    }

    /// The numbers of the label's values that some of the series have. Examines either the values or the
    /// series, whichever are fewer.
    pub(super) fn values_of(&self, snapshot: &Snapshot, name: &str, series: &RoaringBitmap) -> Vec<u32> {
        let table = self.table();
        let Some(name) = table.symbols().find(name) else { return Vec::new() };
        if series.len() >= table.index().value_count(name) as u64 {
            let values = table.index().values(name);
            return values.filter(|(_, postings)| postings.touches(series)).map(|(value, _)| value).collect();
        }
        drop(table);
        let mut values: Vec<u32> = series.iter().filter_map(|series| snapshot.value(series, name)).collect();
        values.sort_unstable();
        values.dedup();
        values
    }
}

pub(super) fn has_samples(series: &SeriesSamples) -> bool {
    !series.samples.is_empty() || !series.histograms.is_empty()
}

/// The series that have samples between these milliseconds.
fn touching(snapshot: &Snapshot, series: &RoaringBitmap, (first_ms, last_ms): (i64, i64)) -> RoaringBitmap {
    let mut found = RoaringBitmap::new();
    for (segment, number) in snapshot.segments().zip((0u32..).step_by(SEGMENT)) {
        let of_segment = series.range(number..number.saturating_add(SEGMENT as u32));
        let mut of_segment = of_segment.peekable();
        if of_segment.peek().is_none() {
            continue;
        }
        let rows = segment.rows();
        let touches = |number: &u32| {
            let bounds = rows.get(*number as usize % SEGMENT).and_then(SeriesRows::bounds_ms);
            bounds.is_some_and(|(first, last)| first <= last_ms && first_ms <= last)
        };
        found.extend(of_segment.filter(touches));
    }
    found
}
