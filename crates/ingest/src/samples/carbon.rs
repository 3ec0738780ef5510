//! Decodes Graphite points in any of carbon's protocols.
//!
//! This module builds the batch's arena: the name of each point as sent, followed by its value. A known
//! name is found in the series cache, so that its labels are parsed only once; the WAL stores names.
//! Points are gathered until there are [`TOGETHER`] of them, because looking names up one at a time takes
//! several times as long.
//!
//! One call reads the data of one connection, which may belong to several tenants. **Invariants.**
//! Refusals are counted by reason, once for each message or point, and at most [`CARBON_SAMPLES_MAX`] of
//! them are shown. A refusal does not stop the decoding of later data.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;

use bytes::Bytes;
use sandur_carbon::{Point, Protocol, Refusal, Sink};
use sandur_model::{GraphiteName, MILLISECOND_NS, Span};

use super::builder::{SampleBuilder, SamplePush};
use super::decoded::DecodedSamples;
use super::labels_check::{check_limits, is_within};
use super::name_cache::KnownName;
use super::series_key::{SeriesKey, SeriesNaming};
use crate::error::Error;
use crate::memory::{DecoderMemory, Memory};
use crate::request::open_text;

/// Most refused messages that one call shows.
pub const CARBON_SAMPLES_MAX: usize = 16;
/// Most bytes of a refused message that are shown.
const SHOWN_BYTES: usize = 256;
/// Most bytes of the names and values of a batch. A pickle may repeat a path many times; above this bound
/// the WAL stores each name once.
const ARENA_MAX: usize = 16 << 20;
/// Bytes of a value.
const VALUE_BYTES: usize = size_of::<f64>();
/// Points whose names are looked up together.
const TOGETHER: usize = 256;
/// The reason under which names that cannot be stored are counted.
const PATH: &str = "path";
/// The reason under which points without a batch for their tenant are counted.
const TENANTS: &str = "tenants";
const SECOND_NS: i64 = 1_000 * MILLISECOND_NS;

/// A refused message or point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedMessage {
    /// The reason's name in metrics.
    pub reason: &'static str,
    /// The reason in words.
    pub text: String,
    /// The beginning of the message.
    pub message: String,
}

/// Refusals that do not depend on any tenant's limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CarbonRejected {
    /// Number of refusals by reason.
    pub counts: BTreeMap<&'static str, u64>,
    /// The first [`CARBON_SAMPLES_MAX`] refusals.
    pub shown: Vec<RejectedMessage>,
}

impl CarbonRejected {
    /// Counts a refused message, and shows it if fewer than [`CARBON_SAMPLES_MAX`] are shown.
    pub fn add(&mut self, reason: &'static str, text: impl FnOnce() -> String, message: &[u8]) {
        *self.counts.entry(reason).or_default() += 1;
        if self.shown.len() < CARBON_SAMPLES_MAX {
            let message = String::from_utf8_lossy(&message[..message.len().min(SHOWN_BYTES)]).into_owned();
            self.shown.push(RejectedMessage { reason, text: text(), message });
        }
    }
}

/// The decoded data of one connection.
#[derive(Clone, Debug)]
pub struct CarbonBatches {
    /// One batch per tenant, in the order of the pushes.
    pub batches: Vec<DecodedSamples>,
    /// Messages and points that could not be read.
    pub rejected: CarbonRejected,
}

/// Decodes complete messages of a connection, or, with `alone`, one datagram or body. `pushes` has one
/// element per tenant, and `tenant_of` returns the index of a name's tenant; it is not called when there
/// is only one.
pub fn carbon(
    pushes: &[SamplePush<'_>],
    tenant_of: &dyn Fn(&str) -> usize,
    (protocol, alone): (&Protocol, bool),
    bytes: &[u8],
    memory: Rc<dyn Memory>,
) -> Result<CarbonBatches, Error> {
    let memory = DecoderMemory::new(memory);
    let builders = pushes.iter().map(|push| Names::new(SampleBuilder::new(*push, 0, &memory)));
    let now = pushes.first().map_or(0, |push| push.push.now_ns.div_euclid(SECOND_NS));
    let mut points =
        Points { tenants: builders.collect(), tenant_of, rejected: CarbonRejected::default(), failed: None };
    let read = if alone { protocol.read_alone } else { protocol.read };
    let _ = read(bytes, now, &mut points);
    let Points { mut tenants, mut rejected, failed, .. } = points;
    failed.map_or(Ok(()), Err)?;
    tenants.iter_mut().try_for_each(|names| names.settle(&mut rejected))?;
    Ok(CarbonBatches { batches: tenants.into_iter().map(Names::finish).collect(), rejected })
}

/// Decodes the body of a request, which may be compressed.
pub fn carbon_body(
    push: SamplePush<'_>,
    protocol: &Protocol,
    body: Bytes,
    memory: Rc<dyn Memory>,
) -> Result<CarbonBatches, Error> {
    let of_body = DecoderMemory::new(Rc::clone(&memory));
    let body = open_text(push.push.headers, push.push.limits, body, &of_body)?;
    carbon(&[push], &|_| 0, (protocol, true), body.bytes(), memory)
}

/// The batch of one tenant, and its names and values.
struct Names<'a> {
    builder: SampleBuilder<'a>,
    /// Names, each followed by its value: of all points while this is the arena, later of the waiting
    /// points only.
    text: Vec<u8>,
    is_arena: bool,
    /// Points whose names were not looked up yet.
    waiting: Vec<Waiting>,
    known: Vec<Option<KnownName>>,
}

