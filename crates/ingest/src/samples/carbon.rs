//! Points of Graphite's, by any of carbon's protocols.
//!
//! A batch's arena is made here: the name of each point as it was sent, with its value behind. A name that
//! was seen before is found in the series cache, so that its labels are made once; the WAL stores names.
//!
//! One call reads what one connection sent, which may be of several tenants. **Invariants.** What is refused
//! is counted by its reason, once for each message or point, and at most [`CARBON_SAMPLES_MAX`] of them are
//! shown. Nothing that is refused stops what comes behind it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;

use bytes::Bytes;
use sandur_carbon::{Point, Protocol, Refusal, Sink};
use sandur_model::{GraphiteName, MILLISECOND_NS, Span};

use super::builder::{DecodedSamples, SampleBuilder, SamplePush};
use super::series_cache::SeriesNaming;
use crate::error::Error;
use crate::memory::{Memory, Meter};
use crate::request::open_text;

/// Refused messages that a call shows.
pub const CARBON_SAMPLES_MAX: usize = 16;
/// Bytes of a refused message that are shown.
const SHOWN_BYTES: usize = 256;
/// Bytes of the names and values of a batch. A pickle may name one path many times; beyond this the WAL names
/// each once.
const ARENA_MAX: usize = 16 << 20;
/// Bytes of a value.
const VALUE_BYTES: usize = size_of::<f64>();
/// How names that cannot be stored are counted.
const PATH: &str = "path";
/// How points are counted whose tenant gets no batch.
const TENANTS: &str = "tenants";
const SECOND_NS: i64 = 1_000 * MILLISECOND_NS;

/// A message or point that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedMessage {
    /// Why, as it is counted.
    pub reason: &'static str,
    /// Why, for people.
    pub text: String,
    /// The beginning of what was sent.
    pub message: String,
}

/// What was left out before any limit of a tenant was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CarbonRejected {
    /// How many, by reason.
    pub counts: BTreeMap<&'static str, u64>,
    /// Some of them.
    pub shown: Vec<RejectedMessage>,
}

impl CarbonRejected {
    /// Counts a message, and shows it if there is room.
    pub fn add(&mut self, reason: &'static str, text: impl FnOnce() -> String, message: &[u8]) {
        *self.counts.entry(reason).or_default() += 1;
        if self.shown.len() < CARBON_SAMPLES_MAX {
            let message = String::from_utf8_lossy(&message[..message.len().min(SHOWN_BYTES)]).into_owned();
            self.shown.push(RejectedMessage { reason, text: text(), message });
        }
    }
}

/// What a connection sent.
#[derive(Clone, Debug)]
pub struct CarbonBatches {
    /// A batch for each tenant, in the order of the pushes.
    pub batches: Vec<DecodedSamples>,
    /// What could not be read.
    pub rejected: CarbonRejected,
}

/// Decodes whole messages of a connection, or with `alone` one datagram or body. There is a push for each
/// tenant, and `tenant_of` says whose a name is; it is not asked when there is one.
pub fn carbon(
    pushes: &[SamplePush<'_>],
    tenant_of: &dyn Fn(&str) -> usize,
    (protocol, alone): (&Protocol, bool),
    bytes: &[u8],
    memory: Rc<dyn Memory>,
) -> Result<CarbonBatches, Error> {
    let memory = Meter::new(memory);
    let builders = pushes
        .iter()
        .map(|push| Names { builder: SampleBuilder::new(*push, 0, &memory), arena: Some(Vec::new()) });
    let now = pushes.first().map_or(0, |push| push.push.now_ns.div_euclid(SECOND_NS));
    let mut points =
        Points { tenants: builders.collect(), tenant_of, rejected: CarbonRejected::default(), failed: None };
    let read = if alone { protocol.read_alone } else { protocol.read };
    let _ = read(bytes, now, &mut points);
    match points.failed {
        Some(error) => Err(error),
        None => {
            let batches = points.tenants.into_iter();
            let batches = batches.map(Names::finish).collect();
            Ok(CarbonBatches { batches, rejected: points.rejected })
        }
    }
}

/// Decodes the body of a request, which may be compressed.
pub fn carbon_body(
    push: SamplePush<'_>,
    protocol: &Protocol,
    body: Bytes,
    memory: Rc<dyn Memory>,
) -> Result<CarbonBatches, Error> {
    let meter = Meter::new(Rc::clone(&memory));
    let body = open_text(push.push.headers, push.push.limits, body, &meter)?;
    carbon(&[push], &|_| 0, (protocol, true), body.bytes(), memory)
}

/// The batch of a tenant, and the names and values in it.
struct Names<'a> {
    builder: SampleBuilder<'a>,
    /// Nothing any more once it would become too large.
    arena: Option<Vec<u8>>,
}

struct Points<'a> {
    tenants: Vec<Names<'a>>,
    tenant_of: &'a dyn Fn(&str) -> usize,
    rejected: CarbonRejected,
    /// Why reading ended.
    failed: Option<Error>,
}

impl Sink for Points<'_> {
    fn point(&mut self, point: Point<'_>) -> ControlFlow<()> {
        let tenant = if self.tenants.len() > 1 { (self.tenant_of)(point.name) } else { 0 };
        let Some(names) = self.tenants.get_mut(tenant) else {
            let text = || "too many tenants at once; send fewer in one go".to_owned();
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

impl Names<'_> {
    fn add(&mut self, point: &Point<'_>, rejected: &mut CarbonRejected) -> Result<(), Error> {
        let (builder, name) = (&mut self.builder, point.name.as_bytes());
        let key = builder.cache().key(SeriesNaming::Graphite, name);
        let known = match builder.known_name(key) {
            Some(known) => Ok(known),
            None => match GraphiteName::parse(point.name).labels() {
                Ok(labels) => builder.series_of_labels(key, name.len(), labels)?,
                Err(error) => {
                    rejected.add(PATH, || error.to_string(), name);
                    return Ok(());
                }
            },
        };
        let known = match known {
            Ok(known) => known,
            Err(refusal) => {
                builder.refuse_series(refusal, 1);
                return Ok(());
            }
        };
        let time_ms = (point.seconds as i64).saturating_mul(SECOND_NS / MILLISECOND_NS);
        let bits = point.value.to_bits();
        let needed = name.len() + VALUE_BYTES;
        if let Some(dropped) = self.arena.take_if(|arena| arena.len() + needed > ARENA_MAX) {
            builder.memory().give(dropped.capacity() as u64);
        }
        let Some(arena) = &mut self.arena else {
            builder.begin_name(known, point.name, None)?;
            builder.sample(time_ms, bits, None)?;
            builder.end();
            return Ok(());
        };
        let start = arena.len();
        builder.memory().widen(arena, needed, ARENA_MAX)?;
        arena.extend_from_slice(name);
        let offset = arena.len() as u32;
        arena.extend_from_slice(&bits.to_le_bytes());
        builder.begin_name(known, point.name, Some(Span { start: start as u32, len: name.len() as u32 }))?;
        if !builder.sample(time_ms, bits, Some(offset))? {
            arena.truncate(start);
            builder.end();
        }
        Ok(())
    }

    fn finish(self) -> DecodedSamples {
        match self.arena {
            Some(arena) => self.builder.finish_with_names(arena),
            None => self.builder.finish(),
        }
    }
}
