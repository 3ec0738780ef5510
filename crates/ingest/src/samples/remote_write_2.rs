//! Decodes remote write 2.0.
//!
//! `Request{symbols=4, timeseries=5:{labels_refs=1, samples=2:{value=1, timestamp=2, start_timestamp=3},
//! histograms=3, exemplars=4:{labels_refs=1, value=2, timestamp=3}, metadata=5:{type=1, help_ref=3,
//! unit_ref=4}, created_timestamp=6}}`. Labels are indexes of symbols, which differ between requests.
//! Each symbol is hashed once, and a series is found by the hashes of its symbols.

use foldhash::{HashSet, HashSetExt};
use sandur_model::{MetricKind, MetricMetadata, Span};
use sandur_protobuf::{Reader, Wire};

use super::builder::{LABELS_MAX, SampleBuilder, too_many_labels};
use super::labels_check::{METRIC_NAME, Refusal};
use super::native_histogram;
use super::remote_write_1::other_version;
use super::series_cache::{KnownSeries, SeriesCache};
use super::series_key::SeriesNaming;
use crate::error::Error;
use crate::memory::DecoderMemory;
use crate::refused::Reason;

/// Most symbols of one request.
const SYMBOLS_MAX: usize = 4_000_000;
/// Bytes of a symbol's hash in the key of a series.
const HASH_BYTES: usize = 16;

/// Reads a complete request, and returns the spans of its symbols.
pub(crate) fn request(builder: &mut SampleBuilder<'_>, plain: &[u8]) -> Result<Vec<Span>, Error> {
    let memory = builder.memory().clone();
    let mut decoder = Decoder {
        symbols: Symbols::read(plain, builder, &memory)?,
        references: Vec::new(),
        name: Vec::new(),
        known_metadata: HashSet::new(),
    };
    let mut request = Reader::new(plain);
    let (mut is_own, mut is_other) = (false, false);
    while let Some(key) = request.key()? {
        is_own |= matches!(key.0, 4 | 5);
        match key {
            (5, wire @ Wire::Bytes) if !builder.takes_next() => request.skip(wire)?,
            (5, Wire::Bytes) => decoder.series(builder, request.message()?)?,
            (field, wire) => {
                is_other |= matches!(field, 1 | 3);
                request.skip(wire)?;
            }
        }
    }
    match is_other && !is_own {
        true => Err(other_version("1.0", "proto=prometheus.WriteRequest, or without a parameter")),
        false => Ok(decoder.symbols.spans),
    }
}

struct Symbols<'a> {
    plain: &'a [u8],
    spans: Vec<Span>,
    /// Empty when the body is read in parts: then a symbol is hashed at each reference.
    hashes: Vec<u128>,
}

impl<'a> Symbols<'a> {
    fn read(plain: &'a [u8], builder: &SampleBuilder<'_>, memory: &DecoderMemory) -> Result<Self, Error> {
        let keeps_hashes = builder.reads_all();
        let mut symbols = Self { plain, spans: Vec::new(), hashes: Vec::new() };
        let mut request = Reader::new(plain);
        while let Some(key) = request.key()? {
            if key != (4, Wire::Bytes) {
                request.skip(key.1)?;
                continue;
            }
            if symbols.spans.len() >= SYMBOLS_MAX {
                return Err(Error::TooMany { what: "symbols", limit: SYMBOLS_MAX as u64 });
            }
            let span = request.span()?;
            memory.widen(&mut symbols.spans, 1, SYMBOLS_MAX)?;
            symbols.spans.push(span);
            if keeps_hashes {
                memory.widen(&mut symbols.hashes, 1, SYMBOLS_MAX)?;
                symbols.hashes.push(builder.cache().symbol(span.of(plain)));
            }
        }
        Ok(symbols)
    }

    fn hash(&self, reference: u32, cache: &SeriesCache) -> Option<u128> {
        let kept = self.hashes.get(reference as usize).copied();
        kept.or_else(|| Some(cache.symbol(self.get(reference)?)))
    }

    fn get(&self, reference: u32) -> Option<&'a [u8]> {
        Some(self.spans.get(reference as usize)?.of(self.plain))
    }
}

/// A request that is being read.
struct Decoder<'a> {
    symbols: Symbols<'a>,
    /// Symbol references of the labels of the open series.
    references: Vec<u32>,
    /// Hashes of the symbols that they refer to.
    name: Vec<u8>,
    /// Metadata that was already added: every series of a family repeats it.
    known_metadata: HashSet<(Box<str>, u64, u32, u32)>,
}

