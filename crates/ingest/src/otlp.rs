//! Decodes OTLP logs in protobuf and maps them to streams and metadata; the entry point for both forms.
//!
//! `ExportLogsServiceRequest{resource_logs=1:{resource=1:{attributes=1}, scope_logs=2:{scope=1: {name=1,
//! version=2, attributes=3, dropped=4}, log_records=2}}}`. The resource attributes of
//! [`LABEL_ATTRIBUTES`] become the labels of the stream, with dots as underscores; all other data becomes
//! structured metadata. If metadata names are equal, the record's own fields win, then its attributes,
//! then those of the scope, then those of the resource.

use std::rc::Rc;

use bytes::Bytes;
use sandur_model::{Labels, Limits, Span, TenantId};
use sandur_protobuf::{Reader, Wire, Writer as _};

use crate::batch_builder::{BatchBuilder, OpenStream, RawEntry};
use crate::error::Error;
use crate::labels_cache::{Naming, Rules, stream_of};
use crate::limits_check::LABELS_TEXT_MAX;
use crate::memory::{DecoderMemory, Memory};
use crate::otlp_json;
use crate::otlp_value::{Value, ValueWriter, any_value, check_depth, key_value, write_hex};
use crate::refused::Reason;
use crate::request::{Decoded, Format, Push, PushHeaders, open_otlp, plain_limit};
use crate::service_name;
use crate::text::Text;

/// Resource attributes that become labels of the stream.
const LABEL_ATTRIBUTES: [&str; 18] = [
    "service.name",
    "service.namespace",
    "service.instance.id",
    "deployment.environment",
    "deployment.environment.name",
    "cloud.region",
    "cloud.availability_zone",
    "k8s.cluster.name",
    "k8s.namespace.name",
    "k8s.pod.name",
    "k8s.container.name",
    "container.name",
    "k8s.replicaset.name",
    "k8s.deployment.name",
    "k8s.statefulset.name",
    "k8s.daemonset.name",
    "k8s.cronjob.name",
    "k8s.job.name",
];

/// Decodes a request to `/otlp/v1/logs`. `now_ns` is the wall clock in nanoseconds since the epoch: the
/// time of records that have none. Entries that break a limit are left out and reported; after an error
/// no entry is kept. A request without records is an empty batch.
pub fn otlp_logs(
    tenant: &TenantId,
    limits: &Limits,
    now_ns: i64,
    headers: PushHeaders<'_>,
    body: Bytes,
) -> Result<Decoded, Error> {
    decode(Push { tenant, limits, now_ns, headers }, body, &DecoderMemory::default())
}

/// Like [`otlp_logs`], but reserves memory from `memory` before it is used.
pub fn otlp_logs_within(push: Push<'_>, body: Bytes, memory: Rc<dyn Memory>) -> Result<Decoded, Error> {
    decode(push, body, &DecoderMemory::new(memory))
}

fn decode(push: Push<'_>, body: Bytes, memory: &DecoderMemory) -> Result<Decoded, Error> {
    let limits = push.limits;
    let body = match open_otlp(push.headers, limits, body, memory)? {
        (Format::Protobuf, body) => body,
        (Format::Json, body) => body.translated(otlp_json::translate, memory)?,
    };
    let limit = plain_limit(limits);
    let text = Text::new(body.bytes(), limit, memory)?;
    let mut export = Export {
        builder: BatchBuilder::new(text, limits, push.now_ns, memory),
        rules: Rules::new(Naming::Resource, limits),
        now_ns: push.now_ns,
        limit,
        resource: Vec::new(),
        scope: Vec::new(),
    };
    export.request()?;
    export.builder.finish().over(body, push.tenant)
}

/// Returns the body of an OTLP error response: a protobuf `google.rpc.Status` with this message.
pub fn otlp_status(message: &str) -> Bytes {
    let mut status = Vec::new();
    status.bytes(2, message.as_bytes());
    status.into()
}

type Pairs = Vec<(Span, Span)>;

