//! Decodes a request with a text of samples, as VictoriaMetrics's `/api/v1/import/prometheus` and a
//! Pushgateway accept it.
//!
//! A line that cannot be read is refused, and the other lines are kept. Samples without a time get the
//! time of the request. For a Pushgateway more lines are refused ([`Gateway`]): samples with a time, and
//! lines that contradict an earlier one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use foldhash::HashSet;
use sandur_model::{MILLISECOND_NS, MetricMetadata, StreamId};
use xxhash_rust::xxh3::xxh3_64;

use super::reader::{ExpositionError, ExpositionFormat, ExpositionLine, ExpositionReader, ExpositionSample};
use super::series_text::{labels, series_pairs};
use crate::error::Error;
use crate::memory::{DecoderMemory, Memory};
use crate::refused::Reason;
use crate::request::open_text;
use crate::samples::builder::{SampleBuilder, SamplePush};
use crate::samples::decoded::DecodedSamples;
use crate::samples::labels_check::{METRIC_NAME, Refusal};
use crate::samples::series_cache::KnownSeries;
use crate::samples::series_key::SeriesNaming;

/// Parameters of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Labels that every series gets; they replace the series' own labels of these names.
    pub extra_labels: Vec<(String, String)>,
    /// Time of samples without one, in milliseconds since the epoch; by default now.
    pub time_ms: Option<i64>,
    /// Whether to refuse lines that a Pushgateway refuses: samples with a time, repeated series, and a
    /// second description of a family.
    pub is_for_gateway: bool,
    /// Whether [`Refused::runs`](crate::Refused::runs) names the refused lines, counted from 0. The text
    /// then does not contain line numbers.
    pub name_lines: bool,
}

/// Most metric families of one request whose descriptions are kept.
const FAMILIES_MAX: usize = 100_000;

/// Decodes a text of samples; reserves memory before it is used.
pub fn import(
    push: SamplePush<'_>,
    options: &ImportOptions,
    body: Bytes,
    memory: Rc<dyn Memory>,
) -> Result<DecodedSamples, Error> {
    let memory = DecoderMemory::new(memory);
    let headers = push.push.headers;
    let format = ExpositionFormat::of(headers.content_type.unwrap_or(""));
    let body = open_text(headers, push.push.limits, body, &memory)?;
    let text = std::str::from_utf8(body.bytes())
        .map_err(|error| Error::malformed("text", error.valid_up_to(), "invalid UTF-8"))?;
    let now_ms = options.time_ms.unwrap_or(push.push.now_ns / MILLISECOND_NS);
    let mut import = Import {
        builder: SampleBuilder::new(push, 0, &memory),
        options,
        now_ms,
        name: Vec::new(),
        families: BTreeMap::new(),
        gateway: options.is_for_gateway.then(Gateway::default),
    };
    import.read(ExpositionReader::new(text, format))?;
    import.finish()
}

struct Import<'a> {
    builder: SampleBuilder<'a>,
    options: &'a ImportOptions,
    now_ms: i64,
    /// The bytes that name the open series in the cache.
    name: Vec<u8>,
    families: BTreeMap<Box<str>, MetricMetadata>,
    gateway: Option<Gateway>,
}

/// The series and descriptions so far of a text for a Pushgateway, which refuses contradictions.
#[derive(Default)]
struct Gateway {
    series: HashSet<StreamId>,
    /// Hashes of the names of metrics with samples and of families with a type.
    typed: HashSet<u64>,
    /// Hashes of the names of families with a help text.
    helped: HashSet<u64>,
}

/// Bytes of a hash or an id in a set, including spare capacity of its table.
const MET_BYTES: u64 = 2 * size_of::<StreamId>() as u64;

impl Gateway {
    /// Checks that the type of a family is given once, and before its samples.
    fn takes_type(&mut self, family: &str) -> Result<(), String> {
        let refused =
            || format!("second TYPE line for metric name \"{family}\", or TYPE reported after samples");
        self.typed.insert(xxh3_64(family.as_bytes())).then_some(()).ok_or_else(refused)
    }

    fn takes_help(&mut self, family: &str) -> Result<(), String> {
        let refused = || format!("second HELP line for metric name \"{family}\"");
        self.helped.insert(xxh3_64(family.as_bytes())).then_some(()).ok_or_else(refused)
    }

    fn takes_sample(&mut self, known: &KnownSeries, sample: &ExpositionSample<'_>) -> Result<(), String> {
        if sample.time_ms.is_some() {
            return Err(format!("pushed metrics must not have timestamps: '{}'", sample.series));
        }
        self.typed.insert(xxh3_64(known.labels.get(METRIC_NAME).unwrap_or_default().as_bytes()));
        let refused = || {
            format!(
                "collected metric \"{}\" was collected before with the same name and label values",
                known.labels
            )
        };
        self.series.insert(known.id).then_some(()).ok_or_else(refused)
    }
}