/// The fields of a series other than its samples.
#[derive(Default)]
struct Head<'a> {
    /// The labels' references, if they are one packed field.
    packed: Option<Span>,
    /// Whether the references are in several fields, so that no span of the body holds all of them.
    scattered: bool,
    samples: u64,
    metadata: Option<Reader<'a>>,
    created_ms: i64,
}

impl<'a> Decoder<'a> {
    fn series(&mut self, builder: &mut SampleBuilder<'_>, message: Reader<'a>) -> Result<(), Error> {
        let head = self.head(message)?;
        let known = match self.known_series(builder, &head)? {
            Ok(known) => known,
            Err(refusal) => {
                builder.refuse_series(refusal, head.samples);
                return Ok(());
            }
        };
        let metric = |known: &KnownSeries| Some(known.labels.get(METRIC_NAME)?.to_owned());
        let family = head.metadata.map(|_| metric(&known).unwrap_or_default());
        let text = head.packed.filter(|_| !head.scattered);
        builder.begin(known, text)?;
        let mut fields = message;
        while let Some(key) = fields.key()? {
            match key {
                (2, Wire::Bytes) => sample(builder, fields.message()?, head.created_ms)?,
                (3, Wire::Bytes) => native_histogram::read(builder, fields.message()?)?,
                (4, Wire::Bytes) => self.exemplar(builder, fields.message()?)?,
                (_, wire) => fields.skip(wire)?,
            }
        }
        builder.end();
        match (head.metadata, family) {
            (Some(message), Some(name)) => self.metadata(builder, message, &name),
            _ => Ok(()),
        }
    }