/// A point whose name is in the text.
struct Waiting {
    key: SeriesKey,
    name: Span,
    time_ms: i64,
    bits: u64,
}

struct Points<'a> {
    tenants: Vec<Names<'a>>,
    tenant_of: &'a dyn Fn(&str) -> usize,
    rejected: CarbonRejected,
    /// The error that ended reading.
    failed: Option<Error>,
}

impl Sink for Points<'_> {
    fn point(&mut self, point: Point<'_>) -> ControlFlow<()> {
        let tenant = if self.tenants.len() > 1 { (self.tenant_of)(point.name) } else { 0 };
        let Some(names) = self.tenants.get_mut(tenant) else {
            let text = || "too many tenants at once; send points of fewer tenants".to_owned();
            self.rejected.add(TENANTS, text, point.name.as_bytes());
            return ControlFlow::Continue(());
        };
        match names.add(&point, &mut self.rejected) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn refused(&mut self, refusal: Refusal, message: &[u8]) {
        self.rejected.add(refusal.reason().name(), || refusal.to_string(), message);
    }
}

impl<'a> Names<'a> {
    fn new(builder: SampleBuilder<'a>) -> Self {
        let (waiting, known) = (Vec::with_capacity(TOGETHER), Vec::with_capacity(TOGETHER));
        Self { builder, text: Vec::new(), is_arena: true, waiting, known }
    }

    fn add(&mut self, point: &Point<'_>, rejected: &mut CarbonRejected) -> Result<(), Error> {
        let name = point.name.as_bytes();
        let needed = name.len() + VALUE_BYTES;
        if self.waiting.len() == TOGETHER || self.text.len() + needed > ARENA_MAX {
            self.settle(rejected)?;
        }
        if self.text.len() + needed > ARENA_MAX {
            self.end_arena()?;
        }
        let time_ms = (point.seconds as i64).saturating_mul(SECOND_NS / MILLISECOND_NS);
        let bits = point.value.to_bits();
        let key = self.builder.cache().key(SeriesNaming::Graphite, name);
        let start = self.text.len() as u32;
        self.builder.memory().widen(&mut self.text, needed, ARENA_MAX)?;
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(&bits.to_le_bytes());
        self.waiting.push(Waiting { key, name: Span { start, len: name.len() as u32 }, time_ms, bits });
        Ok(())
    }

    /// Stops building the arena: later points have no name in text that is kept.
    fn end_arena(&mut self) -> Result<(), Error> {
        if self.is_arena {
            self.is_arena = false;
            let text = std::mem::take(&mut self.text);
            self.builder.keep_names(&text)?;
            self.builder.memory().give(text.capacity() as u64);
        }
        Ok(())
    }

