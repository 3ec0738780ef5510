//! The entries of logs in a head.
//!
//! Rows stay in the batches that brought them; the head adds an index by stream and time. See
//! [`crate::head`].

mod batch;
mod columns;
mod cuts;
mod memory;
mod pages;
mod stream;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use foldhash::fast::RandomState;
use sandur_base::Id;
use sandur_memory::Reservation;
use sandur_model::{Labels, LogBatch, Matcher, StreamId, TenantId, TimeRange, matches_all};
use sandur_query::{Columns, Holding, Order, PageTask, Part, StreamVolume};

pub use batch::HeadBatch;
pub(crate) use columns::page_of_rows;
pub use cuts::{EntryCut, cuts, cutting_bytes};
pub use memory::push_bytes;
pub use pages::PAGE_BYTES;
pub use stream::{HeadStream, Row, StreamRows};

use crate::arrivals::{Arrivals, Counting};
use crate::growing::Growing;
use crate::head_totals::HeadTotals;

/// Entries in memory of consecutive WAL sequence numbers of one incarnation.
pub struct LogHead {
    incarnation: Id,
    start: u64,
    tenants: RwLock<BTreeMap<TenantId, Arc<TenantHead>>>,
    frames: Mutex<Vec<(u64, Arc<HeadBatch>)>>,
    totals: Totals,
}

#[derive(Default)]
struct Totals {
    rows: AtomicU64,
    line_bytes: AtomicU64,
    memory_bytes: AtomicU64,
}

struct TenantHead {
    first: AtomicI64,
    last: AtomicI64,
    arrivals: Mutex<Arrivals>,
    streams: RwLock<Streams>,
}

#[derive(Default)]
struct Streams {
    by_id: HashMap<StreamId, u32, RandomState>,
    list: Growing<Arc<HeadStream>>,
}

/// A stream of a head, with the bounds of its rows.
#[derive(Clone, Debug)]
pub struct StreamBounds {
    /// The stream.
    pub id: StreamId,
    /// Its labels.
    pub labels: Arc<Labels>,
    /// First timestamp, of any row of the stream in the head.
    pub first: i64,
    /// Last timestamp, of any row of the stream in the head.
    pub last: i64,
}

impl LogHead {
    /// An empty head for rows with sequence numbers from `start` on.
    pub(crate) fn new(incarnation: Id, start: u64) -> Self {
        let (tenants, frames, totals) = (RwLock::default(), Mutex::default(), Totals::default());
        Self { incarnation, start, tenants, frames, totals }
    }

    /// Sums over all rows.
    pub fn totals(&self) -> HeadTotals {
        HeadTotals {
            rows: self.totals.rows.load(Ordering::Relaxed),
            raw_bytes: self.totals.line_bytes.load(Ordering::Relaxed),
            memory_bytes: self.totals.memory_bytes.load(Ordering::Relaxed),
        }
    }