impl<'a> Import<'a> {
    fn read(&mut self, mut reader: ExpositionReader<'_>) -> Result<(), Error> {
        let names_lines = self.options.name_lines;
        if names_lines {
            self.builder.reserve_notes()?;
        }
        while let Some(line) = reader.next() {
            if !self.builder.takes_next() {
                continue;
            }
            let number = u32::try_from(reader.line().saturating_sub(1)).unwrap_or(u32::MAX);
            if names_lines {
                self.builder.begin_line(number);
            }
            match line {
                Ok(line) => self.line(line)?,
                Err(ExpositionError { what, shown, .. }) if names_lines => {
                    self.builder.refuse_line(Reason::InvalidSample, format!("{what}: '{shown}'"));
                }
                Err(error) => self.builder.refuse_line(Reason::InvalidSample, error.to_string()),
            }
            if names_lines {
                self.builder.end_line(number)?;
            }
        }
        Ok(())
    }

    fn line(&mut self, line: ExpositionLine<'_>) -> Result<(), Error> {
        match line {
            ExpositionLine::Sample(sample) => self.sample(&sample),
            ExpositionLine::Kind(family, kind) => {
                if self.is_taken(|gateway| gateway.takes_type(family))? {
                    self.describe(family, |metadata| metadata.kind = kind)?;
                }
                Ok(())
            }
            ExpositionLine::Help(family, help) => {
                if self.is_taken(|gateway| gateway.takes_help(family))? {
                    self.describe(family, |metadata| metadata.help = help.into())?;
                }
                Ok(())
            }
            ExpositionLine::Unit(family, unit) => {
                self.describe(family, |metadata| metadata.unit = unit.into())
            }
        }
    }

    /// Whether a Pushgateway accepts the current line; refuses the line if not.
    fn is_taken(&mut self, takes: impl FnOnce(&mut Gateway) -> Result<(), String>) -> Result<bool, Error> {
        let Some(gateway) = &mut self.gateway else { return Ok(true) };
        self.builder.memory().take(2 * MET_BYTES)?;
        let taken = takes(gateway);
        Ok(taken.map_err(|text| self.builder.refuse_line(Reason::InvalidSample, text)).is_ok())
    }

    fn describe(&mut self, family: &str, change: impl FnOnce(&mut MetricMetadata)) -> Result<(), Error> {
        if let Some(metadata) = self.families.get_mut(family) {
            change(metadata);
            return Ok(());
        }
        if self.families.len() >= FAMILIES_MAX {
            return Err(Error::TooMany { what: "metric families", limit: FAMILIES_MAX as u64 });
        }
        let mut metadata = MetricMetadata { family: family.into(), ..MetricMetadata::default() };
        change(&mut metadata);
        self.builder.memory().take(metadata.memory_bytes() + family.len() as u64 + 64)?;
        self.families.insert(family.into(), metadata);
        Ok(())
    }

    fn sample(&mut self, sample: &ExpositionSample<'_>) -> Result<(), Error> {
        let known = match self.series(sample.series)? {
            Ok(known) => known,
            Err((reason, text)) => {
                self.builder.refuse_line(reason, text);
                return Ok(());
            }
        };
        if !self.is_taken(|gateway| gateway.takes_sample(&known, sample))? {
            return Ok(());
        }
        self.builder.begin(known, None)?;
        self.builder.sample(sample.time_ms.unwrap_or(self.now_ms), sample.value.to_bits(), None)?;
        if let Some(exemplar) = &sample.exemplar {
            let mut pairs = Vec::new();
            let inner = exemplar.labels.trim_start_matches('{').trim_end_matches('}');
            match labels(inner, &mut pairs) {
                Ok(()) => {
                    let time_ms = exemplar.time_ms.or(sample.time_ms).unwrap_or(self.now_ms);
                    self.builder.exemplar(&as_bytes(&pairs), exemplar.value, time_ms)?;
                }
                Err(what) => self.builder.refuse_line(Reason::InvalidExemplar, what.to_owned()),
            }
        }
        self.builder.end();
        Ok(())
    }

    /// Returns the series that a text names, with the extra labels of the request.
    fn series(&mut self, text: &str) -> Result<Result<KnownSeries, Refusal>, Error> {
        self.name.clear();
        self.name.extend_from_slice(text.as_bytes());
        for (name, value) in &self.options.extra_labels {
            for part in [name, value] {
                self.name.push(0xFF);
                self.name.extend_from_slice(part.as_bytes());
            }
        }
        let key = self.builder.cache().key(SeriesNaming::Exposition, &self.name);
        if let Some(known) = self.builder.known(key) {
            return Ok(known);
        }
        let mut pairs = match series_pairs(text) {
            Ok(pairs) => pairs,
            Err(what) => return Ok(Err((Reason::InvalidLabels, format!("{what}: '{text}'")))),
        };
        let extra = &self.options.extra_labels;
        pairs.retain(|(name, _)| !extra.iter().any(|(replaced, _)| replaced == name));
        pairs.extend(extra.iter().map(|(name, value)| (Cow::from(&**name), Cow::from(&**value))));
        self.builder.series(key, self.name.len(), || Ok(as_bytes(&pairs)))
    }

    fn finish(mut self) -> Result<DecodedSamples, Error> {
        for (_, metadata) in std::mem::take(&mut self.families) {
            self.builder.metadata(metadata)?;
        }
        Ok(self.builder.finish())
    }
}

fn as_bytes<'p>(pairs: &'p [(Cow<'_, str>, Cow<'_, str>)]) -> Vec<(&'p [u8], &'p [u8])> {
    pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
}
