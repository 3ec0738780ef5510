//! The samples of a head: a column of each series that grows in place.
//!
//! A head of logs keeps the batches that brought its rows. Of samples most batches bring one for each of
//! many series, so a head that kept them would spend ten times their size on saying what is where. Here a
//! series has its labels as numbers of strings that all series share ([`symbols`]), and rows of 16 bytes
//! that know their frame ([`series`]), so that a head can still be cut at any floor.
//!
//! **Memory.** Some 200 bytes for a series, 8 for each label, 16 for a sample, and each string once. A
//! push reserves the most that its batch may take ([`push_bytes`]); what it did take stays reserved as long
//! as the head is there.

mod beside;
mod memory;
mod series;
mod symbols;
mod tenant;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use sandur_base::{Id, Reservation};
use sandur_model::{
    Exemplar, Labels, Matcher, MetricMetadata, SampleBatch, StreamId, TenantId, TimeRange, matches_all,
};
use sandur_query::Holding;
use xxhash_rust::xxh3::xxh3_128;

use super::{MILLISECOND_NS, SAMPLE_BYTES};
use crate::head_totals::HeadTotals;
use beside::HeadExemplar;
pub use memory::push_bytes;
pub use series::SampleColumns;
use series::{Appended, HeadSeries};
use tenant::{Snapshot, TenantSamples};

/// Samples in memory of consecutive WAL sequence numbers of one incarnation.
pub struct SampleHead {
    incarnation: Id,
    start: u64,
    tenants: RwLock<BTreeMap<TenantId, Arc<TenantSamples>>>,
    rows: AtomicU64,
    memory_bytes: AtomicU64,
    /// What pays for it: one of each budget.
    memory: Mutex<Vec<Reservation>>,
}

