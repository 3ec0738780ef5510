//! Builds a batch of samples for the decoders of all protocols: applies limits, records refusals and
//! reserves memory.

use std::sync::Arc;

use bytes::Bytes;
use sandur_model::histogram::{SCHEMA_MAX, Span as BucketSpan};
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
use crate::memory::DecoderMemory;
use crate::refused::{Cause, RUNS_MAX, Reason, Refused, Run};
use crate::request::{Body, Push};

/// Most series of one request, so that memory stays in proportion to the body.
pub const SERIES_MAX: usize = 1_000_000;
/// Most samples of one request.
pub const SAMPLES_MAX: usize = 10_000_000;
/// Most bytes of the labels of one series as sent.
pub const SERIES_LABELS_MAX: usize = 64 << 10;
/// Most bytes of labels that are read for one request. A symbol, an attribute of a resource or the labels
/// of a histogram are sent once and become part of many series.
const NAMED_BYTES_MAX: u64 = 2 << 30;
/// Most labels of one series or exemplar, whatever the tenant's limits are.
pub(crate) const LABELS_MAX: usize = 16_384;
/// Most bytes of memory of a label set per byte of its text: a label of two bytes is two boxed strings.
const LABELS_EXPANSION: u64 = 32;

/// A request with samples, without its body.
#[derive(Clone, Copy)]
pub struct SamplePush<'a> {
    /// The tenant, its limits, the time, and the headers of the body.
    pub push: Push<'a>,
    /// The cache of known series.
    pub series: &'a SeriesCache,
    /// The items of the body to read.
    pub items: Items<'a>,
}

/// The error for a series or an exemplar with more than [`LABELS_MAX`] labels.
#[cold]
pub(crate) fn too_many_labels() -> Error {
    Error::TooMany { what: "labels of one series", limit: LABELS_MAX as u64 }
}

impl<'a> SamplePush<'a> {
    /// Returns a push whose items are all read.
    pub fn new(push: Push<'a>, series: &'a SeriesCache) -> Self {
        Self { push, series, items: Items::ALL }
    }
}

/// A batch that is being built.
pub(crate) struct SampleBuilder<'a> {
    push: SamplePush<'a>,
    series: SeriesReader<'a>,
    memory: DecoderMemory,
    batch: SampleBatch,
    pub(crate) refused: Refused,
    written: Written,
    deltas: Vec<DeltaSeries>,
    oldest_ms: i64,
    newest_ms: i64,
    /// Whether all labels and values are in the body, so that it may become the batch's arena.
    body_has_all: bool,
    /// Offset of a zero for values that the body omits: directly after the body.
    zero_at: u32,
    has_zero: bool,
    /// Bytes of the labels that were read, of new and of known series.
    named: u64,
    /// Items of the body so far.
    met: u64,
    /// The current line of the text, from 0; `None` once a part of it is refused. Used only if the caller
    /// requests the refused lines.
    line: Option<u32>,
    /// The line of each series, if the caller requests the refused lines.
    lines: Vec<u32>,
    /// Lists that the decoder of histograms uses again: at most a KiB.
    pub(crate) spans: [Vec<BucketSpan>; 2],
}

/// A native histogram as decoded.
pub(crate) struct NewHistogram {
    pub(crate) time_ms: i64,
    pub(crate) start_ms: i64,
    pub(crate) integer: bool,
    pub(crate) histogram: FloatHistogram,
}

/// Most bytes of body per float sample for which the body is kept. Above this the columns alone take less
/// memory.
const BODY_BYTES_PER_SAMPLE: usize = 1 << 10;
/// The finest schema that senders may use. Schemas finer than the stored ones are converted to coarser
/// ones.
const SCHEMA_FINEST: i32 = 52;
/// Most characters of the labels of an exemplar.
const EXEMPLAR_LABELS_MAX: usize = 128;

/// The first and the last time that a sample may have, whatever the tenant's limits are: the start and
/// end of the surrounding days must be valid times too.
const EARLIEST_MS: i64 = (i64::MIN + 2 * DAY_NS) / MILLISECOND_NS;
const LATEST_MS: i64 = (i64::MAX - 2 * DAY_NS) / MILLISECOND_NS;