    /// The tenants that have rows, sorted.
    pub fn tenants(&self) -> Vec<TenantId> {
        self.tenants.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Adds a batch of frame `sequence`. The caller ensures that inserts do not run concurrently. The
    /// compressed arena is dropped, and memory that the reservation holds beyond the need is released.
    pub(crate) fn insert(
        &self,
        sequence: u64,
        mut batch: LogBatch,
        mut memory: Reservation,
    ) -> Arc<HeadBatch> {
        let tenant = self.tenant_for_insert(&batch.tenant);
        let mut bytes = memory::kept_bytes(&batch);
        batch.arena.compressed = None;
        let mut streams = Vec::with_capacity(batch.streams.len());
        for entries in &mut batch.streams {
            let (stream, new) = tenant.intern(entries.id, &entries.labels);
            entries.labels = Arc::clone(&stream.labels);
            bytes += if new { memory::stream_bytes(entries) } else { 0 };
            streams.push(stream);
        }
        memory.shrink(memory.bytes().saturating_sub(bytes));
        self.totals.memory_bytes.fetch_add(memory.bytes(), Ordering::Relaxed);
        let batch = Arc::new(HeadBatch::new(batch, memory));
        for (number, stream) in streams.iter().enumerate() {
            self.append(&tenant, stream, &batch, number);
        }
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        frames.push((sequence, Arc::clone(&batch)));
        drop(frames);
        batch
    }

    fn append(&self, tenant: &TenantHead, stream: &HeadStream, batch: &Arc<HeadBatch>, number: usize) {
        if batch.batch().streams[number].entries.is_empty() {
            return;
        }
        // The bounds first, so that a reader that sees the rows also sees bounds that contain them.
        let (first, last) = entry_bounds(&batch.batch().streams[number].entries);
        tenant.first.fetch_min(first, Ordering::AcqRel);
        tenant.last.fetch_max(last, Ordering::AcqRel);
        let added = stream.append(batch, number as u32);
        self.totals.rows.fetch_add(added.rows, Ordering::Relaxed);
        self.totals.line_bytes.fetch_add(added.line_bytes, Ordering::Relaxed);
        // Last, so that a reader that sees the count also sees the rows.
        let mut counting = Counting::default();
        for entry in &batch.batch().streams[number].entries {
            counting.add_ns(entry.timestamp, u64::from(entry.line.len));
        }
        tenant.arrivals.lock().unwrap_or_else(PoisonError::into_inner).count(counting);
    }

    fn tenant_for_insert(&self, tenant: &TenantId) -> Arc<TenantHead> {
        if let Some(found) = self.tenant(tenant) {
            return found;
        }
        let created = Arc::new(TenantHead::default());
        let mut tenants = self.tenants.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(tenants.entry(tenant.clone()).or_insert(created))
    }

    fn tenant(&self, tenant: &TenantId) -> Option<Arc<TenantHead>> {
        self.tenants.read().unwrap_or_else(PoisonError::into_inner).get(tenant).cloned()
    }

    /// The part of the head from the sequence number `floor` on.
    pub(crate) fn since_floor(&self, floor: u64) -> LogHead {
        let rest = LogHead::new(self.incarnation, floor);
        let frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        for (sequence, batch) in frames.iter().filter(|(sequence, _)| *sequence >= floor) {
            rest.share(*sequence, batch);
        }
        rest
    }

    /// The rows of some tenants, shared with this head.
    pub(crate) fn only(&self, is_wanted: impl Fn(&TenantId) -> bool) -> LogHead {
        let rest = LogHead::new(self.incarnation, self.start);
        let tenants = self.tenants.read().unwrap_or_else(PoisonError::into_inner);
        let wanted = tenants.iter().filter(|(tenant, _)| is_wanted(tenant));
        let wanted = wanted.map(|(tenant, rows)| (tenant.clone(), Arc::clone(rows))).collect();
        drop(tenants);
        let frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut totals, mut kept) = (self.totals(), Vec::new());
        for (sequence, batch) in frames.iter() {
            if is_wanted(&batch.batch().tenant) {
                kept.push((*sequence, Arc::clone(batch)));
                continue;
            }
            let entries = batch.batch().streams.iter().flat_map(|stream| &stream.entries);
            totals.raw_bytes -= entries.map(|entry| u64::from(entry.line.len)).sum::<u64>();
            totals.rows -= batch.batch().rows() as u64;
            totals.memory_bytes -= batch.memory_bytes();
        }
        let HeadTotals { rows, raw_bytes, memory_bytes } = totals;
        let totals = Totals {
            rows: AtomicU64::new(rows),
            line_bytes: AtomicU64::new(raw_bytes),
            memory_bytes: AtomicU64::new(memory_bytes),
        };
        LogHead { tenants: RwLock::new(wanted), frames: Mutex::new(kept), totals, ..rest }
    }

    fn share(&self, sequence: u64, batch: &Arc<HeadBatch>) {
        let tenant = self.tenant_for_insert(&batch.batch().tenant);
        for (number, entries) in batch.batch().streams.iter().enumerate() {
            let (stream, _) = tenant.intern(entries.id, &entries.labels);
            self.append(&tenant, &stream, batch, number);
        }
        self.totals.memory_bytes.fetch_add(batch.memory_bytes(), Ordering::Relaxed);
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        frames.push((sequence, Arc::clone(batch)));
    }
}

/// The streams that a query reads of a head.
#[derive(Clone, Copy)]
pub struct WantedStreams<'a> {
    /// The tenant.
    pub tenant: &'a TenantId,
    /// Conditions on the labels, all of which must match.
    pub matchers: &'a [Matcher],
    /// The part of the query.
    pub part: Part,
}

impl<'a> WantedStreams<'a> {
    /// All streams of a tenant.
    pub fn all(tenant: &'a TenantId) -> Self {
        Self { tenant, matchers: &[], part: Part::WHOLE }
    }
}

impl LogHead {
    /// Pages of the matching rows inside the range, each of at most about [`PAGE_BYTES`], in the
    /// requested order. The rows of a stream are sorted by time and distinct across all pages.
    pub fn page_tasks(
        &self,
        wanted: WantedStreams<'_>,
        range: TimeRange,
        order: Order,
        columns: Columns,
    ) -> Vec<Box<dyn PageTask>> {
        let streams = self.matching_streams(wanted, range);
        pages::plan(streams.iter().map(HeadStream::rows).collect(), range, order, columns)
    }

    /// Labels of the matching streams with rows inside the range, in no order.
    pub fn streams(&self, wanted: WantedStreams<'_>, range: TimeRange) -> Vec<Arc<Labels>> {
        let streams = self.matching_streams(wanted, range);
        streams.into_iter().map(|stream| Arc::clone(&stream.labels)).collect()
    }