/// A request that is being decoded.
struct Export<'a> {
    builder: BatchBuilder<'a>,
    rules: Rules,
    now_ns: i64,
    limit: u64,
    /// Metadata that all records of the current resource share.
    resource: Pairs,
    /// Metadata that all records of the current scope share.
    scope: Pairs,
}

/// Why the labels of a resource are unusable.
enum Unlabelled {
    Refused((Reason, String)),
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Unlabelled {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Export<'_> {
    fn request(&mut self) -> Result<(), Error> {
        let mut request = Reader::new(self.builder.text.base());
        while let Some(key) = request.key()? {
            match key {
                (1, Wire::Bytes) => self.resource_logs(request.message()?)?,
                (_, wire) => request.skip(wire)?,
            }
        }
        Ok(())
    }

    fn resource_logs(&mut self, mut message: Reader<'_>) -> Result<(), Error> {
        let resource = message.find(1)?.map_or(Reader::new(b""), |span| message.nested(span));
        let name = resource.rest();
        self.builder.count_labels_text(name.len())?;
        let rules = self.rules;
        let known = match stream_of(rules, name, || self.labels(resource)) {
            Ok(known) => known,
            Err(Unlabelled::Failed(error)) => return Err(error),
            Err(Unlabelled::Refused(refusal)) => {
                let refused = measure(message)?;
                self.builder.refuse_stream(refusal, name, refused);
                return Ok(());
            }
        };
        self.shared_attributes(resource, 1, |export| &mut export.resource, |key| !is_label(key))?;
        let mut stream = self.builder.begin(known)?;
        while let Some(key) = message.key()? {
            match key {
                (2, Wire::Bytes) => self.scope_logs(&mut stream, message.message()?)?,
                (_, wire) => message.skip(wire)?,
            }
        }
        self.builder.end(stream)
    }

    /// Returns the labels that a resource gives to its stream.
    fn labels(&mut self, mut resource: Reader<'_>) -> Result<Labels, Unlabelled> {
        let mut pairs = Pairs::new();
        while let Some(key) = resource.key()? {
            if key != (1, Wire::Bytes) {
                resource.skip(key.1)?;
                continue;
            }
            let (name, value) = key_value(resource.message()?)?;
            if is_label(self.builder.text.get(name)) {
                self.flatten(name, value, 1, &mut pairs)?;
            }
        }
        let size: u64 = pairs.iter().map(|(name, value)| u64::from(name.len + value.len)).sum();
        if size > LABELS_TEXT_MAX as u64 {
            let text =
                format!("error reading labels: {size} bytes of labels, limit: {LABELS_TEXT_MAX} bytes");
            return Err(Unlabelled::Refused((Reason::InvalidLabels, text)));
        }
        let mut labels = Vec::with_capacity(pairs.len());
        for (name, value) in pairs {
            let name = self.builder.normal_name(name)?;
            let text =
                |span| self.builder.text.get(span).utf8_chunks().map(|c| c.valid()).collect::<String>();
            labels.push((text(name), text(value)));
        }
        let labels = Labels::from_pairs(labels);
        Ok(service_name::discover(labels, &self.builder.limits().discover_service_name))
    }

    /// Fills a list of shared metadata with the wanted attributes in a field of a message.
    fn shared_attributes(
        &mut self,
        mut message: Reader<'_>,
        field: u32,
        list: fn(&mut Self) -> &mut Pairs,
        wanted: fn(&[u8]) -> bool,
    ) -> Result<(), Error> {
        let mut pairs = std::mem::take(list(self));
        pairs.clear();
        while let Some(key) = message.key()? {
            if key != (field, Wire::Bytes) {
                message.skip(key.1)?;
                continue;
            }
            let (name, value) = key_value(message.message()?)?;
            if wanted(self.builder.text.get(name)) {
                self.flatten(name, value, 1, &mut pairs)?;
            }
        }
        *list(self) = pairs;
        Ok(())
    }

    fn scope_logs(&mut self, stream: &mut OpenStream, mut message: Reader<'_>) -> Result<(), Error> {
        let scope = message.find(1)?.map_or(Reader::new(b""), |span| message.nested(span));
        self.shared_attributes(scope, 3, |export| &mut export.scope, |_| true)?;
        self.scope_fields(scope)?;
        while let Some(key) = message.key()? {
            match key {
                (2, Wire::Bytes) => self.record(stream, message.message()?)?,
                (_, wire) => message.skip(wire)?,
            }
        }
        Ok(())
    }

    fn scope_fields(&mut self, mut scope: Reader<'_>) -> Result<(), Error> {
        while let Some(key) = scope.key()? {
            let (name, value) = match key {
                (1, Wire::Bytes) => ("scope_name", scope.span()?),
                (2, Wire::Bytes) => ("scope_version", scope.span()?),
                (4, Wire::Varint) => ("scope_dropped_attributes_count", {
                    let count = scope.varint()?;
                    if count == 0 { Span::default() } else { self.number(count)? }
                }),
                (_, wire) => {
                    scope.skip(wire)?;
                    continue;
                }
            };
            if value.len > 0 {
                let name = self.builder.own_name(name)?;
                self.builder.memory().widen(&mut self.scope, 1, usize::MAX)?;
                self.scope.push((name, value));
            }
        }
        Ok(())
    }

    /// `LogRecord{time=1, severity_number=2, severity_text=3, body=5, attributes=6, dropped=7,
    /// flags=8, trace_id=9, span_id=10, observed=11, event_name=12}`.
    fn record(&mut self, stream: &mut OpenStream, message: Reader<'_>) -> Result<(), Error> {
        self.builder.pairs.clear();
        // Of pairs with equal names the last one counts.
        let shared = self.resource.len() + self.scope.len();
        let memory = self.builder.memory().clone();
        memory.widen(&mut self.builder.pairs, shared, usize::MAX)?;
        self.builder.pairs.extend_from_slice(&self.resource);
        self.builder.pairs.extend_from_slice(&self.scope);
        self.record_attributes(message)?;
        let mut fields = message;
        let (mut time, mut observed, mut body) = (0, 0, Value::Empty);
        while let Some(key) = fields.key()? {
            match key {
                (1, Wire::Fixed64) => time = fields.fixed64()?,
                (11, Wire::Fixed64) => observed = fields.fixed64()?,
                (5, Wire::Bytes) => body = any_value(fields.message()?)?,
                (2, Wire::Varint) => {
                    let number = fields.varint()?;
                    self.own_number("severity_number", number)?;
                }
                (3, Wire::Bytes) => self.own_text("severity_text", fields.span()?)?,
                (7, Wire::Varint) => {
                    let number = fields.varint()?;
                    self.own_number("dropped_attributes_count", number)?;
                }
                (8, Wire::Fixed32) => {
                    let number = fields.fixed32()?;
                    self.own_number("flags", u64::from(number))?;
                }
                (9, Wire::Bytes) => self.own_id("trace_id", fields.span()?)?,
                (10, Wire::Bytes) => self.own_id("span_id", fields.span()?)?,
                (12, Wire::Bytes) => self.own_text("event_name", fields.span()?)?,
                (_, wire) => fields.skip(wire)?,
            }
        }
        if time != 0 && observed != 0 {
            self.own_number("observed_timestamp", observed)?;
        }
        let timestamp = [time, observed].into_iter().find(|&t| t != 0);
        let timestamp = timestamp.map_or(self.now_ns, |t| i64::try_from(t).unwrap_or(i64::MAX));
        let line = self.value_text(body)?;
        self.builder.entry(stream, RawEntry { timestamp, line })
    }

    fn record_attributes(&mut self, mut message: Reader<'_>) -> Result<(), Error> {
        let mut pairs = std::mem::take(&mut self.builder.pairs);
        while let Some(key) = message.key()? {
            if key == (6, Wire::Bytes) {
                let (name, value) = key_value(message.message()?)?;
                self.flatten(name, value, 1, &mut pairs)?;
            } else {
                message.skip(key.1)?;
            }
        }
        self.builder.pairs = pairs;
        Ok(())
    }

    /// Adds an attribute: one pair, or for a map one pair per leaf with the names joined by `_`.
    fn flatten(&mut self, name: Span, value: Value<'_>, depth: u32, into: &mut Pairs) -> Result<(), Error> {
        check_depth(depth)?;
        let Value::Map(mut map) = value else {
            let value = self.value_text(value)?;
            self.builder.memory().widen(into, 1, usize::MAX)?;
            into.push((name, value));
            return Ok(());
        };
        while let Some(key) = map.key()? {
            if key != (1, Wire::Bytes) {
                map.skip(key.1)?;
                continue;
            }
            let (inner, value) = key_value(map.message()?)?;
            let joined = self.builder.joined_name(name, inner)?;
            self.flatten(joined, value, depth + 1, into)?;
        }
        Ok(())
    }

    /// Returns a value's text in the arena; a string keeps its span in the body.
    fn value_text(&mut self, value: Value<'_>) -> Result<Span, Error> {
        match value {
            Value::Empty => Ok(Span::default()),
            Value::Text(span) => Ok(span),
            Value::Bool(true) => self.builder.own_name("true"),
            Value::Bool(false) => self.builder.own_name("false"),
            _ => {
                let base = self.builder.text.base();
                let most = value.text_bytes_max().min(self.limit);
                self.builder.memory().take(most)?;
                let mut writer = ValueWriter { base, into: Vec::new(), limit: self.limit };
                writer.plain(value)?;
                let span = self.builder.text.append(&writer.into);
                self.builder.memory().give(most);
                span
            }
        }
    }

    /// Returns a number's text in the arena; frequent small numbers are written once.
    fn number(&mut self, number: u64) -> Result<Span, Error> {
        const SMALL: [&str; 25] = [
            "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17",
            "18", "19", "20", "21", "22", "23", "24",
        ];
        match usize::try_from(number).ok().and_then(|n| SMALL.get(n)) {
            Some(text) => self.builder.own_name(text),
            None => self.builder.text.append(number.to_string().as_bytes()),
        }
    }

    fn own_number(&mut self, name: &'static str, number: u64) -> Result<(), Error> {
        if number == 0 {
            return Ok(());
        }
        let value = self.number(number)?;
        self.own_text(name, value)
    }

    fn own_text(&mut self, name: &'static str, value: Span) -> Result<(), Error> {
        if value.len > 0 {
            let name = self.builder.own_name(name)?;
            self.builder.add_pair((name, value))?;
        }
        Ok(())
    }

    /// Adds a trace or span id in hexadecimal; an id of only zeros means none.
    fn own_id(&mut self, name: &'static str, id: Span) -> Result<(), Error> {
        let bytes = id.of(self.builder.text.base());
        if bytes.iter().all(|&b| b == 0) {
            return Ok(());
        }
        let value = self.builder.text.append_with(|tail| write_hex(bytes, tail))?;
        self.own_text(name, value)
    }
}

fn is_label(attribute: &[u8]) -> bool {
    LABEL_ATTRIBUTES.iter().any(|known| known.as_bytes() == attribute)
}

/// Counts the records of a resource and their bytes as sent.
fn measure(mut resource_logs: Reader<'_>) -> Result<(u64, u64), Error> {
    let (mut lines, mut bytes) = (0, 0);
    while let Some(key) = resource_logs.key()? {
        if key != (2, Wire::Bytes) {
            resource_logs.skip(key.1)?;
            continue;
        }
        let mut scope_logs = resource_logs.message()?;
        while let Some(key) = scope_logs.key()? {
            if key == (2, Wire::Bytes) {
                lines += 1;
                bytes += u64::from(scope_logs.span()?.len);
            } else {
                scope_logs.skip(key.1)?;
            }
        }
    }
    Ok((lines, bytes))
}
