//! A batch whose differences have become totals, until its outcome is known: it holds the new states of
//! its series.

use std::sync::Arc;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};
use sandur_memory::Reservation;
use sandur_model::{MetricLimits, SampleBatch, StreamId, is_stale};
use sandur_runtime::Place;

use super::stream::{Point, Rejected, Stream};
use super::table::{Entry, Loaded, Tenant};
use super::total::{Difference, Total};
use crate::refused::{Cause, Reason};
use crate::samples::labels_check::ShownSeries;
use crate::samples::{DecodedSamples, DeltaSeries};

/// Holds the states that the series of a batch have once the batch is stored. Dropping it leaves the
/// states unchanged, unless storing has begun.
pub struct Added {
    tenant: Arc<Tenant>,
    work: HashMap<StreamId, Work>,
    /// New series, which count against the tenant's limit.
    new: u64,
    /// Memory that the new states need beyond what the kept ones hold.
    memory: Reservation,
    now: Duration,
    outcome: Outcome,
    /// Released last, which ends this batch's turn.
    _place: Place,
}

/// The outcome of the batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    NotStored,
    Unknown,
    Stored,
}

/// The states of one series before and after the batch.
struct Work {
    before: Option<Stream>,
    /// The state after the points so far; `None` before the first point, `Some(None)` when the series has
    /// ended.
    after: Option<Option<Stream>>,
    /// Whether the limit or the memory leaves no room for it.
    is_refused: bool,
}

impl Added {
    pub(super) fn new(tenant: Arc<Tenant>, memory: Reservation, now: Duration, place: Place) -> Self {
        let (work, outcome) = (HashMap::new(), Outcome::NotStored);
        Self { tenant, work, new: 0, memory, now, outcome, _place: place }
    }

    /// The batch is about to be stored: until [`Added::stored`] or [`Added::not_stored`] its outcome is
    /// unknown.
    pub fn storing(&mut self) {
        self.outcome = Outcome::Unknown;
    }

    /// The batch was not stored and will not be.
    pub fn not_stored(mut self) {
        self.outcome = Outcome::NotStored;
    }

    /// The batch was stored.
    pub fn stored(mut self) {
        self.outcome = Outcome::Stored;
    }

    pub(super) fn add_up(&mut self, limits: &MetricLimits, decoded: &mut DecodedSamples) {
        let deltas = std::mem::take(&mut decoded.deltas);
        decoded.batch.drop_text();
        self.load(&decoded.batch, &deltas, limits.otlp_delta_max_streams);
        let mut left_out = Vec::new();
        for delta in deltas {
            if let Err(rejected) = self.add_point(&mut decoded.batch, delta, limits) {
                left_out.push(delta.series);
                report(decoded, delta, rejected, limits);
            }
        }
        if !left_out.is_empty() {
            decoded.leave_out(&left_out);
        }
    }

    fn load(&mut self, batch: &SampleBatch, deltas: &[DeltaSeries], most: u64) {
        let tenant = Arc::clone(&self.tenant);
        let mut table = tenant.table();
        self.work.reserve(deltas.len());
        for delta in deltas {
            let Some(point) = point(batch, *delta) else { continue };
            let id = batch.series[delta.series as usize].id;
            if self.work.contains_key(&id) {
                continue;
            }
            let (before, is_refused) = match table.load(id, point.time_ms, (self.now, most), &mut self.memory)
            {
                Loaded::Known(stream) => (Some(stream), false),
                Loaded::New => {
                    self.new += 1;
                    (None, false)
                }
                Loaded::Full => (None, true),
            };
            self.work.insert(id, Work { before, after: None, is_refused });
        }
    }

    /// Adds the point of a series, if it has one.
    fn add_point(
        &mut self,
        batch: &mut SampleBatch,
        delta: DeltaSeries,
        limits: &MetricLimits,
    ) -> Result<(), Refused> {
        let Some(point) = point(batch, delta) else { return Ok(()) };
        let id = batch.series[delta.series as usize].id;
        let Some(work) = self.work.get_mut(&id) else { return Ok(()) };
        // The end of a series that is not kept changes nothing and needs no room.
        if work.is_refused && point.difference.is_some() {
            return Err(Refused::NoRoom);
        }
        let state = work.after.as_ref().unwrap_or(&work.before).as_ref();
        let after = Stream::after(state, &point, limits.max_native_histogram_buckets);
        let after = after.map_err(|rejected| Refused::Rejected(rejected, point.time_ms))?;
        let bytes = after.as_ref().map_or(0, |stream| stream.total.held_bytes());
        if bytes > 0 && self.memory.grow(bytes).is_err() {
            return Err(Refused::NoRoom);
        }
        if let Some(stream) = &after {
            show(batch, delta, stream);
        }
        work.after = Some(after);
        Ok(())
    }

