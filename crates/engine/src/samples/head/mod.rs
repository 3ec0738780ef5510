//! The samples of a head: bytes of each series that grow in place.
//!
//! A head of logs keeps the batches that brought its rows. Most batches of samples bring one sample for
//! each of many series, so a head of batches would need ten times the samples' size to index them.
//! Instead, a series has its labels as numbers of strings that all series share ([`table`],
//! [`symbols`]). Its samples take about six bytes each, with the number of their frame ([`rows`]), so
//! that a head can still be cut at any floor. Every label has a list of its series ([`postings`]), so
//! that a selector reads only the relevant series ([`matching`]).
//!
//! **Memory.** About 120 bytes for a series, four for each label, and its samples; each string and each
//! label is stored once. A push reserves an upper bound of its batch ([`push_bytes`]; [`cuts`] for a
//! large one). The memory actually used stays reserved until the head is dropped: a flush releases it
//! with the head, including strings.
//!
//! **Repeated samples.** Of two samples of a series at one instant the first that arrived stays. This is
//! decided when the second one arrives ([`appending`]), so that its sender gets the conflict. In
//! series with a path the last one stays ([`crate::path_labels`]), which is decided when they are read
//! ([`rows::RowsCopy::columns`]).

mod annotations;
mod appending;
mod columns;
mod cuts;
mod exemplars;
mod matching;
mod memory;
mod order;
mod paths;
mod postings;
mod rows;
mod selected;
mod stamps;
mod symbols;
mod table;
mod tenant;
mod walk;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use sandur_base::Id;
use sandur_memory::Reservation;
use sandur_model::{DAY_NS, Matcher, MetricMetadata, SampleBatch, SampleConflicts, TenantId, TimeRange};
use sandur_query::{Holding, JoinedLabels};

use super::{MILLISECOND_NS, SAMPLE_BYTES};
use crate::head_totals::HeadTotals;
use annotations::HeadExemplar;
use appending::Taken;
pub use columns::{SampleColumns, Wanted};
pub use cuts::{SampleCut, cuts, cutting_bytes};
pub use exemplars::FlushedExemplars;
pub use memory::push_bytes;
use rows::FloatRow;
pub use rows::SeriesParts;
pub use selected::{JoinedValues, MatchingSeries, SelectedSeries, SortedValues};
use stamps::{FrameStamps, STAMP_BYTES};
use table::Snapshot;
use tenant::TenantSamples;

/// The times that a block can have: the limits of days around them must be valid times, too.
const STORABLE_MS: RangeInclusive<i64> =
    (i64::MIN + 2 * DAY_NS) / MILLISECOND_NS..=(i64::MAX - 2 * DAY_NS) / MILLISECOND_NS;

/// The result of inserting a batch of samples.
pub(crate) struct InsertedSamples {
    /// Number of appended samples.
    pub(crate) appended: u64,
    /// Number of samples that were left out because their series has an equal one.
    pub(crate) copies: u64,
    /// The samples that were left out because their series has another value.
    pub(crate) conflicts: SampleConflicts,
}

/// Samples in memory of consecutive WAL sequence numbers of one incarnation.
pub struct SampleHead {
    incarnation: Id,
    start: u64,
    stamps: FrameStamps,
    tenants: RwLock<BTreeMap<TenantId, Arc<TenantSamples>>>,
    rows: AtomicU64,
    memory_bytes: AtomicU64,
    /// The reservations that pay for it: one per budget.
    memory: Mutex<Vec<Reservation>>,
}

