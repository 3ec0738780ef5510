//! Builds a batch of samples: limits, what is refused, and memory. Decoders of all protocols end here.

use sandur_model::{DAY_NS, Limits, MILLISECOND_NS, SampleBatch, SeriesSamples, Span, StreamId};

use super::labels_check::{Refusal, ShownSeries, check_limits, labels_of};
use super::series_cache::{KnownSeries, SeriesCache, SeriesKey};
use crate::error::Error;
use crate::memory::Meter;
use crate::refused::{Cause, Reason, Refused};
use crate::request::Push;

/// Series of one request, so that memory stays in proportion to the body.
pub const SERIES_MAX: usize = 1_000_000;
/// Samples of one request.
pub const SAMPLES_MAX: usize = 10_000_000;
/// Bytes of the labels of one series as they are sent.
pub const SERIES_LABELS_MAX: usize = 64 << 10;
/// Memory that a label set takes for each byte of its text, at most: a label of two bytes is two boxed strings.
const LABELS_EXPANSION: u64 = 32;

/// A request that brings samples, beside its body.
#[derive(Clone, Copy)]
pub struct SamplePush<'a> {
    /// Whose it is, its limits, the time, and how its body is to be read.
    pub push: Push<'a>,
    /// Series that were seen before.
    pub series: &'a SeriesCache,
}

/// How much of a request was accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Float samples.
    pub samples: u64,
    /// Native histograms.
    pub histograms: u64,
    /// Exemplars.
    pub exemplars: u64,
    /// Descriptions of metrics.
    pub metadata: u64,
}

impl Written {
    /// Everything that rates count.
    pub fn items(&self) -> u64 {
        self.samples + self.histograms + self.exemplars + self.metadata
    }
}

/// What a request held.
#[derive(Clone, Debug)]
pub struct DecodedSamples {
    /// The accepted samples.
    pub batch: SampleBatch,
    /// What was left out.
    pub refused: Refused,
    /// What was accepted.
    pub written: Written,
}

/// A batch that is being built.
pub(crate) struct SampleBuilder<'a> {
    push: SamplePush<'a>,
    memory: Meter,
    batch: SampleBatch,
    refused: Refused,
    written: Written,
    oldest_ms: i64,
    newest_ms: i64,
    /// Where the samples of the open series begin.
    start: usize,
}

/// The first and the last time that a sample may have, whatever a tenant's limits say: the days around them
/// have a beginning and an end that are times too.
const EARLIEST_MS: i64 = (i64::MIN + 2 * DAY_NS) / MILLISECOND_NS;
const LATEST_MS: i64 = (i64::MAX - 2 * DAY_NS) / MILLISECOND_NS;

impl<'a> SampleBuilder<'a> {
    /// An empty batch.
    pub(crate) fn new(push: SamplePush<'a>, memory: &Meter) -> Self {
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
            memory: memory.clone(),
            batch: SampleBatch::new(push.push.tenant.clone()),
            refused: Refused::default(),
            written: Written::default(),
            oldest_ms,
            newest_ms,
            start: 0,
        }
    }

    /// The tenant's limits.
    pub(crate) fn limits(&self) -> &'a Limits {
        self.push.push.limits
    }

    /// Series that were seen before.
    pub(crate) fn cache(&self) -> &'a SeriesCache {
        self.push.series
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
        let known = match self.cache().get(key) {
            Some(known) => known,
            None => match self.new_series(key, size, pairs)? {
                Ok(known) => known,
                Err(refusal) => return Ok(Err(refusal)),
            },
        };
        Ok(check_limits(&known, &self.limits().metrics).map(|()| known))
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
        // The batch may outlive the entry in the cache.
        let most = size as u64 * LABELS_EXPANSION;
        self.memory.take(most)?;
        let labels = labels_of(&mut pairs()?);
        let known = labels.map(KnownSeries::new);
        self.memory.give(most - known.as_ref().map_or(0, KnownSeries::bytes).min(most));
        if let Ok(known) = &known {
            self.cache().insert(key, known);
        }
        Ok(known)
    }

    /// Leaves a series out; `samples` are how many it has.
    pub(crate) fn refuse_series(&mut self, (reason, text): Refusal, samples: u64) {
        self.refused.count(reason, samples.max(1), 0);
        let cause =
            Cause { reason, stream: StreamId(xxhash_rust::xxh3::xxh3_128(text.as_bytes())), number: 0 };
        self.refused.tell(cause, || text);
    }

    /// Adds a sample to the open series, unless its time is out of bounds.
    #[inline]
    pub(crate) fn sample(&mut self, series: &KnownSeries, time_ms: i64, value: f64) -> Result<(), Error> {
        if !self.is_in_time(series, time_ms) {
            return Ok(());
        }
        self.memory.widen(&mut self.batch.timestamps, 1, SAMPLES_MAX)?;
        self.memory.widen(&mut self.batch.values, 1, SAMPLES_MAX)?;
        self.batch.timestamps.push(time_ms);
        self.batch.values.push(value);
        self.written.samples += 1;
        Ok(())
    }

    /// Whether a sample's time is within the limits; counts and tells when it is not.
    #[inline]
    pub(crate) fn is_in_time(&mut self, series: &KnownSeries, time_ms: i64) -> bool {
        let in_time = (self.oldest_ms..=self.newest_ms).contains(&time_ms);
        if !in_time {
            self.refuse_time(series, time_ms);
        }
        in_time
    }

    #[cold]
    fn refuse_time(&mut self, series: &KnownSeries, time_ms: i64) {
        let is_old = time_ms < self.oldest_ms;
        let reason = if is_old { Reason::SampleTooOld } else { Reason::TooNew };
        self.refused.count(reason, 1, 0);
        let cause = Cause { reason, stream: series.id, number: 0 };
        self.refused.tell(cause, || {
            let shown = ShownSeries(&series.labels);
            match is_old {
                true => format!(
                    "too old sample: received a sample whose timestamp is too far in the past, timestamp: \
                     {time_ms} series: '{shown}' (err-mimir-sample-timestamp-too-old). To adjust the related \
                     per-tenant limit, configure limits.metrics.out_of_order_time_window"
                ),
                false => format!(
                    "out of bounds: received a sample whose timestamp is too far in the future, timestamp: \
                     {time_ms} series: '{shown}' (err-mimir-too-far-in-future). To adjust the related \
                     per-tenant limit, configure limits.metrics.creation_grace_period"
                ),
            }
        });
    }

    /// Ends the samples of a series.
    #[inline]
    pub(crate) fn end_series(&mut self, series: KnownSeries) -> Result<(), Error> {
        let end = self.batch.timestamps.len();
        if end == self.start {
            return Ok(());
        }
        if end > SAMPLES_MAX {
            return Err(Error::TooMany { what: "samples", limit: SAMPLES_MAX as u64 });
        }
        if self.batch.series.len() >= SERIES_MAX {
            return Err(Error::TooMany { what: "series", limit: SERIES_MAX as u64 });
        }
        self.memory.widen(&mut self.batch.series, 1, SERIES_MAX)?;
        let samples = self.start as u32..end as u32;
        self.batch.series.push(SeriesSamples {
            id: series.id,
            labels: series.labels,
            text: Span::default(),
            samples,
            histograms: 0..0,
        });
        self.start = end;
        Ok(())
    }

    /// The batch, and what was left out of it.
    pub(crate) fn finish(self) -> DecodedSamples {
        DecodedSamples { batch: self.batch, refused: self.refused, written: self.written }
    }
}