impl<'a> SampleBuilder<'a> {
    /// Returns an empty batch for a body of `body_bytes` bytes that may become the batch's arena.
    pub(crate) fn new(push: SamplePush<'a>, body_bytes: usize, memory: &DecoderMemory) -> Self {
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
            body_has_all: true,
            zero_at: body_bytes as u32,
            has_zero: false,
            named: 0,
            met: 0,
            line: None,
            lines: Vec::new(),
            spans: Default::default(),
        }
    }

    /// Reserves memory for recording the refused lines.
    pub(crate) fn reserve_notes(&self) -> Result<(), Error> {
        self.memory.take((RUNS_MAX * size_of::<Run>()) as u64)
    }

    /// Begins a line of a text, counted from 0. The line is recorded when a part of it is refused.
    pub(crate) fn begin_line(&mut self, line: u32) {
        self.line = Some(line);
    }

    /// Ends the current line, which held at most one series.
    pub(crate) fn end_line(&mut self, line: u32) -> Result<(), Error> {
        self.line = None;
        if self.lines.len() < self.batch.series.len() {
            self.memory.widen(&mut self.lines, 1, SERIES_MAX)?;
            self.lines.push(line);
        }
        Ok(())
    }

    /// Records that a part of the current line is refused; only the first reason of a line counts.
    fn note_line(&mut self, reason: Reason) {
        if let Some(line) = self.line.take() {
            self.refused.note(reason, line, 1);
        }
    }

    /// Returns the tenant's limits.
    pub(crate) fn limits(&self) -> &'a Limits {
        self.push.push.limits
    }

    /// Returns the cache of known series.
    pub(crate) fn cache(&self) -> &'a SeriesCache {
        self.series.cache()
    }

    /// Whether the next item of the body is to be read. Counts the item.
    #[inline]
    pub(crate) fn takes_next(&mut self) -> bool {
        let at = self.met;
        self.met += 1;
        self.push.items.takes(at)
    }

    /// Whether all items of the body are read in one call.
    pub(crate) fn reads_all(&self) -> bool {
        self.push.items.are_all()
    }

    /// Where the builder reserves its memory.
    pub(crate) fn memory(&self) -> &DecoderMemory {
        &self.memory
    }

    /// Returns the series of a key. Calls `pairs` for its labels when it is not known. `size` is the
    /// number of bytes of the labels as sent.
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

    /// Counts bytes of labels that are read, and fails above [`NAMED_BYTES_MAX`].
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

    /// Returns the series of a key if it is known.
    pub(crate) fn known(&mut self, key: SeriesKey) -> Option<Result<KnownSeries, Refusal>> {
        let known = self.series.get(key)?;
        Some(check_limits(&known, &self.limits().metrics).map(|()| known))
    }

    /// Adds Graphite names to the cache.
    pub(crate) fn keep_known_names(&mut self, names: &[(SeriesKey, KnownName)]) {
        self.series.keep_names(names);
    }

    /// Returns the series of a Graphite name that is not known, from its parsed labels. `size` is the
    /// number of bytes of the name.
    pub(crate) fn series_of_labels(&mut self, size: usize, labels: Labels) -> Result<KnownSeries, Error> {
        self.name_bytes(size)?;
        let known = KnownSeries::new(labels);
        self.memory.take(known.bytes())?;
        Ok(known)
    }

    /// Returns the series of these labels, which are in the order in which they were sent.
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

    /// Refuses a series with this number of samples.
    pub(crate) fn refuse_series(&mut self, (reason, text): Refusal, samples: u64) {
        self.refused.count(reason, samples.max(1), 0);
        self.note_line(reason);
        let cause =
            Cause { reason, stream: StreamId(xxhash_rust::xxh3::xxh3_128(text.as_bytes())), number: 0 };
        self.refused.report(cause, || text);
    }

    /// Begins a series, whose samples follow. `text` is the span of its labels in the body.
    #[inline]
    pub(crate) fn begin(&mut self, series: KnownSeries, text: Option<Span>) -> Result<(), Error> {
        self.begin_labels(series.id, SeriesLabels::ready(series.labels, series.label_count), text)
    }

    /// Begins a series of a known Graphite name, whose span is in the arena if the batch has one.
    #[inline]
    pub(crate) fn begin_name(
        &mut self,
        known: KnownName,
        name: &str,
        (text, time_ms): (Option<Span>, i64),
    ) -> Result<(), Error> {
        // A reader of the labels needs the name until the arena is set.
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
        self.body_has_all &= text.is_some();
        self.batch.begin_series(id, labels, text.unwrap_or_default());
        Ok(())
    }

    /// Marks the last series as one of delta temporality.
    pub(crate) fn is_delta(&mut self, shape: u32) -> Result<(), Error> {
        self.memory.widen(&mut self.deltas, 1, SERIES_MAX)?;
        self.memory.take(crate::delta::WORK_BYTES)?;
        let series = self.batch.series.len().saturating_sub(1) as u32;
        self.deltas.push(DeltaSeries { series, shape });
        Ok(())
    }

    /// Refuses a line of a text.
    pub(crate) fn refuse_line(&mut self, reason: Reason, text: String) {
        self.refuse_series((reason, text), 1);
    }

    /// Adds a sample to the open series, unless its time is out of bounds, and returns whether it was
    /// added. `offset` is the offset of its value in the body, if the body holds it.
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
                self.body_has_all &= bits == 0;
                self.zero_at
            }
        };
        self.batch.push_stored_sample(time_ms, f64::from_bits(bits), offset);
        self.written.samples += 1;
        Ok(true)
    }

    /// Sets the start time of the last sample.
    pub(crate) fn start(&mut self, start_ms: i64) -> Result<(), Error> {
        if start_ms != 0 && self.batch.starts.is_empty() {
            let samples = self.batch.timestamps.capacity();
            self.memory.widen(&mut self.batch.starts, samples, SAMPLES_MAX)?;
        }
        self.batch.set_start(start_ms);
        Ok(())
    }

    /// Adds a native histogram to the open series, unless its time is out of bounds or it is invalid.
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

    /// Refuses a native histogram of the open series.
    pub(crate) fn refuse_histogram(&mut self, why: &str) {
        let text = format!("{why} for series {}", self.shown());
        self.refuse_one(Reason::InvalidHistogram, text);
    }

    /// Adds an exemplar to the open series. An exemplar that cannot be kept is counted; the client reads
    /// no message about it.
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

    /// Adds the description of a metric family.
    pub(crate) fn metadata(&mut self, metadata: MetricMetadata) -> Result<(), Error> {
        if metadata.family.is_empty() {
            return Ok(());
        }
        self.memory.take(metadata.memory_bytes())?;
        self.batch.metadata.push(metadata);
        self.written.metadata += 1;
        Ok(())
    }

    /// Whether a sample's time is within the limits. Records a refusal when it is not.
    #[inline]
    fn is_in_time(&mut self, time_ms: i64) -> bool {
        let in_time = (self.oldest_ms..=self.newest_ms).contains(&time_ms);
        if !in_time {
            self.refuse_time(time_ms);
        }
        in_time
    }

    /// Formats the open series for messages.
    fn shown(&self) -> String {
        self.batch.series.last().map_or_else(String::new, |series| ShownSeries(&series.labels).to_string())
    }

    /// Refuses one sample of the open series.
    pub(crate) fn refuse_one(&mut self, reason: Reason, text: String) {
        self.refused.count(reason, 1, 0);
        self.note_line(reason);
        let stream = self.batch.series.last().map_or(StreamId(0), |series| series.id);
        self.refused.report(Cause { reason, stream, number: 0 }, || text);
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
        self.refused.report(cause, || {
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

    /// Ends the open series, and removes it when none of its data was accepted.
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

    /// Returns the batch without the body, and the refusals.
    pub(crate) fn finish(mut self) -> DecodedSamples {
        self.memory.give((self.batch.value_offsets.capacity() * size_of::<u32>()) as u64);
        self.batch.value_offsets = Vec::new();
        self.batch.series.iter_mut().for_each(|series| series.text = Span::default());
        let Self { batch, refused, written, deltas, lines, .. } = self;
        DecodedSamples { batch, refused, written, deltas, lines }
    }

    /// Copies names from `text`, which will be released, into the series that were begun so far.
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

    /// Returns the batch with an arena of names, each followed by the value of its sample.
    pub(crate) fn finish_with_names(mut self, arena: Vec<u8>) -> DecodedSamples {
        let arena = Bytes::from(arena);
        let text = Arc::new(arena.clone());
        self.batch.series.iter_mut().for_each(|series| series.labels.set_text(&text, series.text));
        self.batch.arena = Arena { bytes: arena, compressed: None };
        self.batch.label_text = LabelText::Names;
        let Self { batch, refused, written, deltas, lines, .. } = self;
        DecodedSamples { batch, refused, written, deltas, lines }
    }

    /// Returns the batch. Keeps the body as its arena if the body holds all labels and values and is not
    /// larger than [`BODY_BYTES_PER_SAMPLE`] per sample.
    pub(crate) fn finish_over(
        mut self,
        plain: Vec<u8>,
        block: Bytes,
        label_text: LabelText,
    ) -> Result<DecodedSamples, Error> {
        let pays = self.reads_all() && plain.len() <= self.batch.timestamps.len() * BODY_BYTES_PER_SAMPLE;
        if !self.body_has_all || !pays {
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
