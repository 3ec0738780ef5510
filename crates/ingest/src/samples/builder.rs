//! Builds a batch of samples: limits, what is refused, and memory. Decoders of all protocols end here.

use std::sync::Arc;

use bytes::Bytes;
use sandur_model::histogram::SCHEMA_MAX;
use sandur_model::{
    Arena, DAY_NS, Exemplar, FloatHistogram, HistogramSample, LabelText, Labels, Limits, MILLISECOND_NS,
    MetricMetadata, SampleBatch, SeriesLabels, Span, StreamId,
};

use super::decoded::{DecodedSamples, DeltaSeries, Written};
use super::items::Items;
use super::labels_check::{Refusal, ShownSeries, check_limits, labels_of};
use super::name_cache::KnownName;
use super::series_cache::{KnownSeries, SeriesCache, SeriesReader};
use super::series_key::{SeriesKey, SeriesNaming};
use crate::error::Error;
use crate::memory::Meter;
use crate::refused::{Cause, RUNS_MAX, Reason, Refused, Run};
use crate::request::{Body, Push};

/// Series of one request, so that memory stays in proportion to the body.
pub const SERIES_MAX: usize = 1_000_000;
/// Samples of one request.
pub const SAMPLES_MAX: usize = 10_000_000;
/// Bytes of the labels of one series as they are sent.
pub const SERIES_LABELS_MAX: usize = 64 << 10;
/// Bytes of labels that are read for one request: a symbol, an attribute of a resource or the labels of a
/// histogram are sent once and are part of many series.
const NAMED_BYTES_MAX: u64 = 2 << 30;
/// Labels of one series or exemplar, whatever a tenant's limits say.
pub(crate) const LABELS_MAX: usize = 16_384;
/// Memory that a label set takes for each byte of its text, at most: a label of two bytes is two boxed
/// strings.
const LABELS_EXPANSION: u64 = 32;

/// A request that brings samples, beside its body.
#[derive(Clone, Copy)]
pub struct SamplePush<'a> {
    /// Whose it is, its limits, the time, and how its body is to be read.
    pub push: Push<'a>,
    /// Series that were seen before.
    pub series: &'a SeriesCache,
    /// Which items of the body are read.
    pub items: Items<'a>,
}

/// A series or an exemplar with more labels than are read.
#[cold]
pub(crate) fn too_many_labels() -> Error {
    Error::TooMany { what: "labels of one series", limit: LABELS_MAX as u64 }
}

impl<'a> SamplePush<'a> {
    /// One of which everything is read.
    pub fn new(push: Push<'a>, series: &'a SeriesCache) -> Self {
        Self { push, series, items: Items::ALL }
    }
}

/// A batch that is being built.
pub(crate) struct SampleBuilder<'a> {
    push: SamplePush<'a>,
    series: SeriesReader<'a>,
    memory: Meter,
    batch: SampleBatch,
    refused: Refused,
    written: Written,
    deltas: Vec<DeltaSeries>,
    oldest_ms: i64,
    newest_ms: i64,
    /// Whether all labels and values stand in the body, so that it may be kept as the batch's arena.
    body_tells_all: bool,
    /// Where a zero stands that the body leaves out: behind it.
    zero_at: u32,
    has_zero: bool,
    /// Bytes of labels that were read, whether they were new or not.
    named: u64,
    /// Items of the body that were met.
    met: u64,
    /// The line of a text that is being read, from 0, until something of it is refused. Only where it is
    /// asked which lines are refused.
    line: Option<u32>,
    /// The line of each series, where that is asked.
    lines: Vec<u32>,
}

/// A native histogram as a decoder read it.
pub(crate) struct NewHistogram {
    pub(crate) time_ms: i64,
    pub(crate) start_ms: i64,
    pub(crate) integer: bool,
    pub(crate) histogram: FloatHistogram,
}

/// Bytes of a body for each float sample in it, up to which the body is kept: beyond, its columns alone are
/// smaller.
const BODY_BYTES_PER_SAMPLE: usize = 1 << 10;
/// The finest schema that senders may use; finer ones than are stored are made coarser.
const SCHEMA_FINEST: i32 = 52;
/// Characters of the labels of an exemplar.
const EXEMPLAR_LABELS_MAX: usize = 128;