    /// Reads the fields other than the samples, and the references of the labels.
    fn head(&mut self, mut message: Reader<'a>) -> Result<Head<'a>, Error> {
        let mut head = Head::default();
        self.references.clear();
        while let Some(key) = message.key()? {
            match key {
                (1, wire) => {
                    head.scattered |= wire != Wire::Bytes || head.packed.is_some();
                    let span = references(&mut message, wire, &mut self.references)?;
                    head.packed = head.packed.or(span);
                }
                (2 | 3, wire) => {
                    head.samples += 1;
                    message.skip(wire)?;
                }
                (5, Wire::Bytes) => head.metadata = Some(message.message()?),
                (6, Wire::Varint) => head.created_ms = message.varint()? as i64,
                (_, wire) => message.skip(wire)?,
            }
        }
        Ok(head)
    }

    fn known_series(
        &mut self,
        builder: &mut SampleBuilder<'_>,
        head: &Head<'_>,
    ) -> Result<Result<KnownSeries, Refusal>, Error> {
        self.name.clear();
        let invalid = |what: String| Ok(Err((Reason::InvalidLabels, what)));
        if !self.references.len().is_multiple_of(2) {
            return invalid(format!(
                "parsing labels for series {}: invalid labelRefs length {}",
                Shown(&self.references),
                self.references.len()
            ));
        }
        let mut size = 0;
        for &reference in &self.references {
            let Some(hash) = self.symbols.hash(reference, builder.cache()) else {
                return invalid(format!(
                    "parsing labels for series {}: labelRefs {reference} is outside of the symbols table \
                     (size {})",
                    Shown(&self.references),
                    self.symbols.spans.len()
                ));
            };
            self.name.extend_from_slice(&hash.to_le_bytes());
            size += self.symbols.spans[reference as usize].len as usize;
        }
        debug_assert_eq!(self.name.len(), self.references.len() * HASH_BYTES);
        let key = builder.cache().key(SeriesNaming::Symbols, &self.name);
        let known = builder.series(key, size, || Ok(self.pairs()))?;
        match known {
            Ok(known) if head.samples == 0 => {
                let labels = known.labels.clone();
                let shown = super::labels_check::ShownSeries(&labels);
                invalid(format!(
                    "TimeSeries must contain at least one sample or histogram for series {shown}"
                ))
            }
            known => Ok(known),
        }
    }

    fn pairs(&self) -> Vec<(&'a [u8], &'a [u8])> {
        let symbol = |reference: u32| self.symbols.get(reference).unwrap_or_default();
        self.references.chunks_exact(2).map(|pair| (symbol(pair[0]), symbol(pair[1]))).collect()
    }

    fn exemplar(&mut self, builder: &mut SampleBuilder<'_>, mut message: Reader<'_>) -> Result<(), Error> {
        let (mut value, mut time_ms) = (0, 0);
        self.references.clear();
        while let Some(key) = message.key()? {
            match key {
                (1, wire) => {
                    references(&mut message, wire, &mut self.references)?;
                }
                (2, Wire::Fixed64) => value = message.fixed64()?,
                (3, Wire::Varint) => time_ms = message.varint()? as i64,
                (_, wire) => message.skip(wire)?,
            }
        }
        let symbols = self.symbols.spans.len();
        let within = self.references.iter().all(|reference| (*reference as usize) < symbols);
        if !within || !self.references.len().is_multiple_of(2) {
            let text = format!("parsing exemplar for series: invalid labelRefs {}", Shown(&self.references));
            builder.refuse_one(Reason::InvalidExemplar, text);
            return Ok(());
        }
        builder.exemplar(&self.pairs(), f64::from_bits(value), time_ms)
    }

    fn metadata(
        &mut self,
        builder: &mut SampleBuilder<'_>,
        mut message: Reader<'_>,
        name: &str,
    ) -> Result<(), Error> {
        let (mut kind, mut help, mut unit) = (0, 0, 0);
        while let Some(key) = message.key()? {
            match key {
                (1, Wire::Varint) => kind = message.varint()?,
                (3, Wire::Varint) => help = message.varint()? as u32,
                (4, Wire::Varint) => unit = message.varint()? as u32,
                (_, wire) => message.skip(wire)?,
            }
        }
        if (kind, help, unit) == (0, 0, 0) {
            return Ok(());
        }
        let kind_known = MetricKind::from_number(kind).unwrap_or_default();
        let known_metadata = (Box::from(family_of(name, kind_known)), kind, help, unit);
        if self.known_metadata.contains(&known_metadata) {
            return Ok(());
        }
        let text = |reference: u32| {
            self.symbols
                .get(reference)
                .map(|symbol| String::from_utf8_lossy(symbol).into_owned().into_boxed_str())
        };
        let (Some(help), Some(unit)) = (text(help), text(unit)) else {
            let what =
                format!("parsing metadata for series {name}: a reference is outside of the symbols table");
            builder.refuse_one(Reason::InvalidLabels, what);
            return Ok(());
        };
        builder.metadata(MetricMetadata {
            family: known_metadata.0.clone(),
            kind: kind_known,
            unit,
            help,
        })?;
        builder.memory().take((known_metadata.0.len() + 64) as u64)?;
        self.known_metadata.insert(known_metadata);
        Ok(())
    }
}

/// Returns the metric family of a series: histograms and summaries have several series per family.
pub(crate) fn family_of(name: &str, kind: MetricKind) -> &str {
    let suffixes: &[&str] = match kind {
        MetricKind::Histogram | MetricKind::GaugeHistogram => &["_bucket", "_count", "_sum"],
        MetricKind::Summary => &["_count", "_sum"],
        _ => &[],
    };
    suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

#[inline]
fn sample(builder: &mut SampleBuilder<'_>, mut message: Reader<'_>, created_ms: i64) -> Result<(), Error> {
    let (mut bits, mut offset, mut time_ms, mut start_ms) = (0, None, 0, created_ms);
    while let Some(key) = message.key()? {
        match key {
            (1, Wire::Fixed64) => {
                offset = Some(message.position());
                bits = message.fixed64()?;
            }
            (2, Wire::Varint) => time_ms = message.varint()? as i64,
            (3, Wire::Varint) => start_ms = message.varint()? as i64,
            (_, wire) => message.skip(wire)?,
        }
    }
    if builder.sample(time_ms, bits, offset)? && start_ms != 0 {
        builder.start(start_ms)?;
    }
    Ok(())
}

/// Reads references, packed or single, and returns their span if they are packed.
#[inline]
fn references(message: &mut Reader<'_>, wire: Wire, into: &mut Vec<u32>) -> Result<Option<Span>, Error> {
    // A reference above 32 bits names no symbol.
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    match wire {
        Wire::Bytes => {
            let span = message.span()?;
            let mut packed = message.nested(span);
            while !packed.is_at_end() {
                into.push(narrow(packed.varint()?));
                if into.len() > 2 * LABELS_MAX {
                    return Err(too_many_labels());
                }
            }
            Ok(Some(span))
        }
        Wire::Varint => {
            into.push(narrow(message.varint()?));
            if into.len() > 2 * LABELS_MAX { Err(too_many_labels()) } else { Ok(None) }
        }
        _ => Ok(message.skip(wire).map(|()| None)?),
    }
}

/// The first references, for messages.
struct Shown<'a>(&'a [u32]);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", &self.0[..self.0.len().min(64)])
    }
}