    /// Matching streams whose rows touch the range, with their bounds in this head, in no order.
    pub fn stream_bounds(&self, wanted: WantedStreams<'_>, range: TimeRange) -> Vec<StreamBounds> {
        let bounds = |stream: Arc<HeadStream>| {
            let totals = stream.totals();
            let labels = Arc::clone(&stream.labels);
            StreamBounds { id: stream.id, labels, first: totals.first, last: totals.last }
        };
        self.matching_streams(wanted, range).into_iter().map(bounds).collect()
    }

    /// Rows and bytes of matching streams inside the range, duplicates included, in no order.
    pub fn volumes(&self, wanted: WantedStreams<'_>, range: TimeRange) -> Vec<StreamVolume> {
        let streams = self.matching_streams(wanted, range);
        let volumes = streams.iter().map(|stream| volume(stream, range));
        volumes.filter(|volume| volume.lines > 0).collect()
    }

    /// All rows of all streams of a tenant, for a flush, in no order of the streams.
    pub(crate) fn tenant_rows(&self, tenant: &TenantId) -> Vec<StreamRows> {
        let streams = self.matching_streams(WantedStreams::all(tenant), TimeRange::ALL);
        streams.iter().map(HeadStream::rows).collect()
    }

    /// First and last timestamp of a tenant's entries; `None` without entries.
    pub fn bounds(&self, tenant: &TenantId) -> Option<(i64, i64)> {
        let tenant = self.tenant(tenant)?;
        let (first, last) = (tenant.first.load(Ordering::Acquire), tenant.last.load(Ordering::Acquire));
        (first <= last).then_some((first, last))
    }

    /// The number of the tenant's rows.
    pub fn rows_of(&self, id: &TenantId) -> u64 {
        let rows =
            |tenant: Arc<TenantHead>| tenant.arrivals.lock().unwrap_or_else(PoisonError::into_inner).rows();
        self.tenant(id).map_or(0, rows)
    }

    /// What holds the tenant's rows in the range. The version of a holding changes with every new row.
    pub fn holdings(&self, id: &TenantId, range: TimeRange) -> Vec<Holding> {
        let Some((tenant, bounds)) = self.tenant(id).zip(self.bounds(id)) else { return Vec::new() };
        let arrivals = tenant.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.holdings((self.incarnation, self.start), bounds, range)
    }

    fn matching_streams(&self, wanted: WantedStreams<'_>, range: TimeRange) -> Vec<Arc<HeadStream>> {
        let WantedStreams { tenant, matchers, part } = wanted;
        let Some(tenant) = self.tenant(tenant) else { return Vec::new() };
        let (first, last) = (tenant.first.load(Ordering::Acquire), tenant.last.load(Ordering::Acquire));
        if range.is_empty() || first > last || !range.touches(first, last) {
            return Vec::new();
        }
        let list = tenant.streams.read().unwrap_or_else(PoisonError::into_inner).list.clone();
        let in_part = list.iter().filter(|stream| part.has(stream.id));
        let matching = in_part.filter(|stream| matches_all(matchers, &stream.labels));
        let touching = matching.filter(|stream| {
            let totals = stream.totals();
            totals.rows > 0 && range.touches(totals.first, totals.last)
        });
        touching.cloned().collect()
    }
}

impl Default for TenantHead {
    fn default() -> Self {
        let (first, last) = (AtomicI64::new(i64::MAX), AtomicI64::new(i64::MIN));
        Self { first, last, arrivals: Mutex::default(), streams: RwLock::default() }
    }
}

impl TenantHead {
    fn intern(&self, id: StreamId, labels: &Arc<Labels>) -> (Arc<HeadStream>, bool) {
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(&at) = streams.by_id.get(&id) {
            return (Arc::clone(streams.list.get(at as usize)), false);
        }
        let stream = Arc::new(HeadStream::new(id, Arc::clone(labels)));
        let at = streams.list.len() as u32;
        streams.by_id.insert(id, at);
        streams.list.push(Arc::clone(&stream));
        (stream, true)
    }
}

fn entry_bounds(entries: &[sandur_model::Entry]) -> (i64, i64) {
    let times = entries.iter().map(|entry| entry.timestamp);
    times.fold((i64::MAX, i64::MIN), |(first, last), t| (first.min(t), last.max(t)))
}

fn volume(stream: &Arc<HeadStream>, range: TimeRange) -> StreamVolume {
    let totals = stream.totals();
    let labels = Arc::clone(&stream.labels);
    let (mut lines, mut bytes) = (totals.rows, totals.line_bytes);
    if !range.covers(totals.first, totals.last) {
        (lines, bytes) = (0, 0);
        stream.rows().visit(range, |row| {
            lines += 1;
            bytes += u64::from(row.entry.line.len);
        });
    }
    StreamVolume { labels, lines, bytes, pages: bytes.div_ceil(PAGE_BYTES).max(1) }
}

#[cfg(test)]
mod tests;