/// The first and the last time that a sample may have, whatever a tenant's limits say: the days around them
/// have a beginning and an end that are times too.
const EARLIEST_MS: i64 = (i64::MIN + 2 * DAY_NS) / MILLISECOND_NS;
const LATEST_MS: i64 = (i64::MAX - 2 * DAY_NS) / MILLISECOND_NS;

impl<'a> SampleBuilder<'a> {
    /// An empty batch of a body of so many bytes that may become the batch's arena.
    pub(crate) fn new(push: SamplePush<'a>, body_bytes: usize, memory: &Meter) -> Self {
        let (limits, now_ns) = (&push.push.limits.metrics, push.push.now_ns);
        let newest_ms = match limits.creation_grace_period {
            0 => LATEST_MS,
            grace => (now_ns.saturating_add(grace) / MILLISECOND_NS).min(LATEST_MS),
        };
        let oldest_ms = match limits.out_of_order_time_window {
            0 => EARLIEST_MS,
            window => (now_ns.saturating_sub(window) / MILLISECOND_NS).max(EARLIEST_MS),
        };
        Self {
            push,
            series: push.series.reader(),
            memory: memory.clone(),
            batch: SampleBatch::new(push.push.tenant.clone()),
            refused: Refused::default(),
            written: Written::default(),
            deltas: Vec::new(),
            oldest_ms,
            newest_ms,
            body_tells_all: true,
            zero_at: body_bytes as u32,
            has_zero: false,
            named: 0,
            met: 0,
            line: None,
            lines: Vec::new(),
        }
    }

    /// Takes the memory for noting which lines are refused.
    pub(crate) fn reserve_notes(&self) -> Result<(), Error> {
        self.memory.take((RUNS_MAX * size_of::<Run>()) as u64)
    }

    /// Begins a line of a text, from 0, which is noted when something of it is refused.
    pub(crate) fn begin_line(&mut self, line: u32) {
        self.line = Some(line);
    }

    /// Ends a line that was begun: it brought one series at most.
    pub(crate) fn end_line(&mut self, line: u32) -> Result<(), Error> {
        self.line = None;
        if self.lines.len() < self.batch.series.len() {
            self.memory.widen(&mut self.lines, 1, SERIES_MAX)?;
            self.lines.push(line);
        }
        Ok(())
    }

    /// Notes that something of the open line is refused; once, for the first reason.
    fn note_line(&mut self, reason: Reason) {
        if let Some(line) = self.line.take() {
            self.refused.note(reason, line, 1);
        }
    }