    /// Writes the new states to the tenant's table, according to the outcome.
    fn settle(&mut self) {
        let tenant = Arc::clone(&self.tenant);
        let mut table = tenant.table();
        table.uncount_new(self.new);
        if self.outcome == Outcome::NotStored {
            return;
        }
        let is_known = self.outcome == Outcome::Stored;
        for (id, work) in self.work.drain() {
            let Some(after) = work.after else { continue };
            let entry = match (after, is_known) {
                (Some(stream), true) => Some(Entry { stream, seen: self.now, before: None }),
                (Some(stream), false) => {
                    Some(Entry { stream, seen: self.now, before: Some(Box::new(work.before)) })
                }
                (None, true) => None,
                // The series continues as if it had not ended: its total is the same.
                (None, false) => continue,
            };
            table.put(id, entry, &mut self.memory);
        }
    }
}

impl Drop for Added {
    fn drop(&mut self) {
        self.settle();
    }
}

/// Why a point is refused.
enum Refused {
    /// The reason, and the time of the point in milliseconds.
    Rejected(Rejected, i64),
    /// The tenant has reached its limit of series, or there is no memory.
    NoRoom,
}

/// Returns the point of a series of the batch, if it has one.
fn point(batch: &SampleBatch, delta: DeltaSeries) -> Option<Point<'_>> {
    let series = batch.series.get(delta.series as usize)?;
    let shape = delta.shape;
    if let Some((time_ms, value)) = batch.samples_of(series).next() {
        let start_ms = batch.start_of(series.samples.start as usize);
        let difference = (!is_stale(value)).then_some(Difference::Number(value));
        return Some(Point { start_ms, time_ms, shape, difference });
    }
    let sample = batch.histograms_of(series).first()?;
    let (start_ms, time_ms) = (sample.start, sample.timestamp);
    let difference = (!is_stale(sample.histogram.sum)).then_some(Difference::Native(&sample.histogram));
    Some(Point { start_ms, time_ms, shape, difference })
}

/// Replaces the difference in the batch with the total.
fn show(batch: &mut SampleBatch, delta: DeltaSeries, stream: &Stream) {
    let Some(series) = batch.series.get(delta.series as usize) else { return };
    match &stream.total {
        Total::Number(sum) => {
            let row = series.samples.start as usize;
            batch.values[row] = sum.value();
            if stream.start_ms != 0 && batch.starts.is_empty() {
                batch.starts.resize(batch.timestamps.len(), 0);
            }
            if let Some(start) = batch.starts.get_mut(row) {
                *start = stream.start_ms;
            }
        }
        Total::Native(histogram) => {
            if let Some(sample) = batch.histograms.get_mut(series.histograms.start as usize) {
                sample.start = stream.start_ms;
                sample.histogram = Arc::clone(histogram);
            }
        }
    }
}

/// Counts a refused point and records the message for the client.
fn report(decoded: &mut DecodedSamples, delta: DeltaSeries, refused: Refused, limits: &MetricLimits) {
    let DecodedSamples { batch, refused: refusals, .. } = decoded;
    let Some(series) = batch.series.get(delta.series as usize) else { return };
    let reason = match refused {
        Refused::Rejected(Rejected::OutOfOrder { .. }, _) => Reason::DeltaOutOfOrder,
        Refused::Rejected(Rejected::OlderStart { .. }, _) => Reason::DeltaOlderStart,
        Refused::Rejected(Rejected::TooManyBuckets, _) => Reason::TooManyBuckets,
        Refused::NoRoom => Reason::TooManyDeltaStreams,
    };
    refusals.count(reason, 1, 0);
    refusals.report(Cause { reason, stream: series.id, number: 0 }, || {
        let shown = ShownSeries(&series.labels);
        match refused {
            Refused::Rejected(Rejected::OutOfOrder { last_ms }, time_ms) => format!(
                "out of order: a point of delta temporality with timestamp {time_ms} is no newer than the \
                 last one of its series, {last_ms}: it was counted before, or it is too late, series: \
                 '{shown}'"
            ),
            Refused::Rejected(Rejected::OlderStart { start_ms }, time_ms) => format!(
                "a point of delta temporality with timestamp {time_ms} began to count before its series, \
                 which began at {start_ms}: do several processes send the same series? series: '{shown}'"
            ),
            Refused::Rejected(Rejected::TooManyBuckets, time_ms) => format!(
                "with the point of delta temporality with timestamp {time_ms} the histogram has \
                 too many buckets in every schema (limits.metrics.max_native_histogram_buckets: {}), \
                 series: '{shown}'",
                limits.max_native_histogram_buckets
            ),
            Refused::NoRoom => format!(
                "too many series of delta temporality: the tenant has reached its limit \
                 (limits.metrics.otlp_delta_max_streams: {}) or memory is short (--memory-limit), \
                 series: '{shown}'",
                limits.otlp_delta_max_streams
            ),
        }
    });
}