impl SampleHead {
    /// An empty head for samples with sequence numbers from `start` on.
    pub(crate) fn new(incarnation: Id, start: u64) -> Self {
        let (rows, memory_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let (stamps, tenants, memory) = (FrameStamps::new(incarnation), RwLock::default(), Mutex::default());
        Self { incarnation, start, stamps, tenants, rows, memory_bytes, memory }
    }

    /// Notes the time of the stamp of a frame before its batches are inserted; 0 if it has none.
    pub(crate) fn note_stamp(&self, sequence: u64, time: u64) {
        self.stamps.note(self.frame_of(sequence), time);
    }

    /// The times of the earliest and the latest stamp; `None` if no frame has one.
    pub(crate) fn stamps(&self) -> Option<(u64, u64)> {
        self.stamps.bounds()
    }

    /// Sums over all samples.
    pub fn totals(&self) -> HeadTotals {
        let rows = self.rows.load(Ordering::Relaxed);
        let memory_bytes = self.memory_bytes.load(Ordering::Relaxed);
        HeadTotals { rows, raw_bytes: rows * SAMPLE_BYTES, memory_bytes }
    }

    /// The tenants that have samples, sorted.
    pub fn tenants(&self) -> Vec<TenantId> {
        self.tenants.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Adds the samples of a batch of frame `sequence`, as if there were no earlier head.
    #[cfg(test)]
    pub(crate) fn insert(&self, sequence: u64, batch: &SampleBatch, memory: Reservation) -> InsertedSamples {
        self.insert_after(sequence, batch, memory, &[])
    }

    /// Adds the samples of a batch of frame `sequence`, except those that earlier heads have. The caller
    /// ensures that inserts do not run concurrently.
    pub(crate) fn insert_after(
        &self,
        sequence: u64,
        batch: &SampleBatch,
        mut memory: Reservation,
        earlier: &[&SampleHead],
    ) -> InsertedSamples {
        let frame = self.frame_of(sequence);
        let mut taken = Taken::default();
        if batch.rows() > 0 {
            let earlier: Vec<_> = earlier.iter().filter_map(|head| head.tenant(&batch.tenant)).collect();
            taken = self.tenant_for_insert(&batch.tenant).append(frame, batch, &earlier);
            self.rows.fetch_add(taken.appended, Ordering::AcqRel);
        }
        taken.grown += self.insert_annotations(frame, batch) + STAMP_BYTES;
        if taken.grown > 0 {
            self.tenant_for_insert(&batch.tenant).note_grown(taken.grown);
        }
        memory.shrink(memory.bytes().saturating_sub(taken.grown));
        self.hold(memory);
        let Taken { appended, copies, conflicts, .. } = taken;
        InsertedSamples { appended, copies, conflicts }
    }

    /// Adds exemplars and metadata. Returns the bytes that they take.
    fn insert_annotations(&self, frame: u32, batch: &SampleBatch) -> u64 {
        if batch.exemplars.is_empty() && batch.metadata.is_empty() {
            return 0;
        }
        let tenant = self.tenant_for_insert(&batch.tenant);
        let mut grown = 0;
        for of in &batch.exemplars {
            let Some(series) = batch.series.get(of.series as usize) else { continue };
            if !STORABLE_MS.contains(&of.exemplar.timestamp) {
                continue;
            }
            let (series, new_bytes) = tenant.intern_bare(series.id, &series.labels);
            let exemplar = HeadExemplar { series, frame, exemplar: of.exemplar.clone() };
            tenant.widen_to(exemplar.exemplar.timestamp, exemplar.exemplar.timestamp);
            grown += new_bytes + tenant.annotations().add_exemplar(exemplar);
        }
        let mut annotations = tenant.annotations();
        grown + batch.metadata.iter().map(|metadata| annotations.add_metadata(frame, metadata)).sum::<u64>()
    }

    /// Calls `each` with each of the tenant's metadata, sorted.
    pub fn each_metadata<E>(
        &self,
        tenant: &TenantId,
        mut each: impl FnMut(&MetricMetadata) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(tenant) = self.tenant(tenant) else { return Ok(()) };
        let annotations = tenant.annotations();
        annotations.metadata().try_for_each(|(metadata, _)| each(metadata))
    }

    /// Whether the tenant has metadata of metric families.
    pub fn has_metadata(&self, tenant: &TenantId) -> bool {
        self.tenant(tenant).is_some_and(|tenant| tenant.annotations().metadata().next().is_some())
    }

    /// Keeps the reservation of inserted samples.
    fn hold(&self, memory: Reservation) {
        self.memory_bytes.fetch_add(memory.bytes(), Ordering::Relaxed);
        let mut held = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        match held.iter_mut().find(|one| one.is_of_budget_of(&memory)) {
            Some(one) => one.absorb(memory),
            None => held.push(memory),
        }
    }

    /// The number of a frame, counted from the first one of this head.
    fn frame_of(&self, sequence: u64) -> u32 {
        u32::try_from(sequence.saturating_sub(self.start)).unwrap_or(u32::MAX)
    }

    fn tenant_for_insert(&self, tenant: &TenantId) -> Arc<TenantSamples> {
        if let Some(found) = self.tenant(tenant) {
            return found;
        }
        let created = Arc::new(TenantSamples::default());
        let mut tenants = self.tenants.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(tenants.entry(tenant.clone()).or_insert(created))
    }

    fn tenant(&self, tenant: &TenantId) -> Option<Arc<TenantSamples>> {
        self.tenants.read().unwrap_or_else(PoisonError::into_inner).get(tenant).cloned()
    }

    /// The part of the head from the sequence number `floor` on. It takes over its share of the
    /// reservations: this head is about to leave the view.
    pub(crate) fn since_floor(&self, floor: u64) -> SampleHead {
        let cut = self.frame_of(floor);
        let stamps = self.stamps.since(cut);
        let mut grown = stamps.len() * STAMP_BYTES;
        let rest = SampleHead { stamps, ..SampleHead::new(self.incarnation, floor) };
        for id in self.tenants() {
            let Some(tenant) = self.tenant(&id) else { continue };
            let snapshot = tenant.snapshot();
            let numbers = 0..snapshot.len() as u32;
            let mut taken: u64 = numbers.map(|number| rest.take_since(&id, &snapshot, number, cut)).sum();
            taken += rest.copy_annotations(&id, &tenant, cut);
            if taken > 0 {
                rest.tenant_for_insert(&id).note_grown(taken);
            }
            grown += taken;
        }
        self.pay_for(&rest, grown);
        rest
    }

    /// The samples of some tenants, shared with this head. The new head takes over their reservations:
    /// this head is about to leave the view.
    pub(crate) fn only(&self, is_wanted: impl Fn(&TenantId) -> bool) -> SampleHead {
        let stamps = self.stamps.clone();
        let rest = SampleHead { stamps, ..SampleHead::new(self.incarnation, self.start) };
        let tenants = self.tenants.read().unwrap_or_else(PoisonError::into_inner);
        let (mut wanted, mut bytes, mut rows) = (BTreeMap::new(), self.stamps.len() * STAMP_BYTES, 0);
        for (tenant, samples) in tenants.iter().filter(|(tenant, _)| is_wanted(tenant)) {
            bytes += samples.memory_bytes();
            rows += samples.arrivals().rows();
            wanted.insert(tenant.clone(), Arc::clone(samples));
        }
        drop(tenants);
        self.pay_for(&rest, bytes);
        SampleHead { tenants: RwLock::new(wanted), rows: AtomicU64::new(rows), ..rest }
    }

    /// Moves bytes of this head's reservations to another head.
    fn pay_for(&self, rest: &SampleHead, mut bytes: u64) {
        let mut held = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        for one in held.iter_mut() {
            let part = one.split(bytes);
            bytes -= part.bytes();
            self.memory_bytes.fetch_sub(part.bytes(), Ordering::Relaxed);
            rest.hold(part);
        }
    }

    /// Adds the samples of a series of another head from frame `cut` on. Returns the bytes that they take.
    fn take_since(&self, tenant: &TenantId, snapshot: &Snapshot, number: u32, cut: u32) -> u64 {
        let (segment, place) = snapshot.place(number);
        let copy = segment.rows()[place].copy();
        let floats: Vec<FloatRow> = copy.floats().filter(|row| row.frame >= cut).collect();
        let histograms: Vec<_> = copy.histograms().iter().filter(|(frame, _)| *frame >= cut).collect();
        if floats.is_empty() && histograms.is_empty() {
            return 0;
        }
        let series = (snapshot.id(number), &snapshot.labels(number));
        let taken = self.tenant_for_insert(tenant).append_rows(series, |rows, note| {
            for row in floats {
                let appended = rows.append(FloatRow { frame: row.frame - cut, ..row });
                note(row.time_ms, appended);
            }
            for (frame, sample) in histograms {
                note(sample.timestamp, rows.append_histogram(frame - cut, sample));
            }
        });
        self.rows.fetch_add(taken.appended, Ordering::AcqRel);
        taken.grown
    }

    /// Adds a tenant's exemplars and metadata of another head from frame `cut` on. Returns the bytes
    /// that they take.
    fn copy_annotations(&self, id: &TenantId, tenant: &TenantSamples, cut: u32) -> u64 {
        let mut grown = 0;
        let (annotations, snapshot) = (tenant.annotations(), tenant.snapshot());
        for HeadExemplar { series, frame, exemplar } in annotations.exemplars().filter(|one| one.frame >= cut)
        {
            let own = self.tenant_for_insert(id);
            let (series, new_bytes) = own.intern_bare(snapshot.id(*series), &snapshot.labels(*series));
            let exemplar = HeadExemplar { series, frame: frame - cut, exemplar: exemplar.clone() };
            own.widen_to(exemplar.exemplar.timestamp, exemplar.exemplar.timestamp);
            grown += new_bytes + own.annotations().add_exemplar(exemplar);
        }
        for (metadata, frame) in annotations.metadata().filter(|(_, frame)| *frame >= cut) {
            grown += self.tenant_for_insert(id).annotations().add_metadata(frame - cut, metadata);
        }
        grown
    }

    /// First and last time of a tenant's samples and exemplars, in nanoseconds; `None` without any.
    pub fn bounds(&self, tenant: &TenantId) -> Option<(i64, i64)> {
        let (first, last) = self.tenant(tenant)?.bounds_ms()?;
        Some((first.saturating_mul(MILLISECOND_NS), last.saturating_mul(MILLISECOND_NS)))
    }

    /// The number of the tenant's samples, repeated ones included.
    pub fn rows_of(&self, id: &TenantId) -> u64 {
        self.tenant(id).map_or(0, |tenant| tenant.arrivals().rows())
    }

    /// What holds the tenant's samples in the range. The version of a slot changes with every new sample.
    pub fn holdings(&self, id: &TenantId, range: TimeRange) -> Vec<Holding> {
        let Some((tenant, bounds)) = self.tenant(id).zip(self.bounds(id)) else { return Vec::new() };
        tenant.arrivals().holdings((self.incarnation, self.start), bounds, range)
    }

    /// Marks the series of a batch that its tenant has here.
    pub(crate) fn mark_known(&self, batch: &SampleBatch, known: &mut [bool]) {
        if let Some(tenant) = self.tenant(&batch.tenant) {
            tenant.mark_known(batch, known);
        }
    }

    /// The number of series of all tenants.
    pub(crate) fn all_series(&self) -> u64 {
        let tenants = self.tenants.read().unwrap_or_else(PoisonError::into_inner);
        tenants.values().map(|tenant| tenant.series() as u64).sum()
    }

    /// The number of series of the tenant.
    pub fn series(&self, tenant: &TenantId) -> usize {
        self.tenant(tenant).map_or(0, |tenant| tenant.series())
    }

    /// An upper bound of the series, or nodes of paths, that are examined to find values of labels.
    pub fn examined(&self, tenant: &TenantId, matchers: &[Matcher], range: TimeRange) -> usize {
        self.tenant(tenant).map_or(0, |tenant| tenant.examined(matchers, range.milliseconds()))
    }

    /// The matching series with samples in the range, in the order of
    /// [`sandur_format::block::compare_series`].
    pub fn select(&self, tenant: &TenantId, matchers: &[Matcher], range: TimeRange) -> SelectedSeries {
        let Some(tenant) = self.tenant(tenant) else { return SelectedSeries::default() };
        let (snapshot, series) = tenant.matching(matchers, range.milliseconds());
        let stamps = self.stamps.clone();
        SelectedSeries { series: tenant.sorted(&snapshot, &series), snapshot, stamps }
    }

    /// The same series in no order.
    pub fn matching(&self, tenant: &TenantId, matchers: &[Matcher], range: TimeRange) -> MatchingSeries {
        let Some(tenant) = self.tenant(tenant) else { return MatchingSeries::default() };
        let (snapshot, series) = tenant.matching(matchers, range.milliseconds());
        MatchingSeries { series, snapshot, tenant: Some(tenant) }
    }

    /// Combinations of the values of several labels in matching series. Equal combinations are returned
    /// once or are adjacent. If there are more than the limit, some of them, but more than the limit.
    pub fn joined_values(
        &self,
        tenant: &TenantId,
        wanted: &JoinedLabels,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> JoinedValues {
        let labels = wanted.labels.as_slice();
        let by_tree =
            |of: Arc<TenantSamples>| of.in_paths(labels, matchers, range.milliseconds(), wanted.limit);
        match self.tenant(tenant).and_then(by_tree) {
            Some((snapshot, numbers)) => JoinedValues::new(snapshot, labels.len(), numbers),
            None => self.matching(tenant, matchers, range).joined_values(wanted),
        }
    }

    /// The sorted values of a label in matching series.
    pub fn sorted_values(
        &self,
        tenant: &TenantId,
        label: &str,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> SortedValues {
        let labels = [label.to_owned()];
        let by_tree =
            |of: Arc<TenantSamples>| of.in_paths(&labels, matchers, range.milliseconds(), usize::MAX);
        match self.tenant(tenant).and_then(by_tree) {
            Some((snapshot, values)) => SortedValues::new(snapshot, values),
            None => self.matching(tenant, matchers, range).sorted_values(label),
        }
    }
}

#[cfg(test)]
mod tests;