    /// The tenant's limits.
    pub(crate) fn limits(&self) -> &'a Limits {
        self.push.push.limits
    }

    /// Series that were seen before.
    pub(crate) fn cache(&self) -> &'a SeriesCache {
        self.series.cache()
    }

    /// Whether the next item of the body is one of those that are read.
    #[inline]
    pub(crate) fn takes_next(&mut self) -> bool {
        let at = self.met;
        self.met += 1;
        self.push.items.takes(at)
    }

    /// Whether all items of the body are read at once.
    pub(crate) fn reads_all(&self) -> bool {
        self.push.items.are_all()
    }

    /// Where memory comes from.
    pub(crate) fn memory(&self) -> &Meter {
        &self.memory
    }

    /// The series of a key; `pairs` gives its labels when it is not known. `size` is that of the labels as
    /// they were sent.
    #[inline]
    pub(crate) fn series<'p>(
        &mut self,
        key: SeriesKey,
        size: usize,
        pairs: impl FnOnce() -> Result<Vec<(&'p [u8], &'p [u8])>, Error>,
    ) -> Result<Result<KnownSeries, Refusal>, Error> {
        let known = match self.series.get(key) {
            Some(known) => known,
            None => match self.new_series(key, size, pairs)? {
                Ok(known) => known,
                Err(refusal) => return Ok(Err(refusal)),
            },
        };
        Ok(check_limits(&known, &self.limits().metrics).map(|()| known))
    }

    /// Counts bytes of labels that are read.
    fn name_bytes(&mut self, bytes: usize) -> Result<(), Error> {
        self.named += bytes as u64;
        match self.named > NAMED_BYTES_MAX {
            true => Err(Error::TooMany { what: "bytes of labels", limit: NAMED_BYTES_MAX }),
            false => Ok(()),
        }
    }

    #[cold]
    fn new_series<'p>(
        &mut self,
        key: SeriesKey,
        size: usize,
        pairs: impl FnOnce() -> Result<Vec<(&'p [u8], &'p [u8])>, Error>,
    ) -> Result<Result<KnownSeries, Refusal>, Error> {
        if size > SERIES_LABELS_MAX {
            let text =
                format!("received a series with {size} bytes of labels, limit: {SERIES_LABELS_MAX} bytes");
            return Ok(Err((Reason::InvalidLabels, text)));
        }
        self.name_bytes(size)?;
        // The batch may outlive the entry in the cache.
        let most = size as u64 * LABELS_EXPANSION;
        self.memory.take(most)?;
        let labels = labels_of(&mut pairs()?);
        let known = labels.map(KnownSeries::new);
        self.memory.give(most - known.as_ref().map_or(0, KnownSeries::bytes).min(most));
        if let Ok(known) = &known {
            self.series.insert(key, known);
        }
        Ok(known)
    }

    /// The series of a key, if it was seen before.
    pub(crate) fn known(&mut self, key: SeriesKey) -> Option<Result<KnownSeries, Refusal>> {
        let known = self.series.get(key)?;
        Some(check_limits(&known, &self.limits().metrics).map(|()| known))
    }

    /// Keeps what is known of names of Graphite's.
    pub(crate) fn keep_known_names(&mut self, names: &[(SeriesKey, KnownName)]) {
        self.series.keep_names(names);
    }

    /// The series of a name of Graphite's whose labels are ready, when it is not known. `size` is that of the
    /// name that they were made of.
    pub(crate) fn series_of_labels(&mut self, size: usize, labels: Labels) -> Result<KnownSeries, Error> {
        self.name_bytes(size)?;
        let known = KnownSeries::new(labels);
        self.memory.take(known.bytes())?;
        Ok(known)
    }

    /// The series of these labels, in the order in which they were sent.
    pub(crate) fn series_of_pairs(
        &mut self,
        pairs: Vec<(&[u8], &[u8])>,
    ) -> Result<Result<KnownSeries, Refusal>, Error> {
        let size: usize = pairs.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
        self.name_bytes(size)?;
        self.memory.take(size as u64)?;
        let mut name = Vec::with_capacity(size);
        for (label, value) in &pairs {
            name.extend_from_slice(label);
            name.push(0xFF);
            name.extend_from_slice(value);
            name.push(0xFF);
        }
        let key = self.cache().key(SeriesNaming::Pairs, &name);
        let found = self.series(key, size, || Ok(pairs));
        self.memory.give(size as u64);
        found
    }

    /// Leaves a series out; `samples` are how many it has.
    pub(crate) fn refuse_series(&mut self, (reason, text): Refusal, samples: u64) {
        self.refused.count(reason, samples.max(1), 0);
        self.note_line(reason);
        let cause =
            Cause { reason, stream: StreamId(xxhash_rust::xxh3::xxh3_128(text.as_bytes())), number: 0 };
        self.refused.tell(cause, || text);
    }

    /// Begins a series, whose samples follow. `text` is where its labels stand in the body.
    #[inline]
    pub(crate) fn begin(&mut self, series: KnownSeries, text: Option<Span>) -> Result<(), Error> {
        self.begin_labels(series.id, SeriesLabels::ready(series.labels, series.label_count), text)
    }

    /// Begins a series of a known name of Graphite's, which stands in the arena, if the batch has one.
    #[inline]
    pub(crate) fn begin_name(
        &mut self,
        known: KnownName,
        name: &str,
        (text, time_ms): (Option<Span>, i64),
    ) -> Result<(), Error> {
        // Who looks at the labels before there is an arena needs the name.
        let labels = match text.is_some() && (self.oldest_ms..=self.newest_ms).contains(&time_ms) {
            true => SeriesLabels::unnamed(known.label_count),
            false => SeriesLabels::of_name(name, known.label_count),
        };
        self.memory.take(labels.name_bytes())?;
        self.begin_labels(known.id, labels, text)
    }

    #[inline]
    fn begin_labels(&mut self, id: StreamId, labels: SeriesLabels, text: Option<Span>) -> Result<(), Error> {
        if self.batch.series.len() >= SERIES_MAX {
            return Err(Error::TooMany { what: "series", limit: SERIES_MAX as u64 });
        }
        self.memory.widen(&mut self.batch.series, 1, SERIES_MAX)?;
        self.body_tells_all &= text.is_some();
        self.batch.begin_series(id, labels, text.unwrap_or_default());
        Ok(())
    }

    /// Says that the series that was begun last is of delta temporality.
    pub(crate) fn is_delta(&mut self, shape: u32) -> Result<(), Error> {
        self.memory.widen(&mut self.deltas, 1, SERIES_MAX)?;
        self.memory.take(crate::delta::WORK_BYTES)?;
        let series = self.batch.series.len().saturating_sub(1) as u32;
        self.deltas.push(DeltaSeries { series, shape });
        Ok(())
    }

    /// Leaves out a line of a text.
    pub(crate) fn refuse_line(&mut self, reason: Reason, text: String) {
        self.refuse_series((reason, text), 1);
    }

    /// Adds a sample to the open series, unless its time is out of bounds. `offset` is where its value stands
    /// in the body, if it does.
    #[inline]
    pub(crate) fn sample(&mut self, time_ms: i64, bits: u64, offset: Option<u32>) -> Result<bool, Error> {
        if !self.is_in_time(time_ms) {
            return Ok(false);
        }
        if self.batch.timestamps.len() >= SAMPLES_MAX {
            return Err(Error::TooMany { what: "samples", limit: SAMPLES_MAX as u64 });
        }
        self.memory.widen(&mut self.batch.timestamps, 1, SAMPLES_MAX)?;
        self.memory.widen(&mut self.batch.values, 1, SAMPLES_MAX)?;
        self.memory.widen(&mut self.batch.value_offsets, 1, SAMPLES_MAX)?;
        if !self.batch.starts.is_empty() {
            self.memory.widen(&mut self.batch.starts, 1, SAMPLES_MAX)?;
        }
        let offset = match offset {
            Some(offset) => offset,
            None => {
                self.has_zero = true;
                self.body_tells_all &= bits == 0;
                self.zero_at
            }
        };
        self.batch.push_stored_sample(time_ms, f64::from_bits(bits), offset);
        self.written.samples += 1;
        Ok(true)
    }

    /// Says when counting began for the sample that was added last.
    pub(crate) fn start(&mut self, start_ms: i64) -> Result<(), Error> {
        if start_ms != 0 && self.batch.starts.is_empty() {
            let samples = self.batch.timestamps.capacity();
            self.memory.widen(&mut self.batch.starts, samples, SAMPLES_MAX)?;
        }
        self.batch.set_start(start_ms);
        Ok(())
    }

    /// Adds a native histogram to the open series, unless its time is out of bounds or its parts do not fit.
    pub(crate) fn histogram(&mut self, new: NewHistogram) -> Result<(), Error> {
        let NewHistogram { time_ms, start_ms, integer, mut histogram } = new;
        if !self.is_in_time(time_ms) {
            return Ok(());
        }
        if (SCHEMA_MAX + 1..=SCHEMA_FINEST).contains(&histogram.schema) {
            histogram = histogram.to_schema(SCHEMA_MAX);
        }
        let buckets = (histogram.positive.len() + histogram.negative.len()) as u64;
        let limit = self.limits().metrics.max_native_histogram_buckets;
        if limit > 0 && buckets > limit {
            let text = format!(
                "received a native histogram sample with too many buckets, timestamp: {time_ms}, buckets: \
                 {buckets}, limit: {limit} (err-mimir-max-native-histogram-buckets). To adjust the related \
                 per-tenant limit, configure limits.metrics.max_native_histogram_buckets, series: '{}'",
                self.shown()
            );
            self.refuse_one(Reason::TooManyBuckets, text);
            return Ok(());
        }
        if let Err(error) = histogram.validate() {
            self.refuse_histogram(&error.to_string());
            return Ok(());
        }
        let bytes = size_of::<HistogramSample>() as u64 + histogram.memory_bytes();
        self.memory.take(bytes)?;
        let sample =
            HistogramSample { timestamp: time_ms, start: start_ms, integer, histogram: histogram.into() };
        self.batch.push_histogram(sample);
        self.written.histograms += 1;
        Ok(())
    }

    /// Leaves out a native histogram of the open series.
    pub(crate) fn refuse_histogram(&mut self, why: &str) {
        let text = format!("{why} for series {}", self.shown());
        self.refuse_one(Reason::InvalidHistogram, text);
    }

    /// Adds an exemplar to the open series. One that cannot be kept is counted; it is no failure of the
    /// request.
    pub(crate) fn exemplar(
        &mut self,
        pairs: &[(&[u8], &[u8])],
        value: f64,
        time_ms: i64,
    ) -> Result<(), Error> {
        let valid = pairs
            .iter()
            .map(|(name, value)| Some((std::str::from_utf8(name).ok()?, std::str::from_utf8(value).ok()?)));
        let valid: Option<Vec<(&str, &str)>> = valid.collect();
        let characters = |pairs: &[(&str, &str)]| -> usize {
            pairs.iter().map(|(name, value)| name.chars().count() + value.chars().count()).sum()
        };
        match valid.filter(|pairs| characters(pairs) <= EXEMPLAR_LABELS_MAX) {
            Some(pairs) if time_ms <= self.newest_ms && time_ms >= EARLIEST_MS => {
                let exemplar =
                    Exemplar { labels: sandur_model::Labels::from_pairs(pairs), value, timestamp: time_ms };
                self.memory.take(size_of::<Exemplar>() as u64 + 8 + exemplar.held_bytes())?;
                self.batch.push_exemplar(exemplar);
                self.written.exemplars += 1;
            }
            _ => self.refused.count(Reason::InvalidExemplar, 1, 0),
        }
        Ok(())
    }

    /// Adds what is told of a metric family, once.
    pub(crate) fn metadata(&mut self, metadata: MetricMetadata) -> Result<(), Error> {
        if metadata.family.is_empty() {
            return Ok(());
        }
        self.memory.take(metadata.memory_bytes())?;
        self.batch.metadata.push(metadata);
        self.written.metadata += 1;
        Ok(())
    }

    /// Whether a sample's time is within the limits; counts and tells when it is not.
    #[inline]
    fn is_in_time(&mut self, time_ms: i64) -> bool {
        let in_time = (self.oldest_ms..=self.newest_ms).contains(&time_ms);
        if !in_time {
            self.refuse_time(time_ms);
        }
        in_time
    }

    /// The open series, for texts.
    fn shown(&self) -> String {
        self.batch.series.last().map_or_else(String::new, |series| ShownSeries(&series.labels).to_string())
    }

    /// Leaves out one sample of the open series.
    pub(crate) fn refuse_one(&mut self, reason: Reason, text: String) {
        self.refused.count(reason, 1, 0);
        self.note_line(reason);
        let stream = self.batch.series.last().map_or(StreamId(0), |series| series.id);
        self.refused.tell(Cause { reason, stream, number: 0 }, || text);
    }

    #[cold]
    fn refuse_time(&mut self, time_ms: i64) {
        let reason = match time_ms {
            ..EARLIEST_MS => Reason::TimestampOutOfRange,
            time_ms if time_ms > LATEST_MS => Reason::TimestampOutOfRange,
            time_ms if time_ms < self.oldest_ms => Reason::SampleTooOld,
            _ => Reason::TooNew,
        };
        self.note_line(reason);
        let Some(series) = self.batch.series.last() else { return };
        self.refused.count(reason, 1, 0);
        let cause = Cause { reason, stream: series.id, number: 0 };
        self.refused.tell(cause, || {
            let shown = ShownSeries(&series.labels);
            match reason {
                Reason::TimestampOutOfRange => format!(
                    "out of bounds: received a sample whose timestamp cannot be stored, timestamp: {time_ms} \
                     series: '{shown}'. Timestamps are milliseconds, and the years 1678 to 2261 can be stored"
                ),
                Reason::SampleTooOld => format!(
                    "too old sample: received a sample whose timestamp is too far in the past, timestamp: \
                     {time_ms} series: '{shown}' (err-mimir-sample-timestamp-too-old). To adjust the related \
                     per-tenant limit, configure limits.metrics.out_of_order_time_window"
                ),
                _ => format!(
                    "out of bounds: received a sample whose timestamp is too far in the future, timestamp: \
                     {time_ms} series: '{shown}' (err-mimir-too-far-in-future). To adjust the related \
                     per-tenant limit, configure limits.metrics.creation_grace_period"
                ),
            }
        });
    }

    /// Ends the open series, which is forgotten when nothing of it was accepted.
    #[inline]
    pub(crate) fn end(&mut self) {
        let Some(series) = self.batch.series.last() else { return };
        if series.samples.is_empty() && series.histograms.is_empty() {
            self.drop_empty();
        }
    }

    #[cold]
    fn drop_empty(&mut self) {
        let last = self.batch.series.len().saturating_sub(1) as u32;
        if self.deltas.pop_if(|delta| delta.series == last).is_some() {
            self.memory.give(crate::delta::WORK_BYTES);
        }
        if self.batch.exemplars.last().is_none_or(|exemplar| exemplar.series != last) {
            self.batch.series.pop();
        }
    }

    /// The batch without the body, and what was left out of it.
    pub(crate) fn finish(mut self) -> DecodedSamples {
        self.memory.give((self.batch.value_offsets.capacity() * size_of::<u32>()) as u64);
        self.batch.value_offsets = Vec::new();
        self.batch.series.iter_mut().for_each(|series| series.text = Span::default());
        let Self { batch, refused, written, deltas, lines, .. } = self;
        DecodedSamples { batch, refused, written, deltas, lines }
    }

    /// Gives the series that were begun until now names of their own, of a text that goes.
    pub(crate) fn keep_names(&mut self, text: &[u8]) -> Result<(), Error> {
        for series in self.batch.series.iter_mut() {
            let name = std::str::from_utf8(series.text.of(text)).unwrap_or_default();
            let mut own = SeriesLabels::of_name(name, series.labels.count() as u32);
            if series.labels.is_unnamed() {
                self.memory.take(own.name_bytes())?;
                std::mem::swap(&mut series.labels, &mut own);
            }
        }
        Ok(())
    }

    /// The batch with an arena of names, each with the value of its sample behind it.
    pub(crate) fn finish_with_names(mut self, arena: Vec<u8>) -> DecodedSamples {
        let arena = Bytes::from(arena);
        let text = Arc::new(arena.clone());
        self.batch.series.iter_mut().for_each(|series| series.labels.set_text(&text, series.text));
        self.batch.arena = Arena { bytes: arena, compressed: None };
        self.batch.label_text = LabelText::Names;
        let Self { batch, refused, written, deltas, lines, .. } = self;
        DecodedSamples { batch, refused, written, deltas, lines }
    }

    /// The batch with the body that was read, if it tells all of it in less bytes than its columns would
    /// take.
    pub(crate) fn finish_over(
        mut self,
        plain: Vec<u8>,
        block: Bytes,
        label_text: LabelText,
    ) -> Result<DecodedSamples, Error> {
        let pays = self.reads_all() && plain.len() <= self.batch.timestamps.len() * BODY_BYTES_PER_SAMPLE;
        if !self.body_tells_all || !pays {
            self.memory.give(plain.len() as u64);
            return Ok(self.finish());
        }
        let tail: &[u8] = if self.has_zero { &[0; 8] } else { &[] };
        let arena: Arena = Body::Snappy { plain, block }.into_arena(tail, &self.memory)?;
        self.batch.arena = arena;
        self.batch.label_text = label_text;
        let Self { batch, refused, written, deltas, lines, .. } = self;
        Ok(DecodedSamples { batch, refused, written, deltas, lines })
    }
}