impl SampleHead {
    /// An empty one, of samples with sequence numbers from `start` on.
    pub(crate) fn new(incarnation: Id, start: u64) -> Self {
        let (rows, memory_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { incarnation, start, tenants: RwLock::default(), rows, memory_bytes, memory: Mutex::default() }
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

    /// Adds the samples of a batch of the frame `sequence`; gives how many were appended, and how many the
    /// series had already. One caller at a time.
    pub(crate) fn insert(&self, sequence: u64, batch: &SampleBatch, mut memory: Reservation) -> (u64, u64) {
        let frame = self.frame_of(sequence);
        let (mut appended, mut duplicates, mut grown) = (0, 0, 0);
        for of_series in batch.series.iter().filter(|series| !series.samples.is_empty()) {
            let samples = batch.samples_of(of_series).map(|(time_ms, value)| (frame, time_ms, value));
            let labels = &of_series.labels;
            let taken = self.append(&batch.tenant, (of_series.id, labels), samples);
            (appended, duplicates, grown) =
                (appended + taken.appended, duplicates + taken.duplicates, grown + taken.grown);
        }
        grown += self.insert_beside(frame, batch);
        memory.shrink(memory.bytes().saturating_sub(grown));
        self.hold(memory);
        (appended, duplicates)
    }

    /// Adds exemplars and metadata; gives the bytes that they take.
    fn insert_beside(&self, frame: u32, batch: &SampleBatch) -> u64 {
        if batch.exemplars.is_empty() && batch.metadata.is_empty() {
            return 0;
        }
        let tenant = self.tenant_for_insert(&batch.tenant);
        let mut grown = 0;
        for of in &batch.exemplars {
            let Some(series) = batch.series.get(of.series as usize) else { continue };
            let (series, new_bytes) = tenant.intern(series.id, &series.labels);
            let exemplar = HeadExemplar { series, frame, exemplar: of.exemplar.clone() };
            grown += new_bytes + tenant.beside().add_exemplar(exemplar);
        }
        let mut beside = tenant.beside();
        grown + batch.metadata.iter().map(|metadata| beside.add_metadata(frame, metadata)).sum::<u64>()
    }

    /// Exemplars with a time in the range of series that pass all matchers of one of the lists (of all series
    /// without a list), by series and time, each once.
    pub fn exemplars(
        &self,
        tenant: &TenantId,
        any_of: &[Vec<Matcher>],
        range: TimeRange,
    ) -> Vec<(Labels, Vec<Exemplar>)> {
        let Some(tenant) = self.tenant(tenant) else { return Vec::new() };
        let (beside, snapshot) = (tenant.beside(), tenant.snapshot());
        let mut by_series: BTreeMap<StreamId, (Arc<HeadSeries>, Vec<Exemplar>)> = BTreeMap::new();
        for HeadExemplar { series, exemplar, .. } in beside.exemplars() {
            if range.contains(exemplar.timestamp.saturating_mul(MILLISECOND_NS)) {
                let found = by_series.entry(series.id).or_insert_with(|| (Arc::clone(series), Vec::new()));
                found.1.push(exemplar.clone());
            }
        }
        drop(beside);
        let labels = |(series, all): (Arc<HeadSeries>, Vec<Exemplar>)| {
            let labels = snapshot.texts.labels(&series.labels);
            let is_wanted = any_of.is_empty() || any_of.iter().any(|list| matches_all(list, &labels));
            is_wanted.then_some((labels, all))
        };
        let mut found: Vec<_> = by_series.into_values().filter_map(labels).collect();
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (_, all) in &mut found {
            all.sort_by_key(|one| one.timestamp);
            all.dedup_by(|a, b| a.same(b));
        }
        found
    }

    /// What is told of the tenant's metric families, sorted.
    pub fn metadata(&self, tenant: &TenantId) -> Vec<MetricMetadata> {
        let Some(tenant) = self.tenant(tenant) else { return Vec::new() };
        let beside = tenant.beside();
        beside.metadata().map(|(metadata, _)| metadata.clone()).collect()
    }

    /// Bytes of the tenant's exemplars and metadata.
    pub fn beside_bytes(&self, tenant: &TenantId) -> u64 {
        self.tenant(tenant).map_or(0, |tenant| tenant.beside().bytes())
    }

    fn append(
        &self,
        tenant: &TenantId,
        (id, labels): (StreamId, &Labels),
        samples: impl Iterator<Item = (u32, i64, f64)> + Clone,
    ) -> Taken {
        let tenant = self.tenant_for_insert(tenant);
        let (series, new_bytes) = tenant.intern(id, labels);
        let mut taken = Taken { grown: new_bytes, ..Taken::default() };
        let times = samples.clone().map(|(_, time_ms, _)| time_ms);
        let bounds = times.fold((i64::MAX, i64::MIN), |(first, last), t| (first.min(t), last.max(t)));
        // The bounds first: a reader who sees a sample also sees that it is within them.
        tenant.widen(bounds);
        for (frame, time_ms, value) in samples {
            match series.append(frame, time_ms, value) {
                Appended::New { grown } => {
                    taken.appended += 1;
                    taken.grown += grown;
                }
                Appended::Duplicate => taken.duplicates += 1,
            }
        }
        tenant.count(taken.appended);
        self.rows.fetch_add(taken.appended, Ordering::AcqRel);
        taken
    }

    /// Keeps what pays for samples.
    fn hold(&self, memory: Reservation) {
        self.memory_bytes.fetch_add(memory.bytes(), Ordering::Relaxed);
        let mut held = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        match held.iter_mut().find(|one| one.is_of_budget_of(&memory)) {
            Some(one) => one.absorb(memory),
            None => held.push(memory),
        }
    }

    /// A frame's number since the first one of this head.
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

    /// The part from the sequence number `floor` on. It takes over what pays for it: this head is about to
    /// leave.
    pub(crate) fn since_floor(&self, floor: u64) -> SampleHead {
        let rest = SampleHead::new(self.incarnation, floor);
        let cut = self.frame_of(floor);
        let mut grown = 0;
        for tenant in self.tenants() {
            let Some(snapshot) = self.tenant(&tenant).map(|tenant| tenant.snapshot()) else { continue };
            for series in snapshot.list.iter() {
                let since = series.since(cut);
                if !since.is_empty() {
                    let samples = since.iter().map(|(frame, time_ms, value)| (frame - cut, *time_ms, *value));
                    let labels = snapshot.texts.labels(&series.labels);
                    grown += rest.append(&tenant, (series.id, &labels), samples).grown;
                }
            }
        }
        grown += self.copy_beside(&rest, cut);
        let mut held = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        for one in held.iter_mut() {
            let part = one.split(grown);
            grown -= part.bytes();
            self.memory_bytes.fetch_sub(part.bytes(), Ordering::Relaxed);
            rest.hold(part);
        }
        rest
    }

    /// Gives another head the exemplars and metadata of frames from `cut` on, and the bytes that they take.
    fn copy_beside(&self, rest: &SampleHead, cut: u32) -> u64 {
        let mut grown = 0;
        for id in self.tenants() {
            let Some(tenant) = self.tenant(&id) else { continue };
            let (beside, snapshot) = (tenant.beside(), tenant.snapshot());
            for HeadExemplar { series, frame, exemplar } in beside.exemplars().filter(|one| one.frame >= cut)
            {
                let own = rest.tenant_for_insert(&id);
                let (series, new_bytes) = own.intern(series.id, &snapshot.texts.labels(&series.labels));
                let exemplar = HeadExemplar { series, frame: frame - cut, exemplar: exemplar.clone() };
                grown += new_bytes + own.beside().add_exemplar(exemplar);
            }
            for (metadata, frame) in beside.metadata().filter(|(_, frame)| *frame >= cut) {
                grown += rest.tenant_for_insert(&id).beside().add_metadata(frame - cut, metadata);
            }
        }
        grown
    }

    /// First and last time, in nanoseconds, of a tenant's samples; `None` without samples.
    pub fn bounds(&self, tenant: &TenantId) -> Option<(i64, i64)> {
        let (first, last) = self.tenant(tenant)?.bounds_ms()?;
        Some((first.saturating_mul(MILLISECOND_NS), last.saturating_mul(MILLISECOND_NS)))
    }

    /// What the tenant's samples in the range are held by. The version changes with every sample that comes.
    pub fn holdings(&self, tenant: &TenantId, range: TimeRange) -> Vec<Holding> {
        let Some(rows) = self.tenant(tenant).map(|tenant| tenant.rows()) else { return Vec::new() };
        let Some((first, last)) = self.bounds(tenant) else { return Vec::new() };
        if !range.touches(first, last) {
            return Vec::new();
        }
        let mut named = self.incarnation.to_bytes().to_vec();
        named.extend_from_slice(&self.start.to_le_bytes());
        named.extend_from_slice(&rows.to_le_bytes());
        vec![Holding { first, last, version: xxh3_128(&named), bytes: (rows * SAMPLE_BYTES).max(1) }]
    }

    /// The matching series with samples within the range, sorted by their labels.
    pub fn select(&self, tenant: &TenantId, matchers: &[Matcher], range: TimeRange) -> SelectedSeries {
        let Some(tenant) = self.tenant(tenant) else { return SelectedSeries::default() };
        let snapshot = tenant.snapshot();
        let (first_ms, last_ms) = range.milliseconds();
        let touches = |series: &Arc<HeadSeries>| {
            series.bounds_ms().is_some_and(|(first, last)| first <= last_ms && first_ms <= last)
        };
        let mut series = snapshot.matching(matchers);
        series.retain(touches);
        series.sort_unstable_by(|a, b| snapshot.compare(a, b));
        SelectedSeries { series, snapshot: Some(snapshot) }
    }
}

/// What appending did.
#[derive(Clone, Copy, Default)]
struct Taken {
    appended: u64,
    duplicates: u64,
    grown: u64,
}

/// Series of a head, sorted by their labels.
#[derive(Default)]
pub struct SelectedSeries {
    series: Vec<Arc<HeadSeries>>,
    snapshot: Option<Snapshot>,
}

impl SelectedSeries {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// The identity of a series.
    pub fn id(&self, at: usize) -> StreamId {
        self.series[at].id
    }

    /// The labels of a series, by name, without building a set of them.
    pub fn pairs(&self, at: usize) -> impl Iterator<Item = (&str, &str)> + Clone {
        let texts = self.snapshot.as_ref().map(|snapshot| &snapshot.texts);
        let labels = self.series[at].labels.iter();
        texts
            .into_iter()
            .flat_map(move |texts| labels.clone().map(|(name, value)| (texts.get(*name), texts.get(*value))))
    }

    /// The labels of a series.
    pub fn labels(&self, at: usize) -> Labels {
        Labels::from_pairs(self.pairs(at))
    }

    /// Samples of a series, those of one instant that came out of order counted each.
    pub fn rows(&self, at: usize) -> usize {
        self.series[at].len()
    }

    /// Earliest and latest time of a series in milliseconds.
    pub fn bounds_ms(&self, at: usize) -> Option<(i64, i64)> {
        self.series[at].bounds_ms()
    }

    /// The samples of a series from the first to the last of these milliseconds, by time, and how many
    /// repeated ones were left out: the first that came stays.
    pub fn samples(&self, at: usize, (first_ms, last_ms): (i64, i64)) -> (SampleColumns, u64) {
        self.series[at].samples(first_ms, last_ms)
    }
}

#[cfg(test)]
mod tests;