    /// Looks up the names of the waiting points and adds the points to the batch.
    fn settle(&mut self, rejected: &mut CarbonRejected) -> Result<(), Error> {
        let Self { builder, text, is_arena, waiting, known } = self;
        builder.cache().names(waiting.iter().map(|point| point.key), known);
        let mut fresh = Vec::new();
        for (point, known) in waiting.drain(..).zip(known.drain(..)) {
            // Readers pass names only after validating them as UTF-8.
            let name = std::str::from_utf8(point.name.of(text)).unwrap_or_default();
            let span = is_arena.then_some(point.name);
            let limits = &builder.limits().metrics;
            match known.filter(|known| is_within(known, limits)) {
                Some(known) => builder.begin_name(known, name, (span, point.time_ms))?,
                None => {
                    let series = match GraphiteName::parse(name).labels() {
                        Ok(labels) => builder.series_of_labels(name.len(), labels)?,
                        Err(error) => {
                            rejected.add(PATH, || error.to_string(), name.as_bytes());
                            continue;
                        }
                    };
                    fresh.push((point.key, KnownName::from(&series)));
                    if let Err(refusal) = check_limits(&series, limits) {
                        builder.refuse_series(refusal, 1);
                        builder.refused.name_last(name);
                        continue;
                    }
                    builder.begin(series, span)?;
                }
            }
            let offset = is_arena.then_some(point.name.end() as u32);
            if !builder.sample(point.time_ms, point.bits, offset)? {
                builder.refused.name_last(name);
                builder.end();
            }
        }
        if !fresh.is_empty() {
            builder.keep_known_names(&fresh);
        }
        if !self.is_arena {
            self.text.clear();
        }
        Ok(())
    }

    fn finish(self) -> DecodedSamples {
        match self.is_arena {
            true => self.builder.finish_with_names(self.text),
            false => self.builder.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use sandur_carbon::PLAINTEXT;
    use sandur_model::{LabelText, Limits, MetricLimits, TenantId};

    use super::super::series_cache::SeriesCache;
    use super::*;
    use crate::memory::tests::LimitedMemory;
    use crate::request::{Push, PushHeaders};

    fn decoded(cache: &SeriesCache, lines: &str) -> CarbonBatches {
        let metrics = MetricLimits { creation_grace_period: 0, ..MetricLimits::default() };
        let (limits, tenant) = (Limits { metrics, ..Limits::default() }, TenantId::default_tenant());
        let push = Push { tenant: &tenant, limits: &limits, now_ns: 0, headers: PushHeaders::default() };
        let pushes = [SamplePush::new(push, cache)];
        let memory: Rc<dyn Memory> = LimitedMemory::of(1 << 30);
        carbon(&pushes, &|_| 0, (&PLAINTEXT, false), lines.as_bytes(), memory).unwrap()
    }

    fn points(decoded: &CarbonBatches) -> Vec<(String, i64, f64)> {
        let batch = &decoded.batches[0].batch;
        let of_series = batch.series.iter().flat_map(|series| {
            let name = series.labels.get("__name__").unwrap_or_default().to_owned();
            assert_eq!(series.id, series.labels.stream_id());
            batch.samples_of(series).map(move |(time_ms, value)| (name.clone(), time_ms, value))
        });
        of_series.collect()
    }

    /// Known and new names, repeated in one call, in another order, with refused ones between them.
    #[test]
    fn points_keep_name_and_order_with_known_and_new_names() {
        let cache = SeriesCache::new(4 << 20, 7);
        for turn in 0..4 {
            let number = |n: usize| if turn % 2 == 0 { n } else { n * 7 % 1_000 };
            let name = |n: usize| format!("a.b{}.c{}", number(n) % 10, number(n) / (1 + turn % 3));
            let (mut lines, mut expected) = (String::new(), Vec::new());
            for n in 0..1_000 {
                lines += &format!("{} {n} {}\n", name(n), 1_000 + turn);
                expected.push((name(n), (1_000 + turn as i64) * 1_000, n as f64));
                if n % 100 == 0 {
                    lines += "... 1 1\nx nan 1\n";
                }
            }
            let decoded = decoded(&cache, &lines);
            let differing =
                points(&decoded).into_iter().zip(expected).find(|(found, expected)| found != expected);
            assert_eq!(differing, None, "{turn}");
            assert_eq!(decoded.rejected.counts.values().sum::<u64>(), 20, "{turn}");
            assert_eq!(decoded.batches[0].batch.label_text, LabelText::Names);
        }
        assert!(cache.bytes() > 0);
    }

    /// Points whose names exceed the bound of an arena have names of their own.
    #[test]
    fn names_beyond_the_bound_of_an_arena_are_kept_without_it() {
        let cache = SeriesCache::new(4 << 20, 7);
        let name = |n: usize| format!("{}.n{}", "x".repeat(200), n % 50);
        let count = ARENA_MAX / 200 + 1_000;
        let lines: String = (0..count).map(|n| format!("{} {n} 1000\n", name(n))).collect();
        let decoded = decoded(&cache, &lines);
        assert_eq!(decoded.batches[0].batch.label_text, LabelText::None);
        assert!(points(&decoded).into_iter().eq((0..count).map(|n| (name(n), 1_000_000, n as f64))));
    }
}
